//! Deleted built-in pools, as the cluster has them saved: the shell around `plan::rendering::deleted_pools`.

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

/// The built-in pools that were deleted, as they were.
pub struct DeletedPools {
    namespace: String,
    /// What is saved in the cluster.
    saved: Mutex<Saved>,
}

impl DeletedPools {
    /// Reads what the cluster has: an earlier leader may have stopped right after saving it.
    pub async fn load(client: &Client, namespace: &str) -> Result<DeletedPools, kube::Error> {
        let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
        let found = secrets.list(&ListParams::default().labels(label::DELETED_POOL.as_str())).await?;
        let saved = found.items.iter().filter_map(|secret| {
            let pool = deleted_pools::read(secret);
            if pool.is_none() {
                let name = secret.name_any();
                tracing::warn!(namespace, name, "the Secret has no deleted pool; it is ignored");
            }
            pool.map(|pool| (pool.name_any(), pool))
        });
        Ok(DeletedPools { namespace: namespace.to_owned(), saved: Mutex::new(saved.collect()) })
    }

    /// What is saved.
    pub fn saved(&self) -> Saved {
        self.saved.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Prepares deleted pools for their end, and lets them go.
    pub async fn release(&self, applier: &Applier, caches: &Caches, is_base_kept: bool) -> Result<(), WriteError> {
        let (pools, rendered) = (caches.pools.all(), caches.rendered());
        let decision = deleted_pools::release(&pools, &rendered, &self.saved(), is_base_kept, &self.namespace);
        applier.perform(&decision).await.result()?;
        self.remember(decision.report);
        Ok(())
    }

    /// Gives rendered MachineConfigs that lost their pool to the one that exists now.
    pub async fn adopt(&self, applier: &Applier, caches: &Caches) -> Result<(), WriteError> {
        applier.perform(&deleted_pools::adopt(&caches.pools.all(), &caches.rendered())).await.result()
    }

    /// Deletes what was saved of pools that exist again.
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

/// Whether a built-in pool appears or disappears with this change: then those who wait for it look again.
pub fn comes_or_goes(delta: &Delta<MachineConfigPool>) -> bool {
    let is_there =
        |side: &Option<std::sync::Arc<MachineConfigPool>>| side.as_ref().is_some_and(|pool| is_present(pool));
    is_there(&delta.before) != is_there(&delta.after)
}
