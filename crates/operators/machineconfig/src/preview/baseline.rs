//! Baseline: what would happen to each node without the manifests, to find the nodes that move because of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt as _;
use seaworthy_api::machineconfiguration::MachineConfig;
use seaworthy_plan::disruption::Disruption;

use super::outlook::{NodeOutlook, Outlook, outlook};
use crate::cluster_state::ClusterState;

/// What would happen to the nodes of a cluster without the manifests, by name.
pub(super) struct Baseline<'c>(BTreeMap<String, BaselineNode<'c>>);

struct BaselineNode<'c> {
    pool: String,
    target: Option<&'c MachineConfig>,
    /// Whether it would be given an order, as far as can be predicted.
    is_ordered: bool,
    disruption: Option<Arc<Disruption>>,
}

impl<'c> Baseline<'c> {
    /// Of a cluster without changes.
    pub(super) fn of(cluster: &'c ClusterState, now: Timestamp) -> Baseline<'c> {
        let bare = cluster.without_pods();
        let outlooks = bare.pools().iter().map(|pool| pool.name_any());
        let outlooks = outlooks.filter_map(|name| outlook(&bare, &name, now).map(|outlook| (name, outlook)));
        let mut nodes_by_name = BTreeMap::new();
        for (pool, outlook) in outlooks {
            let target = outlook.target.as_deref().and_then(|name| cluster.machine_config(name)).map(|found| &**found);
            let ordered = ordered(&outlook);
            for node in &outlook.nodes {
                let is_ordered = ordered.contains(node.name.as_str());
                let before =
                    BaselineNode { pool: pool.clone(), target, is_ordered, disruption: node.disruption.clone() };
                nodes_by_name.insert(node.name.clone(), before);
            }
        }
        Baseline(nodes_by_name)
    }

    /// The nodes of a pool of the changed cluster that move because of the change, each with the pool that it was in: this
    /// one, another, or none.
    ///
    /// A target with another name and the same content is no change: another build generates other names.
    pub(super) fn moved_to(
        &self,
        pool: &str,
        target: Option<&MachineConfig>,
        outlook: &Outlook,
    ) -> BTreeMap<String, Option<String>> {
        let Some(target) = target else { return BTreeMap::new() };
        let ordered = ordered(outlook);
        let differs = |before: &BaselineNode<'_>, node: &NodeOutlook| match before.target {
            _ if before.pool != pool => true,
            None => true,
            // It gets an order that it would not have got, or with another disruption: another policy is a change too.
            Some(old) if old.metadata.name == target.metadata.name => {
                ordered.contains(node.name.as_str()) && (!before.is_ordered || before.disruption != node.disruption)
            }
            Some(old) => old.spec != target.spec,
        };
        let moving = outlook.nodes.iter().filter(|node| node.from != target.metadata.name);
        let caused = moving.filter(|node| self.0.get(&node.name).is_none_or(|before| differs(before, node)));
        caused.map(|node| (node.name.clone(), self.0.get(&node.name).map(|before| before.pool.clone()))).collect()
    }

    /// The nodes that are in no pool any more, each with the pool that it was in.
    pub(super) fn newly_unassigned<'n>(&self, without_pool: impl Iterator<Item = &'n str>) -> BTreeMap<String, String> {
        without_pool.filter_map(|node| Some((node.to_owned(), self.0.get(node)?.pool.clone()))).collect()
    }
}

/// The nodes that are given an order, as far as can be predicted.
fn ordered(outlook: &Outlook) -> BTreeSet<&str> {
    let forecast = &outlook.forecast;
    let in_waves = forecast.waves.iter().flat_map(|wave| &wave.nodes);
    // Pods affect when an update ends, not whether it begins: so nodes behind one that cannot be drained count too. Where none
    // is blocked, it is the budget that lets no node move.
    let behind = forecast.behind.iter().filter(|_| !forecast.blocked.is_empty());
    in_waves.chain(&forecast.blocked).chain(behind).chain(&outlook.chosen).map(String::as_str).collect()
}
