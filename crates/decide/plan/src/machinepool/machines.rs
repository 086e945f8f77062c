//! Machines: one for each machine of a provider that asks for it, so that each can be drained and repaired by itself.
//!
//! - A Machine belongs to the machine of the provider that its `infrastructureRef` names. New ones have its name.
//! - A Machine of that name that is another's is never taken over.
//! - Single machines are removed by the provider; a Machine whose machine is gone is removed here.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use kube::{Resource as _, ResourceExt as _};
use seaworthy_api::cluster::v1beta2::{Machine, MachinePool};
use seaworthy_api::meta::{Condition, ConditionStatus};
use seaworthy_api::text::Text;
use seaworthy_api::unknown::Unknown;
use seaworthy_api::vocabulary::cluster::{ConditionReason, MACHINE_POOL_MANAGER, MachineCondition, label};
use seaworthy_api::words::Open;
use seaworthy_change::{Action, Change, ObjectRef, ResourceType, to_second};
use serde_json::{Map, Value, json};

use super::inputs::InfraMachine;
use super::node_index::NodeIndex;
use super::owner::{is_pool, pool_reference};
use super::pool_name;
use super::report::Problem;

/// What was decided about the Machines of a pool.
#[derive(Debug, Default)]
pub struct Machines {
    /// Creations, updates, conditions and deletions.
    pub changes: Vec<Change>,
    pub problems: Vec<Problem>,
}

/// What the decision depends on.
#[derive(Clone, Copy, Debug)]
pub struct MachineInputs<'a> {
    pub pool: &'a MachinePool,
    pub cluster: &'a str,
    /// The provider's machines, if they are known.
    pub infra_machines: Option<&'a [InfraMachine]>,
    pub machines: &'a [Arc<Machine>],
    /// The Nodes, if they are known.
    pub nodes: Option<&'a NodeIndex>,
    pub now: Timestamp,
}

/// The Machines that count as the pool's: with its labels, and not controlled by anything else.
pub fn of_pool(pool: &MachinePool, cluster: &str, machines: &[Arc<Machine>]) -> Vec<Arc<Machine>> {
    let value = pool_name::label_value(&pool.name_any());
    machines.iter().filter(|machine| foreign_owner(pool, cluster, &value, machine).is_none()).cloned().collect()
}

/// Decides about the Machines of a pool.
pub fn decide(inputs: MachineInputs<'_>) -> Machines {
    let MachineInputs { pool, cluster, machines, now, .. } = inputs;
    let value = pool_name::label_value(&pool.name_any());
    let mut decided = Machines::default();
    let mut own: Vec<&Arc<Machine>> = Vec::new();
    let mut foreign: HashMap<&str, String> = HashMap::new();
    for machine in machines {
        match foreign_owner(pool, cluster, &value, machine) {
            None => own.push(machine),
            Some(owner) => {
                foreign.insert(machine.metadata.name.as_deref().unwrap_or_default(), owner);
            }
        }
    }
    if let Some(infra_machines) = inputs.infra_machines {
        let by_infra: HashMap<(&str, &str), &Arc<Machine>> =
            own.iter().map(|machine| (key(machine), *machine)).collect();
        for infra in infra_machines {
            let paired = by_infra.get(&(infra.kind.as_str(), infra.name.as_str()));
            match (paired, foreign.get(infra.name.as_str())) {
                (Some(machine), _) if machine.metadata.deletion_timestamp.is_some() => {}
                (Some(machine), _) => decided.changes.extend(update(inputs, &value, infra, machine)),
                // Differs: a machine that is being deleted gets no new Machine; upstream creates it.
                (None, _) if infra.is_deleting => {}
                // Differs: a Machine of that name that belongs to another stays as it is; upstream takes it over.
                (None, Some(owner)) => decided.problems.push(Problem::ForeignMachine {
                    machine: infra.name.clone(),
                    owner: owner.clone(),
                    pool: pool.name_any(),
                }),
                (None, None) => decided.changes.extend(creation(inputs, &value, infra)),
            }
        }
        let existing: HashSet<(&str, &str)> =
            infra_machines.iter().map(|infra| (infra.kind.as_str(), infra.name.as_str())).collect();
        let kinds: HashSet<&str> = infra_machines.iter().map(|infra| infra.kind.as_str()).collect();
        // Differs: a Machine whose machine is gone is deleted; upstream leaves it.
        let is_orphan = |machine: &&&Arc<Machine>| {
            is_controlled(pool, machine)
                && machine.metadata.deletion_timestamp.is_none()
                && !existing.contains(&key(machine))
                && (kinds.is_empty() || kinds.contains(key(machine).0))
        };
        decided.changes.extend(own.iter().filter(is_orphan).map(|machine| Change::delete(ObjectRef::of(&***machine))));
    }
    decided.changes.extend(own.iter().filter_map(|machine| up_to_date(machine, now)));
    decided
}

/// What a Machine is paired by: kind and name of its machine.
fn key(machine: &Machine) -> (&str, &str) {
    let reference = &machine.spec.infrastructure_ref;
    (&reference.kind, &reference.name)
}

fn is_controlled(pool: &MachinePool, machine: &Machine) -> bool {
    let mut owners = machine.metadata.owner_references.iter().flatten();
    owners.any(|owner| owner.controller == Some(true) && Some(&owner.uid) == pool.metadata.uid.as_ref())
}

/// Whom a Machine belongs to, if not to the pool.
fn foreign_owner(pool: &MachinePool, cluster: &str, value: &str, machine: &Machine) -> Option<String> {
    let mut owners = machine.metadata.owner_references.iter().flatten();
    if let Some(owner) = owners.find(|owner| owner.controller == Some(true)) {
        let is_ours = is_pool(pool, owner) && Some(&owner.uid) == pool.metadata.uid.as_ref();
        return (!is_ours).then(|| format!("{} {}", owner.kind, owner.name));
    }
    let has_labels = label::CLUSTER_NAME.of(&machine.metadata) == Some(cluster)
        && label::POOL_NAME.of(&machine.metadata) == Some(value);
    (!has_labels).then(|| "no pool".to_owned())
}

/// The changes that create a Machine.
///
/// Differs: it is created before it is applied, because an apply would take over a Machine of that name which was created since.
/// The creation has only what never changes: what is created is not removed by a later apply.
fn creation(inputs: MachineInputs<'_>, value: &str, infra: &InfraMachine) -> [Change; 2] {
    let object = machine_ref(inputs.pool, &infra.name);
    let full = body(inputs, value, infra, &infra.name, None);
    let mut first = full.clone();
    let labels = json!({label::CLUSTER_NAME.as_str(): inputs.cluster, label::POOL_NAME.as_str(): value});
    first["metadata"]["labels"] = labels;
    if let Some(Value::Object(metadata)) = first.get_mut("metadata") {
        metadata.remove("annotations");
    }
    if let Some(Value::Object(spec)) = first.get_mut("spec") {
        spec.retain(|key, _| ["clusterName", "bootstrap", "infrastructureRef"].contains(&key.as_str()));
    }
    [Change { object: object.clone(), action: Action::Create(first) }, Change { object, action: Action::Apply(full) }]
}

fn update(inputs: MachineInputs<'_>, value: &str, infra: &InfraMachine, machine: &Machine) -> Option<Change> {
    let name = machine.name_any();
    let mut body = body(inputs, value, infra, &name, Some(machine));
    // Objects with text for keys have a JSON form.
    let found = serde_json::to_value(machine).unwrap_or_default();
    if is_part(&body, &found) && !has_leftovers(&body, machine) {
        return None;
    }
    // Bound to this Machine in this state: one that has its name since is another one, and its condition, which is written next,
    // is bound to what this leaves.
    for (key, value) in [("uid", &machine.metadata.uid), ("resourceVersion", &machine.metadata.resource_version)] {
        if let Some(value) = value {
            body["metadata"][key] = json!(value);
        }
    }
    Some(Change { object: machine_ref(inputs.pool, &name), action: Action::Apply(body) })
}

fn machine_ref(pool: &MachinePool, name: &str) -> ObjectRef {
    ObjectRef {
        resource: ResourceType::of::<Machine>(),
        namespace: pool.metadata.namespace.clone(),
        name: name.to_owned(),
        ..ObjectRef::default()
    }
}

/// What is applied.
///
/// Differs: the group of the provider's machine is its own, and timeouts, `minReadySeconds` and readiness gates of the template
/// are applied too, because upstream takes the pool's group and drops these.
fn body(inputs: MachineInputs<'_>, value: &str, infra: &InfraMachine, name: &str, found: Option<&Machine>) -> Value {
    let MachineInputs { pool, cluster, nodes, .. } = inputs;
    let template = &pool.spec.template;
    let metadata = template.metadata.as_ref();
    let mut labels: Map<String, Value> = metadata
        .and_then(|metadata| metadata.labels.as_ref())
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.clone(), json!(value)))
        .collect();
    labels.insert(label::CLUSTER_NAME.as_str().to_owned(), json!(cluster));
    labels.insert(label::POOL_NAME.as_str().to_owned(), json!(value));
    let mut spec = json!({
        "clusterName": cluster,
        "bootstrap": {"dataSecretName": ""},
        "infrastructureRef": {"apiGroup": infra.api_group, "kind": infra.kind, "name": infra.name},
    });
    // Differs: the last known version is kept while the Node is not known; upstream drops it until the Node is found again.
    let node = nodes.zip(infra.provider_id.as_deref()).and_then(|(nodes, id)| nodes.with_provider_id(id).next());
    let reported = node.map(|node| node.kubelet_version.as_str()).filter(|version| !version.is_empty());
    if let Some(version) = reported.or_else(|| found.and_then(|machine| machine.spec.version.as_deref())) {
        spec["version"] = json!(version);
    }
    for (key, value) in [
        ("deletion", template.spec.deletion.as_ref().map(|deletion| json!(deletion))),
        ("minReadySeconds", template.spec.min_ready_seconds.map(|seconds| json!(seconds))),
        ("readinessGates", template.spec.readiness_gates.as_ref().map(|gates| json!(gates))),
    ] {
        if let Some(value) = value {
            spec[key] = value;
        }
    }
    let mut owner = pool_reference(pool);
    owner.controller = Some(true);
    owner.block_owner_deletion = Some(true);
    let mut body = json!({
        "apiVersion": Machine::api_version(&()),
        "kind": Machine::kind(&()),
        "metadata": {"name": name, "namespace": pool.metadata.namespace, "labels": labels, "ownerReferences": [owner]},
        "spec": spec,
    });
    let annotations = metadata.and_then(|metadata| metadata.annotations.as_ref());
    if let Some(annotations) = annotations.filter(|annotations| !annotations.is_empty()) {
        body["metadata"]["annotations"] = json!(annotations);
    }
    body
}

/// Whether an object has all of this. Of a list it needs each item.
fn is_part(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => {
            let is_there = |(key, value): (&String, &Value)| match whole.get(key) {
                Some(found) => is_part(value, found),
                // A field that is written as nothing.
                None => value.is_null(),
            };
            part.iter().all(is_there)
        }
        (Value::Array(part), Value::Array(whole)) => {
            part.iter().all(|item| whole.iter().any(|found| is_part(item, found)))
        }
        (part, whole) => part == whole,
    }
}

/// Whether an earlier apply has set labels, annotations or fields that this one does not have: applying removes them.
fn has_leftovers(body: &Value, machine: &Machine) -> bool {
    let entries = machine.metadata.managed_fields.iter().flatten();
    let ours = entries.filter(|entry| {
        entry.manager.as_deref() == Some(MACHINE_POOL_MANAGER) && entry.operation.as_deref() == Some("Apply")
    });
    ours.filter_map(|entry| entry.fields_v1.as_ref()).any(|fields| {
        [
            ("/f:metadata/f:labels", "/metadata/labels"),
            ("/f:metadata/f:annotations", "/metadata/annotations"),
            ("/f:spec", "/spec"),
        ]
        .into_iter()
        .any(|(owned, applied)| {
            let applied = body.pointer(applied);
            let keys = fields.0.pointer(owned).and_then(Value::as_object).into_iter().flatten();
            keys.filter_map(|(key, _)| key.strip_prefix("f:"))
                .any(|key| applied.and_then(|applied| applied.get(key)).is_none())
        })
    })
}

/// The change that gives a Machine its condition `UpToDate`; `None` if it has it.
fn up_to_date(machine: &Machine, now: Timestamp) -> Option<Change> {
    let is_deleting = machine.metadata.deletion_timestamp.is_some();
    let (status, reason, message) = match is_deleting {
        true => (ConditionStatus::False, ConditionReason::NotUpToDate, "the Machine is being deleted"),
        false => (ConditionStatus::True, ConditionReason::UpToDate, ""),
    };
    let mut conditions = machine.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let type_ = MachineCondition::UpToDate.as_str();
    let at = conditions.iter().position(|condition| condition.type_ == type_);
    let old = at.map(|at| &conditions[at]);
    let since = old.filter(|old| old.status == status).map(|old| old.last_transition_time.clone());
    let new = Condition {
        last_transition_time: since
            .unwrap_or_else(|| k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(to_second(now))),
        message: Text::from(message),
        observed_generation: machine.metadata.generation,
        reason: Text::from(reason.as_str()),
        status: Open::Known(status),
        type_: Text::from(type_),
        unknown: old.map(|old| old.unknown.clone()).unwrap_or_else(Unknown::default),
    };
    if old == Some(&new) {
        return None;
    }
    match at {
        Some(at) => conditions[at] = new,
        None => conditions.push(new),
    }
    Some(Change::patch_status(ObjectRef::of(machine), json!({ "conditions": conditions })))
}
