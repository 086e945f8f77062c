//! CustomRule: one check that a user wrote.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::RuleDefinition;
use crate::optional_spec;
use crate::unknown::Unknown;
use crate::vocabulary::compliance::CustomRulePhase;
use crate::words::Open;

/// The check.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "compliance.openshift.io",
    version = "v1alpha1",
    kind = "CustomRule",
    doc = "One check that a user wrote.",
    namespaced,
    status = "CustomRuleStatus",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Status", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct CustomRuleSpec {
    /// The check.
    #[serde(flatten)]
    pub definition: RuleDefinition,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

optional_spec!(CustomRuleSpec);

/// Whether the rule can be used.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomRuleStatus {
    /// Why the phase is `Error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,

    /// When the rule was last looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_validation_time: Option<Time>,

    /// Generation of the rule that was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Whether the rule can be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Open<CustomRulePhase>>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}
