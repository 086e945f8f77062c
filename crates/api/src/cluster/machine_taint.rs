//! MachineTaint: a taint that a machine puts on its node.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::pattern::{TAINT_KEY, TAINT_VALUE};
use crate::unknown::Unknown;
use crate::words;
use crate::words::Open;

/// A taint that a machine puts on its node.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineTaint {
    /// What the taint does to pods that do not tolerate it.
    pub effect: Open<TaintEffect>,

    /// Key of the taint.
    #[schemars(length(min = 1, max = 317), regex(pattern = TAINT_KEY))]
    pub key: String,

    /// When the taint is put on the node.
    pub propagation: Open<TaintPropagation>,

    /// Value of the taint.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = TAINT_VALUE))]
    pub value: Option<String>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

words! {
    /// What a taint does to pods that do not tolerate it.
    pub enum TaintEffect {
        /// They are not started.
        NoSchedule = "NoSchedule",
        /// They are started elsewhere if possible.
        PreferNoSchedule = "PreferNoSchedule",
        /// They are not started, and running ones are evicted.
        NoExecute = "NoExecute",
    }
}

words! {
    /// When a machine puts a taint on its node.
    pub enum TaintPropagation {
        /// Whenever it is not there.
        Always = "Always",
        /// Once, when the node appears.
        OnInitialization = "OnInitialization",
    }
}
