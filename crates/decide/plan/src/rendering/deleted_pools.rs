//! Deleted built-in pools: what they had is saved, and they are created again with it.
//!
//! - A built-in pool has a finalizer. When it is deleted, its labels, annotations, pause, budget and target are saved in a
//!   Secret, so that a process that takes over knows them too; its rendered MachineConfigs lose their owner, so that they are
//!   not collected with it; then the finalizer is removed.
//! - The pool is created with all of that, and what was rendered for it is adopted. Then the Secret is deleted.
//! - Until then nothing is rendered, withdrawn or ordered because a pool is missing: nodes are not affected.
//! - Without a ControllerConfig there are no built-in pools, and one that is deleted is gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigPool};
use seaworthy_api::meta::is_owner;
use seaworthy_api::vocabulary::seaworthy::{BUILT_IN, label};
use seaworthy_change::{Change, Decision, ObjectRef, Purpose, Stage};
use seaworthy_generate::base::ROLES;
use serde_json::json;

use super::built_in::is_held;
use super::{is_rendered, name_of, owner};
use crate::history::pin::pool_in;

/// Type of the Secrets. A pool is not secret; the controllers have rights to Secrets of this namespace already.
const TYPE: &str = "seaworthy.dev/deleted-pool";
const CONTENT: &str = "pool";

/// The pools that were saved, by name.
pub type Saved = BTreeMap<String, MachineConfigPool>;

/// Saves the pools that are being deleted. The report has what is saved afterwards: it has to be known before [`release`] is
/// performed, because a pool that is created again takes everything from it.
///
/// Unless the base is kept, nothing is saved, and what was saved is deleted.
pub fn save(
    pools: &[Arc<MachineConfigPool>],
    saved: &Saved,
    is_base_kept: bool,
    namespace: &str,
) -> Decision<'static, Saved> {
    if !is_base_kept {
        let changes = saved.keys().map(|name| delete(name, namespace));
        let stages = vec![Stage::sequence(Purpose::Reserve, changes)];
        return Decision { stages, report: Saved::new(), recheck: None };
    }
    let mut after = saved.clone();
    let mut changes: Vec<Change> = Vec::new();
    for pool in pools.iter().filter(|pool| is_held(pool)) {
        let (name, kept) = (name_of(&pool.metadata).to_owned(), worth_saving(pool));
        if saved.get(&name) != Some(&kept) {
            // One of an earlier deletion cannot be changed, because it is immutable.
            changes.push(delete(&name, namespace));
            changes.push(Change::create(&secret(&kept, namespace)));
            after.insert(name, kept);
        }
    }
    Decision { stages: vec![Stage::sequence(Purpose::Reserve, changes)], report: after, recheck: None }
}

/// Releases the pools that are being deleted, once they are saved: each by itself, so that one that fails holds up no other.
pub fn release(
    pools: &[Arc<MachineConfigPool>],
    rendered: &[Arc<MachineConfig>],
    is_base_kept: bool,
) -> Decision<'static, ()> {
    let held: Vec<&Arc<MachineConfigPool>> = pools.iter().filter(|pool| is_held(pool)).collect();
    let disowned = held.iter().filter(|_| is_base_kept).flat_map(|pool| {
        let disowned = |object: &Arc<MachineConfig>| disowned(object, pool);
        rendered.iter().filter_map(disowned)
    });
    let released = held.iter().map(|pool| Change::remove_finalizer(&***pool, BUILT_IN.as_str()));
    Decision::of([Stage::sequence(Purpose::Write, disowned), Stage::each(Purpose::Write, released)])
}

/// Gives rendered MachineConfigs that lost their pool to the one that exists now.
pub fn adopt(pools: &[Arc<MachineConfigPool>], rendered: &[Arc<MachineConfig>]) -> Decision<'static, ()> {
    let is_orphan = |object: &&Arc<MachineConfig>| {
        let owners = owners(object);
        is_rendered(object) && !owners.iter().any(is_owner::<MachineConfigPool>)
    };
    let adopted = rendered.iter().filter(is_orphan).filter_map(|object| {
        let pool = pool_in(name_of(&object.metadata)).filter(|pool| ROLES.contains(pool))?;
        let is_its = |found: &&Arc<MachineConfigPool>| {
            found.metadata.deletion_timestamp.is_none() && name_of(&found.metadata) == pool
        };
        let mut owners = owners(object).to_vec();
        owners.push(pools.iter().find(is_its).and_then(|pool| owner(pool))?);
        Some(set_owners(object, &owners))
    });
    Decision::of([Stage::sequence(Purpose::Write, adopted)])
}

/// Deletes what was saved of pools that exist again, by whomever they were created. The report has what is saved afterwards.
pub fn forget(pools: &[Arc<MachineConfigPool>], saved: &Saved, namespace: &str) -> Decision<'static, Saved> {
    let is_back = |name: &str, was: &MachineConfigPool| {
        pools.iter().any(|pool| name_of(&pool.metadata) == name && pool.metadata.uid != was.metadata.uid)
    };
    let (back, after): (Saved, Saved) =
        saved.iter().map(|(name, was)| (name.clone(), was.clone())).partition(|(name, was)| is_back(name, was));
    let changes = back.keys().map(|name| delete(name, namespace));
    Decision { stages: vec![Stage::sequence(Purpose::Write, changes)], report: after, recheck: None }
}

/// The pool that a Secret has saved; `None` if it has none.
pub fn read(secret: &Secret) -> Option<MachineConfigPool> {
    let content = secret.data.as_ref()?.get(CONTENT)?;
    let pool: MachineConfigPool = serde_json::from_slice(&content.0).ok()?;
    ROLES.contains(&name_of(&pool.metadata)).then_some(pool)
}

fn owners(object: &MachineConfig) -> &[OwnerReference] {
    object.metadata.owner_references.as_deref().unwrap_or_default()
}

fn set_owners(object: &MachineConfig, owners: &[OwnerReference]) -> Change {
    Change::patch(ObjectRef::of(object), json!({"metadata": {"ownerReferences": owners}}))
}

/// Takes a rendered MachineConfig from its pool, if it belongs to this one.
fn disowned(object: &MachineConfig, pool: &MachineConfigPool) -> Option<Change> {
    let rest: Vec<OwnerReference> =
        owners(object).iter().filter(|owner| Some(&owner.uid) != pool.metadata.uid.as_ref()).cloned().collect();
    (is_rendered(object) && rest.len() < owners(object).len()).then(|| set_owners(object, &rest))
}

/// Of a pool what users gave it, and its identity.
fn worth_saving(pool: &MachineConfigPool) -> MachineConfigPool {
    let ObjectMeta { name, uid, labels, annotations, .. } = pool.metadata.clone();
    let metadata = ObjectMeta { name, uid, labels, annotations, ..ObjectMeta::default() };
    MachineConfigPool { metadata, spec: pool.spec.clone(), status: None }
}

fn metadata(pool: &str, namespace: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(format!("deleted-pool-{pool}")),
        namespace: Some(namespace.to_owned()),
        ..ObjectMeta::default()
    }
}

fn delete(pool: &str, namespace: &str) -> Change {
    Change::delete(ObjectRef::of(&Secret { metadata: metadata(pool, namespace), ..Secret::default() }))
}

fn secret(pool: &MachineConfigPool, namespace: &str) -> Secret {
    let labels = BTreeMap::from([(label::DELETED_POOL.into(), String::new())]);
    // An object that came as JSON has a JSON form.
    let content = serde_json::to_vec(pool).unwrap_or_default();
    Secret {
        metadata: ObjectMeta { labels: Some(labels), ..metadata(name_of(&pool.metadata), namespace) },
        type_: Some(TYPE.to_owned()),
        immutable: Some(true),
        data: Some(BTreeMap::from([(CONTENT.to_owned(), ByteString(content))])),
        ..Secret::default()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;
    use seaworthy_api::machineconfiguration::API_VERSION;
    use seaworthy_change::Tables;
    use seaworthy_change::memory::perform;
    use serde_json::Value;

    use super::*;

    fn pool(name: &str, metadata: Value) -> Arc<MachineConfigPool> {
        let mut pool: MachineConfigPool = serde_json::from_value(json!({"metadata": metadata, "spec": {}})).unwrap();
        pool.metadata.name = Some(name.to_owned());
        Arc::new(pool)
    }

    fn deleted_worker() -> Arc<MachineConfigPool> {
        let metadata = json!({
            "labels": {"mine": "1"}, "annotations": {"seaworthy.dev/pinned-configuration": "x"}, "uid": "a",
            "finalizers": [BUILT_IN.as_str()], "deletionTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "7",
        });
        let mut pool = (*pool("worker", metadata)).clone();
        pool.spec.paused = Some(true);
        Arc::new(pool)
    }

    fn rendered(owners: Value) -> Arc<MachineConfig> {
        let metadata = json!({"name": "rendered-worker-1", "ownerReferences": owners});
        Arc::new(serde_json::from_value(json!({"metadata": metadata, "spec": {}})).unwrap())
    }

    fn owned_by(uid: &str) -> Value {
        json!([{"apiVersion": API_VERSION, "kind": "MachineConfigPool", "name": "worker", "uid": uid}])
    }

    fn run<R>(decision: &Decision<'_, R>, tables: &mut Tables) {
        perform(decision, tables, Timestamp::UNIX_EPOCH).result().unwrap();
    }

    #[test]
    fn deleted_pool_is_saved_before_it_is_released_and_keeps_what_was_rendered() {
        let (pools, configs) = (vec![deleted_worker()], vec![rendered(owned_by("a"))]);
        let mut tables = Tables::default().with::<Secret>();
        tables = tables.with_objects(pools.clone()).with_objects(configs.clone());
        let saved = save(&pools, &Saved::new(), true, "here");
        assert!(saved.changes().all(|change| change.object.to_string() == "Secret here/deleted-pool-worker"));
        run(&saved, &mut tables);
        let was = read(&tables.of::<Secret>()[0]).unwrap();
        assert_eq!((was.metadata.uid.as_deref(), &was.metadata.resource_version), (Some("a"), &None));
        assert_eq!((was.spec.paused, saved.report.get("worker")), (Some(true), Some(&was)));
        assert!(save(&pools, &saved.report, true, "here").is_empty(), "it is saved already");
        let decision = release(&pools, &configs, true);
        run(&decision, &mut tables);
        let configs = tables.of::<MachineConfig>();
        assert_eq!(configs[0].metadata.owner_references.as_deref(), Some(&[][..]));
        assert!(tables.of::<MachineConfigPool>().is_empty(), "it was only held by its finalizer");
        let purposes: Vec<String> = decision.changes().map(|change| change.object.to_string()).collect();
        assert_eq!(purposes.last().map(String::as_str), Some("MachineConfigPool worker"), "it is released last");
    }

    #[test]
    fn pool_that_exists_again_adopts_what_was_rendered_and_is_forgotten() {
        let configs = vec![rendered(json!([]))];
        let pools = vec![pool("worker", json!({"uid": "b"}))];
        let mut tables = Tables::default().with_objects(configs.clone()).with_objects(pools.clone());
        run(&adopt(&pools, &configs), &mut tables);
        let configs = tables.of::<MachineConfig>();
        assert_eq!(configs[0].metadata.owner_references.as_ref().unwrap()[0].uid, "b");
        assert!(adopt(&pools, configs).is_empty());
        let saved = Saved::from([("worker".to_owned(), worth_saving(&deleted_worker()))]);
        let decision = forget(&pools, &saved, "here");
        assert!(decision.report.is_empty() && decision.changes().count() == 1);
        assert!(forget(&[deleted_worker()], &saved, "here").is_empty(), "it is not back yet");
    }

    #[test]
    fn without_a_base_nothing_is_saved() {
        let saved = Saved::from([("worker".to_owned(), worth_saving(&deleted_worker()))]);
        let decision = save(&[deleted_worker()], &saved, false, "here");
        let released = release(&[deleted_worker()], &[rendered(owned_by("a"))], false);
        let changes = decision.changes().chain(released.changes());
        let changed: Vec<String> = changes.map(|change| change.object.to_string()).collect();
        assert_eq!(changed, ["Secret here/deleted-pool-worker", "MachineConfigPool worker"]);
        assert!(decision.report.is_empty());
    }

    #[test]
    fn secret_without_a_built_in_pool_is_ignored() {
        assert_eq!(read(&Secret::default()), None);
        assert_eq!(read(&secret(&pool("infra", json!({})), "here")), None);
        let mut damaged = secret(&pool("worker", json!({})), "here");
        damaged.data.as_mut().unwrap().insert(CONTENT.to_owned(), ByteString(b"{".to_vec()));
        assert_eq!(read(&damaged), None);
    }
}
