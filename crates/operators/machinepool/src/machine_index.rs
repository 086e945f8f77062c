//! Machine index: the names of the Machines with a pool's labels. There may be thousands of others.

use std::collections::{BTreeSet, HashMap};
use std::sync::{PoisonError, RwLock};

use seaworthy_api::cluster::v1beta2::Machine;
use seaworthy_api::vocabulary::cluster::label;
use seaworthy_runtime::Key;

/// The Cluster and the value of the label with the pool's name.
type PoolLabel = (Key, String);

#[derive(Debug, Default)]
pub struct MachineIndex(RwLock<HashMap<PoolLabel, BTreeSet<Key>>>);

impl MachineIndex {
    /// Takes in a Machine that was created, changed or deleted.
    pub fn change(&self, before: Option<&Machine>, after: Option<&Machine>) {
        let mut machines = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let (old, new) = (before.and_then(pool_label), after.and_then(pool_label));
        if let (Some(machine), Some(old)) = (before, old.filter(|old| new.as_ref() != Some(old)))
            && let Some(found) = machines.get_mut(&old)
        {
            found.remove(&Key::of(machine));
            if found.is_empty() {
                machines.remove(&old);
            }
        }
        if let (Some(machine), Some(new)) = (after, new) {
            machines.entry(new).or_default().insert(Key::of(machine));
        }
    }

    /// The Machines of a Cluster with this value of the label.
    pub fn labelled(&self, cluster: &Key, value: &str) -> BTreeSet<Key> {
        let machines = self.0.read().unwrap_or_else(PoisonError::into_inner);
        machines.get(&(cluster.clone(), value.to_owned())).cloned().unwrap_or_default()
    }
}

/// The Cluster and the value of the label that a Machine has.
pub fn pool_label(machine: &Machine) -> Option<PoolLabel> {
    let cluster = label::CLUSTER_NAME.of(&machine.metadata)?;
    let value = label::POOL_NAME.of(&machine.metadata)?;
    Some((Key { namespace: Key::of(machine).namespace, name: cluster.to_owned() }, value.to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn machine(name: &str, pool: &str) -> Machine {
        let labels = json!({label::CLUSTER_NAME.as_str(): "c", label::POOL_NAME.as_str(): pool});
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "a", "labels": labels},
            "spec": {"clusterName": "c", "bootstrap": {}, "infrastructureRef": {"apiGroup": "g", "kind": "K", "name": name}},
        }))
        .unwrap()
    }

    #[test]
    fn machine_is_found_by_the_labels_that_it_has_now() {
        let index = MachineIndex::default();
        let cluster = Key { namespace: "a".to_owned(), name: "c".to_owned() };
        let (before, after) = (machine("m", "p"), machine("m", "q"));
        index.change(None, Some(&before));
        assert_eq!(index.labelled(&cluster, "p").len(), 1);
        index.change(Some(&before), Some(&after));
        assert_eq!((index.labelled(&cluster, "p").len(), index.labelled(&cluster, "q").len()), (0, 1));
        index.change(Some(&after), None);
        assert_eq!(index.labelled(&cluster, "q").len(), 0);
    }
}
