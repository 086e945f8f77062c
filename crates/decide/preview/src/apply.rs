//! Apply: applies and deletes manifests in memory, as kubectl does in a cluster.

use k8s_openapi::jiff::Timestamp;
use seaworthy_change::memory::planned_uid;
use seaworthy_change::{ObjectRef, ResourceType, Table, Tables, group_and_kind, to_second};
use serde::Serialize;
use serde_json::{Value, json};

use crate::admission::{Admission, AdmissionIssue};
use crate::manifest::{LAST_APPLIED, Manifest};

/// The outcome of applying or deleting a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum ApplyOutcome {
    /// The object is created.
    New,
    Changed,
    /// Nothing changes.
    Same,
    Deleted,
    /// No operator reads objects of its kind.
    Ignored,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplyResult {
    pub outcome: ApplyOutcome,
    /// The fields that the API drops.
    pub dropped: Vec<AdmissionIssue>,
}

impl ApplyResult {
    fn of(outcome: ApplyOutcome) -> ApplyResult {
        ApplyResult { outcome, dropped: Vec::new() }
    }
}

/// Applies a manifest, in this namespace if it names none.
///
/// # Errors
///
/// If the API would refuse it; then nothing is changed.
pub fn apply(
    objects: &mut Tables,
    manifest: &Value,
    namespace: &str,
    admission: &Admission,
    now: Timestamp,
) -> Result<ApplyResult, Vec<AdmissionIssue>> {
    let Some(table) = table_of(objects, manifest) else { return Ok(ApplyResult::of(ApplyOutcome::Ignored)) };
    let object = object_of(manifest, namespace, table.resource());
    refuse_names_of_another_type(manifest, &object)?;
    if object.name.is_empty() {
        return Err(vec![AdmissionIssue::refused(object, "metadata.name", "Required value; add a name".to_owned())]);
    }
    let refusal = |path: &str, message: String| vec![AdmissionIssue::refused(object.clone(), path, message)];
    let before = table.get(&object);
    let applied = Manifest {
        json: manifest,
        schema: admission.schema(manifest),
        controlled_fields: admission.controlled_fields(manifest),
        now,
    };
    let mut new = match &before {
        Some(before) => {
            let mut new = applied.apply_to(before).map_err(|error| refusal("", error.to_string()))?;
            if let (None, Some(status)) = (before.get("status"), manifest.get("status")) {
                new["status"] = status.clone();
            }
            new
        }
        None => created(&applied, &object),
    };
    if let Some(namespace) = &object.namespace {
        new["metadata"]["namespace"] = json!(namespace);
    }
    let issues = admission.validate(&object, &mut new, before.as_ref());
    let (refused, dropped): (Vec<_>, Vec<_>) = issues.into_iter().partition(AdmissionIssue::is_refusal);
    if !refused.is_empty() {
        return Err(refused);
    }
    let is_changed = table.put(new).map_err(|error| refusal("", error.to_string()))?;
    // Converted only if there is something to compare.
    let Some(before) = before else { return Ok(ApplyResult { outcome: ApplyOutcome::New, dropped }) };
    if !is_changed {
        return Ok(ApplyResult { outcome: ApplyOutcome::Same, dropped });
    }
    // As the kind's type reads it: without what that does not know.
    let mut after = table.get(&object).unwrap_or_default();
    let outcome = match without_ownership(after.clone()) == without_ownership(before.clone()) {
        true => ApplyOutcome::Same,
        false => ApplyOutcome::Changed,
    };
    if after.get("spec") != before.get("spec") {
        let generation = before.pointer("/metadata/generation").and_then(Value::as_i64);
        after["metadata"]["generation"] = json!(generation.unwrap_or_default() + 1);
        table.put(after).map_err(|error| refusal("", error.to_string()))?;
    }
    Ok(ApplyResult { outcome, dropped })
}

/// Deletes the object that a manifest names, in this namespace if it names none. What was generated from it is deleted when the
/// controllers decide.
///
/// # Errors
///
/// If the API would refuse it, or there is no such object; then nothing is changed.
pub fn delete(
    objects: &mut Tables,
    manifest: &Value,
    namespace: &str,
    admission: &Admission,
) -> Result<ApplyResult, Vec<AdmissionIssue>> {
    let Some(table) = table_of(objects, manifest) else { return Ok(ApplyResult::of(ApplyOutcome::Ignored)) };
    let object = object_of(manifest, namespace, table.resource());
    refuse_names_of_another_type(manifest, &object)?;
    let Some(old) = table.get(&object) else {
        let message = "not found, so there is nothing to delete".to_owned();
        return Err(vec![AdmissionIssue::refused(object, "", message)]);
    };
    if let Some(issue) = admission.validate_deletion(&object, &old) {
        return Err(vec![issue]);
    }
    table.remove(&object);
    Ok(ApplyResult::of(ApplyOutcome::Deleted))
}

/// The object that a manifest of this type names, in this namespace if it names none.
pub fn object_of(manifest: &Value, namespace: &str, resource: &ResourceType) -> ObjectRef {
    let text = |key: &str| manifest.pointer(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let namespace = text("/metadata/namespace").unwrap_or(namespace).to_owned();
    ObjectRef {
        namespace: Some(namespace).filter(|_| resource.is_namespaced),
        name: text("/metadata/name").unwrap_or_default().to_owned(),
        resource: resource.clone(),
        ..ObjectRef::default()
    }
}

/// The table of a manifest's kind.
fn table_of<'t>(objects: &'t mut Tables, manifest: &Value) -> Option<&'t mut dyn Table> {
    let (group, kind) = group_and_kind(manifest);
    objects.of_kind_mut(group, kind)
}

/// Refuses a name or a namespace that is not a string. `null` is no value, as the API takes it.
fn refuse_names_of_another_type(manifest: &Value, object: &ObjectRef) -> Result<(), Vec<AdmissionIssue>> {
    let issue = |field: &str| {
        let found = match manifest.get("metadata")?.get(field)? {
            Value::Null | Value::String(_) => return None,
            Value::Array(_) => "a list".to_owned(),
            Value::Object(_) => "an object".to_owned(),
            found => found.to_string(),
        };
        let message = format!("must be a string; found {found}");
        Some(AdmissionIssue::refused(object.clone(), &format!("metadata.{field}"), message))
    };
    let issues: Vec<AdmissionIssue> = ["name", "namespace"].into_iter().filter_map(issue).collect();
    if issues.is_empty() { Ok(()) } else { Err(issues) }
}

/// The object that a manifest creates, as the API server would store it: with an identity.
fn created(manifest: &Manifest<'_>, object: &ObjectRef) -> Value {
    let mut new = manifest.json.clone();
    let metadata = &mut new["metadata"];
    let mut fill = |key: &str, value: Value| {
        if metadata.get(key).is_none_or(Value::is_null) {
            metadata[key] = value;
        }
    };
    fill("uid", json!(planned_uid(object)));
    fill("generation", json!(1));
    fill("creationTimestamp", json!(to_second(manifest.now).to_string()));
    if let Some(ownership) = manifest.ownership() {
        fill("managedFields", ownership);
    }
    new
}

/// An object without the records of field ownership.
fn without_ownership(mut object: Value) -> Value {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(LAST_APPLIED);
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use k8s_openapi::api::policy::v1::PodDisruptionBudget;
    use seaworthy_api::machineconfiguration::{self, MachineConfigPool};

    use super::*;

    fn admission() -> Admission {
        Admission::of(machineconfiguration::definitions(), Vec::new())
    }

    /// The spec of a pool after a manifest with a budget is applied to it, without a cluster.
    fn with_a_budget(first: &Value) -> Value {
        let mut objects = Tables::default().with::<MachineConfigPool>();
        let mut second = first.clone();
        second["metadata"] = json!({"name": "a"});
        second["spec"] = json!({"maxUnavailable": 2});
        for (manifest, outcome) in
            [(first, ApplyOutcome::New), (&second, ApplyOutcome::Changed), (&second, ApplyOutcome::Same)]
        {
            let applied = apply(&mut objects, manifest, "default", &admission(), Timestamp::UNIX_EPOCH).unwrap();
            assert_eq!(applied, ApplyResult { outcome, dropped: Vec::new() });
        }
        json!(objects.of::<MachineConfigPool>()[0].spec)
    }

    #[test]
    fn second_manifest_replaces_the_first_unless_that_was_read_from_a_cluster() {
        let mut first = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
            "metadata": {"name": "a"}, "spec": {"maxUnavailable": 1, "paused": true},
        });
        assert_eq!(with_a_budget(&first), json!({"maxUnavailable": 2}));
        first["metadata"]["uid"] = json!("u");
        assert_eq!(with_a_budget(&first), json!({"maxUnavailable": 2, "paused": true}));
    }

    #[test]
    fn manifest_without_a_namespace_is_in_the_one_of_the_context() {
        let budget = |namespace: Option<&str>| {
            json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "db", "namespace": namespace},
                "spec": {"minAvailable": 1},
            })
        };
        let (mut objects, admission) = (Tables::default().with::<PodDisruptionBudget>(), admission());
        let mut outcome = |manifest: &Value, namespace: &str| {
            apply(&mut objects, manifest, namespace, &admission, Timestamp::UNIX_EPOCH).unwrap().outcome
        };
        assert_eq!(outcome(&budget(Some("shop")), "default"), ApplyOutcome::New);
        assert_eq!(outcome(&budget(None), "default"), ApplyOutcome::New);
        assert_eq!(outcome(&budget(None), "shop"), ApplyOutcome::Same);
        assert!(delete(&mut objects, &budget(None), "office", &admission).is_err());
        let deleted = delete(&mut objects, &budget(None), "shop", &admission).unwrap();
        assert_eq!(deleted.outcome, ApplyOutcome::Deleted);
        let left = objects.of::<PodDisruptionBudget>().iter().map(|budget| budget.metadata.namespace.as_deref());
        assert_eq!(left.collect::<Vec<_>>(), [Some("default")]);
    }

    #[test]
    fn name_or_namespace_that_is_not_a_string_is_refused() {
        let budget =
            |metadata: Value| json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata});
        let (mut objects, admission) = (Tables::default().with::<PodDisruptionBudget>(), admission());
        for (metadata, refused) in [
            (json!({"name": "db", "namespace": 5}), vec!["metadata.namespace: must be a string; found 5"]),
            (json!({"name": ["db"]}), vec!["metadata.name: must be a string; found a list"]),
            (json!({"name": "db", "namespace": null}), vec![]),
        ] {
            let manifest = budget(metadata);
            let applied = apply(&mut objects, &manifest, "shop", &admission, Timestamp::UNIX_EPOCH);
            let issues = applied.err().unwrap_or_default();
            let issues: Vec<String> = issues.iter().map(|issue| format!("{}: {}", issue.path, issue.message)).collect();
            assert_eq!(issues, refused, "{manifest}");
        }
        assert!(delete(&mut objects, &budget(json!({"name": "db", "namespace": 5})), "shop", &admission).is_err());
        let left = objects.of::<PodDisruptionBudget>().iter().map(|budget| budget.metadata.namespace.as_deref());
        assert_eq!(left.collect::<Vec<_>>(), [Some("shop")]);
    }

    #[test]
    fn manifest_of_an_unknown_kind_is_ignored_and_one_without_a_name_refused() {
        let node = |name: &str| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        let mut objects = Tables::default();
        let applied = |objects: &mut Tables, name: &str| {
            apply(objects, &node(name), "default", &admission(), Timestamp::UNIX_EPOCH)
        };
        assert_eq!(applied(&mut objects, "").unwrap().outcome, ApplyOutcome::Ignored);
        let mut objects = objects.with::<Node>();
        let issue = applied(&mut objects, "").unwrap_err()[0].to_string();
        assert!(issue.starts_with("Node without a name, metadata.name: Required value"), "{issue}");
        assert_eq!(applied(&mut objects, "w1").unwrap().outcome, ApplyOutcome::New);
    }
}
