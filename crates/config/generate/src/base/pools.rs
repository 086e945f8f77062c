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
            let was = deleted.get(&name);
            if let Some(was) = was {
                let labels = wanted.metadata.labels.get_or_insert_default();
                labels.extend(was.metadata.labels.clone().unwrap_or_default());
                wanted.metadata.annotations.clone_from(&was.metadata.annotations);
                wanted.spec = was.spec.clone();
            }
            changes.push(Change::create(&wanted));
            changes.extend(was.map(|_| recreated(&name)));
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

/// The event for a pool that is created again.
fn recreated(name: &str) -> Change {
    let message = format!(
        "deleted and created again as it was: it is built in, and its nodes take their configuration from it. To keep its \
         nodes as they are: seaworthy rollout pause {name}"
    );
    let event = Event { is_warning: true, reason: PoolEvent::PoolRecreated.as_str(), message, related: None };
    Change::emit(ObjectRef::named::<MachineConfigPool>(name), event)
}

#[cfg(test)]
mod tests {
    use seaworthy_change::Action;
    use serde_json::Value;

    use super::*;

    fn built_in(name: &str, metadata: Value) -> MachineConfigPool {
        let mut pool = built_in_pools().into_iter().find(|pool| name_of(&pool.metadata) == name).unwrap();
        let given: ObjectMeta = serde_json::from_value(metadata).unwrap();
        pool.metadata.labels.get_or_insert_default().extend(given.labels.clone().unwrap_or_default());
        pool.metadata = ObjectMeta { name: pool.metadata.name, labels: pool.metadata.labels, ..given };
        pool
    }

    fn created(change: &Change) -> MachineConfigPool {
        let Action::Create(body) = &change.action else { panic!("{change:?}") };
        serde_json::from_value(body.clone()).unwrap()
    }

    #[test]
    fn deleted_pool_is_created_as_it_was_saved_and_one_that_was_not_saved_is_created_bare() {
        let metadata = json!({
            "labels": {"mine": "1"}, "annotations": {"seaworthy.dev/pinned-configuration": "x"}, "uid": "a",
        });
        let mut was = built_in(WORKER, metadata);
        was.metadata.labels.as_mut().unwrap().remove(label::BUILT_IN.as_str());
        was.spec.paused = Some(true);
        let changes = changes(&[], &BTreeMap::from([(WORKER.to_owned(), was.clone())]));
        let [master, worker, event] = changes.as_slice() else { panic!("{changes:?}") };

        let finalizers = Some(vec![BUILT_IN.into()]);
        let mut bare = pool(MASTER, true);
        bare.metadata.finalizers.clone_from(&finalizers);
        assert_eq!(created(master), bare);

        let worker = created(worker);
        assert_eq!((&worker.spec, &worker.metadata.annotations), (&was.spec, &was.metadata.annotations));
        let labels = worker.metadata.labels.unwrap();
        assert!(labels.contains_key("mine") && labels.contains_key(label::BUILT_IN.as_str()), "{labels:?}");
        assert_eq!((worker.metadata.finalizers, worker.metadata.uid), (finalizers, None));

        let reason = event.event().map(|event| event.reason);
        assert_eq!((event.object.to_string().as_str(), reason), ("MachineConfigPool worker", Some("PoolRecreated")));
    }

    #[test]
    fn finalizer_is_added_to_those_of_others_at_the_version_that_was_seen() {
        let metadata = json!({"uid": "a", "resourceVersion": "7", "finalizers": ["example.com/theirs"]});
        let pools = [MASTER, WORKER].map(|name| Arc::new(built_in(name, metadata.clone())));
        for change in changes(&pools, &BTreeMap::new()) {
            let Action::Patch(patch) = &change.action else { panic!("{change:?}") };
            assert_eq!(*patch, json!({"metadata": {"finalizers": ["example.com/theirs", BUILT_IN.as_str()]}}));
            assert_eq!(change.object.resource_version.as_deref(), Some("7"));
        }
        assert_eq!(changes(&pools, &BTreeMap::new()).len(), 2);
    }
}
