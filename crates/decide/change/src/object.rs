//! Object references: the object of a change, and what must still be true of it.

use std::fmt;

use kube::Resource;
use kube::core::ObjectMeta;
use serde::Serialize;

use crate::resource::{ResourceType, Scope};

/// An object, and the state that a decision saw it in.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRef {
    /// Its type.
    #[serde(flatten)]
    pub resource: ResourceType,
    /// Its namespace, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
    /// The uid that it must still have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The resource version that it must still have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

impl ObjectRef {
    /// An object of the whole cluster by name, in whatever state it is.
    pub fn named<K>(name: impl Into<String>) -> ObjectRef
    where
        K: Resource<DynamicType = ()>,
        K::Scope: Scope,
    {
        ObjectRef { resource: ResourceType::of::<K>(), name: name.into(), ..ObjectRef::default() }
    }

    /// This object in the state that it was seen in.
    pub fn of<K>(object: &K) -> ObjectRef
    where
        K: Resource<DynamicType = ()>,
        K::Scope: Scope,
    {
        ObjectRef::with(ResourceType::of::<K>(), object.meta())
    }

    /// An object of this type with this metadata.
    pub fn with(resource: ResourceType, metadata: &ObjectMeta) -> ObjectRef {
        ObjectRef {
            namespace: metadata.namespace.clone().filter(|_| resource.is_namespaced),
            resource,
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().filter(|uid| !uid.is_empty()),
            resource_version: metadata.resource_version.clone(),
        }
    }

    /// The same object, in whatever state it is by now, as long as it is the same one.
    #[must_use]
    pub fn at_any_version(self) -> ObjectRef {
        ObjectRef { resource_version: None, ..self }
    }

    /// The object without its state: what two references to the same object share.
    #[must_use]
    pub fn key(&self) -> ObjectRef {
        ObjectRef { uid: None, resource_version: None, ..self.clone() }
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(out, "{} {namespace}/{}", self.resource, self.name),
            None => write!(out, "{} {}", self.resource, self.name),
        }
    }
}
