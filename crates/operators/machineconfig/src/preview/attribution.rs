//! Which nodes are told something else because of the manifests than they would be without them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt as _;
use seaworthy_api::machineconfiguration::MachineConfig;
use seaworthy_plan::disruption::Disruption;

use super::outlook::{NodeOutlook, Outlook, outlook};
use crate::world::World;

/// What becomes of the nodes of a cluster.
pub(super) struct Lots<'w>(BTreeMap<String, Lot<'w>>);

/// What becomes of a node.
struct Lot<'w> {
    pool: String,
    target: Option<&'w MachineConfig>,
    /// Whether its turn comes, as far as can be foreseen.
    is_ordered: bool,
    /// What that does to it.
    disruption: Option<Arc<Disruption>>,
}

impl<'w> Lots<'w> {
    /// Of a cluster that is left alone.
    pub(super) fn of(world: &'w World, now: Timestamp) -> Lots<'w> {
        let bare = World { pods: None, ..world.clone() };
        let outlooks = bare.pools.iter().map(|pool| pool.name_any());
        let outlooks = outlooks.filter_map(|name| outlook(&bare, &name, now).map(|outlook| (name, outlook)));
        let mut lots = BTreeMap::new();
        for (pool, outlook) in outlooks {
            let target = outlook.target.as_deref().and_then(|name| world.machine_config(name)).map(|found| &**found);
            let ordered = ordered(&outlook);
            for node in &outlook.nodes {
                let is_ordered = ordered.contains(node.name.as_str());
                let lot = Lot { pool: pool.clone(), target, is_ordered, disruption: node.disruption.clone() };
                lots.insert(node.name.clone(), lot);
            }
        }
        Lots(lots)
    }

    /// The nodes of a pool of the changed cluster that move because of the change, each with the pool that it was in: this
    /// one, another, or none.
    ///
    /// What has another name and the same content is no change: another build gives other names.
    pub(super) fn moved_to(
        &self,
        pool: &str,
        target: Option<&MachineConfig>,
        outlook: &Outlook,
    ) -> BTreeMap<String, Option<String>> {
        let Some(target) = target else { return BTreeMap::new() };
        let ordered = ordered(outlook);
        let differs = |lot: &Lot<'_>, node: &NodeOutlook| match lot.target {
            _ if lot.pool != pool => true,
            None => true,
            // Its turn comes that would not have come, or does something else to it: another policy is a change too.
            Some(old) if old.metadata.name == target.metadata.name => {
                ordered.contains(node.name.as_str()) && (!lot.is_ordered || lot.disruption != node.disruption)
            }
            Some(old) => old.spec != target.spec,
        };
        let moving = outlook.nodes.iter().filter(|node| node.from != target.metadata.name);
        let caused = moving.filter(|node| self.0.get(&node.name).is_none_or(|lot| differs(lot, node)));
        caused.map(|node| (node.name.clone(), self.0.get(&node.name).map(|lot| lot.pool.clone()))).collect()
    }

    /// The nodes that are in no pool any more, each with the pool that it was in.
    pub(super) fn lost<'n>(&self, without_pool: impl Iterator<Item = &'n str>) -> BTreeMap<String, String> {
        without_pool.filter_map(|node| Some((node.to_owned(), self.0.get(node)?.pool.clone()))).collect()
    }
}

/// The nodes whose turn comes, as far as can be foreseen.
fn ordered(outlook: &Outlook) -> BTreeSet<&str> {
    let forecast = &outlook.forecast;
    let in_waves = forecast.waves.iter().flat_map(|wave| &wave.nodes);
    // Pods decide when a turn is over, not whether it comes: so also of those that come behind one that cannot be drained. Where
    // none is, it is the budget that lets nobody move.
    let behind = forecast.behind.iter().filter(|_| !forecast.blocked.is_empty());
    in_waves.chain(&forecast.blocked).chain(behind).chain(&outlook.chosen).map(String::as_str).collect()
}
