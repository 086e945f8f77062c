//! StatusCondition: the older, looser form of a condition that most kinds of this group have.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::unknown::Unknown;

/// One observed fact about an object; no part of it is required.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusCondition {
    /// When the status last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub last_transition_time: Option<Time>,

    /// Explanation for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,

    /// Word for programs that says why the status is what it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,

    /// `True`, `False` or `Unknown`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,

    /// Which fact this is.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}
