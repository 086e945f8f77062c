//! ModuleImagesConfigStatus: which images of a module exist, and since when.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::module_images_config::FIRST_GENERATION;
use crate::schema::integer;
use crate::unknown::Unknown;
use crate::vocabulary::kmm::{BuildState, ImageStatus};
use crate::words::Open;

/// Which images exist.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModuleImagesConfigStatus {
    /// The trigger that the images were last looked for with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "integer")]
    pub image_rebuild_trigger_generation: Option<i64>,

    /// Older name of `items`; read when `items` is absent, never written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images_states: Option<Vec<LegacyImageState>>,

    /// The images that were looked for, each once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["image".into()]))]
    pub items: Option<Vec<ModuleImageStatus>>,

    /// Generation of the object that was last processed completely.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// What is known about one image.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModuleImageStatus {
    /// How far building and signing are; absent when there is nothing to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build_state: Option<Open<BuildState>>,

    /// The image.
    pub image: String,

    /// Unique id of the pod whose outcome was last recorded.
    #[serde(rename = "lastPullPodUID", skip_serializing_if = "Option::is_none")]
    pub last_pull_pod_uid: Option<String>,

    /// When the status was last found out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,

    /// Explanation for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,

    /// Generation of the item that the status answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Whether the image exists.
    pub status: Open<ImageStatus>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// What an older object says about one image.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LegacyImageState {
    /// The image.
    pub image: String,

    /// Whether the image exists, or what is needed before it does.
    pub status: String,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl ModuleImagesConfigStatus {
    /// What is known about the images, under whichever name it was written.
    pub fn items(&self) -> Cow<'_, [ModuleImageStatus]> {
        match (&self.items, &self.images_states) {
            (Some(items), _) => Cow::Borrowed(items),
            (None, Some(states)) => states.iter().cloned().map(Into::into).collect(),
            (None, None) => Cow::Borrowed(&[]),
        }
    }
}

/// The upstream's two further statuses mean that the image does not exist and what is to be done about it.
impl From<LegacyImageState> for ModuleImageStatus {
    fn from(state: LegacyImageState) -> Self {
        let build_state = state.status.parse::<BuildState>().ok();
        let status = match build_state {
            Some(_) => ImageStatus::DoesNotExist.into(),
            None => state.status.parse().map_or(Open::Other(state.status), Open::Known),
        };
        Self {
            build_state: build_state.map(Open::Known),
            image: state.image,
            last_pull_pod_uid: None,
            last_transition_time: None,
            message: None,
            observed_generation: Some(FIRST_GENERATION),
            status,
            unknown: state.unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn statuses_of_an_older_object_give_what_is_to_be_done() {
        let status: ModuleImagesConfigStatus = serde_json::from_value(json!({
            "imagesStates": [
                { "image": "a", "status": "Exists" },
                { "image": "b", "status": "DoesNotExist" },
                { "image": "c", "status": "NeedsBuilding" },
                { "image": "d", "status": "NeedsSigning" },
                { "image": "e", "status": "Elsewhere" },
            ],
        }))
        .unwrap();
        let read: Vec<_> = status
            .items()
            .iter()
            .map(|item| {
                let state = item.build_state.as_ref().and_then(Open::known);
                assert_eq!(item.observed_generation, Some(1));
                (item.image.clone(), item.status.as_str().to_owned(), state)
            })
            .collect();
        let expected = [
            ("a", "Exists", None),
            ("b", "DoesNotExist", None),
            ("c", "DoesNotExist", Some(BuildState::NeedsBuilding)),
            ("d", "DoesNotExist", Some(BuildState::NeedsSigning)),
            ("e", "Elsewhere", None),
        ]
        .map(|(image, status, state)| (image.to_owned(), status.to_owned(), state));
        assert_eq!(read, expected);
    }

    #[test]
    fn items_win_over_the_older_name() {
        let status: ModuleImagesConfigStatus = serde_json::from_value(json!({
            "items": [{ "image": "a", "status": "Exists", "observedGeneration": 4, "lastPullPodUID": "7" }],
            "imagesStates": [{ "image": "b", "status": "Exists" }],
        }))
        .unwrap();
        let items = status.items();
        assert_eq!(items.len(), 1);
        assert_eq!(items[0].observed_generation, Some(4));
        assert_eq!(items[0].last_pull_pod_uid.as_deref(), Some("7"));
    }
}
