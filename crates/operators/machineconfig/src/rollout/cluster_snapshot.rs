//! What a decision looks at, taken at one moment: objects of several caches, and how they belong together.

use std::cmp::Ordering;
use std::sync::Arc;

use kube::ResourceExt as _;
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigNode, MachineConfigPool};
use seaworthy_plan::fleet::membership::Pools;
use seaworthy_plan::fleet::{NodeView, PoolView};
use seaworthy_plan::rendering::is_rendered;
use seaworthy_plan::rollout::reservation::Promise;

use crate::cached_node::CachedNode;
use crate::caches::Caches;

/// What a decision looks at, taken at one moment.
pub struct ClusterSnapshot {
    /// All pools.
    pub pools: Vec<Arc<MachineConfigPool>>,
    /// All nodes, by name.
    pub nodes: Vec<Arc<CachedNode>>,
    /// The MachineConfigNodes, by name.
    pub progress: Vec<Arc<MachineConfigNode>>,
    /// The rendered MachineConfigs.
    pub rendered: Vec<Arc<MachineConfig>>,
}

impl ClusterSnapshot {
    /// What the caches have now.
    pub fn of(caches: &Caches) -> ClusterSnapshot {
        let snapshot = ClusterSnapshot {
            pools: caches.pools.all(),
            nodes: caches.nodes.all(),
            progress: caches.machine_config_nodes.all(),
            rendered: caches.machine_configs.filter(is_rendered),
        };
        // A node that is not found where it should be would be taken for one that is gone.
        debug_assert!(snapshot.nodes.is_sorted_by_key(|node| node.name()));
        debug_assert!(snapshot.progress.is_sorted_by_key(|found| found.metadata.name.as_deref()));
        snapshot
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
        let is_member = |node: &&Arc<CachedNode>| pools.of_labels(node.labels()).primary() == Some(name);
        let nodes = promised.nodes.keys().filter_map(found).filter(is_member);
        let views: Vec<NodeView<'_>> = nodes.map(|node| NodeView::of(node, None)).collect();
        let views: Vec<&NodeView<'_>> = views.iter().collect();
        let unseen = promised.unseen(&views).into_iter().map(str::to_owned).collect();
        (promised, unseen)
    }
}

/// The MachineConfigNodes beside their nodes. Both come out of their caches by name, so one pass over both finds all.
pub struct ProgressJoin<'a> {
    rest: &'a [Arc<MachineConfigNode>],
}

impl<'a> ProgressJoin<'a> {
    /// None was asked for yet.
    pub fn new(progress: &'a [Arc<MachineConfigNode>]) -> Self {
        Self { rest: progress }
    }

    /// A view of a node that comes after all that were asked for before.
    pub fn view(&mut self, node: &'a Arc<CachedNode>) -> NodeView<'a> {
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
    use seaworthy_api::vocabulary::seaworthy::annotation;
    use serde_json::json;

    use super::*;

    fn machine_config_node(name: &str) -> Arc<MachineConfigNode> {
        let spec = json!({"configVersion": {"desired": "c"}, "node": {"name": name}, "pool": {"name": "worker"}});
        let object = json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigNode",
            "metadata": {"name": name}, "spec": spec});
        Arc::new(serde_json::from_value(object).unwrap())
    }

    fn machine(name: &str, revision: &str, role: &str) -> Arc<CachedNode> {
        let labels = json!({format!("node-role.kubernetes.io/{role}"): ""});
        let metadata = json!({"name": name, "resourceVersion": revision, "labels": labels});
        Arc::new(serde_json::from_value(json!({"metadata": metadata})).unwrap())
    }

    fn pool(name: &str, promised: &Promise) -> Arc<MachineConfigPool> {
        let selector = json!({"matchLabels": {format!("node-role.kubernetes.io/{name}"): ""}});
        let annotations = json!({annotation::PROMISED.as_str(): promised.to_text()});
        let object = json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
            "metadata": {"name": name, "annotations": annotations}, "spec": {"nodeSelector": selector}});
        Arc::new(serde_json::from_value(object).unwrap())
    }

    #[test]
    fn promises_of_nodes_that_are_behind_gone_or_elsewhere_are_unseen_and_no_others() {
        // By name, as they come out of a cache: a hyphen is before a full stop, and both are before a digit.
        let nodes = [
            machine("w-a", "5", "worker"),
            machine("w.a", "5", "worker"),
            machine("w1", "5", "master"),
            machine("w10", "5", "worker"),
            machine("w2", "5", "worker"),
        ];
        let revisions = [("w-a", "5"), ("w.a", "6"), ("w1", "5"), ("w10", "4"), ("w2", "5"), ("w3", "5")];
        let nodes_promised = revisions.map(|(node, revision)| (node.to_owned(), revision.to_owned())).into();
        let promised = Promise { config: "c".to_owned(), nodes: nodes_promised };
        let snapshot = ClusterSnapshot {
            pools: vec![pool("master", &Promise::default()), pool("worker", &promised)],
            nodes: nodes.into(),
            progress: Vec::new(),
            rendered: Vec::new(),
        };
        assert!(snapshot.nodes.is_sorted_by_key(|node| node.name()));
        let unseen = ["w.a", "w1", "w3"].map(str::to_owned).to_vec();
        assert_eq!(snapshot.promised("worker"), (promised, unseen));
        assert_eq!(snapshot.promised("master"), Default::default());
        assert_eq!(snapshot.promised("none"), Default::default());
    }

    #[test]
    fn nodes_are_seen_with_their_own_machine_config_nodes_whoever_else_has_one() {
        let nodes: Vec<Arc<CachedNode>> = ["b", "c", "e", "f", "h"].map(|name| machine(name, "1", "worker")).into();
        for told in [&["a", "b", "d", "e", "f", "g", "i"][..], &["h"], &["b"], &["a", "z"], &[]] {
            let progress: Vec<_> = told.iter().map(|name| machine_config_node(name)).collect();
            let mut join = ProgressJoin::new(&progress);
            for node in &nodes {
                let found = join.view(node).progress.map(|found| found.name_any());
                assert_eq!(found.as_deref(), told.contains(&node.name()).then_some(node.name()), "{told:?}");
            }
        }
    }
}
