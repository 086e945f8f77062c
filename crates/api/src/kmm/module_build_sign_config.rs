//! ModuleBuildSignConfig: which images of a module are to be built or signed, and how that went.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::ModuleImage;
use crate::meta::{LocalObjectReference, Toleration};
use crate::unknown::Unknown;
use crate::words::Open;
use crate::{optional_spec, words};

/// Which images are to be built or signed.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "kmm.sigs.x-k8s.io",
    version = "v1beta1",
    kind = "ModuleBuildSignConfig",
    doc = "Which images of a module are to be built or signed, and how that went.",
    namespaced,
    status = "ModuleBuildSignConfigStatus",
    shortname = "mbsc",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct ModuleBuildSignConfigSpec {
    /// Secret for pushing images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_repo_secret: Option<LocalObjectReference>,

    /// The images, each at most once.
    pub images: Vec<BuildSignImage>,

    /// Whether a finished image is pushed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub push_built_image: Option<bool>,

    /// Taints that the building pods tolerate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerations: Option<Vec<Toleration>>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

optional_spec!(ModuleBuildSignConfigSpec);

/// One image to build or sign.
// The flattened image keeps the unknown keys.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BuildSignImage {
    /// What is to be done.
    pub action: Open<BuildSignAction>,

    /// The image.
    #[serde(flatten)]
    pub image: ModuleImage,
}

/// How building and signing went.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModuleBuildSignConfigStatus {
    /// The images that are finished, each at most once.
    pub images: Vec<BuildSignImageStatus>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// How building or signing one image went.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BuildSignImageStatus {
    /// What was done.
    pub action: Open<BuildSignAction>,

    /// The image.
    pub image: String,

    /// How it went.
    pub status: Open<BuildSignResult>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

words! {
    /// What is done to an image.
    pub enum BuildSignAction {
        /// It is built.
        BuildImage = "BuildImage",
        /// It is signed.
        SignImage = "SignImage",
    }
}

words! {
    /// How building or signing went.
    pub enum BuildSignResult {
        /// The image is there.
        Success = "Success",
        /// It is not.
        Failure = "Failure",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_image_lies_beside_its_action() {
        let written = json!({ "action": "BuildImage", "image": "a", "kernelVersion": "6.0.15", "new": 1 });
        let image: BuildSignImage = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(image.action, BuildSignAction::BuildImage);
        assert_eq!(image.image.image, "a");
        assert_eq!(serde_json::to_value(&image).unwrap(), written);
    }
}
