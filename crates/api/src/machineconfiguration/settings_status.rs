//! SettingsStatus: whether a KubeletConfig or a ContainerRuntimeConfig was accepted.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::StatusCondition;
use crate::unknown::Unknown;

/// Whether the settings were accepted.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SettingsStatus {
    /// The latest outcomes, oldest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub conditions: Option<Vec<StatusCondition>>,

    /// Generation that was last processed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}
