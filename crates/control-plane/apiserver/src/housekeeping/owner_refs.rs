//! Owner references of a stored object, with its identity and its deletion state.

use seaworthy_store::Record;
use serde::Deserialize;

use crate::object::meta::{FOREGROUND, ORPHAN};

/// The part of an object's metadata that housekeeping reads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OwnerRefs {
    pub uid: String,
    deletion_timestamp: Option<String>,
    finalizers: Option<Vec<String>>,
    owner_references: Option<Vec<OwnerReference>>,
}

/// A reference to an owner.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OwnerReference {
    pub api_version: String,
    pub kind: String,
    /// In the namespace of the dependent if the kind is namespaced.
    pub name: String,
    /// Another object with the same name is not the owner.
    pub uid: String,
    block_owner_deletion: Option<bool>,
}

/// How a deleted object handles its dependents before it is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeletionMode {
    /// It waits until its blocking dependents are deleted.
    Foreground,
    /// It waits until no dependent refers to it.
    Orphan,
}

impl OwnerRefs {
    /// Parses the metadata of a stored object, and nothing else.
    pub fn of(record: &Record) -> OwnerRefs {
        OwnerRefs::read(&record.body())
    }

    fn read(body: &[u8]) -> OwnerRefs {
        const METADATA: &[u8] = b"\"metadata\":";
        // Stored objects begin with `apiVersion`, `kind` and `metadata`; an object that does not has no references.
        let Some(at) = body.windows(METADATA.len()).position(|window| window == METADATA) else {
            return OwnerRefs::default();
        };
        let mut rest = serde_json::Deserializer::from_slice(&body[at + METADATA.len()..]);
        OwnerRefs::deserialize(&mut rest).unwrap_or_default()
    }

    /// Whether the object is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp.as_ref().is_some_and(|time| !time.is_empty())
    }

    pub fn finalizers(&self) -> &[String] {
        self.finalizers.as_deref().unwrap_or_default()
    }

    /// Whether the object has this finalizer.
    pub fn is_held_by(&self, finalizer: &str) -> bool {
        self.finalizers().iter().any(|name| name == finalizer)
    }

    pub fn owners(&self) -> &[OwnerReference] {
        self.owner_references.as_deref().unwrap_or_default()
    }

    /// How the deletion of the object handles its dependents; none if it is not being deleted or does not wait for
    /// them.
    pub fn deletion_mode(&self) -> Option<DeletionMode> {
        if !self.is_deleting() {
            None
        } else if self.is_held_by(FOREGROUND) {
            Some(DeletionMode::Foreground)
        } else if self.is_held_by(ORPHAN) {
            Some(DeletionMode::Orphan)
        } else {
            None
        }
    }
}

impl OwnerReference {
    /// Whether a foreground deletion of the owner waits for the dependent.
    pub fn blocks(&self) -> bool {
        self.block_owner_deletion.unwrap_or(false)
    }

    /// Whether an entry of `ownerReferences` is this reference.
    pub fn is(&self, reference: &serde_json::Value) -> bool {
        let text = |key: &str| reference.get(key).and_then(serde_json::Value::as_str).unwrap_or_default();
        text("uid") == self.uid
            && text("name") == self.name
            && text("kind") == self.kind
            && text("apiVersion") == self.api_version
    }
}

#[cfg(test)]
pub mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The owner references of an object with this metadata.
    pub fn owner_refs(metadata: Value) -> OwnerRefs {
        OwnerRefs::read(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}).to_string().as_bytes())
    }

    #[test]
    fn ties_are_read_from_the_metadata_of_the_object_itself() {
        let inner = json!({"metadata": {"uid": "inner"}});
        let object = json!({"kind": "A", "metadata": {"uid": "own", "finalizers": null, "labels": {"a": "b"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "B", "name": "b", "uid": "u", "blockOwnerDeletion": true}]},
            "spec": inner});
        let found = OwnerRefs::read(object.to_string().as_bytes());
        assert_eq!((found.uid.as_str(), found.owners().len(), found.owners()[0].blocks()), ("own", 1, true));
        assert!(!found.is_deleting());
    }

    #[test]
    fn object_that_is_none_has_no_ties() {
        assert_eq!(OwnerRefs::read(b"{}"), OwnerRefs::default());
        assert_eq!(OwnerRefs::read(b"\"metadata\":[]"), OwnerRefs::default());
    }

    #[test]
    fn only_an_object_on_its_way_out_takes_leave() {
        assert_eq!(owner_refs(json!({"finalizers": ["orphan"]})).deletion_mode(), None);
        let terminating =
            |finalizer: &str| owner_refs(json!({"deletionTimestamp": "t", "finalizers": [finalizer]})).deletion_mode();
        assert_eq!(terminating("orphan"), Some(DeletionMode::Orphan));
        assert_eq!(terminating("foregroundDeletion"), Some(DeletionMode::Foreground));
        assert_eq!(terminating("example.com/hold"), None);
    }
}
