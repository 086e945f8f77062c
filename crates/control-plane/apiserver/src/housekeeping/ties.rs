//! What of an object decides who goes with whom: its identity, its owners, and whether it is on its way out.

use seaworthy_store::Record;
use serde::Deserialize;

use crate::object::meta::{FOREGROUND, ORPHAN};

/// The part of an object's metadata that housekeeping looks at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Ties {
    /// The object's identity.
    pub uid: String,
    deletion_timestamp: Option<String>,
    finalizers: Option<Vec<String>>,
    owner_references: Option<Vec<Owner>>,
}

/// A reference to an owner.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Owner {
    /// Group and version.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The name, in the namespace of the dependent if the kind has namespaces.
    pub name: String,
    /// The identity: another object by that name is not the owner.
    pub uid: String,
    block_owner_deletion: Option<bool>,
}

/// What an object on its way out does about its dependents before it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parting {
    /// It waits until the blocking ones are gone.
    Foreground,
    /// It waits until none refers to it.
    Orphan,
}

impl Ties {
    /// Reads them from a stored object, and no more of it than its metadata.
    pub fn of(record: &Record) -> Ties {
        Ties::read(&record.body())
    }

    fn read(body: &[u8]) -> Ties {
        const METADATA: &[u8] = b"\"metadata\":";
        // Stored objects begin with two short texts and their metadata; an object that does not has no ties.
        let Some(at) = body.windows(METADATA.len()).position(|window| window == METADATA) else {
            return Ties::default();
        };
        let mut rest = serde_json::Deserializer::from_slice(&body[at + METADATA.len()..]);
        Ties::deserialize(&mut rest).unwrap_or_default()
    }

    /// Whether the object is on its way out.
    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp.as_ref().is_some_and(|time| !time.is_empty())
    }

    /// What holds the object.
    pub fn finalizers(&self) -> &[String] {
        self.finalizers.as_deref().unwrap_or_default()
    }

    /// Whether a finalizer holds the object, or will when it is deleted.
    pub fn is_held_by(&self, finalizer: &str) -> bool {
        self.finalizers().iter().any(|name| name == finalizer)
    }

    /// The references to its owners.
    pub fn owners(&self) -> &[Owner] {
        self.owner_references.as_deref().unwrap_or_default()
    }

    /// Whether the object is on its way out and takes leave of its dependents, and how.
    pub fn parting(&self) -> Option<Parting> {
        if !self.is_deleting() {
            None
        } else if self.is_held_by(FOREGROUND) {
            Some(Parting::Foreground)
        } else if self.is_held_by(ORPHAN) {
            Some(Parting::Orphan)
        } else {
            None
        }
    }
}

impl Owner {
    /// Whether the owner waits for the dependent, if it waits at all.
    pub fn blocks(&self) -> bool {
        self.block_owner_deletion.unwrap_or(false)
    }

    /// Whether a reference, as objects have it, is this one.
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

    /// The ties of an object with this metadata.
    pub fn ties(metadata: Value) -> Ties {
        Ties::read(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}).to_string().as_bytes())
    }

    #[test]
    fn ties_are_read_from_the_metadata_of_the_object_itself() {
        let inner = json!({"metadata": {"uid": "inner"}});
        let object = json!({"kind": "A", "metadata": {"uid": "own", "finalizers": null, "labels": {"a": "b"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "B", "name": "b", "uid": "u", "blockOwnerDeletion": true}]},
            "spec": inner});
        let found = Ties::read(object.to_string().as_bytes());
        assert_eq!((found.uid.as_str(), found.owners().len(), found.owners()[0].blocks()), ("own", 1, true));
        assert!(!found.is_deleting());
    }

    #[test]
    fn object_that_is_none_has_no_ties() {
        assert_eq!(Ties::read(b"{}"), Ties::default());
        assert_eq!(Ties::read(b"\"metadata\":[]"), Ties::default());
    }

    #[test]
    fn only_an_object_on_its_way_out_takes_leave() {
        assert_eq!(ties(json!({"finalizers": ["orphan"]})).parting(), None);
        let leaving = |finalizer: &str| ties(json!({"deletionTimestamp": "t", "finalizers": [finalizer]})).parting();
        assert_eq!(leaving("orphan"), Some(Parting::Orphan));
        assert_eq!(leaving("foregroundDeletion"), Some(Parting::Foreground));
        assert_eq!(leaving("example.com/hold"), None);
    }
}
