//! Every kind with the type that reads and writes it.

use kube::Resource;
use kube::core::crd::CustomResourceExt;
use seaworthy_api::lossless::{Lossless, read};
use seaworthy_api::{cluster, compliance, kmm, machineconfiguration, operator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// How one version of one kind is read and written.
pub struct Kind {
    pub crd: String,
    pub version: String,
    pub kind: String,
    pub api_version: String,
    /// Through the type alone.
    pub typed: fn(Value) -> Result<Value, String>,
    /// Through the type in its wrapper.
    pub lossless: fn(Value) -> Result<Value, String>,
}

fn kind<K>() -> Kind
where
    K: Resource<DynamicType = ()> + CustomResourceExt + Serialize + DeserializeOwned,
{
    Kind {
        crd: K::crd_name().to_owned(),
        version: K::version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        api_version: K::api_version(&()).into_owned(),
        typed: |value| {
            let object: K = read(&value).map_err(|error| error.to_string())?;
            serde_json::to_value(object).map_err(|error| error.to_string())
        },
        lossless: |value| {
            let object = Lossless::<K>::from_value(value).map_err(|error| error.to_string())?;
            object.to_value().map_err(|error| error.to_string())
        },
    }
}

pub fn all() -> Vec<Kind> {
    vec![
        kind::<machineconfiguration::ContainerRuntimeConfig>(),
        kind::<machineconfiguration::ControllerConfig>(),
        kind::<machineconfiguration::KubeletConfig>(),
        kind::<machineconfiguration::MachineConfig>(),
        kind::<machineconfiguration::MachineConfigNode>(),
        kind::<machineconfiguration::MachineConfigPool>(),
        kind::<machineconfiguration::PinnedImageSet>(),
        kind::<operator::MachineConfiguration>(),
        kind::<compliance::ComplianceCheckResult>(),
        kind::<compliance::ComplianceRemediation>(),
        kind::<compliance::ComplianceScan>(),
        kind::<compliance::ComplianceSuite>(),
        kind::<compliance::CustomRule>(),
        kind::<compliance::Profile>(),
        kind::<compliance::Rule>(),
        kind::<compliance::ScanSetting>(),
        kind::<compliance::ScanSettingBinding>(),
        kind::<compliance::TailoredProfile>(),
        kind::<compliance::Variable>(),
        kind::<kmm::BootModuleConfig>(),
        kind::<kmm::Module>(),
        kind::<kmm::ModuleBuildSignConfig>(),
        kind::<kmm::ModuleImagesConfig>(),
        kind::<kmm::NodeModulesConfig>(),
        kind::<kmm::PreflightValidation>(),
        kind::<kmm::preflight_validation::v1beta1::PreflightValidation>(),
        kind::<cluster::v1beta1::Cluster>(),
        kind::<cluster::v1beta1::Machine>(),
        kind::<cluster::v1beta1::MachinePool>(),
        kind::<cluster::v1beta2::Cluster>(),
        kind::<cluster::v1beta2::Machine>(),
        kind::<cluster::v1beta2::MachinePool>(),
    ]
}
