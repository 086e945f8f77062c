//! An object from a watch that may be unreadable: one such object must not end the watch of all others.
//!
//! kube's own guard keeps two generic copies of every object to be able to look twice; this one keeps the text, which for
//! ten thousand nodes is the difference between a pause and none.

use std::borrow::Cow;

use kube::Resource;
use kube::core::ObjectMeta;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// An object, or what is known of one that cannot be read.
#[derive(Clone, Debug)]
pub enum Checked<K> {
    /// It can be read.
    Sound(K),
    /// It cannot.
    Unreadable {
        /// Its metadata.
        metadata: Box<ObjectMeta>,
        /// What is wrong with it.
        error: String,
    },
}

#[derive(Deserialize)]
struct Bare {
    #[serde(default)]
    metadata: ObjectMeta,
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Checked<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        match serde_json::from_str(text.get()) {
            Ok(object) => Ok(Checked::Sound(object)),
            Err(error) => {
                let Bare { metadata } = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
                Ok(Checked::Unreadable { metadata: Box::new(metadata), error: error.to_string() })
            }
        }
    }
}

impl<K: Resource> Resource for Checked<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(dt)
    }

    fn group(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::group(dt)
    }

    fn version(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::version(dt)
    }

    fn plural(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(dt)
    }

    fn meta(&self) -> &ObjectMeta {
        match self {
            Checked::Sound(object) => object.meta(),
            Checked::Unreadable { metadata, .. } => metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Checked::Sound(object) => object.meta_mut(),
            Checked::Unreadable { metadata, .. } => metadata,
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::WatchEvent;

    use super::*;

    #[test]
    fn unreadable_object_keeps_its_name_and_says_what_is_wrong() {
        let line = r#"{"type":"ADDED","object":{"metadata":{"name":"a"},"data":{"k":1}}}"#;
        let WatchEvent::Added(object) = serde_json::from_str::<WatchEvent<Checked<ConfigMap>>>(line).unwrap() else {
            panic!("it was added");
        };
        assert_eq!(object.meta().name.as_deref(), Some("a"));
        let Checked::Unreadable { error, .. } = object else { panic!("a number is no text") };
        assert!(error.contains("expected a string"), "{error}");
    }

    #[test]
    fn sound_object_is_itself() {
        let object: Checked<ConfigMap> = serde_json::from_str(r#"{"metadata":{"name":"a"},"data":{"k":"v"}}"#).unwrap();
        assert!(matches!(object, Checked::Sound(map) if map.data.as_ref().unwrap()["k"] == "v"));
    }
}
