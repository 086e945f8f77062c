//! Build: how a module's image is built in the cluster.

use std::collections::BTreeMap;

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::TlsOptions;
use crate::meta::LocalObjectReference;
use crate::unknown::Unknown;

/// How the image is built.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Build {
    /// How the registry of the base image is checked.
    #[serde(rename = "baseImageRegistryTLS", skip_serializing_if = "Option::is_none")]
    pub base_image_registry_tls: Option<TlsOptions>,

    /// Arguments for the Dockerfile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build_args: Option<Vec<BuildArg>>,

    /// ConfigMap with the Dockerfile under the key `dockerfile`.
    pub dockerfile_config_map: LocalObjectReference,

    /// Settings of the builder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kaniko_params: Option<KanikoParams>,

    /// Secrets that the build may read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secrets: Option<Vec<LocalObjectReference>>,

    /// Labels of the nodes that may run the build.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<BTreeMap<String, String>>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// One argument for the Dockerfile.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BuildArg {
    /// Name of the argument.
    pub name: String,

    /// Value of the argument.
    pub value: String,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Settings of the builder.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KanikoParams {
    /// Tag of the builder's image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}
