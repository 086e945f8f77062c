//! Condition: one observed fact about an object, in the form that Kubernetes standardised.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::text::Text;
use crate::unknown::Unknown;
use crate::words;
use crate::words::Open;

/// One observed fact about an object.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// When the status last changed.
    pub last_transition_time: Time,

    /// Explanation for people; may be empty.
    #[schemars(length(max = 32768))]
    pub message: Text,

    /// Generation of the object that this condition was computed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,

    /// Word for programs that says why the status is what it is.
    #[schemars(length(min = 1, max = 1024), regex(pattern = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"))]
    pub reason: Text,

    /// Whether the fact holds.
    pub status: Open<ConditionStatus>,

    /// Which fact this is.
    #[serde(rename = "type")]
    #[schemars(
        length(max = 316),
        regex(
            pattern = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
        )
    )]
    pub type_: Text,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

words! {
    /// Whether a condition holds.
    pub enum ConditionStatus {
        /// It holds.
        True = "True",
        /// It does not hold.
        False = "False",
        /// It could not be found out.
        Unknown = "Unknown",
    }
}
