//! A built-in pool that somebody deletes although nodes take their configuration from it: made again as it was.
//!
//! - The finalizer `seaworthy.dev/built-in` holds it until that is prepared. Its rendered MachineConfigs lose their owner, so
//!   that nobody collects them with it; then it may go.
//! - It comes back with its labels, annotations, pause, budget and target, and what was rendered for it is its own again.
//! - Until then nothing is rendered or withdrawn on account of a pool that is missing ([`missing`]): nodes shall not learn of
//!   it.
//! - Without a ControllerConfig there are no built-in pools, and one that is deleted goes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use kube::{Resource as _, ResourceExt as _};
use seaworthy_api::machineconfiguration::{ControllerConfig, MachineConfig, MachineConfigPool};
use seaworthy_api::vocabulary::machineconfiguration::{PoolEvent, RENDERED_PREFIX};
use seaworthy_api::vocabulary::seaworthy::BUILT_IN;
use seaworthy_generate::Write;
use seaworthy_generate::base::ROLES;
use seaworthy_runtime::{Applier, Events, Gravity, WriteError};
use serde_json::json;

use crate::caches::Caches;
use crate::making::owner;
use crate::writes::is_rendered;

/// A built-in pool that is about to be made again; `None` where there is none. Before the base was made for the first time
/// there are no built-in pools to wait for.
pub fn missing(controller_config: Option<&ControllerConfig>, pools: &[Arc<MachineConfigPool>]) -> Option<&'static str> {
    controller_config.filter(|found| found.metadata.deletion_timestamp.is_none() && found.status.is_some())?;
    let is_there = |pool: &Arc<MachineConfigPool>, role: &str| pool.name_any() == role && !is_held(pool);
    ROLES.into_iter().find(|role| !pools.iter().any(|pool| is_there(pool, role)))
}

/// Whether a pool was deleted and waits for us.
fn is_held(pool: &MachineConfigPool) -> bool {
    pool.metadata.deletion_timestamp.is_some() && BUILT_IN.is_on(&pool.metadata)
}

/// The built-in pools that were deleted, as they were.
#[derive(Default)]
pub struct Remaking {
    gone: Mutex<BTreeMap<String, Arc<MachineConfigPool>>>,
}

impl Remaking {
    fn gone(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<MachineConfigPool>>> {
        self.gone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prepares pools that were deleted for their end, and lets them go. Unless they are to be kept, all goes with them.
    pub async fn let_go(&self, applier: &Applier, caches: &Caches, is_kept: bool) -> Result<(), WriteError> {
        for pool in caches.pools.filter(is_held) {
            if is_kept {
                self.gone().insert(pool.name_any(), Arc::clone(&pool));
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

    /// The same writes, but pools that were deleted are made as they were.
    pub fn as_they_were(&self, writes: Vec<Write>) -> Vec<Write> {
        let gone = self.gone();
        let remade = |write: Write| match write {
            Write::CreatePool(mut wanted) => {
                if let Some(was) = gone.get(&wanted.name_any()) {
                    wanted.labels_mut().extend(was.labels().clone());
                    wanted.metadata.annotations = was.metadata.annotations.clone();
                    wanted.spec = was.spec.clone();
                }
                Write::CreatePool(wanted)
            }
            write => write,
        };
        writes.into_iter().map(remade).collect()
    }

    /// Says of pools that are there again what became of them.
    pub async fn tell(&self, events: &Events, caches: &Caches) {
        let gone: Vec<Arc<MachineConfigPool>> = self.gone().values().cloned().collect();
        for was in gone {
            let name = was.name_any();
            let Some(pool) = caches.pools.named(&name).filter(|pool| pool.uid() != was.uid()) else { continue };
            self.gone().remove(&name);
            tracing::warn!(pool = name, "deleted by hand and made again as it was: it is built in");
            let message = format!(
                "deleted, and made again as it was: it is built in, and its nodes take their configuration from it. To keep \
                 its nodes as they are: seaworthy rollout pause {name}"
            );
            events.tell(&*pool, Gravity::Warning, PoolEvent::Remade.as_str(), message).await;
        }
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
}

fn is_orphan(object: &MachineConfig) -> bool {
    !object.owner_references().iter().any(|owner| owner.kind == MachineConfigPool::kind(&()))
}

/// The pool in the name of a rendered MachineConfig.
fn pool_in(name: &str) -> Option<&str> {
    Some(name.strip_prefix(RENDERED_PREFIX)?.rsplit_once('-')?.0)
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
    fn pool_comes_back_as_it_was() {
        let remaking = Remaking::default();
        let metadata = json!({"labels": {"mine": "1"}, "annotations": {"seaworthy.dev/pinned-configuration": "x"}});
        let mut was = (*pool("worker", metadata)).clone();
        was.spec.paused = Some(true);
        remaking.gone().insert("worker".to_owned(), Arc::new(was));
        let bare = pool("worker", json!({"labels": {"built-in": ""}, "finalizers": [BUILT_IN.as_str()]}));
        let writes = remaking.as_they_were(vec![Write::CreatePool((*bare).clone())]);
        let [Write::CreatePool(made)] = writes.as_slice() else { panic!("{writes:?}") };
        assert_eq!(made.spec.paused, Some(true));
        assert!(made.labels().contains_key("mine") && made.labels().contains_key("built-in"));
        assert!(made.annotations().contains_key("seaworthy.dev/pinned-configuration"));
        assert!(BUILT_IN.is_on(&made.metadata) && made.metadata.uid.is_none());
    }

    #[test]
    fn name_of_a_rendered_one_says_its_pool() {
        assert_eq!(pool_in("rendered-worker-0123"), Some("worker"));
        assert_eq!(pool_in("rendered-a-b-0123"), Some("a-b"));
        assert_eq!(pool_in("99-worker"), None);
    }
}
