//! Sign: how a module's image is signed in the cluster.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::TlsOptions;
use crate::meta::LocalObjectReference;
use crate::unknown::Unknown;

/// How the image is signed.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sign {
    /// Secret with the certificate under the key `cert`.
    pub cert_secret: LocalObjectReference,

    /// Module files to sign, as paths in the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files_to_sign: Option<Vec<String>>,

    /// Secret with the private key under the key `key`.
    pub key_secret: LocalObjectReference,

    /// Image to sign when none is built.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsigned_image: Option<String>,

    /// How the registry of the unsigned image is checked.
    #[serde(rename = "unsignedImageRegistryTLS", skip_serializing_if = "Option::is_none")]
    pub unsigned_image_registry_tls: Option<TlsOptions>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}
