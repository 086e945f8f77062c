//! Apply: applies and deletes manifests in a cluster state, in memory.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use seaworthy_api::meta::is_object;
use seaworthy_change::memory::planned_uid;
use seaworthy_change::{ObjectRef, ResourceType, Table, to_second};
use serde::Serialize;
use serde_json::{Value, json};

use super::admission::{Admission, AdmissionIssue, Effect};
use super::manifest::{LAST_APPLIED, Manifest};
use crate::cluster_state::ClusterState;
use seaworthy_runtime::tables::OmittedKind;

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

impl ClusterState {
    /// Applies a manifest, in memory, in this namespace if it names none.
    ///
    /// # Errors
    ///
    /// If the API would refuse it; then nothing is changed.
    pub fn apply(
        &mut self,
        manifest: &Value,
        namespace: &str,
        admission: &Admission,
        now: Timestamp,
    ) -> Result<ApplyResult, Vec<AdmissionIssue>> {
        self.change(manifest, namespace, admission, Operation::Apply(now))
    }

    /// Deletes the object that a manifest names, in memory, in this namespace if it names none. What was generated from it is
    /// deleted when the controllers decide.
    ///
    /// # Errors
    ///
    /// If the API would refuse it, or there is no such object; then nothing is changed.
    pub fn delete(
        &mut self,
        manifest: &Value,
        namespace: &str,
        admission: &Admission,
    ) -> Result<ApplyResult, Vec<AdmissionIssue>> {
        self.change(manifest, namespace, admission, Operation::Delete)
    }

    fn change(
        &mut self,
        manifest: &Value,
        namespace: &str,
        admission: &Admission,
        operation: Operation,
    ) -> Result<ApplyResult, Vec<AdmissionIssue>> {
        let text = |key: &str| manifest.get(key).and_then(Value::as_str).unwrap_or_default();
        let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
        if is_object::<Pod>(manifest) {
            // Pods are not read for every command. Where they are given, the drains that they block are shown.
            self.add_pods();
        }
        if let Some(OmittedKind { resource, .. }) = self.not_served(group, text("kind")) {
            let object = object_of(manifest, namespace, resource);
            let message = format!(
                "the cluster does not serve {} {} (404); to install it: seaworthy crds | kubectl apply --server-side -f -",
                resource.api_version(),
                resource.plural
            );
            let object = format!("{} {}", object.resource, object.name);
            return Err(vec![AdmissionIssue { object, path: String::new(), message, effect: Effect::Refused }]);
        }
        let Some(table) = self.objects_mut().of_kind_mut(group, text("kind")) else {
            return Ok(ApplyResult { outcome: ApplyOutcome::Ignored, dropped: Vec::new() });
        };
        match operation {
            Operation::Apply(now) => merge(table, manifest, namespace, admission, now),
            Operation::Delete => remove(table, manifest, namespace, admission),
        }
    }
}

#[derive(Clone, Copy)]
enum Operation {
    Apply(Timestamp),
    Delete,
}

/// The object that a manifest names, in this namespace if it names none.
fn object_of(manifest: &Value, namespace: &str, resource: &ResourceType) -> ObjectRef {
    let text = |key: &str| manifest.pointer(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let namespace = text("/metadata/namespace").unwrap_or(namespace).to_owned();
    ObjectRef {
        namespace: Some(namespace).filter(|_| resource.is_namespaced),
        name: text("/metadata/name").unwrap_or_default().to_owned(),
        resource: resource.clone(),
        ..ObjectRef::default()
    }
}

/// Removes the object that a manifest names.
fn remove(
    table: &mut dyn Table,
    manifest: &Value,
    namespace: &str,
    admission: &Admission,
) -> Result<ApplyResult, Vec<AdmissionIssue>> {
    let object = object_of(manifest, namespace, table.resource());
    let Some(old) = table.get(&object) else {
        let message = "not found, so there is nothing to delete".to_owned();
        let object = format!("{} {}", object.resource, object.name);
        return Err(vec![AdmissionIssue { object, path: String::new(), message, effect: Effect::Refused }]);
    };
    if let Some(issue) = admission.validate_deletion(&old) {
        return Err(vec![issue]);
    }
    table.remove(&object);
    Ok(ApplyResult { outcome: ApplyOutcome::Deleted, dropped: Vec::new() })
}

/// Merges a manifest into the object that it names, or adds it.
fn merge(
    table: &mut dyn Table,
    manifest: &Value,
    namespace: &str,
    admission: &Admission,
    now: Timestamp,
) -> Result<ApplyResult, Vec<AdmissionIssue>> {
    let object = object_of(manifest, namespace, table.resource());
    let (name, kind) = (object.name.as_str(), &object.resource.kind);
    let refusal = |path: &str, message: String| {
        let object = format!("{kind} {}", if name.is_empty() { "without a name" } else { name });
        vec![AdmissionIssue { object, path: path.to_owned(), message, effect: Effect::Refused }]
    };
    if name.is_empty() {
        return Err(refusal("metadata.name", "Required value; add a name".to_owned()));
    }
    let before = table.get(&object);
    let applied = Manifest { json: manifest, schema: admission.schema(manifest), now };
    let mut new = match &before {
        Some(before) => {
            let mut new = applied.apply_to(before).map_err(|error| refusal("", error.to_string()))?;
            if let (None, Some(status)) = (before.get("status"), manifest.get("status")) {
                new["status"] = status.clone();
            }
            new
        }
        None => {
            let mut new = manifest.clone();
            let metadata = &mut new["metadata"];
            let mut fill = |key: &str, value: Value| {
                if metadata.get(key).is_none_or(Value::is_null) {
                    metadata[key] = value;
                }
            };
            if let Some(namespace) = &object.namespace {
                fill("namespace", json!(namespace));
            }
            fill("uid", json!(planned_uid(&object)));
            fill("generation", json!(1));
            fill("creationTimestamp", json!(to_second(now).to_string()));
            if let Some(ownership) = applied.ownership() {
                fill("managedFields", ownership);
            }
            new
        }
    };
    let issues = admission.validate(&mut new, before.as_ref());
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
    let generation = before.pointer("/metadata/generation").and_then(Value::as_i64);
    let outcome = match without_ownership(after.clone()) == without_ownership(before.clone()) {
        true => ApplyOutcome::Same,
        false => ApplyOutcome::Changed,
    };
    if after.get("spec") != before.get("spec") {
        after["metadata"]["generation"] = json!(generation.unwrap_or_default() + 1);
        table.put(after).map_err(|error| refusal("", error.to_string()))?;
    }
    Ok(ApplyResult { outcome, dropped })
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
    use super::*;

    /// The spec of a pool after a manifest with a budget is applied to it, without a cluster.
    fn with_a_budget(first: &Value) -> Value {
        let mut cluster = ClusterState::default();
        let mut second = first.clone();
        second["metadata"] = json!({"name": "a"});
        second["spec"] = json!({"maxUnavailable": 2});
        for (manifest, outcome) in
            [(first, ApplyOutcome::New), (&second, ApplyOutcome::Changed), (&second, ApplyOutcome::Same)]
        {
            let applied = cluster.apply(manifest, "default", &Admission::of_state(), Timestamp::UNIX_EPOCH).unwrap();
            assert_eq!(applied, ApplyResult { outcome, dropped: Vec::new() });
        }
        json!(cluster.pools()[0].spec)
    }

    #[test]
    fn manifest_without_a_namespace_is_in_the_one_of_the_context() {
        let budget = |namespace: Option<&str>| {
            json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "db", "namespace": namespace},
                "spec": {"minAvailable": 1},
            })
        };
        let (mut cluster, admission) = (ClusterState::default(), Admission::of_changes());
        let mut outcome = |manifest: &Value, namespace: &str| {
            cluster.apply(manifest, namespace, &admission, Timestamp::UNIX_EPOCH).unwrap().outcome
        };
        assert_eq!(outcome(&budget(Some("shop")), "default"), ApplyOutcome::New);
        assert_eq!(outcome(&budget(None), "default"), ApplyOutcome::New);
        assert_eq!(outcome(&budget(None), "shop"), ApplyOutcome::Same);
        assert!(cluster.delete(&budget(None), "office", &admission).is_err());
        assert_eq!(cluster.delete(&budget(None), "shop", &admission).unwrap().outcome, ApplyOutcome::Deleted);
        let left: Vec<_> = cluster.budgets().iter().map(|budget| budget.metadata.namespace.as_deref()).collect();
        assert_eq!(left, [Some("default")]);
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
}
