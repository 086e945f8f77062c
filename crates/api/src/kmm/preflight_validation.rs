//! PreflightValidation: whether all modules would be ready for another kernel.
//!
//! Version `v1beta2` is stored; [`v1beta1`] is still served.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::unknown::Unknown;
use crate::vocabulary::kmm::{VerificationStage, VerificationStatus};
use crate::words::Open;

/// Which kernel is meant.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "kmm.sigs.x-k8s.io",
    version = "v1beta2",
    kind = "PreflightValidation",
    doc = "Whether all modules would be ready for another kernel.",
    status = "PreflightValidationStatus",
    shortname = "pfv",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct PreflightValidationSpec {
    /// The kernel to look at.
    pub kernel_version: String,

    /// Whether images that are built for the answer are pushed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub push_built_image: Option<bool>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// The answer for each module.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PreflightValidationStatus {
    /// The modules.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["namespace".into(), "name".into()]))]
    pub modules: Option<Vec<PreflightValidationModuleStatus>>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// The answer for one module.
// The flattened answer keeps the unknown keys.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PreflightValidationModuleStatus {
    /// Name of the module.
    pub name: String,

    /// Namespace of the module.
    pub namespace: String,

    /// The answer.
    #[serde(flatten)]
    pub result: VerificationResult,
}

/// The answer for one module.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VerificationResult {
    /// When the answer last changed.
    pub last_transition_time: Time,

    /// Explanation for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_reason: Option<String>,

    /// How far the verification is.
    pub verification_stage: Open<VerificationStage>,

    /// What the verification found.
    pub verification_status: Open<VerificationStatus>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// The older version, whose answers are a map.
pub mod v1beta1 {
    use std::collections::BTreeMap;

    use kube::{CustomResource, KubeSchema};
    use serde::{Deserialize, Serialize};

    use super::VerificationResult;
    use crate::unknown::Unknown;

    /// Which kernel is meant.
    #[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    #[kube(
        group = "kmm.sigs.x-k8s.io",
        version = "v1beta1",
        kind = "PreflightValidation",
        doc = "Whether all modules would be ready for another kernel.",
        status = "PreflightValidationStatus",
        shortname = "pfv",
        derive = "PartialEq",
        derive = "Default",
        storage = false,
        deprecated
    )]
    #[serde(rename_all = "camelCase")]
    pub struct PreflightValidationSpec {
        /// The kernel to look at.
        pub kernel_version: String,

        /// Whether images that are built for the answer are pushed.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub push_built_image: Option<bool>,

        /// Keys that this version does not know.
        #[serde(flatten)]
        pub unknown: Unknown,
    }

    /// The answer for each module.
    #[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub struct PreflightValidationStatus {
        /// The modules, by namespace and name.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub cr_statuses: Option<BTreeMap<String, VerificationResult>>,

        /// Keys that this version does not know.
        #[serde(flatten)]
        pub unknown: Unknown,
    }
}
