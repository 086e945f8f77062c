//! Cluster objects: those of several caches at one moment, and their relations.

use std::cmp::Ordering;
use std::sync::Arc;

use kube::ResourceExt as _;
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigNode, MachineConfigPool};
use seaworthy_plan::fleet::membership::PoolSelectors;
use seaworthy_plan::fleet::{NodeView, PoolView};
use seaworthy_plan::rendering::is_rendered;
use seaworthy_plan::rollout::reservation::Reservation;

use crate::cached_node::CachedNode;
use crate::caches::Caches;

/// The inputs of a roll-out decision at one moment.
pub struct ClusterObjects {
    pub pools: Vec<Arc<MachineConfigPool>>,
    /// Sorted by name.
    pub nodes: Vec<Arc<CachedNode>>,
    /// Sorted by name.
    pub progress: Vec<Arc<MachineConfigNode>>,
    pub rendered: Vec<Arc<MachineConfig>>,
}

impl ClusterObjects {
    /// The present objects of the caches.
    pub fn of(caches: &Caches) -> ClusterObjects {
        let objects = ClusterObjects {
            pools: caches.pools.all(),
            nodes: caches.nodes.all(),
            progress: caches.machine_config_nodes.all(),
            rendered: caches.machine_configs.filter(is_rendered),
        };
        // A node that is not found because of a wrong order would be taken for deleted.
        debug_assert!(objects.nodes.is_sorted_by_key(|node| node.name()));
        debug_assert!(objects.progress.is_sorted_by_key(|found| found.metadata.name.as_deref()));
        objects
    }

    /// The reservation on a pool, and the reserved nodes that are not cached here in a state as late as at their reservation.
    pub fn reservation(&self, name: &str) -> (Reservation, Vec<String>) {
        let pool = self.pools.iter().find(|pool| pool.name_any() == name);
        let reservation = pool.map(|pool| Reservation::of(pool)).unwrap_or_default();
        if reservation.nodes.is_empty() {
            return (reservation, Vec::new());
        }
        let pools = PoolSelectors::new(self.pools.iter().map(|pool| PoolView::of(pool)));
        // They come by name.
        let found = |name: &String| Some(&self.nodes[self.nodes.binary_search_by(|node| node.name().cmp(name)).ok()?]);
        let is_member = |node: &&Arc<CachedNode>| pools.of_labels(node.labels()).primary() == Some(name);
        let nodes = reservation.nodes.keys().filter_map(found).filter(is_member);
        let views: Vec<NodeView<'_>> = nodes.map(|node| NodeView::of(node, None)).collect();
        let views: Vec<&NodeView<'_>> = views.iter().collect();
        let stale = reservation.stale(&views).into_iter().map(str::to_owned).collect();
        (reservation, stale)
    }
}

/// Joins MachineConfigNodes to their nodes. Both are sorted by name, so one pass over both finds all.
pub struct ProgressJoin<'a> {
    rest: &'a [Arc<MachineConfigNode>],
}

impl<'a> ProgressJoin<'a> {
    pub fn new(progress: &'a [Arc<MachineConfigNode>]) -> Self {
        Self { rest: progress }
    }

    /// A view of a node. Nodes must be passed in the order of their names.
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

    fn pool(name: &str, reservation: &Reservation) -> Arc<MachineConfigPool> {
        let selector = json!({"matchLabels": {format!("node-role.kubernetes.io/{name}"): ""}});
        let annotations = json!({annotation::RESERVED_NODES.as_str(): reservation.to_text()});
        let object = json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
            "metadata": {"name": name, "annotations": annotations}, "spec": {"nodeSelector": selector}});
        Arc::new(serde_json::from_value(object).unwrap())
    }

    #[test]
    fn reserved_nodes_that_are_outdated_deleted_or_in_other_pools_are_stale_and_no_others() {
        // Sorted by name, as a cache returns them: a hyphen is before a full stop, and both are before a digit.
        let nodes = [
            machine("w-a", "5", "worker"),
            machine("w.a", "5", "worker"),
            machine("w1", "5", "master"),
            machine("w10", "5", "worker"),
            machine("w2", "5", "worker"),
        ];
        let revisions = [("w-a", "5"), ("w.a", "6"), ("w1", "5"), ("w10", "4"), ("w2", "5"), ("w3", "5")];
        let reserved = revisions.map(|(node, revision)| (node.to_owned(), revision.to_owned())).into();
        let reservation = Reservation { config: "c".to_owned(), nodes: reserved };
        let objects = ClusterObjects {
            pools: vec![pool("master", &Reservation::default()), pool("worker", &reservation)],
            nodes: nodes.into(),
            progress: Vec::new(),
            rendered: Vec::new(),
        };
        assert!(objects.nodes.is_sorted_by_key(|node| node.name()));
        let stale = ["w.a", "w1", "w3"].map(str::to_owned).to_vec();
        assert_eq!(objects.reservation("worker"), (reservation, stale));
        assert_eq!(objects.reservation("master"), Default::default());
        assert_eq!(objects.reservation("none"), Default::default());
    }

    #[test]
    fn nodes_are_joined_to_their_own_machine_config_nodes() {
        let nodes: Vec<Arc<CachedNode>> = ["b", "c", "e", "f", "h"].map(|name| machine(name, "1", "worker")).into();
        for names in [&["a", "b", "d", "e", "f", "g", "i"][..], &["h"], &["b"], &["a", "z"], &[]] {
            let progress: Vec<_> = names.iter().map(|name| machine_config_node(name)).collect();
            let mut join = ProgressJoin::new(&progress);
            for node in &nodes {
                let found = join.view(node).progress.map(|found| found.name_any());
                assert_eq!(found.as_deref(), names.contains(&node.name()).then_some(node.name()), "{names:?}");
            }
        }
    }
}
