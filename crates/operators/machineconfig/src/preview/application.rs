//! A manifest that is applied to a cluster in thought.

use std::sync::Arc;

use jiff::Timestamp;
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::admission::{Admission, Effect, Objection};
use super::manifest::{LAST_APPLIED, Manifest};
use crate::rollout::to_second;
use crate::world::World;

/// What became of a manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Applied {
    /// It is new.
    New,
    /// It changes an object.
    Changed,
    /// It changes nothing.
    Same,
    /// The object that it names is gone.
    Deleted,
    /// Nothing here looks at objects of its kind.
    Ignored,
}

/// A manifest that was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Application {
    /// What became of it.
    pub outcome: Applied,
    /// What the API has dropped of it.
    pub dropped: Vec<Objection>,
}

impl World {
    /// Applies a manifest, in thought.
    ///
    /// # Errors
    ///
    /// If the API would refuse it; then nothing is changed.
    pub fn apply(
        &mut self,
        manifest: &Value,
        admission: &Admission,
        now: Timestamp,
    ) -> Result<Application, Vec<Objection>> {
        self.change(manifest, admission, Wish::Apply(now))
    }

    /// Deletes the object that a manifest names, in thought. What was made from it goes when the controllers decide.
    ///
    /// # Errors
    ///
    /// If the API would refuse it, or there is no such object; then nothing is changed.
    pub fn delete(&mut self, manifest: &Value, admission: &Admission) -> Result<Application, Vec<Objection>> {
        self.change(manifest, admission, Wish::Delete)
    }

    fn change(&mut self, manifest: &Value, admission: &Admission, wish: Wish) -> Result<Application, Vec<Objection>> {
        let by = (admission, wish);
        let text = |key: &str| manifest.get(key).and_then(Value::as_str).unwrap_or_default();
        let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
        match (group, text("kind")) {
            ("machineconfiguration.openshift.io", "MachineConfigPool") => among(&mut self.pools, manifest, by),
            ("machineconfiguration.openshift.io", "MachineConfig") => among(&mut self.machine_configs, manifest, by),
            ("machineconfiguration.openshift.io", "KubeletConfig") => among(&mut self.kubelet_configs, manifest, by),
            ("machineconfiguration.openshift.io", "ContainerRuntimeConfig") => {
                among(&mut self.container_runtime_configs, manifest, by)
            }
            ("machineconfiguration.openshift.io", "ControllerConfig") => {
                among(&mut self.controller_configs, manifest, by)
            }
            ("machineconfiguration.openshift.io", "MachineConfigNode") => among(&mut self.progress, manifest, by),
            ("operator.openshift.io", "MachineConfiguration") => among(&mut self.policies, manifest, by),
            ("", "Node") => among(&mut self.nodes, manifest, by),
            ("", "Pod") => among(self.pods.get_or_insert_default(), manifest, by),
            ("policy", "PodDisruptionBudget") => among(&mut self.budgets, manifest, by),
            _ => Ok(Application { outcome: Applied::Ignored, dropped: Vec::new() }),
        }
    }
}

/// What somebody wants done with a manifest.
#[derive(Clone, Copy)]
enum Wish {
    Apply(Timestamp),
    Delete,
}

/// Does it among the objects of its kind.
fn among<K>(
    objects: &mut Vec<Arc<K>>,
    manifest: &Value,
    (admission, wish): (&Admission, Wish),
) -> Result<Application, Vec<Objection>>
where
    K: Resource<DynamicType = ()> + Clone + Serialize + DeserializeOwned,
{
    match wish {
        Wish::Apply(now) => merge(objects, manifest, (admission, now)),
        Wish::Delete => remove(objects, manifest, admission),
    }
}

/// Takes away the object that a manifest names.
fn remove<K>(objects: &mut Vec<Arc<K>>, manifest: &Value, admission: &Admission) -> Result<Application, Vec<Objection>>
where
    K: Resource<DynamicType = ()> + Serialize,
{
    let Some(at) = position(objects, manifest) else {
        let name = manifest.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let object = format!("{} {name}", K::kind(&()));
        let message = "the cluster has none of this name, so there is nothing to delete".to_owned();
        return Err(vec![Objection { object, path: String::new(), message, effect: Effect::Refused }]);
    };
    let old = serde_json::to_value(&*objects[at]).unwrap_or_default();
    if let Some(objection) = admission.judge_deletion(&K::kind(&()), &old) {
        return Err(vec![objection]);
    }
    objects.remove(at);
    Ok(Application { outcome: Applied::Deleted, dropped: Vec::new() })
}

/// Where the object is that a manifest names.
fn position<K: Resource>(objects: &[Arc<K>], manifest: &Value) -> Option<usize> {
    let name = manifest.pointer("/metadata/name").and_then(Value::as_str);
    let namespace = manifest.pointer("/metadata/namespace").and_then(Value::as_str);
    objects.iter().position(|object| {
        object.meta().name.as_deref() == name
            && (namespace.is_none() || object.meta().namespace.as_deref() == namespace)
    })
}

/// What applying changes.
fn merge<K>(
    objects: &mut Vec<Arc<K>>,
    manifest: &Value,
    (admission, now): (&Admission, Timestamp),
) -> Result<Application, Vec<Objection>>
where
    K: Resource<DynamicType = ()> + Clone + serde::Serialize + DeserializeOwned,
{
    let name = manifest.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let kind = K::kind(&());
    let refusal = |path: &str, message: String| {
        let object = format!("{kind} {}", if name.is_empty() { "without a name" } else { name });
        vec![Objection { object, path: path.to_owned(), message, effect: Effect::Refused }]
    };
    if name.is_empty() {
        return Err(refusal("metadata.name", "Required value; give it one".to_owned()));
    }
    let old = position(objects, manifest);
    let before = old.map(|at| serde_json::to_value(&*objects[at]).unwrap_or_default());
    let applied = Manifest { json: manifest, schema: admission.schema(manifest), now };
    let mut new = match &before {
        Some(before) => {
            let mut new = applied.upon(before).map_err(|error| refusal("", error.to_string()))?;
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
    let objections = admission.judge(&mut new, before.as_ref());
    let (refused, dropped): (Vec<_>, Vec<_>) = objections.into_iter().partition(Objection::is_refusal);
    if !refused.is_empty() {
        return Err(refused);
    }
    let read = serde_json::from_value::<K>(new).map_err(|error| refusal("", error.to_string()));
    let mut object = read?;
    let after = serde_json::to_value(&object).unwrap_or_default();
    let Some((before, at)) = before.zip(old) else {
        objects.push(Arc::new(object));
        return Ok(Application { outcome: Applied::New, dropped });
    };
    if after.get("spec") != before.get("spec") {
        object.meta_mut().generation = Some(object.meta().generation.unwrap_or_default() + 1);
    }
    let outcome = if without_records(after) == without_records(before) { Applied::Same } else { Applied::Changed };
    objects[at] = Arc::new(object);
    Ok(Application { outcome, dropped })
}

/// An object without what is written down about who applied what.
fn without_records(mut object: Value) -> Value {
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

    /// What is left of a pool when a manifest of its budget comes upon it, without a cluster.
    fn with_a_budget(first: &Value) -> Value {
        let mut world = World::default();
        let mut second = first.clone();
        second["metadata"] = json!({"name": "a"});
        second["spec"] = json!({"maxUnavailable": 2});
        for (manifest, outcome) in [(first, Applied::New), (&second, Applied::Changed), (&second, Applied::Same)] {
            let applied = world.apply(manifest, &Admission::of_state(), Timestamp::UNIX_EPOCH).unwrap();
            assert_eq!(applied, Application { outcome, dropped: Vec::new() });
        }
        json!(world.pools[0].spec)
    }

    #[test]
    fn second_manifest_says_all_unless_the_first_was_read_from_a_cluster() {
        let mut first = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
            "metadata": {"name": "a"}, "spec": {"maxUnavailable": 1, "paused": true},
        });
        assert_eq!(with_a_budget(&first), json!({"maxUnavailable": 2}));
        first["metadata"]["uid"] = json!("u");
        assert_eq!(with_a_budget(&first), json!({"maxUnavailable": 2, "paused": true}));
    }
}
