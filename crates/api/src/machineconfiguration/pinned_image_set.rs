//! PinnedImageSet: images that nodes pull ahead of time and never remove.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::rules::{image_digest, image_name};
use crate::unknown::Unknown;

/// The images to keep.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "PinnedImageSet",
    doc = "Images that nodes pull ahead of time and never remove.",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct PinnedImageSetSpec {
    /// The images, each by digest.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    #[schemars(length(min = 1, max = 500))]
    pub pinned_images: Vec<PinnedImage>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// One image to keep.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PinnedImage {
    /// The image, named by digest.
    #[schemars(length(min = 1, max = 447))]
    #[x_kube(validation = image_digest(), validation = image_name())]
    pub name: String,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}
