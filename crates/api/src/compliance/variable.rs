//! Variable: a value that rules of the shipped content use and users may set.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::unknown::{RootUnknown, Unknown};
use crate::words;
use crate::words::Open;

/// A value that rules use and users may set.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "compliance.openshift.io",
    version = "v1alpha1",
    kind = "Variable",
    doc = "A value that rules of the shipped content use and users may set.",
    namespaced,
    no_spec,
    shortname = "var",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct VariableFields {
    /// What the variable is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,

    /// Id of the variable.
    pub id: String,

    /// Values to choose from.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    #[schemars(extend("nullable" = true))]
    pub selections: Option<Vec<VariableSelection>>,

    /// Name of the variable for people.
    pub title: String,

    /// What the value is.
    #[serde(rename = "type")]
    pub type_: Open<VariableType>,

    /// The value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: RootUnknown,
}

/// One value to choose.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VariableSelection {
    /// When to choose it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,

    /// The value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

words! {
    /// What the value of a variable is.
    pub enum VariableType {
        /// A number.
        Number = "number",
        /// True or false.
        Bool = "bool",
        /// Text.
        String = "string",
    }
}
