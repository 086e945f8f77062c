//! Change: one write to one object.

use kube::core::ObjectMeta;
use kube::{Resource, ResourceExt as _};
use serde::Serialize;
use serde_json::{Value, json};

use crate::event::Event;
use crate::object::ObjectRef;
use crate::resource::Scope;

/// One change of one object.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Change {
    pub object: ObjectRef,
    /// What is done to it.
    #[serde(flatten)]
    pub action: Action,
}

/// What is done to an object.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// Server-side apply of exactly the fields that the decision owns.
    Apply(Value),
    /// Server-side apply of the status.
    ApplyStatus(Value),
    /// Creation of an object that must not exist.
    Create(Value),
    /// Replacement of an object that is wholly ours, at the resource version that it carries.
    Replace(Value),
    /// A merge patch, for what cannot be applied because a list is not divided between owners: the taints of a Node, the
    /// finalizers of a pool. A null removes.
    Patch(Value),
    /// A merge patch of the status.
    PatchStatus(Value),
    /// A deletion. That the object is gone already is no failure.
    Delete,
    /// An eviction, which respects PodDisruptionBudgets.
    Evict,
    /// An event about the object.
    Emit(Event),
}

impl Change {
    /// Server-side apply of an object.
    pub fn apply<K>(object: &K) -> Change
    where
        K: Resource<DynamicType = ()> + Serialize,
        K::Scope: Scope,
    {
        Change { object: ObjectRef::of(object).key(), action: Action::Apply(owned_fields(object)) }
    }

    /// Server-side apply of an object's status.
    pub fn apply_status<K>(object: &K) -> Change
    where
        K: Resource<DynamicType = ()> + Serialize,
        K::Scope: Scope,
    {
        let mut body = owned_fields(object);
        if let Value::Object(body) = &mut body {
            body.remove("spec");
        }
        Change { object: ObjectRef::of(object).key(), action: Action::ApplyStatus(body) }
    }

    /// Creation of an object.
    pub fn create<K>(object: &K) -> Change
    where
        K: Resource<DynamicType = ()> + Serialize,
        K::Scope: Scope,
    {
        Change { object: ObjectRef::of(object).key(), action: Action::Create(typed(object)) }
    }

    /// Creation of an object with a finalizer, which the object itself does not have yet.
    pub fn create_with_finalizer<K>(object: &K, finalizer: &str) -> Change
    where
        K: Resource<DynamicType = ()> + Serialize,
        K::Scope: Scope,
    {
        let mut body = typed(object);
        if let Some(Value::Object(metadata)) = body.get_mut("metadata") {
            let finalizers: Vec<&str> = object.finalizers().iter().map(String::as_str).chain([finalizer]).collect();
            metadata.insert("finalizers".to_owned(), json!(finalizers));
        }
        Change { object: ObjectRef::of(object).key(), action: Action::Create(body) }
    }

    /// Replacement of the object that was found, at its resource version and with its finalizers, which other components set.
    pub fn replace_found<K>(found: &K, object: &K) -> Change
    where
        K: Resource<DynamicType = ()> + Serialize,
        K::Scope: Scope,
    {
        let ObjectMeta { finalizers, resource_version, .. } = found.meta();
        let mut body = typed(object);
        if let Some(Value::Object(metadata)) = body.get_mut("metadata") {
            let finalizers = finalizers.as_ref().map(|finalizers| ("finalizers".to_owned(), json!(finalizers)));
            let revision = resource_version.as_ref().map(|revision| ("resourceVersion".to_owned(), json!(revision)));
            metadata.extend(finalizers.into_iter().chain(revision));
        }
        let object = ObjectRef { resource_version: resource_version.clone(), ..ObjectRef::of(object) };
        Change { object, action: Action::Replace(body) }
    }

    /// Replacement of an object, at the resource version that it carries.
    pub fn replace<K>(object: &K) -> Change
    where
        K: Resource<DynamicType = ()> + Serialize,
        K::Scope: Scope,
    {
        Change { object: ObjectRef::of(object), action: Action::Replace(typed(object)) }
    }

    /// A merge patch.
    pub fn patch(object: ObjectRef, patch: Value) -> Change {
        Change { object, action: Action::Patch(patch) }
    }

    /// A merge patch of the status.
    pub fn patch_status(object: ObjectRef, status: impl Serialize) -> Change {
        Change { object, action: Action::PatchStatus(json!({ "status": json!(status) })) }
    }

    /// A merge patch that replaces all finalizers; a list cannot be patched in part.
    pub fn set_finalizers<K>(object: &K, finalizers: &[String]) -> Change
    where
        K: Resource<DynamicType = ()>,
        K::Scope: Scope,
    {
        Change::patch(ObjectRef::of(object), json!({"metadata": {"finalizers": finalizers}}))
    }

    /// A merge patch that adds a finalizer.
    pub fn add_finalizer<K>(object: &K, finalizer: &str) -> Change
    where
        K: Resource<DynamicType = ()>,
        K::Scope: Scope,
    {
        let mut finalizers = object.finalizers().to_vec();
        finalizers.push(finalizer.to_owned());
        Change::set_finalizers(object, &finalizers)
    }

    /// A merge patch that removes a finalizer.
    pub fn remove_finalizer<K>(object: &K, finalizer: &str) -> Change
    where
        K: Resource<DynamicType = ()>,
        K::Scope: Scope,
    {
        let finalizers: Vec<String> = object.finalizers().iter().filter(|found| *found != finalizer).cloned().collect();
        Change::set_finalizers(object, &finalizers)
    }

    /// A deletion of the object that was seen, not of one that has its name since.
    pub fn delete(object: ObjectRef) -> Change {
        Change { object: object.at_any_version(), action: Action::Delete }
    }

    /// An eviction of a pod.
    pub fn evict(pod: ObjectRef) -> Change {
        Change { object: pod.at_any_version(), action: Action::Evict }
    }

    /// An event about an object.
    pub fn emit(object: ObjectRef, event: Event) -> Change {
        Change { object: object.at_any_version(), action: Action::Emit(event) }
    }

    /// The event, if it is one.
    pub fn event(&self) -> Option<&Event> {
        match &self.action {
            Action::Emit(event) => Some(event),
            _ => None,
        }
    }
}

/// The object with its type, which typed objects leave out.
fn typed<K: Resource<DynamicType = ()> + Serialize>(object: &K) -> Value {
    // API types have text for keys, so they have a JSON form; the applier refuses a body that is none.
    let mut body = serde_json::to_value(object).unwrap_or_default();
    if let Value::Object(body) = &mut body {
        body.insert("apiVersion".to_owned(), json!(K::api_version(&())));
        body.insert("kind".to_owned(), json!(K::kind(&())));
    }
    body
}

/// The object without what an apply must not have: fields that the API server sets.
fn owned_fields<K: Resource<DynamicType = ()> + Serialize>(object: &K) -> Value {
    let mut body = typed(object);
    if let Some(Value::Object(metadata)) = body.get_mut("metadata") {
        for key in ["managedFields", "creationTimestamp", "generation"] {
            metadata.remove(key);
        }
    }
    body
}
