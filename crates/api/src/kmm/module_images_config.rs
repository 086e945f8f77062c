//! ModuleImagesConfig: which images of a module must exist, and which of them do.
//!
//! Differs: the fields are called `spec.items` and `status.items`, and each item counts generations, because the source
//! document says so. The upstream calls them `spec.images` and `status.imagesStates` and has no generations. Objects that
//! the upstream wrote are read through [`ModuleImagesConfigSpec::items`] and
//! [`ModuleImagesConfigStatus::items`](super::ModuleImagesConfigStatus::items); only the new names are written.

use std::borrow::Cow;

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::{Build, ModuleImagesConfigStatus, Sign, TlsOptions};
use crate::meta::{LocalObjectReference, Toleration};
use crate::optional_spec;
use crate::schema::integer;
use crate::unknown::Unknown;

/// Generation of an item that does not say one.
pub const FIRST_GENERATION: i64 = 1;

/// Which images must exist.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "kmm.sigs.x-k8s.io",
    version = "v1beta1",
    kind = "ModuleImagesConfig",
    doc = "Which images of a module must exist, and which of them do.",
    namespaced,
    status = "ModuleImagesConfigStatus",
    shortname = "mic",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct ModuleImagesConfigSpec {
    /// When images are pulled for looking whether they exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "IfNotPresent"))]
    pub image_pull_policy: Option<String>,

    /// Any change of this number makes all images be looked for, built and signed again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "integer")]
    pub image_rebuild_trigger_generation: Option<i64>,

    /// Secret for pulling images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_repo_secret: Option<LocalObjectReference>,

    /// Older name of `items`; read when `items` is absent, never written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<Vec<ModuleImage>>,

    /// The images, each once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["image".into()]))]
    pub items: Option<Vec<ModuleImageItem>>,

    /// Whether an image that was built is pushed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub push_built_image: Option<bool>,

    /// Taints that the pods for this object tolerate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerations: Option<Vec<Toleration>>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

optional_spec!(ModuleImagesConfigSpec);

/// One image that must exist.
// Differs: `kernelVersion` is not required, because the source document's own example has none.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModuleImageItem {
    /// How the image is built when it does not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build: Option<Build>,

    /// Directory in the image above `lib/modules`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "/opt"))]
    pub dir_name: Option<String>,

    /// Raised to have the image looked for again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), extend("default" = 1))]
    pub generation: Option<i64>,

    /// The image.
    pub image: String,

    /// Kernel that the image is built and signed for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_version: Option<String>,

    /// How the image's registry is checked.
    #[serde(rename = "registryTLS", skip_serializing_if = "Option::is_none")]
    pub registry_tls: Option<TlsOptions>,

    /// How the image is signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sign: Option<Sign>,

    /// Whether a missing image is reported at once instead of waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_wait_missing_image: Option<bool>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// One image, in the form that ModuleBuildSignConfig and older objects have.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModuleImage {
    /// How the image is built.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build: Option<Build>,

    /// Directory in the image above `lib/modules`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "/opt"))]
    pub dir_name: Option<String>,

    /// The image.
    pub image: String,

    /// Kernel that the image is built and signed for.
    pub kernel_version: String,

    /// How the image's registry is checked.
    #[serde(rename = "registryTLS", skip_serializing_if = "Option::is_none")]
    pub registry_tls: Option<TlsOptions>,

    /// How the image is signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sign: Option<Sign>,

    /// Whether a missing image is reported at once instead of waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_wait_missing_image: Option<bool>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl ModuleImagesConfigSpec {
    /// The images, under whichever name they were written.
    pub fn items(&self) -> Cow<'_, [ModuleImageItem]> {
        match (&self.items, &self.images) {
            (Some(items), _) => Cow::Borrowed(items),
            (None, Some(images)) => images.iter().cloned().map(Into::into).collect(),
            (None, None) => Cow::Borrowed(&[]),
        }
    }
}

impl ModuleImageItem {
    /// The generation, which is the first when none is written.
    pub fn generation(&self) -> i64 {
        self.generation.unwrap_or(FIRST_GENERATION)
    }
}

impl From<ModuleImage> for ModuleImageItem {
    fn from(image: ModuleImage) -> Self {
        Self {
            build: image.build,
            dir_name: image.dir_name,
            generation: Some(FIRST_GENERATION),
            image: image.image,
            kernel_version: Some(image.kernel_version),
            registry_tls: image.registry_tls,
            sign: image.sign,
            skip_wait_missing_image: image.skip_wait_missing_image,
            unknown: image.unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_item_without_a_generation_is_of_the_first() {
        let item: ModuleImageItem = serde_json::from_value(json!({ "image": "a" })).unwrap();
        assert_eq!(item.generation(), 1);
    }

    #[test]
    fn images_under_the_older_name_are_items_of_the_first_generation() {
        let spec: ModuleImagesConfigSpec = serde_json::from_value(json!({
            "images": [{ "image": "a", "kernelVersion": "6.0.15", "dirName": "/mod", "new": 1 }],
        }))
        .unwrap();
        let items = spec.items();
        assert_eq!(
            serde_json::to_value(&items).unwrap(),
            json!([{ "image": "a", "kernelVersion": "6.0.15", "dirName": "/mod", "generation": 1, "new": 1 }])
        );
    }

    #[test]
    fn items_win_over_the_older_name_even_when_empty() {
        let spec: ModuleImagesConfigSpec = serde_json::from_value(json!({
            "items": [],
            "images": [{ "image": "a", "kernelVersion": "6.0.15" }],
        }))
        .unwrap();
        assert!(spec.items().is_empty());
        assert!(ModuleImagesConfigSpec::default().items().is_empty());
    }
}
