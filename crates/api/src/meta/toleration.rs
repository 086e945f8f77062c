//! Toleration: which node taints a pod accepts.

use k8s_openapi::api::core::v1 as core;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::unknown::Unknown;

/// Accepts node taints that match key, value and effect.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Toleration {
    /// Effect of the taint that is accepted; empty means every effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,

    /// Key of the taint that is accepted; empty, with operator `Exists`, means every key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,

    /// How the value is compared: `Equal` (the default) or `Exists`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,

    /// How long a `NoExecute` taint is accepted; absent means no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,

    /// Value that the taint must have; empty with operator `Exists`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Drops unknown keys: for putting a toleration on a pod, not for writing it back.
impl From<Toleration> for core::Toleration {
    fn from(toleration: Toleration) -> Self {
        Self {
            effect: toleration.effect,
            key: toleration.key,
            operator: toleration.operator,
            toleration_seconds: toleration.toleration_seconds,
            value: toleration.value,
        }
    }
}
