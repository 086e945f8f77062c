//! OldCondition: one observed fact about an object, in the form that this group had before Kubernetes' own.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::unknown::Unknown;
use crate::vocabulary::cluster::Severity;
use crate::words::Open;

/// One observed fact about the object.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OldCondition {
    /// When the status last changed.
    pub last_transition_time: Time,

    /// Explanation for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 10240))]
    pub message: Option<String>,

    /// Word for programs that says why the status is what it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub reason: Option<String>,

    /// How bad it is that the fact does not hold; absent when it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", length(max = 32))]
    pub severity: Option<Open<Severity>>,

    /// Whether the fact holds: `True`, `False` or `Unknown`.
    pub status: String,

    /// Which fact this is.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 256))]
    pub type_: String,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}
