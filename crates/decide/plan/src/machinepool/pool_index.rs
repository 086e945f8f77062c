//! Pool index: which pools of a Cluster a Node may concern, by its name and by its provider ID.
//!
//! Differs: there is one index for each Cluster, and a Node that concerns several pools wakes them all, because upstream looks
//! a Node up among the pools of all clusters and drops what is ambiguous.

use std::collections::{BTreeSet, HashMap};

use kube::ResourceExt as _;
use seaworthy_api::cluster::v1beta2::MachinePool;

/// The pools of one Cluster.
#[derive(Clone, Debug, Default)]
pub struct PoolIndex {
    pools: HashMap<String, Keys>,
    by_provider_id: HashMap<String, BTreeSet<String>>,
    by_node: HashMap<String, BTreeSet<String>>,
}

/// What a pool is found by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    /// The provider IDs that it lists, without empty ones.
    pub provider_ids: BTreeSet<String>,
    /// The names of its Nodes.
    pub nodes: BTreeSet<String>,
}

impl Keys {
    /// What this pool is found by.
    pub fn of(pool: &MachinePool) -> Keys {
        let ids = pool.spec.provider_id_list.iter().flatten().filter(|id| !id.is_empty()).cloned();
        let refs = pool.status.iter().flat_map(|status| status.node_refs.iter().flatten());
        Keys { provider_ids: ids.collect(), nodes: refs.filter_map(|found| found.name.clone()).collect() }
    }
}

impl PoolIndex {
    /// Takes in a pool as it is now.
    pub fn set(&mut self, pool: &MachinePool) {
        let (name, keys) = (pool.name_any(), Keys::of(pool));
        if self.pools.get(&name) == Some(&keys) {
            return;
        }
        self.remove(&name);
        for id in &keys.provider_ids {
            self.by_provider_id.entry(id.clone()).or_default().insert(name.clone());
        }
        for node in &keys.nodes {
            self.by_node.entry(node.clone()).or_default().insert(name.clone());
        }
        self.pools.insert(name, keys);
    }

    /// Forgets a pool that is gone, or has moved to another Cluster.
    pub fn remove(&mut self, pool: &str) {
        let Some(keys) = self.pools.remove(pool) else { return };
        let forget = |index: &mut HashMap<String, BTreeSet<String>>, key: &str| {
            if let Some(pools) = index.get_mut(key) {
                pools.remove(pool);
                if pools.is_empty() {
                    index.remove(key);
                }
            }
        };
        keys.provider_ids.iter().for_each(|id| forget(&mut self.by_provider_id, id));
        keys.nodes.iter().for_each(|node| forget(&mut self.by_node, node));
    }

    /// The pools that a Node with this name and provider ID concerns.
    pub fn pools_of_node(&self, name: &str, provider_id: &str) -> BTreeSet<&str> {
        let found = [self.by_node.get(name), self.by_provider_id.get(provider_id)];
        found.into_iter().flatten().flatten().map(String::as_str).collect()
    }

    /// The other pools that list a provider ID.
    pub fn others_listing<'a>(&'a self, provider_id: &str, pool: &'a str) -> impl Iterator<Item = &'a str> + use<'a> {
        let pools = self.by_provider_id.get(provider_id).into_iter().flatten();
        pools.map(String::as_str).filter(move |other| *other != pool)
    }
}
