//! ConditionGate: a further condition that must hold before an object counts as ready or available.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::pattern::CONDITION_TYPE;
use crate::unknown::Unknown;
use crate::words;
use crate::words::Open;

/// A further condition that must hold.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConditionGate {
    /// Type of the condition.
    #[schemars(length(min = 1, max = 316), regex(pattern = CONDITION_TYPE))]
    pub condition_type: String,

    /// Which status of the condition is the good one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub polarity: Option<Open<Polarity>>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

words! {
    /// Which status of a condition is the good one.
    pub enum Polarity {
        /// True is good.
        Positive = "Positive",
        /// False is good.
        Negative = "Negative",
    }
}
