//! ScanSettingBinding: which profiles are scanned with which settings.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::ComplianceCondition;
use crate::unknown::{RootUnknown, Unknown};
use crate::vocabulary::compliance::BindingPhase;
use crate::words::Open;

/// Which profiles are scanned with which settings.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "compliance.openshift.io",
    version = "v1alpha1",
    kind = "ScanSettingBinding",
    doc = "Joins profiles with settings; a suite of the same name is made of them.",
    namespaced,
    no_spec,
    status = "ScanSettingBindingStatus",
    shortname = "ssb",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Status", type_ = "string", json_path = ".status.phase")
)]
#[serde(rename_all = "camelCase")]
pub struct ScanSettingBindingFields {
    /// Profiles and tailored profiles to scan for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profiles: Option<Vec<BindingReference>>,

    /// Settings to scan with.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = {"apiGroup": "compliance.openshift.io/v1alpha1", "kind": "ScanSetting", "name": "default"}))]
    pub settings_ref: Option<BindingReference>,

    /// Always empty; the upstream's definition has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<BindingSpec>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: RootUnknown,
}

/// Nothing; the fields of a binding lie at its root.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BindingSpec {
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Names an object in the binding's namespace.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BindingReference {
    /// Group and version of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,

    /// Kind of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,

    /// Name of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// What became of the binding.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScanSettingBindingStatus {
    /// Observed facts about the binding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<ComplianceCondition>>,

    /// The suite that was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub output_ref: Option<OutputReference>,

    /// How far the binding is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub phase: Option<Open<BindingPhase>>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Names the suite that was made from the binding.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct OutputReference {
    /// Group of the suite.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,

    /// Kind of the suite.
    pub kind: String,

    /// Name of the suite.
    pub name: String,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn profiles_and_settings_lie_at_the_root() {
        let written = json!({
            "apiVersion": "compliance.openshift.io/v1alpha1",
            "kind": "ScanSettingBinding",
            "metadata": { "name": "cis", "namespace": "openshift-compliance" },
            "profiles": [{ "apiGroup": "compliance.openshift.io/v1alpha1", "kind": "Profile", "name": "ocp4-cis" }],
            "settingsRef": { "kind": "ScanSetting", "name": "default" },
            "spec": {},
            "status": { "phase": "READY", "outputRef": { "kind": "ComplianceSuite", "name": "cis" } },
        });
        let binding: ScanSettingBinding = serde_json::from_value(written.clone()).unwrap();
        let profiles = binding.spec.profiles.as_deref().unwrap();
        assert_eq!(profiles[0].name.as_deref(), Some("ocp4-cis"));
        let status = binding.status.as_ref().unwrap();
        assert_eq!(status.phase, Some(BindingPhase::Ready.into()));
        assert_eq!(serde_json::to_value(&binding).unwrap(), written);
    }
}
