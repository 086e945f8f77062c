//! TailoredProfile: a profile that a user changed, or made from single rules.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::optional_spec;
use crate::unknown::Unknown;

/// Which rules and values there are, compared to another profile.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "compliance.openshift.io",
    version = "v1alpha1",
    kind = "TailoredProfile",
    doc = "A profile that a user changed, or made from single rules.",
    namespaced,
    status = "TailoredProfileStatus",
    shortname = "tp",
    shortname = "tprof",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "State", type_ = "string", json_path = ".status.state")
)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct TailoredProfileSpec {
    /// What the profile is for.
    #[schemars(regex(pattern = r"^.+$"))]
    pub description: String,

    /// Rules to leave out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub disable_rules: Option<Vec<RuleReference>>,

    /// Rules to add.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub enable_rules: Option<Vec<RuleReference>>,

    /// Name of the profile to start from; absent means an empty one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extends: Option<String>,

    /// Rules that people check, whatever the scanner finds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub manual_rules: Option<Vec<RuleReference>>,

    /// Values of variables.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub set_values: Option<Vec<ValueSetting>>,

    /// Name of the profile for people.
    #[schemars(regex(pattern = r"^.+$"))]
    pub title: String,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

optional_spec!(TailoredProfileSpec);

/// Names a rule and says why it is named.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleReference {
    /// Kind of the rule: `Rule` (the default) or `CustomRule`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,

    /// Name of the rule.
    pub name: String,

    /// Why the rule is named.
    pub rationale: String,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Gives a variable a value.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ValueSetting {
    /// Name of the variable.
    pub name: String,

    /// Why this value.
    pub rationale: String,

    /// The value.
    pub value: String,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Whether the profile can be used.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TailoredProfileStatus {
    /// Why the state is `ERROR`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,

    /// Id of the profile that was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,

    /// ConfigMap that was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_ref: Option<TailoredProfileOutput>,

    /// Whether the profile can be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,

    /// What to be careful about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warnings: Option<String>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Names the ConfigMap with the tailoring file.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TailoredProfileOutput {
    /// Name of the ConfigMap.
    pub name: String,

    /// Namespace of the ConfigMap.
    pub namespace: String,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}
