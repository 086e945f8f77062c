//! Apply: applies and deletes manifests in a cluster state, in memory.

use std::sync::Arc;

use jiff::Timestamp;
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::admission::{Admission, AdmissionIssue, Effect};
use super::manifest::{LAST_APPLIED, Manifest};
use crate::cluster_state::ClusterState;
use crate::rollout::to_second;

/// The outcome of applying or deleting a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum ApplyOutcome {
    /// The object is created.
    New,
    Changed,
    /// Nothing changes.
    Same,
    Deleted,
    /// The controllers do not read objects of its kind.
    Ignored,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplyResult {
    pub outcome: ApplyOutcome,
    /// The fields that the API drops.
    pub dropped: Vec<AdmissionIssue>,
}

impl ClusterState {
    /// Applies a manifest, in memory.
    ///
    /// # Errors
    ///
    /// If the API would refuse it; then nothing is changed.
    pub fn apply(
        &mut self,
        manifest: &Value,
        admission: &Admission,
        now: Timestamp,
    ) -> Result<ApplyResult, Vec<AdmissionIssue>> {
        self.change(manifest, admission, Operation::Apply(now))
    }

    /// Deletes the object that a manifest names, in memory. What was generated from it is deleted when the controllers decide.
    ///
    /// # Errors
    ///
    /// If the API would refuse it, or there is no such object; then nothing is changed.
    pub fn delete(&mut self, manifest: &Value, admission: &Admission) -> Result<ApplyResult, Vec<AdmissionIssue>> {
        self.change(manifest, admission, Operation::Delete)
    }

    fn change(
        &mut self,
        manifest: &Value,
        admission: &Admission,
        operation: Operation,
    ) -> Result<ApplyResult, Vec<AdmissionIssue>> {
        let by = (admission, operation);
        let text = |key: &str| manifest.get(key).and_then(Value::as_str).unwrap_or_default();
        let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
        match (group, text("kind")) {
            ("machineconfiguration.openshift.io", "MachineConfigPool") => change_in(&mut self.pools, manifest, by),
            ("machineconfiguration.openshift.io", "MachineConfig") => {
                change_in(&mut self.machine_configs, manifest, by)
            }
            ("machineconfiguration.openshift.io", "KubeletConfig") => {
                change_in(&mut self.kubelet_configs, manifest, by)
            }
            ("machineconfiguration.openshift.io", "ContainerRuntimeConfig") => {
                change_in(&mut self.container_runtime_configs, manifest, by)
            }
            ("machineconfiguration.openshift.io", "ControllerConfig") => {
                change_in(&mut self.controller_configs, manifest, by)
            }
            ("machineconfiguration.openshift.io", "MachineConfigNode") => change_in(&mut self.progress, manifest, by),
            ("operator.openshift.io", "MachineConfiguration") => change_in(&mut self.policies, manifest, by),
            ("", "Node") => change_in(&mut self.nodes, manifest, by),
            ("", "Pod") => change_in(self.pods.get_or_insert_default(), manifest, by),
            ("policy", "PodDisruptionBudget") => change_in(&mut self.budgets, manifest, by),
            _ => Ok(ApplyResult { outcome: ApplyOutcome::Ignored, dropped: Vec::new() }),
        }
    }
}

#[derive(Clone, Copy)]
enum Operation {
    Apply(Timestamp),
    Delete,
}

/// Performs the operation on the objects of one kind.
fn change_in<K>(
    objects: &mut Vec<Arc<K>>,
    manifest: &Value,
    (admission, operation): (&Admission, Operation),
) -> Result<ApplyResult, Vec<AdmissionIssue>>
where
    K: Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned,
{
    match operation {
        Operation::Apply(now) => merge(objects, manifest, (admission, now)),
        Operation::Delete => remove(objects, manifest, admission),
    }
}

/// Removes the object that a manifest names.
fn remove<K>(
    objects: &mut Vec<Arc<K>>,
    manifest: &Value,
    admission: &Admission,
) -> Result<ApplyResult, Vec<AdmissionIssue>>
where
    K: Resource<DynamicType = ()> + Serialize,
{
    let Some(at) = position(objects, manifest) else {
        let name = manifest.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let object = format!("{} {name}", K::kind(&()));
        let message = "not found, so there is nothing to delete".to_owned();
        return Err(vec![AdmissionIssue { object, path: String::new(), message, effect: Effect::Refused }]);
    };
    let old = serde_json::to_value(&*objects[at]).unwrap_or_default();
    if let Some(issue) = admission.validate_deletion(&K::kind(&()), &old) {
        return Err(vec![issue]);
    }
    objects.remove(at);
    Ok(ApplyResult { outcome: ApplyOutcome::Deleted, dropped: Vec::new() })
}

/// The index of the object that a manifest names.
fn position<K: Resource>(objects: &[Arc<K>], manifest: &Value) -> Option<usize> {
    let name = manifest.pointer("/metadata/name").and_then(Value::as_str);
    let namespace = manifest.pointer("/metadata/namespace").and_then(Value::as_str);
    objects.iter().position(|object| {
        object.meta().name.as_deref() == name
            && (namespace.is_none() || object.meta().namespace.as_deref() == namespace)
    })
}

/// Merges a manifest into the object that it names, or adds it.
fn merge<K>(
    objects: &mut Vec<Arc<K>>,
    manifest: &Value,
    (admission, now): (&Admission, Timestamp),
) -> Result<ApplyResult, Vec<AdmissionIssue>>
where
    K: Resource<DynamicType = ()> + Clone + serde::Serialize + DeserializeOwned,
{
    let name = manifest.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let kind = K::kind(&());
    let refusal = |path: &str, message: String| {
        let object = format!("{kind} {}", if name.is_empty() { "without a name" } else { name });
        vec![AdmissionIssue { object, path: path.to_owned(), message, effect: Effect::Refused }]
    };
    if name.is_empty() {
        return Err(refusal("metadata.name", "Required value; add a name".to_owned()));
    }
    let old = position(objects, manifest);
    let before = old.map(|at| serde_json::to_value(&*objects[at]).unwrap_or_default());
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
            fill("uid", json!(format!("planned-{}-{name}", kind.to_lowercase())));
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
    let read = serde_json::from_value::<K>(new).map_err(|error| refusal("", error.to_string()));
    let mut object = read?;
    let after = serde_json::to_value(&object).unwrap_or_default();
    let Some((before, at)) = before.zip(old) else {
        objects.push(Arc::new(object));
        return Ok(ApplyResult { outcome: ApplyOutcome::New, dropped });
    };
    if after.get("spec") != before.get("spec") {
        object.meta_mut().generation = Some(object.meta().generation.unwrap_or_default() + 1);
    }
    let outcome =
        if without_ownership(after) == without_ownership(before) { ApplyOutcome::Same } else { ApplyOutcome::Changed };
    objects[at] = Arc::new(object);
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
            let applied = cluster.apply(manifest, &Admission::of_state(), Timestamp::UNIX_EPOCH).unwrap();
            assert_eq!(applied, ApplyResult { outcome, dropped: Vec::new() });
        }
        json!(cluster.pools[0].spec)
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
