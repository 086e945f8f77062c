//! A built-in pool that somebody deletes although nodes take their configuration from it: made again as it was.
//!
//! - The finalizer `seaworthy.dev/built-in` holds it until that is prepared. What it has is saved in the cluster, so that a
//!   process that takes over knows it too; its rendered MachineConfigs lose their owner, so that nobody collects them with it;
//!   then it may go.
//! - It comes back with its labels, annotations, pause, budget and target, and what was rendered for it is its own again. Then
//!   what was saved is removed.
//! - Until then nothing is rendered, withdrawn or ordered on account of a pool that is missing ([`missing`]): nodes shall not
//!   learn of it.
//! - Without a ControllerConfig there are no built-in pools, and one that is deleted goes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ListParams, ObjectMeta};
use kube::{Api, Client, Resource as _, ResourceExt as _};
use seaworthy_api::machineconfiguration::{ControllerConfig, MachineConfig, MachineConfigPool};
use seaworthy_api::vocabulary::machineconfiguration::PoolEvent;
use seaworthy_api::vocabulary::seaworthy::{BUILT_IN, label};
use seaworthy_generate::Write;
use seaworthy_generate::base::ROLES;
use seaworthy_plan::pin::pool_in;
use seaworthy_runtime::{Applier, Delta, Events, Gravity, WriteError};
use serde_json::json;

use crate::caches::Caches;
use crate::making::owner;
use crate::writes::is_rendered;

/// Type of the Secrets that what a pool had is saved in. A pool is no secret; to these the controllers have rights already.
const TYPE: &str = "seaworthy.dev/deleted-pool";
const CONTENT: &str = "pool";

/// A built-in pool that is about to be made again; `None` where there is none. Before the base was made for the first time
/// there are no built-in pools to wait for.
pub fn missing(controller_config: Option<&ControllerConfig>, pools: &[Arc<MachineConfigPool>]) -> Option<&'static str> {
    controller_config.filter(|found| found.metadata.deletion_timestamp.is_none() && found.status.is_some())?;
    let is_there = |pool: &Arc<MachineConfigPool>, role: &str| pool.name_any() == role && !is_held(pool);
    ROLES.into_iter().find(|role| !pools.iter().any(|pool| is_there(pool, role)))
}

/// Whether a built-in pool is missing since this change, or no longer: then what waits for it is looked at.
pub fn comes_or_goes(delta: &Delta<MachineConfigPool>) -> bool {
    let is_there = |side: &Option<Arc<MachineConfigPool>>| {
        side.as_ref().is_some_and(|pool| ROLES.contains(&pool.name_any().as_str()) && !is_held(pool))
    };
    is_there(&delta.before) != is_there(&delta.after)
}

/// Whether a pool was deleted and waits for us.
fn is_held(pool: &MachineConfigPool) -> bool {
    pool.metadata.deletion_timestamp.is_some() && BUILT_IN.is_on(&pool.metadata)
}

/// The built-in pools that were deleted, as they were.
pub struct Remaking {
    namespace: String,
    /// What is saved in the cluster.
    saved: Mutex<BTreeMap<String, MachineConfigPool>>,
}

impl Remaking {
    /// Reads what the cluster has: whoever led before may have got no further than to save it.
    pub async fn load(client: &Client, namespace: &str) -> Result<Remaking, kube::Error> {
        let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
        let found = secrets.list(&ListParams::default().labels(label::DELETED_POOL.as_str())).await?;
        let saved = found.items.iter().filter_map(|secret| {
            let pool = read(secret);
            if pool.is_none() {
                let name = secret.name_any();
                tracing::warn!(namespace, name, "this Secret does not hold a pool that was deleted; it is passed over");
            }
            pool.map(|pool| (pool.name_any(), pool))
        });
        Ok(Remaking { namespace: namespace.to_owned(), saved: Mutex::new(saved.collect()) })
    }

    fn saved(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, MachineConfigPool>> {
        self.saved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prepares pools that were deleted for their end, and lets them go. Unless they are to be kept, all goes with them.
    pub async fn let_go(&self, applier: &Applier, caches: &Caches, is_kept: bool) -> Result<(), WriteError> {
        if !is_kept {
            let names: Vec<String> = self.saved().keys().cloned().collect();
            for name in names {
                self.forget(applier, &name).await?;
            }
        }
        for pool in caches.pools.filter(is_held) {
            if is_kept {
                self.save(applier, &pool).await?;
                for rendered in caches.machine_configs.filter(is_rendered) {
                    let mut owners = rendered.owner_references().to_vec();
                    owners.retain(|owner| Some(&owner.uid) != pool.metadata.uid.as_ref());
                    if owners.len() < rendered.owner_references().len() {
                        let patch = json!({"metadata": {"ownerReferences": owners}});
                        caches.machine_configs.wrote(applier.patch(&*rendered, patch).await?);
                    }
                }
            }
            let mut finalizers = pool.finalizers().to_vec();
            finalizers.retain(|found| found != BUILT_IN.as_str());
            match applier.patch(&*pool, json!({"metadata": {"finalizers": finalizers}})).await {
                // Whether it is gone then is for the watch to say: others may hold it too.
                Ok(_) => {}
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Saves what a pool has.
    async fn save(&self, applier: &Applier, pool: &MachineConfigPool) -> Result<(), WriteError> {
        let (name, kept) = (pool.name_any(), worth_keeping(pool));
        if self.saved().get(&name) == Some(&kept) {
            return Ok(());
        }
        let secret = write(&kept, &self.namespace);
        match applier.create(&secret).await {
            // Of an earlier deletion. It cannot be changed, and the pool is still there to be saved.
            Err(error) if error.is_conflict() => {
                applier.delete(&secret).await?;
                applier.create(&secret).await?;
            }
            result => drop(result?),
        }
        self.saved().insert(name, kept);
        Ok(())
    }

    async fn forget(&self, applier: &Applier, name: &str) -> Result<(), WriteError> {
        applier.delete(&Secret { metadata: metadata(name, &self.namespace), ..Secret::default() }).await?;
        self.saved().remove(name);
        Ok(())
    }

    /// The same writes, but pools that were deleted are made as they were; and the names of those pools.
    pub fn as_they_were(&self, writes: Vec<Write>) -> (Vec<Write>, Vec<String>) {
        let (saved, mut names) = (self.saved(), Vec::new());
        let remade = |write: Write| match write {
            Write::CreatePool(mut wanted) => {
                if let Some(was) = saved.get(&wanted.name_any()) {
                    wanted.labels_mut().extend(was.labels().clone());
                    wanted.metadata.annotations = was.metadata.annotations.clone();
                    wanted.spec = was.spec.clone();
                    names.push(wanted.name_any());
                }
                Write::CreatePool(wanted)
            }
            write => write,
        };
        let writes = writes.into_iter().map(remade).collect();
        (writes, names)
    }

    /// Gives rendered MachineConfigs that lost their pool to the one that is there now.
    pub async fn adopt(&self, applier: &Applier, caches: &Caches) -> Result<(), WriteError> {
        let pools: Vec<_> = ROLES.into_iter().filter_map(|role| caches.pools.named(role)).collect();
        let orphans = caches.machine_configs.filter(|object| is_rendered(object) && is_orphan(object));
        for rendered in orphans {
            let name = rendered.name_any();
            let is_its = |pool: &&Arc<MachineConfigPool>| {
                pool.metadata.deletion_timestamp.is_none() && pool_in(&name) == Some(pool.name_any().as_str())
            };
            let Some(owner) = pools.iter().find(is_its).and_then(|pool| owner(pool)) else { continue };
            let mut owners = rendered.owner_references().to_vec();
            owners.push(owner);
            let patch = json!({"metadata": {"ownerReferences": owners}});
            caches.machine_configs.wrote(applier.patch(&*rendered, patch).await?);
        }
        Ok(())
    }

    /// Removes what was saved of pools that are there again, whoever made them.
    pub async fn settle(&self, applier: &Applier, caches: &Caches) -> Result<(), WriteError> {
        let saved: Vec<(String, Option<String>)> =
            self.saved().iter().map(|(name, was)| (name.clone(), was.uid())).collect();
        for (name, uid) in saved {
            if caches.pools.named(&name).is_some_and(|pool| pool.uid() != uid) {
                self.forget(applier, &name).await?;
            }
        }
        Ok(())
    }
}

/// Says of a pool that it was made again.
pub async fn tell(events: &Events, pool: &MachineConfigPool) {
    let message = format!(
        "deleted, and made again as it was: it is built in, and its nodes take their configuration from it. To keep its nodes as \
         they are: seaworthy rollout pause {}",
        pool.name_any()
    );
    events.tell(pool, Gravity::Warning, PoolEvent::Remade.as_str(), message).await;
}

/// Of a pool what somebody gave it, and who it was.
fn worth_keeping(pool: &MachineConfigPool) -> MachineConfigPool {
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

fn write(pool: &MachineConfigPool, namespace: &str) -> Secret {
    let labels = BTreeMap::from([(label::DELETED_POOL.into(), String::new())]);
    // What came as JSON has a JSON form.
    let content = serde_json::to_vec(pool).unwrap_or_default();
    Secret {
        metadata: ObjectMeta { labels: Some(labels), ..metadata(&pool.name_any(), namespace) },
        type_: Some(TYPE.to_owned()),
        immutable: Some(true),
        data: Some(BTreeMap::from([(CONTENT.to_owned(), ByteString(content))])),
        ..Secret::default()
    }
}

fn read(secret: &Secret) -> Option<MachineConfigPool> {
    let content = secret.data.as_ref()?.get(CONTENT)?;
    let pool: MachineConfigPool = serde_json::from_slice(&content.0).ok()?;
    ROLES.contains(&pool.name_any().as_str()).then_some(pool)
}

fn is_orphan(object: &MachineConfig) -> bool {
    !object.owner_references().iter().any(|owner| owner.kind == MachineConfigPool::kind(&()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(name: &str, metadata: serde_json::Value) -> Arc<MachineConfigPool> {
        let mut pool: MachineConfigPool = serde_json::from_value(json!({"metadata": metadata, "spec": {}})).unwrap();
        pool.metadata.name = Some(name.to_owned());
        Arc::new(pool)
    }

    #[test]
    fn pool_that_is_being_made_again_is_missing_and_where_there_is_no_base_none_is() {
        let made = ControllerConfig { status: Some(Default::default()), ..ControllerConfig::default() };
        let (master, worker) = (pool("master", json!({})), pool("worker", json!({})));
        let both = [Arc::clone(&master), worker];
        assert_eq!(missing(Some(&made), &both), None);
        assert_eq!(missing(Some(&made), &both[..1]), Some("worker"));
        let metadata = json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [BUILT_IN.as_str()]});
        assert_eq!(missing(Some(&made), &[master, pool("worker", metadata)]), Some("worker"));
        assert_eq!(missing(Some(&ControllerConfig::default()), &[]), None, "the base was never made");
        assert_eq!(missing(None, &[]), None);
    }

    #[test]
    fn whoever_waits_for_a_pool_is_told_of_its_end_and_of_its_return() {
        let there = Some(pool("worker", json!({})));
        let deleted = |finalizer: &str| {
            Some(pool("worker", json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [finalizer]})))
        };
        let is_told = |before: &Option<Arc<_>>, after: &Option<Arc<_>>| {
            comes_or_goes(&Delta { before: before.clone(), after: after.clone() })
        };
        assert!(is_told(&there, &deleted(BUILT_IN.as_str())) && is_told(&there, &None) && is_told(&None, &there));
        assert!(is_told(&deleted(BUILT_IN.as_str()), &deleted("theirs")), "let go, and held by somebody else");
        assert!(!is_told(&there, &there) && !is_told(&deleted(BUILT_IN.as_str()), &None));
        assert!(!is_told(&None, &Some(pool("infra", json!({})))), "nobody waits for it");
    }

    #[test]
    fn pool_comes_back_as_it_was_saved() {
        let metadata = json!({
            "labels": {"mine": "1"}, "annotations": {"seaworthy.dev/pinned-configuration": "x"}, "uid": "a",
            "finalizers": [BUILT_IN.as_str()], "deletionTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "7",
        });
        let mut was = (*pool("worker", metadata)).clone();
        was.spec.paused = Some(true);
        let was = read(&write(&worth_keeping(&was), "here")).unwrap();
        assert_eq!((was.uid().as_deref(), &was.metadata.resource_version), (Some("a"), &None));
        let remaking =
            Remaking { namespace: "here".to_owned(), saved: Mutex::new([("worker".to_owned(), was)].into()) };
        let bare = |name: &str| {
            let bare = pool(name, json!({"labels": {"built-in": ""}, "finalizers": [BUILT_IN.as_str()]}));
            Write::CreatePool((*bare).clone())
        };
        let (writes, names) = remaking.as_they_were(vec![bare("master"), bare("worker")]);
        assert_eq!((names.as_slice(), &writes[0]), (["worker".to_owned()].as_slice(), &bare("master")));
        let [_, Write::CreatePool(made)] = writes.as_slice() else { panic!("{writes:?}") };
        assert_eq!(made.spec.paused, Some(true));
        assert!(made.labels().contains_key("mine") && made.labels().contains_key("built-in"));
        assert!(made.annotations().contains_key("seaworthy.dev/pinned-configuration"));
        assert!(BUILT_IN.is_on(&made.metadata) && made.metadata.uid.is_none());
    }

    #[test]
    fn secret_without_a_built_in_pool_in_it_is_passed_over() {
        assert_eq!(read(&Secret::default()), None);
        assert_eq!(read(&write(&pool("infra", json!({})), "here")), None);
        let mut damaged = write(&pool("worker", json!({})), "here");
        damaged.data.as_mut().unwrap().insert(CONTENT.to_owned(), ByteString(b"{".to_vec()));
        assert_eq!(read(&damaged), None);
    }
}
