//! Decisions performed on objects in memory: what the preview shows is what the applier would do.
//!
//! - Stages, flows and objects that are gone mean what they mean to the applier, and a write is refused where the API would refuse
//!   it because of the object's uid or resource version. A write that changes something gives the object a new resource version.
//! - An object with finalizers that is deleted is marked, and removed when it has no finalizer any more. Objects that it owns stay:
//!   controllers delete what they generated.
//!
//! Differs: an apply is a merge patch here, because the tables have neither the schemas of kinds nor the field managers that server-side
//! apply needs (`seaworthy_fields`, which lies above this crate). So a list replaces a list, and a field that is not applied any more
//! stays. The generation is not counted: no decision that is previewed reads it after a write. An eviction is a deletion, whatever
//! PodDisruptionBudgets allow. No decision that is previewed applies or evicts.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

use k8s_openapi::jiff::Timestamp;
use kube::core::ObjectMeta;
use serde_json::{Map, Value, json};

use crate::change::{Action, Change};
use crate::decision::{Decision, Deferred, Flow, Purpose, Stage};
use crate::event::Event;
use crate::object::ObjectRef;
use crate::table::Tables;
use crate::time::to_second;
use crate::written::{ObjectVersion, Preconditions, WrittenObjects};

/// A change that cannot be performed in memory.
#[derive(Debug, PartialEq, Eq)]
pub enum MemoryError {
    /// No table has the object's kind.
    UnknownKind(ObjectRef),
    /// The object is to be created and exists.
    Exists(ObjectRef),
    /// The object is to be changed and does not exist.
    Missing(ObjectRef),
    /// The object is not the one that was decided on, or not in the state that was decided on.
    Conflict(Box<ObjectRef>, String),
    /// The change makes something else of the object than an object of its kind.
    Invalid(Box<ObjectRef>, String),
}

impl std::fmt::Display for MemoryError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            MemoryError::UnknownKind(object) => write!(out, "{object}: no objects of this kind are in memory"),
            MemoryError::Exists(object) => write!(out, "{object}: already exists"),
            MemoryError::Missing(object) => write!(out, "{object}: not found"),
            MemoryError::Conflict(object, error) | MemoryError::Invalid(object, error) => {
                write!(out, "{object}: {error}")
            }
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
    /// The changes that were not made.
    pub failures: Vec<MemoryError>,
    /// The objects that were to be changed and do not exist, where no later change rests on them.
    pub gone: Vec<ObjectRef>,
    /// The stage that a failure ended the decision at; later stages were not begun.
    pub stopped_at: Option<Purpose>,
}

impl Performed {
    /// What came of the decision, if every change of it was made.
    ///
    /// # Errors
    ///
    /// The first failure.
    pub fn result(mut self) -> Result<Performed, MemoryError> {
        if self.failures.is_empty() { Ok(self) } else { Err(self.failures.swap_remove(0)) }
    }
}

/// Performs a decision on these tables, at this time.
#[must_use = "a change that was not made is a failure to report"]
pub fn perform<R>(decision: &Decision<'_, R>, tables: &mut Tables, now: Timestamp) -> Performed {
    let mut run = Run { tables, now, written: WrittenObjects::default(), performed: Performed::default() };
    for stage in &decision.stages {
        if run.perform_stage(stage).is_break() {
            run.performed.stopped_at = Some(stage.purpose);
            break;
        }
    }
    run.performed
}

/// A decision that is being performed.
struct Run<'t> {
    tables: &'t mut Tables,
    now: Timestamp,
    written: WrittenObjects,
    performed: Performed,
}

impl Run<'_> {
    /// Performs one stage. Breaks if a failure ends the decision.
    fn perform_stage(&mut self, stage: &Stage<'_>) -> ControlFlow<()> {
        if stage.flow == Flow::PerObject {
            for changes in changes_by_object(stage) {
                for change in &changes {
                    let outcome = self.make_change(change, stage.purpose);
                    let has_failed = outcome.is_err();
                    self.record(change, outcome, stage.flow);
                    if has_failed {
                        break;
                    }
                }
            }
            return ControlFlow::Continue(());
        }
        for change in stage.all() {
            let outcome = self.make_change(&change, stage.purpose);
            if self.record(&change, outcome, stage.flow) && stage.flow == Flow::Sequence {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    /// Records the outcome of a change. Returns whether it failed.
    fn record(&mut self, change: &Change, outcome: Result<(), MemoryError>, flow: Flow) -> bool {
        match outcome {
            Ok(()) => {
                if let Action::Emit(event) = &change.action {
                    self.performed.events.push((change.object.clone(), event.clone()));
                }
                false
            }
            Err(MemoryError::Missing(object)) if flow != Flow::Sequence => {
                self.performed.gone.push(object.key());
                false
            }
            Err(error) => {
                self.performed.failures.push(error);
                true
            }
        }
    }

    /// Makes one change, except for an event.
    fn make_change(&mut self, change: &Change, purpose: Purpose) -> Result<(), MemoryError> {
        let Change { object, action } = change;
        if matches!(action, Action::Emit(_)) {
            return Ok(());
        }
        let object = self.written.current(object, purpose);
        let Some(table) = self.tables.table_mut(&object.resource) else {
            return Err(MemoryError::UnknownKind(object));
        };
        let found = table.metadata(&object).cloned();
        if let Some(error) = conflict(&object, action, found.as_ref()) {
            return Err(MemoryError::Conflict(Box::new(object), error));
        }
        // Only what a patch is merged into is converted.
        let live = || table.get(&object).unwrap_or_default();
        let new = match (action, &found) {
            (Action::Create(_), Some(_)) => return Err(MemoryError::Exists(object)),
            (Action::Create(body), None) if has_resource_version(body) => {
                let error = "a new object has a resourceVersion, which the API refuses".to_owned();
                return Err(MemoryError::Invalid(Box::new(object), error));
            }
            (Action::Create(body) | Action::Apply(body), None) => identified(body.clone(), &object, self.now),
            (Action::Replace(_) | Action::Patch(_) | Action::PatchStatus(_) | Action::ApplyStatus(_), None) => {
                return Err(MemoryError::Missing(object));
            }
            (Action::Replace(body), Some(found)) => with_kept_metadata(body.clone(), found),
            (Action::Apply(patch) | Action::Patch(patch), Some(found)) => {
                with_kept_metadata(merged(live(), patch), found)
            }
            (Action::ApplyStatus(patch) | Action::PatchStatus(patch), Some(_)) => {
                merged(live(), &json!({ "status": patch["status"] }))
            }
            (Action::Delete | Action::Evict, Some(found)) if has_finalizers(found) => {
                if found.deletion_timestamp.is_some() {
                    return Ok(());
                }
                let time = to_second(self.now).to_string();
                merged(live(), &json!({"metadata": {"deletionTimestamp": time, "deletionGracePeriodSeconds": 0}}))
            }
            (Action::Delete | Action::Evict, _) => {
                self.performed.is_changed |= table.remove(&object);
                return Ok(());
            }
            // Taken out above.
            (Action::Emit(_), _) => return Ok(()),
        };
        match table.put(new) {
            Ok(false) => {}
            Ok(true) => {
                self.performed.is_changed = true;
                table.set_resource_version(&object, next_resource_version(found.as_ref()));
            }
            Err(error) => return Err(MemoryError::Invalid(Box::new(object), error.to_string())),
        }
        let Some(written) = table.metadata(&object) else { return Ok(()) };
        if written.deletion_timestamp.is_some() && !has_finalizers(written) {
            self.performed.is_changed |= table.remove(&object);
        } else if !matches!(action, Action::Delete | Action::Evict) {
            let version =
                ObjectVersion { uid: written.uid.clone(), resource_version: written.resource_version.clone() };
            self.written.record(action, &object, version);
        }
        Ok(())
    }
}

/// The changes of a stage by object, each in order.
fn changes_by_object<'s>(stage: &'s Stage<'_>) -> impl Iterator<Item = Vec<Cow<'s, Change>>> {
    let mut listed: BTreeMap<ObjectRef, Vec<Cow<'s, Change>>> = BTreeMap::new();
    for change in &stage.changes {
        listed.entry(change.object.key()).or_default().push(Cow::Borrowed(change));
    }
    let built =
        |deferred: &Deferred<'_>| -> Vec<Cow<'s, Change>> { deferred.build().into_iter().map(Cow::Owned).collect() };
    listed.into_values().chain(stage.deferred.iter().map(built))
}

/// Why the API would refuse a change although it is valid: the object is another one by now, or in another state.
fn conflict(object: &ObjectRef, action: &Action, found: Option<&ObjectMeta>) -> Option<String> {
    let Preconditions { uid, resource_version } = Preconditions::of(object, action);
    let Some(found) = found else {
        // A missing object is missing, except to an apply, which would create it.
        let is_bound = matches!(action, Action::Apply(_)) && (uid.is_some() || resource_version.is_some());
        return is_bound.then(|| "the object that was decided on does not exist any more".to_owned());
    };
    if uid.is_some_and(|uid| found.uid.as_deref() != Some(uid)) {
        return Some("another object has the name of the one that was decided on".to_owned());
    }
    resource_version
        .is_some_and(|version| found.resource_version.as_deref() != Some(version))
        .then(|| "it has changed since it was decided on".to_owned())
}

/// Whether the body of a change is bound to a resource version.
fn has_resource_version(body: &Value) -> bool {
    body.pointer("/metadata/resourceVersion").and_then(Value::as_str).is_some_and(|version| !version.is_empty())
}

fn has_finalizers(metadata: &ObjectMeta) -> bool {
    metadata.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty())
}

/// The resource version after a write. It differs from all earlier ones of the object.
fn next_resource_version(found: Option<&ObjectMeta>) -> String {
    let before = found.and_then(|found| found.resource_version.as_ref()?.parse::<u64>().ok());
    before.unwrap_or_default().saturating_add(1).to_string()
}

/// The new state of an object, with the metadata that the API server keeps whatever a write has there.
fn with_kept_metadata(mut new: Value, found: &ObjectMeta) -> Value {
    let kept = [
        ("uid", json!(found.uid)),
        ("resourceVersion", json!(found.resource_version)),
        ("creationTimestamp", json!(found.creation_timestamp)),
        ("deletionTimestamp", json!(found.deletion_timestamp)),
        ("deletionGracePeriodSeconds", json!(found.deletion_grace_period_seconds)),
        ("generation", json!(found.generation)),
        ("managedFields", json!(found.managed_fields)),
    ];
    if let Some(Value::Object(metadata)) = new.get_mut("metadata") {
        for (key, value) in kept {
            match value {
                Value::Null => drop(metadata.remove(key)),
                value => drop(metadata.insert(key.to_owned(), value)),
            }
        }
    }
    new
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
        let result = perform(&decision, &mut tables, Timestamp::UNIX_EPOCH).result();
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
        perform(&decision, &mut tables, Timestamp::UNIX_EPOCH).result().unwrap();
        let removed = Decision::of([Stage::sequence(Purpose::Write, [Change::delete(ObjectRef::of(&map("a")))])]);
        perform(&removed, &mut tables, Timestamp::UNIX_EPOCH).result().unwrap();
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

    fn labelled(resource_version: Option<&str>, label: &str) -> Change {
        let resource_version = resource_version.map(str::to_owned);
        let object = ObjectRef { resource_version, ..ObjectRef::named::<Node>("w1") };
        Change::patch(object, json!({"metadata": {"labels": {"a": label}}}))
    }

    /// A node at resource version 5.
    fn versioned() -> Vec<Arc<Node>> {
        let mut node = node("w1");
        (node.metadata.uid, node.metadata.resource_version) = (Some("u".to_owned()), Some("5".to_owned()));
        vec![Arc::new(node)]
    }

    #[test]
    fn write_is_refused_when_the_object_is_another_or_has_changed() {
        let conflict = |change: Change| match perform_on(&mut versioned(), vec![change]) {
            Err(MemoryError::Conflict(_, error)) => error,
            found => panic!("{found:?}"),
        };
        assert_eq!(conflict(labelled(Some("4"), "2")), "it has changed since it was decided on");
        let other = ObjectRef { uid: Some("v".to_owned()), ..ObjectRef::named::<Node>("w1") };
        assert_eq!(conflict(Change::delete(other)), "another object has the name of the one that was decided on");
        let mut stale = Node::clone(&versioned()[0]);
        stale.metadata.resource_version = Some("4".to_owned());
        assert_eq!(conflict(Change::replace(&stale)), "it has changed since it was decided on");
        assert_eq!(conflict(Change::apply(&stale)), "it has changed since it was decided on");
        let mut nodes = Vec::new();
        assert!(matches!(perform_on(&mut nodes, vec![Change::apply(&stale)]), Err(MemoryError::Conflict(..))));

        let mut nodes = versioned();
        perform_on(&mut nodes, vec![labelled(Some("5"), "1")]).unwrap();
        assert_eq!(nodes[0].resource_version().as_deref(), Some("5"), "nothing was written");
        perform_on(&mut nodes, vec![labelled(Some("5"), "2"), labelled(Some("5"), "3")]).unwrap();
        assert_eq!((nodes[0].resource_version().as_deref(), nodes[0].labels()["a"].as_str()), (Some("7"), "3"));
        let after_an_unbound_one = perform_on(&mut nodes, vec![labelled(None, "4"), labelled(Some("7"), "5")]);
        assert!(matches!(after_an_unbound_one, Err(MemoryError::Conflict(..))), "another writer may have been between");
    }

    #[test]
    fn replaced_object_keeps_what_the_api_server_sets() {
        let mut nodes = versioned();
        let mut new = node("w1");
        new.metadata.labels = None;
        let replaced = Change::replace_found(&*nodes[0], &new);
        perform_on(&mut nodes, vec![replaced]).unwrap();
        assert_eq!((nodes[0].uid().as_deref(), nodes[0].resource_version().as_deref()), (Some("u"), Some("6")));
        assert!(nodes[0].labels().is_empty());
    }

    #[test]
    fn object_with_finalizers_is_marked_and_goes_with_the_last_of_them() {
        let mut nodes = versioned();
        Arc::make_mut(&mut nodes[0]).metadata.finalizers = Some(vec!["a.example.com/x".to_owned()]);
        let seen = ObjectRef::of(&*nodes[0]);
        assert!(perform_on(&mut nodes, vec![Change::delete(seen.clone())]).unwrap().is_changed);
        let time = nodes[0].metadata.deletion_timestamp.as_ref().map(|time| time.0);
        assert_eq!(time, Some(Timestamp::UNIX_EPOCH));
        assert!(!perform_on(&mut nodes, vec![Change::delete(seen)]).unwrap().is_changed);
        let removed = Change::remove_finalizer(&*nodes[0], "a.example.com/x");
        perform_on(&mut nodes, vec![removed]).unwrap();
        assert!(nodes.is_empty());
    }

    /// A node, and a patch of it that follows a patch of one that does not exist, in a stage of this flow; then a later stage.
    fn run_with_a_missing_node(stage: impl Fn(Vec<Change>) -> Stage<'static>) -> (Performed, Vec<String>) {
        let patch = |name: &str, label: &str| {
            Change::patch(ObjectRef::named::<Node>(name), json!({"metadata": {"labels": {label: "1"}}}))
        };
        let changes = vec![patch("w0", "b"), patch("w0", "c"), patch("w1", "b")];
        let decision = Decision::of([stage(changes), Stage::sequence(Purpose::Status, [patch("w1", "later")])]);
        let mut tables = Tables::default().with_objects(vec![Arc::new(node("w1"))]);
        let performed = perform(&decision, &mut tables, Timestamp::UNIX_EPOCH);
        let labels = tables.of::<Node>()[0].labels().keys().cloned().collect();
        (performed, labels)
    }

    #[test]
    fn what_is_gone_ends_a_sequence_and_nothing_else() {
        let gone = ObjectRef::named::<Node>("w0");
        let (performed, labels) = run_with_a_missing_node(|changes| Stage::sequence(Purpose::Write, changes));
        assert_eq!((performed.failures.len(), performed.stopped_at), (1, Some(Purpose::Write)));
        assert_eq!(labels, ["a"]);
        let (performed, labels) = run_with_a_missing_node(|changes| Stage::each(Purpose::Write, changes));
        assert_eq!((performed.gone.as_slice(), performed.stopped_at), (&[gone.clone(), gone.clone()][..], None));
        assert_eq!((performed.failures.len(), labels), (0, ["a", "b", "later"].map(str::to_owned).to_vec()));
        let (performed, labels) = run_with_a_missing_node(|changes| Stage::per_object(Purpose::Write, changes));
        assert_eq!(performed.gone, [gone], "a failure ends the changes of its object");
        assert_eq!((performed.failures.len(), labels), (0, ["a", "b", "later"].map(str::to_owned).to_vec()));
    }

    #[test]
    fn apply_is_a_merge_patch_that_replaces_lists_and_leaves_what_is_not_applied_any_more() {
        let with = |name: &str, taints: &[&str]| {
            let taints: Vec<Value> = taints.iter().map(|key| json!({"key": key, "effect": "NoSchedule"})).collect();
            let node = json!({"metadata": {"name": "w1", "labels": {name: "1"}}, "spec": {"taints": taints}});
            serde_json::from_value::<Node>(node).unwrap()
        };
        let mut nodes = vec![Arc::new(with("a", &["x"]))];
        perform_on(&mut nodes, vec![Change::apply(&with("b", &["y"]))]).unwrap();
        assert_eq!(nodes[0].labels().keys().collect::<Vec<_>>(), ["a", "b"]);
        let taints = nodes[0].spec.as_ref().unwrap().taints.as_ref().unwrap();
        assert_eq!(taints.iter().map(|taint| taint.key.as_str()).collect::<Vec<_>>(), ["y"]);
    }

    #[test]
    fn uid_of_a_planned_object_names_kind_namespace_and_name() {
        let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "x", "namespace": "y"}})).unwrap();
        assert_eq!(planned_uid(&ObjectRef::of(&map)), "planned-configmap-y-x");
        assert_eq!(planned_uid(&ObjectRef::named::<Node>("x")), "planned-node-x");
    }
}
