//! The built-in pools.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use seaworthy_api::machineconfiguration::{MachineConfigPool, MachineConfigPoolSpec};
use seaworthy_api::meta::LabelSelector;
use seaworthy_api::vocabulary::machineconfiguration::{MASTER, PoolEvent, WORKER, label};
use seaworthy_api::vocabulary::seaworthy::BUILT_IN;
use seaworthy_change::{Change, Event, ObjectRef};
use serde_json::json;

use crate::generated::name_of;

/// The pools that every cluster has: `master` and `worker`.
pub fn built_in_pools() -> Vec<MachineConfigPool> {
    vec![pool(MASTER, true), pool(WORKER, false)]
}

fn pool(name: &str, is_required_for_upgrade: bool) -> MachineConfigPool {
    let mut metadata = ObjectMeta { name: Some(name.to_owned()), ..<_>::default() };
    label::BUILT_IN.set(&mut metadata, "");
    if is_required_for_upgrade {
        label::REQUIRED_FOR_UPGRADE.set(&mut metadata, "");
    }
    let labels = metadata.labels.get_or_insert_default();
    labels.insert(format!("{}{name}", label::POOL_PREFIX), String::new());
    let selector = |key: String, value: &str| LabelSelector {
        match_labels: Some(BTreeMap::from([(key, value.to_owned())])),
        ..<_>::default()
    };
    let spec = MachineConfigPoolSpec {
        machine_config_selector: Some(selector(label::ROLE.into(), name)),
        node_selector: Some(selector(format!("{}{name}", label::NODE_ROLE_PREFIX), "")),
        ..<_>::default()
    };
    MachineConfigPool { metadata, spec, status: None }
}

/// What to change so that the built-in pools exist, have their labels and are not deleted unnoticed. Their specs are the
/// user's. One that was deleted is created as it was.
pub(super) fn changes(
    existing: &[Arc<MachineConfigPool>],
    deleted: &BTreeMap<String, MachineConfigPool>,
) -> Vec<Change> {
    let find = |name: &str| existing.iter().find(|pool| name_of(&pool.metadata) == name);
    let mut changes = Vec::new();
    for mut wanted in built_in_pools() {
        let name = name_of(&wanted.metadata).to_owned();
        let Some(found) = find(&name) else {
            wanted.metadata.finalizers = Some(vec![BUILT_IN.into()]);
            if let Some(was) = deleted.get(&name) {
                let labels = wanted.metadata.labels.get_or_insert_default();
                labels.extend(was.metadata.labels.clone().unwrap_or_default());
                wanted.metadata.annotations.clone_from(&was.metadata.annotations);
                wanted.spec = was.spec.clone();
            }
            changes.push(Change::create(&wanted));
            continue;
        };
        let has = |key: &String| found.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(key));
        let mut labels = wanted.metadata.labels.unwrap_or_default();
        labels.retain(|key, _| !has(key));
        if !labels.is_empty() {
            changes.push(Change::patch(ObjectRef::of(&**found), json!({"metadata": {"labels": labels}})));
        }
        // A finalizer cannot be added to what is being deleted.
        if !BUILT_IN.is_on(&found.metadata) && found.metadata.deletion_timestamp.is_none() {
            changes.push(Change::add_finalizer(&**found, BUILT_IN.as_str()));
        }
    }
    changes
}

/// The events for pools that are created again.
pub(super) fn recreated(
    existing: &[Arc<MachineConfigPool>],
    deleted: &BTreeMap<String, MachineConfigPool>,
) -> Vec<Change> {
    let is_missing = |name: &&String| !existing.iter().any(|pool| pool.metadata.name.as_ref() == Some(name));
    let event = |name: &String| {
        let message = format!(
            "deleted and created again as it was: it is built in, and its nodes take their configuration from it. To keep its \
             nodes as they are: seaworthy rollout pause {name}"
        );
        let event = Event { is_warning: true, reason: PoolEvent::PoolRecreated.as_str(), message, related: None };
        Change::emit(ObjectRef::named::<MachineConfigPool>(name), event)
    };
    deleted.keys().filter(is_missing).map(event).collect()
}
