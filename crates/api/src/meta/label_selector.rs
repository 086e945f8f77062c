//! LabelSelector: which labelled objects are meant.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as upstream;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::unknown::Unknown;

/// Chooses objects by their labels; all requirements must hold.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct LabelSelector {
    /// Requirements on label keys and values.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub match_expressions: Option<Vec<LabelSelectorRequirement>>,

    /// Labels that must be present with exactly these values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub match_labels: Option<BTreeMap<String, String>>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// One requirement on a label.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelectorRequirement {
    /// Label key that the requirement is about.
    pub key: String,

    /// How key and values relate: `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,

    /// Values for `In` and `NotIn`; empty for the other operators.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub values: Option<Vec<String>>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl LabelSelector {
    /// Whether it names no label at all. Kubernetes takes such a selector for "everything"; pools take it for a mistake.
    pub fn is_empty(&self) -> bool {
        self.match_labels.iter().flatten().next().is_none() && self.match_expressions.iter().flatten().next().is_none()
    }
}

/// Drops unknown keys: for handing a selector to a client, not for writing it back.
impl From<LabelSelector> for upstream::LabelSelector {
    fn from(selector: LabelSelector) -> Self {
        Self {
            match_expressions: selector
                .match_expressions
                .map(|requirements| requirements.into_iter().map(Into::into).collect()),
            match_labels: selector.match_labels,
        }
    }
}

impl From<LabelSelectorRequirement> for upstream::LabelSelectorRequirement {
    fn from(requirement: LabelSelectorRequirement) -> Self {
        Self { key: requirement.key, operator: requirement.operator, values: requirement.values }
    }
}
