//! `kmm.sigs.x-k8s.io`: kernel modules, the nodes that load them, and their images.
//!
//! A Module gets one ModuleImagesConfig, which says which images must exist; one ModuleBuildSignConfig, which says which
//! of them are made; and an entry in the NodeModulesConfig of every node it is loaded on.

// optional_spec: the copy of the struct that the schema derive makes is never read.
#[allow(dead_code)]
pub mod boot_module_config;
#[allow(dead_code)]
pub mod module;
#[allow(dead_code)]
pub mod module_build_sign_config;
#[allow(dead_code)]
pub mod module_images_config;
#[allow(dead_code)]
pub mod node_modules_config;

pub mod build;
pub mod device_plugin;
pub mod modprobe;
pub mod module_images_status;
pub mod preflight_validation;
pub mod sign;
pub mod tls_options;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

pub use boot_module_config::{BootModuleConfig, BootModuleConfigSpec, BootModuleConfigStatus};
pub use build::{Build, BuildArg, KanikoParams};
pub use device_plugin::{
    CelDeviceSelector, Container, DeviceClass, DeviceClassConfiguration, DevicePlugin, DeviceSelector, Dra,
    OpaqueDeviceConfiguration,
};
pub use modprobe::{Modprobe, ModprobeArgs};
pub use module::{
    DaemonSetStatus, KernelMapping, Module, ModuleLoader, ModuleLoaderContainer, ModuleSpec, ModuleStatus,
};
pub use module_build_sign_config::{
    BuildSignAction, BuildSignImage, BuildSignImageStatus, BuildSignResult, ModuleBuildSignConfig,
    ModuleBuildSignConfigSpec, ModuleBuildSignConfigStatus,
};
pub use module_images_config::{ModuleImage, ModuleImageItem, ModuleImagesConfig, ModuleImagesConfigSpec};
pub use module_images_status::{LegacyImageState, ModuleImageStatus, ModuleImagesConfigStatus};
pub use node_modules_config::{
    ModuleConfig, ModuleItem, NodeModuleSpec, NodeModuleStatus, NodeModulesConfig, NodeModulesConfigSpec,
    NodeModulesConfigStatus,
};
pub use preflight_validation::{
    PreflightValidation, PreflightValidationModuleStatus, PreflightValidationSpec, PreflightValidationStatus,
    VerificationResult,
};
pub use sign::Sign;
pub use tls_options::TlsOptions;

use crate::crds::{self, generated::Definition};

pub fn definitions() -> Vec<CustomResourceDefinition> {
    crds::for_group("kmm.sigs.x-k8s.io")
}

/// The definitions of this group, generated from its types.
pub(crate) fn generated() -> Vec<CustomResourceDefinition> {
    [
        Definition::of::<BootModuleConfig>().spec_optional(),
        Definition::of::<ModuleBuildSignConfig>().spec_optional(),
        Definition::of::<ModuleImagesConfig>().spec_optional(),
        Definition::of::<Module>().spec_optional(),
        Definition::of::<NodeModulesConfig>().spec_optional(),
        Definition::of::<preflight_validation::v1beta1::PreflightValidation>()
            .and_version(Definition::of::<PreflightValidation>()),
    ]
    .into_iter()
    .map(Definition::build)
    .collect()
}
