//! Deprecated: the status of a kind in the form of an older version, kept for its readers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::unknown::Unknown;

/// The status in the form of older versions.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Deprecated<T> {
    /// The status in the form of v1beta1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub v1beta1: Option<T>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}
