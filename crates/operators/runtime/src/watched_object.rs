//! Watched objects: an object from a watch may be unreadable, which must not end the watch of all others.
//!
//! kube's own guard keeps two generic copies of every object to be able to parse it twice; this one keeps the text, which
//! avoids a noticeable pause with ten thousand nodes.

use std::borrow::Cow;

use kube::Resource;
use kube::core::ObjectMeta;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// An object, or the metadata of one that cannot be read.
#[derive(Clone, Debug)]
pub enum WatchedObject<K> {
    Readable(K),
    Unreadable { metadata: Box<ObjectMeta>, error: String },
}

#[derive(Deserialize)]
struct MetadataOnly {
    #[serde(default)]
    metadata: ObjectMeta,
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for WatchedObject<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        match serde_json::from_str(text.get()) {
            Ok(object) => Ok(WatchedObject::Readable(object)),
            Err(error) => {
                let MetadataOnly { metadata } = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
                Ok(WatchedObject::Unreadable { metadata: Box::new(metadata), error: error.to_string() })
            }
        }
    }
}

impl<K: Resource> Resource for WatchedObject<K> {
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
            WatchedObject::Readable(object) => object.meta(),
            WatchedObject::Unreadable { metadata, .. } => metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match self {
            WatchedObject::Readable(object) => object.meta_mut(),
            WatchedObject::Unreadable { metadata, .. } => metadata,
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::WatchEvent;

    use super::*;

    #[test]
    fn unreadable_object_keeps_its_name_and_the_error() {
        let line = r#"{"type":"ADDED","object":{"metadata":{"name":"a"},"data":{"k":1}}}"#;
        let WatchEvent::Added(object) = serde_json::from_str::<WatchEvent<WatchedObject<ConfigMap>>>(line).unwrap()
        else {
            panic!("it was added");
        };
        assert_eq!(object.meta().name.as_deref(), Some("a"));
        let WatchedObject::Unreadable { error, .. } = object else { panic!("a number is no text") };
        assert!(error.contains("expected a string"), "{error}");
    }

    #[test]
    fn readable_object_is_parsed() {
        let object: WatchedObject<ConfigMap> =
            serde_json::from_str(r#"{"metadata":{"name":"a"},"data":{"k":"v"}}"#).unwrap();
        assert!(matches!(object, WatchedObject::Readable(map) if map.data.as_ref().unwrap()["k"] == "v"));
    }
}
