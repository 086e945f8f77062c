//! What a decision looks at, taken at one moment: objects of several caches, and how they belong together.

use std::cmp::Ordering;
use std::sync::Arc;

use kube::ResourceExt as _;
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigNode, MachineConfigPool};
use seaworthy_plan::fleet::{NodeView, Observed as _, PoolView};
use seaworthy_plan::membership::Pools;
use seaworthy_plan::promise::Promise;

use crate::caches::Caches;
use crate::machine::Machine;
use crate::writes::is_rendered;

/// What a decision looks at, taken at one moment.
pub struct Moment {
    /// All pools.
    pub pools: Vec<Arc<MachineConfigPool>>,
    /// All nodes, by name.
    pub nodes: Vec<Arc<Machine>>,
    /// The MachineConfigNodes, by name.
    pub progress: Vec<Arc<MachineConfigNode>>,
    /// The rendered MachineConfigs.
    pub rendered: Vec<Arc<MachineConfig>>,
}

impl Moment {
    /// What the caches have now.
    pub fn of(caches: &Caches) -> Moment {
        Moment {
            pools: caches.pools.all(),
            nodes: caches.nodes.all(),
            progress: caches.machine_config_nodes.all(),
            rendered: caches.machine_configs.filter(is_rendered),
        }
    }

    /// What is promised on a pool, and the nodes that whoever promised had seen later than they are here.
    pub fn promised(&self, name: &str) -> (Promise, Vec<String>) {
        let pool = self.pools.iter().find(|pool| pool.name_any() == name);
        let promised = pool.map(|pool| Promise::of(pool)).unwrap_or_default();
        if promised.nodes.is_empty() {
            return (promised, Vec::new());
        }
        let pools = Pools::new(self.pools.iter().map(|pool| PoolView::of(pool)));
        // They come by name.
        let found = |name: &String| Some(&self.nodes[self.nodes.binary_search_by(|node| node.name().cmp(name)).ok()?]);
        let is_member = |node: &&Arc<Machine>| pools.of_labels(node.labels()).primary() == Some(name);
        let nodes = promised.nodes.keys().filter_map(found).filter(is_member);
        let views: Vec<NodeView<'_>> = nodes.map(|node| NodeView::of(node, None)).collect();
        let views: Vec<&NodeView<'_>> = views.iter().collect();
        let unseen = promised.unseen(&views).into_iter().map(str::to_owned).collect();
        (promised, unseen)
    }
}

/// The MachineConfigNodes beside their nodes. Both come out of their caches by name, so one pass over both finds all.
pub struct Beside<'a> {
    rest: &'a [Arc<MachineConfigNode>],
}

impl<'a> Beside<'a> {
    /// None was asked for yet.
    pub fn new(progress: &'a [Arc<MachineConfigNode>]) -> Self {
        Self { rest: progress }
    }

    /// A view of a node that comes after all that were asked for before.
    pub fn view(&mut self, node: &'a Arc<Machine>) -> NodeView<'a> {
        while let [next, rest @ ..] = self.rest {
            match next.metadata.name.as_deref().unwrap_or_default().cmp(node.name()) {
                Ordering::Less => self.rest = rest,
                Ordering::Equal => return NodeView::of(node, Some(next)),
                Ordering::Greater => break,
            }
        }
        NodeView::of(node, None)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn machine_config_node(name: &str) -> Arc<MachineConfigNode> {
        let spec = json!({"configVersion": {"desired": "c"}, "node": {"name": name}, "pool": {"name": "worker"}});
        let object = json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigNode",
            "metadata": {"name": name}, "spec": spec});
        Arc::new(serde_json::from_value(object).unwrap())
    }

    #[test]
    fn nodes_are_seen_with_their_own_machine_config_nodes_whoever_else_has_one() {
        let machine = |name| Arc::new(serde_json::from_value(json!({"metadata": {"name": name}})).unwrap());
        let nodes: Vec<Arc<Machine>> = ["b", "c", "e", "f", "h"].map(machine).into();
        for told in [&["a", "b", "d", "e", "f", "g", "i"][..], &["h"], &["b"], &["a", "z"], &[]] {
            let progress: Vec<_> = told.iter().map(|name| machine_config_node(name)).collect();
            let mut beside = Beside::new(&progress);
            for node in &nodes {
                let found = beside.view(node).progress.map(|found| found.name_any());
                assert_eq!(found.as_deref(), told.contains(&node.name()).then_some(node.name()), "{told:?}");
            }
        }
    }
}
