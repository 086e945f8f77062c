//! Caches: the kinds that are known at compile time. Those of providers are in [`crate::provider`].

use std::sync::Arc;

use kube::Resource as _;
use seaworthy_api::cluster::v1beta2::{Cluster, Machine, MachinePool};
use seaworthy_api::vocabulary::cluster::MACHINE_POOL_MANAGER;
use seaworthy_runtime::{Cache, CacheSet};

use crate::provider::ProviderDefinition;

#[derive(Clone)]
pub struct Caches {
    pub pools: Arc<Cache<MachinePool>>,
    pub clusters: Arc<Cache<Cluster>>,
    pub machines: Arc<Cache<Machine>>,
    /// All definitions: any of them may be a provider's.
    pub definitions: Arc<Cache<ProviderDefinition>>,
}

impl Default for Caches {
    fn default() -> Self {
        Caches {
            pools: Arc::default(),
            clusters: Arc::default(),
            // What is applied to Machines follows the template, labels that it has no more included.
            machines: Arc::new(Cache::with_fields_of(MACHINE_POOL_MANAGER)),
            // An applied definition carries itself once more in an annotation.
            definitions: Arc::new(Cache::with_transform(|found: &mut ProviderDefinition| {
                found.meta_mut().annotations = None;
            })),
        }
    }
}

impl Caches {
    /// All of them, for the applier and to keep them current.
    pub fn set(&self) -> CacheSet {
        CacheSet::new([
            Arc::clone(&self.pools) as _,
            Arc::clone(&self.clusters) as _,
            Arc::clone(&self.machines) as _,
            Arc::clone(&self.definitions) as _,
        ])
    }
}
