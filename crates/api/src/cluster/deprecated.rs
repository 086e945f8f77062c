//! Deprecated: what an older version of a kind said, kept for those who still read it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::unknown::Unknown;

/// What older versions said.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Deprecated<T> {
    /// What the older version said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub v1beta1: Option<T>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}
