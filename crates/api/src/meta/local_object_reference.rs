//! LocalObjectReference: the name of an object in the same namespace.

use k8s_openapi::api::core::v1 as core;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::unknown::Unknown;

/// Names an object in the same namespace.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct LocalObjectReference {
    /// Name of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = ""))]
    pub name: Option<String>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl LocalObjectReference {
    /// A reference to the object called `name`.
    pub fn to(name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), unknown: Unknown::default() }
    }

    /// The name; empty when none is given, as an API server would fill it in.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }
}

/// Drops unknown keys: for putting a reference on a pod, not for writing it back.
impl From<LocalObjectReference> for core::LocalObjectReference {
    fn from(reference: LocalObjectReference) -> Self {
        Self { name: reference.name.unwrap_or_default() }
    }
}
