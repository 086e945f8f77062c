//! Deleted pools: saves deleted built-in pools in Secrets until they are created again, as `plan::rendering::deleted_pools`
//! decides.

use std::sync::{Mutex, PoisonError};

use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use seaworthy_api::machineconfiguration::MachineConfigPool;
use seaworthy_api::vocabulary::seaworthy::label;
use seaworthy_plan::rendering::built_in::is_present;
use seaworthy_plan::rendering::deleted_pools::{self, Saved};
use seaworthy_runtime::{Applier, Delta, WriteError};

use crate::caches::Caches;

/// The saved built-in pools that were deleted.
pub struct DeletedPools {
    namespace: String,
    /// The saved pools of the cluster.
    saved: Mutex<Saved>,
}

impl DeletedPools {
    /// Reads the saved pools: an earlier leader may have stopped right after saving them.
    pub async fn load(client: &Client, namespace: &str) -> Result<DeletedPools, kube::Error> {
        let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
        let found = secrets.list(&ListParams::default().labels(label::DELETED_POOL.as_str())).await?;
        let saved = found.items.iter().filter_map(|secret| {
            let pool = deleted_pools::read(secret);
            if pool.is_none() {
                let name = secret.name_any();
                tracing::warn!(namespace, name, "ignoring Secret: it has no deleted pool");
            }
            pool.map(|pool| (pool.name_any(), pool))
        });
        Ok(DeletedPools { namespace: namespace.to_owned(), saved: Mutex::new(saved.collect()) })
    }

    pub fn saved(&self) -> Saved {
        self.saved.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Saves pools that are being deleted, and removes their finalizers.
    pub async fn release(&self, applier: &Applier, caches: &Caches, is_base_kept: bool) -> Result<(), WriteError> {
        let pools = caches.pools.all();
        let decision = deleted_pools::save(&pools, &self.saved(), is_base_kept, &self.namespace);
        applier.perform(&decision).await.result()?;
        // Before any is released: the answer to the last write may be lost, and the pool is gone all the same.
        self.remember(decision.report);
        applier.perform(&deleted_pools::release(&pools, &caches.rendered(), is_base_kept)).await.result()
    }

    /// Makes the recreated pools owners of the rendered MachineConfigs of the deleted ones.
    pub async fn adopt(&self, applier: &Applier, caches: &Caches) -> Result<(), WriteError> {
        applier.perform(&deleted_pools::adopt(&caches.pools.all(), &caches.rendered())).await.result()
    }

    /// Deletes the saved copies of pools that exist again.
    pub async fn forget(&self, applier: &Applier, caches: &Caches) -> Result<(), WriteError> {
        let decision = deleted_pools::forget(&caches.pools.all(), &self.saved(), &self.namespace);
        applier.perform(&decision).await.result()?;
        self.remember(decision.report);
        Ok(())
    }

    fn remember(&self, saved: Saved) {
        *self.saved.lock().unwrap_or_else(PoisonError::into_inner) = saved;
    }
}

/// Whether a built-in pool is created or deleted by this change, which other controllers wait for.
pub fn changes_presence(delta: &Delta<MachineConfigPool>) -> bool {
    let is_there =
        |side: &Option<std::sync::Arc<MachineConfigPool>>| side.as_ref().is_some_and(|pool| is_present(pool));
    is_there(&delta.before) != is_there(&delta.after)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rstest::rstest;
    use seaworthy_api::vocabulary::seaworthy::BUILT_IN;
    use seaworthy_change::{Action, Change};
    use serde_json::{Value, json};

    use super::*;

    fn pool(name: &str, metadata: Value) -> Option<Arc<MachineConfigPool>> {
        let mut pool: MachineConfigPool = serde_json::from_value(json!({"metadata": metadata, "spec": {}})).unwrap();
        pool.metadata.name = Some(name.to_owned());
        Some(Arc::new(pool))
    }

    fn exists() -> Option<Arc<MachineConfigPool>> {
        pool("worker", json!({"finalizers": [BUILT_IN.as_str()]}))
    }

    fn deleted(finalizers: &[&str]) -> Option<Arc<MachineConfigPool>> {
        pool("worker", json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers}))
    }

    #[rstest]
    #[case::is_deleted_and_held(exists(), deleted(&[BUILT_IN.as_str()]), true)]
    #[case::is_gone_at_once(exists(), None, true)]
    #[case::is_created(None, exists(), true)]
    #[case::is_released_and_held_by_others(
        deleted(&[BUILT_IN.as_str(), "example.com/theirs"]), deleted(&["example.com/theirs"]), true
    )]
    #[case::is_edited(exists(), pool("worker", json!({"labels": {"a": "b"}})), false)]
    #[case::is_gone_after_it_was_held(deleted(&[BUILT_IN.as_str()]), None, false)]
    #[case::is_custom(None, pool("infra", json!({})), false)]
    fn presence_of_a_built_in_pool_changes_for_those_who_wait_for_it(
        #[case] before: Option<Arc<MachineConfigPool>>,
        #[case] after: Option<Arc<MachineConfigPool>>,
        #[case] changes: bool,
    ) {
        assert_eq!(changes_presence(&Delta { before, after }), changes);
    }

    #[test]
    fn released_pool_keeps_the_finalizers_of_others_and_is_patched_at_the_version_that_was_seen() {
        let metadata = json!({
            "uid": "a", "resourceVersion": "7", "deletionTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": [BUILT_IN.as_str(), "example.com/theirs"],
        });
        let decision = deleted_pools::release(&[pool("worker", metadata).unwrap()], &[], true);
        let changes: Vec<Change> = decision.changes().collect();
        let [Change { object, action: Action::Patch(patch) }] = changes.as_slice() else { panic!("{changes:?}") };
        assert_eq!(*patch, json!({"metadata": {"finalizers": ["example.com/theirs"]}}));
        assert_eq!(object.resource_version.as_deref(), Some("7"));
    }
}
