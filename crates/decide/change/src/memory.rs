//! Decisions performed on objects in memory: what the preview shows is what the applier would do.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::change::{Action, Change};
use crate::decision::Decision;
use crate::event::Event;
use crate::object::ObjectRef;
use crate::table::Tables;
use crate::time::to_second;

/// A change that cannot be performed in memory.
#[derive(Debug, PartialEq, Eq)]
pub enum MemoryError {
    /// No table has the object's kind.
    UnknownKind(ObjectRef),
    /// The object is to be created and exists.
    Exists(ObjectRef),
    /// The object is to be changed and does not exist.
    Missing(ObjectRef),
    /// The change makes something else of the object than an object of its kind.
    Invalid(Box<ObjectRef>, String),
}

impl std::fmt::Display for MemoryError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            MemoryError::UnknownKind(object) => write!(out, "{object}: no objects of this kind are in memory"),
            MemoryError::Exists(object) => write!(out, "{object}: already exists"),
            MemoryError::Missing(object) => write!(out, "{object}: not found"),
            MemoryError::Invalid(object, error) => write!(out, "{object}: {error}"),
        }
    }
}

impl std::error::Error for MemoryError {}

/// What came of a decision.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Performed {
    /// The events that it emits.
    pub events: Vec<(ObjectRef, Event)>,
    /// Whether an object differs from what it was.
    pub is_changed: bool,
}

/// Performs a decision on these tables. New objects are created at this time.
///
/// # Errors
///
/// The first change that cannot be performed; those before it have been.
pub fn perform<R>(decision: &Decision<'_, R>, tables: &mut Tables, now: Timestamp) -> Result<Performed, MemoryError> {
    let mut performed = Performed::default();
    for Change { object, action } in decision.changes() {
        if let Action::Emit(event) = action {
            performed.events.push((object, event));
            continue;
        }
        let Some(table) = tables.table_mut(&object.resource) else { return Err(MemoryError::UnknownKind(object)) };
        let exists = table.contains(&object);
        // Only what a patch is merged into is converted.
        let found = || table.get(&object).unwrap_or_default();
        let changed = match action {
            Action::Create(_) if exists => return Err(MemoryError::Exists(object)),
            Action::Create(body) => identified(body, &object, now),
            Action::Apply(body) if !exists => identified(body, &object, now),
            Action::Replace(_) | Action::Patch(_) | Action::PatchStatus(_) | Action::ApplyStatus(_) if !exists => {
                return Err(MemoryError::Missing(object));
            }
            Action::Replace(body) => body,
            Action::Apply(patch) | Action::Patch(patch) => merged(found(), &patch),
            Action::ApplyStatus(patch) | Action::PatchStatus(patch) => {
                merged(found(), &json!({ "status": patch["status"] }))
            }
            Action::Delete | Action::Evict => {
                performed.is_changed |= table.remove(&object);
                continue;
            }
            // Taken out above.
            Action::Emit(_) => continue,
        };
        let is_changed = table.put(changed);
        performed.is_changed |=
            is_changed.map_err(|error| MemoryError::Invalid(Box::new(object), error.to_string()))?;
    }
    Ok(performed)
}

/// The uid of an object that exists only in memory.
pub fn planned_uid(object: &ObjectRef) -> String {
    let (kind, name) = (object.resource.kind.to_lowercase(), &object.name);
    match &object.namespace {
        Some(namespace) => format!("planned-{kind}-{namespace}-{name}"),
        None => format!("planned-{kind}-{name}"),
    }
}

/// A new object as the API server would store it: with an identity.
fn identified(mut body: Value, object: &ObjectRef, now: Timestamp) -> Value {
    if let Some(Value::Object(metadata)) = body.get_mut("metadata") {
        metadata.insert("uid".to_owned(), json!(planned_uid(object)));
        metadata.insert("creationTimestamp".to_owned(), json!(to_second(now).to_string()));
    }
    body
}

fn merged(mut object: Value, patch: &Value) -> Value {
    merge(&mut object, patch);
    object
}

/// Applies a JSON merge patch (RFC 7386).
pub fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::{ConfigMap, Node};
    use kube::ResourceExt as _;

    use super::*;
    use crate::decision::{Purpose, Stage};

    fn node(name: &str) -> Node {
        serde_json::from_value(json!({"metadata": {"name": name, "labels": {"a": "1"}}})).unwrap()
    }

    fn perform_on(nodes: &mut Vec<Arc<Node>>, changes: Vec<Change>) -> Result<Performed, MemoryError> {
        let mut tables = Tables::default().with_objects(std::mem::take(nodes));
        let decision = Decision::of([Stage::sequence(Purpose::Write, changes)]);
        let result = perform(&decision, &mut tables, Timestamp::UNIX_EPOCH);
        *nodes = tables.of().to_vec();
        result
    }

    #[test]
    fn objects_are_created_patched_and_deleted() {
        let mut nodes = Vec::new();
        perform_on(&mut nodes, vec![Change::create(&node("w1"))]).unwrap();
        assert_eq!(nodes[0].uid().as_deref(), Some("planned-node-w1"));
        let patch = json!({"metadata": {"labels": {"a": null, "b": "2"}}});
        perform_on(&mut nodes, vec![Change::patch(ObjectRef::named::<Node>("w1"), patch)]).unwrap();
        assert_eq!(nodes[0].labels().iter().collect::<Vec<_>>(), [(&"b".to_owned(), &"2".to_owned())]);
        let seen = ObjectRef::of(&*nodes[0]);
        perform_on(&mut nodes, vec![Change::delete(seen)]).unwrap();
        assert!(nodes.is_empty());
    }

    #[test]
    fn namespace_of_a_cluster_scoped_manifest_is_ignored() {
        let mut given = node("w1");
        given.metadata.namespace = Some("default".to_owned());
        let mut nodes = vec![Arc::new(given)];
        let patch = json!({"metadata": {"labels": {"a": "2"}}});
        let change = Change::patch(ObjectRef::of(&*nodes[0]), patch);
        perform_on(&mut nodes, vec![change]).unwrap();
        assert_eq!((nodes.len(), nodes[0].labels()["a"].as_str()), (1, "2"));
        perform_on(&mut nodes, vec![Change::delete(ObjectRef::named::<Node>("w1"))]).unwrap();
        assert!(nodes.is_empty());
    }

    #[test]
    fn objects_of_a_name_in_two_namespaces_are_two() {
        let map = |namespace: &str| -> ConfigMap {
            serde_json::from_value(json!({"metadata": {"name": "x", "namespace": namespace}})).unwrap()
        };
        let mut tables = Tables::default().with::<ConfigMap>();
        let decision = Decision::of([Stage::sequence(
            Purpose::Write,
            ["a", "b"].map(|namespace| Change::create(&map(namespace))),
        )]);
        perform(&decision, &mut tables, Timestamp::UNIX_EPOCH).unwrap();
        let removed = Decision::of([Stage::sequence(Purpose::Write, [Change::delete(ObjectRef::of(&map("a")))])]);
        perform(&removed, &mut tables, Timestamp::UNIX_EPOCH).unwrap();
        let maps = tables.of::<ConfigMap>();
        assert_eq!(maps.iter().map(|map| map.namespace()).collect::<Vec<_>>(), [Some("b".to_owned())]);
    }

    #[test]
    fn status_patch_touches_nothing_else() {
        let mut nodes = vec![Arc::new(node("w1"))];
        let status = json!({"phase": "Running"});
        let mut change = Change::patch_status(ObjectRef::named::<Node>("w1"), status);
        if let Action::PatchStatus(patch) = &mut change.action {
            patch["metadata"] = json!({"labels": {"a": "2"}});
        }
        perform_on(&mut nodes, vec![change]).unwrap();
        assert_eq!(nodes[0].labels()["a"], "1");
        assert_eq!(nodes[0].status.as_ref().unwrap().phase.as_deref(), Some("Running"));
    }

    #[test]
    fn change_of_an_unknown_kind_is_an_error() {
        let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "x", "namespace": "y"}})).unwrap();
        let error = perform_on(&mut Vec::new(), vec![Change::create(&map)]).unwrap_err();
        assert_eq!(error.to_string(), "ConfigMap y/x: no objects of this kind are in memory");
    }

    #[test]
    fn missing_object_cannot_be_patched_and_may_be_deleted() {
        let gone = ObjectRef::named::<Node>("w1");
        let error = perform_on(&mut Vec::new(), vec![Change::patch(gone.clone(), json!({}))]).unwrap_err();
        assert_eq!(error, MemoryError::Missing(gone.clone()));
        assert_eq!(perform_on(&mut Vec::new(), vec![Change::delete(gone)]), Ok(Performed::default()));
    }

    #[test]
    fn only_what_differs_is_a_change() {
        let mut nodes = vec![Arc::new(node("w1"))];
        let mut is_changed = |change: Change| perform_on(&mut nodes, vec![change]).unwrap().is_changed;
        let w1 = ObjectRef::named::<Node>("w1");
        let label =
            |value: &str| Change::patch(ObjectRef::named::<Node>("w1"), json!({"metadata": {"labels": {"a": value}}}));
        assert!(!is_changed(label("1")));
        assert!(is_changed(label("2")));
        assert!(is_changed(Change::apply(&node("w1"))) && !is_changed(Change::apply(&node("w1"))));
        let event = Event { is_warning: false, reason: "Labelled", message: "a label".to_owned(), related: None };
        assert!(!is_changed(Change::emit(w1.clone(), event)));
        assert!(is_changed(Change::delete(w1.clone())) && !is_changed(Change::delete(w1)));
    }

    #[test]
    fn uid_of_a_planned_object_names_kind_namespace_and_name() {
        let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "x", "namespace": "y"}})).unwrap();
        assert_eq!(planned_uid(&ObjectRef::of(&map)), "planned-configmap-y-x");
        assert_eq!(planned_uid(&ObjectRef::named::<Node>("x")), "planned-node-x");
    }
}
