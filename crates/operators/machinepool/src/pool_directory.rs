//! Pool directory: which pools an event concerns, by Cluster, by referenced object, by label and by Node.
//!
//! Differs: a Node is looked up among the pools of its own Cluster, because the names of Nodes and the IDs of machines say
//! nothing across clusters; upstream looks among all and drops what is ambiguous.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{PoisonError, RwLock};

use seaworthy_api::cluster::ContractReference;
use seaworthy_api::cluster::v1beta2::MachinePool;
use seaworthy_plan::machinepool::pool_name::label_value;
use seaworthy_plan::machinepool::{PoolIndex, cluster_name};
use seaworthy_runtime::Key;

/// An object of a provider, in whatever version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProviderKey {
    pub group: String,
    pub kind: String,
    pub key: Key,
}

/// The pools that exist.
#[derive(Debug, Default)]
pub struct PoolDirectory(RwLock<Pools>);

#[derive(Debug, Default)]
struct Pools {
    by_cluster: HashMap<Key, ClusterPools>,
    by_reference: HashMap<ProviderKey, BTreeSet<Key>>,
}

/// The pools of one Cluster.
#[derive(Debug, Default)]
struct ClusterPools {
    index: PoolIndex,
    /// Their names by the value of the label that Machines have.
    names: BTreeMap<String, String>,
}

impl PoolDirectory {
    /// Takes in a pool that was created, changed or deleted. Returns the Cluster that has no pool any more, if there is one.
    pub fn change(&self, before: Option<&MachinePool>, after: Option<&MachinePool>) -> Option<Key> {
        let mut pools = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let (old, new) = (before.map(Keys::of), after.map(Keys::of));
        let abandoned = old.filter(|old| new.as_ref() != Some(old)).and_then(|old| pools.remove(&old));
        if let (Some(new), Some(pool)) = (new, after) {
            pools.insert(&new, pool);
        }
        abandoned.filter(|cluster| !pools.by_cluster.contains_key(cluster))
    }

    /// The pools of a Cluster.
    pub fn of_cluster(&self, cluster: &Key) -> Vec<Key> {
        self.read(cluster, |pools| pools.names.values().map(|name| beside(cluster, name)).collect())
    }

    /// The pools that a Node with this name and these provider IDs, before and after a change, concerns.
    pub fn of_node<'a>(&self, cluster: &Key, name: &str, ids: impl IntoIterator<Item = &'a str>) -> BTreeSet<Key> {
        self.read(cluster, |pools| {
            let concerned = ids.into_iter().flat_map(|id| pools.index.pools_of_node(name, id));
            concerned.map(|pool| beside(cluster, pool)).collect()
        })
    }

    /// The pool of a Cluster whose objects have this value of the label with the pool's name.
    pub fn labelled(&self, cluster: &Key, value: &str) -> Option<Key> {
        self.read(cluster, |pools| pools.names.get(value).map(|name| beside(cluster, name)))
    }

    /// The pools that refer to an object.
    pub fn referring_to(&self, object: &ProviderKey) -> Vec<Key> {
        let pools = self.0.read().unwrap_or_else(PoisonError::into_inner);
        pools.by_reference.get(object).into_iter().flatten().cloned().collect()
    }

    /// Reads the index of a Cluster's pools; an empty one if it has none.
    pub fn with_index<T>(&self, cluster: &Key, read: impl FnOnce(&PoolIndex) -> T) -> T {
        self.read(cluster, |pools| read(&pools.index))
    }

    fn read<T>(&self, cluster: &Key, read: impl FnOnce(&ClusterPools) -> T) -> T {
        let pools = self.0.read().unwrap_or_else(PoisonError::into_inner);
        match pools.by_cluster.get(cluster) {
            Some(found) => read(found),
            None => read(&ClusterPools::default()),
        }
    }
}

impl Pools {
    fn insert(&mut self, keys: &Keys, pool: &MachinePool) {
        if let Some(cluster) = &keys.cluster {
            let pools = self.by_cluster.entry(cluster.clone()).or_default();
            pools.index.set(pool);
            pools.names.insert(label_value(&keys.pool.name), keys.pool.name.clone());
        }
        for reference in &keys.references {
            self.by_reference.entry(reference.clone()).or_default().insert(keys.pool.clone());
        }
    }

    /// Returns the Cluster that the pool belonged to.
    fn remove(&mut self, keys: &Keys) -> Option<Key> {
        for reference in &keys.references {
            if let Some(found) = self.by_reference.get_mut(reference) {
                found.remove(&keys.pool);
                if found.is_empty() {
                    self.by_reference.remove(reference);
                }
            }
        }
        let cluster = keys.cluster.clone()?;
        let pools = self.by_cluster.get_mut(&cluster)?;
        pools.index.remove(&keys.pool.name);
        pools.names.remove(&label_value(&keys.pool.name));
        if pools.names.is_empty() {
            self.by_cluster.remove(&cluster);
        }
        Some(cluster)
    }
}

/// What a pool is found by, besides its machines.
#[derive(Debug, PartialEq, Eq)]
struct Keys {
    pool: Key,
    cluster: Option<Key>,
    references: Vec<ProviderKey>,
}

impl Keys {
    fn of(pool: &MachinePool) -> Keys {
        let key = Key::of(pool);
        let references = references(pool).map(|reference| provider_key(&key.namespace, reference)).collect();
        Keys { cluster: cluster_of(pool), references, pool: key }
    }
}

/// The Cluster that a pool belongs to.
pub fn cluster_of(pool: &MachinePool) -> Option<Key> {
    Some(beside(&Key::of(pool), cluster_name(pool)?))
}

/// The references of a pool that name anything.
pub fn references(pool: &MachinePool) -> impl Iterator<Item = &ContractReference> {
    let spec = &pool.spec.template.spec;
    let all = spec.bootstrap.config_ref.iter().chain([&spec.infrastructure_ref]);
    all.filter(|reference| reference.is_defined())
}

/// The object that a reference from this namespace leads to.
pub fn provider_key(namespace: &str, reference: &ContractReference) -> ProviderKey {
    let key = Key { namespace: namespace.to_owned(), name: reference.name.clone() };
    ProviderKey { group: reference.api_group.clone(), kind: reference.kind.clone(), key }
}

/// An object with this name in the same namespace.
fn beside(key: &Key, name: &str) -> Key {
    Key { namespace: key.namespace.clone(), name: name.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pool(name: &str, cluster: &str, spec: Value) -> MachinePool {
        let mut object = json!({
            "metadata": {"name": name, "namespace": "a"},
            "spec": {"clusterName": cluster, "template": {"spec": {
                "clusterName": cluster, "bootstrap": {},
                "infrastructureRef": {"apiGroup": "g", "kind": "K", "name": name},
            }}},
        });
        seaworthy_change::memory::merge(&mut object["spec"], &spec);
        serde_json::from_value(object).unwrap()
    }

    fn key(name: &str) -> Key {
        Key { namespace: "a".to_owned(), name: name.to_owned() }
    }

    #[test]
    fn node_concerns_pools_of_its_own_cluster_only() {
        let directory = PoolDirectory::default();
        directory.change(None, Some(&pool("p", "c", json!({"providerIDList": ["x"]}))));
        directory.change(None, Some(&pool("q", "d", json!({"providerIDList": ["x"]}))));
        assert_eq!(directory.of_node(&key("c"), "n", ["", "x"]), BTreeSet::from([key("p")]));
        assert_eq!(directory.of_node(&key("d"), "n", ["x"]), BTreeSet::from([key("q")]));
        assert_eq!(directory.of_node(&key("e"), "n", ["x"]), BTreeSet::new());
    }

    #[test]
    fn pool_that_is_gone_is_found_by_nothing() {
        let directory = PoolDirectory::default();
        let (one, two) = (pool("p", "c", json!({})), pool("q", "c", json!({})));
        directory.change(None, Some(&one));
        directory.change(None, Some(&two));
        let object = ProviderKey { group: "g".to_owned(), kind: "K".to_owned(), key: key("p") };
        assert_eq!(directory.referring_to(&object), [key("p")]);
        assert_eq!(directory.change(Some(&one), None), None, "the Cluster has another pool");
        assert_eq!(directory.referring_to(&object), []);
        assert_eq!(directory.of_cluster(&key("c")), [key("q")]);
        assert_eq!(directory.change(Some(&two), None), Some(key("c")));
    }

    #[test]
    fn pool_that_refers_to_another_object_is_found_by_that() {
        let directory = PoolDirectory::default();
        let before = pool("p", "c", json!({}));
        let after = pool("p", "c", json!({"template": {"spec": {"infrastructureRef": {"name": "other"}}}}));
        directory.change(None, Some(&before));
        assert_eq!(directory.change(Some(&before), Some(&after)), None);
        let object = |name| ProviderKey { group: "g".to_owned(), kind: "K".to_owned(), key: key(name) };
        assert_eq!(directory.referring_to(&object("p")), []);
        assert_eq!(directory.referring_to(&object("other")), [key("p")]);
        assert_eq!(directory.labelled(&key("c"), "p"), Some(key("p")));
    }
}
