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
        let (pools, rendered) = (caches.pools.all(), caches.rendered());
        let decision = deleted_pools::release(&pools, &rendered, &self.saved(), is_base_kept, &self.namespace);
        applier.perform(&decision).await.result()?;
        self.remember(decision.report);
        Ok(())
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
