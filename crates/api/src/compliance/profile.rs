//! Profile: a named set of rules of the shipped content.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::unknown::RootUnknown;

/// A named set of rules of the shipped content.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "compliance.openshift.io",
    version = "v1alpha1",
    kind = "Profile",
    doc = "A named set of rules of the shipped content.",
    namespaced,
    no_spec,
    shortname = "profs",
    shortname = "prof",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Version", type_ = "string", json_path = ".version")
)]
#[serde(rename_all = "camelCase")]
pub struct ProfileFields {
    /// What the profile is for.
    pub description: String,

    /// Id of the profile.
    pub id: String,

    /// Names of the rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    #[schemars(extend("nullable" = true))]
    pub rules: Option<Vec<String>>,

    /// Name of the profile for people.
    pub title: String,

    /// Names of the variables that the rules use.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    #[schemars(extend("nullable" = true))]
    pub values: Option<Vec<String>>,

    /// Version of the profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: RootUnknown,
}
