//! Promises: the orders that are about to be given, written on the pool before any of them is.
//!
//! Between a decision and the orders that come of it anything may happen: the process ends, another one decides, a request
//! hangs and arrives later. What was promised is therefore counted as given until it is certain that it is not: an order is
//! given at the revision of the node that was decided on, so once the node has another revision, the order has either been
//! given or will be refused.

use std::collections::BTreeMap;

use seaworthy_api::machineconfiguration::MachineConfigPool;
use seaworthy_api::vocabulary::seaworthy::annotation;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::change::{Change, Reference};
use crate::fleet::{NodeView, PoolView, Target};

/// How many orders are promised at a time: a promise is an annotation, and all annotations of an object together may have
/// 256 KiB.
pub const MOST: usize = 1000;

/// The orders that are about to be given, or were when it was written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Promise {
    /// The rendered MachineConfig.
    pub config: String,
    /// The nodes, with the revision at which each is given the order.
    pub nodes: BTreeMap<String, String>,
}

impl Promise {
    /// What is promised on a pool. What cannot be read promises nothing: nobody who could act on it wrote it.
    pub fn of(pool: &MachineConfigPool) -> Promise {
        let text = annotation::PROMISED.of(&pool.metadata);
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    /// As it is written on a pool.
    pub fn to_text(&self) -> String {
        // Texts in a map can always be written.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The change that writes it on a pool as it was seen.
    pub fn change(&self, pool: PoolView<'_>) -> Change {
        let metadata = &pool.object.metadata;
        let object = Reference {
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
            ..Reference::pool(pool.name)
        };
        let patch = json!({"metadata": {"annotations": {annotation::PROMISED.as_str(): self.to_text()}}});
        Change::Patch { object, patch }
    }

    /// Whether a node may still be given the order that was promised. Whatever the node should run as it was seen: what
    /// was promised may have been something else.
    pub fn is_open(&self, node: &NodeView<'_>) -> bool {
        let is_at = |revision: &String| node.resource_version == Some(revision);
        self.nodes.get(node.name).is_some_and(is_at)
    }

    /// The nodes that somebody who promised had seen later than they are here, or that are not here at all. Before anything
    /// is decided they have to be read anew: one of them may be away, and does not look it.
    pub fn unseen<'s>(&'s self, nodes: &[&NodeView<'_>]) -> Vec<&'s str> {
        let seen: BTreeMap<&str, Option<u64>> =
            nodes.iter().map(|node| (node.name, node.resource_version.and_then(|text| text.parse().ok()))).collect();
        let is_unseen = |(name, revision): &(&String, &String)| match seen.get(name.as_str()) {
            None => true,
            // Revisions that are no numbers cannot be compared.
            Some(seen) => seen.zip(revision.parse().ok()).is_some_and(|(seen, promised): (u64, u64)| seen < promised),
        };
        self.nodes.iter().filter(is_unseen).map(|(name, _)| name.as_str()).collect()
    }

    /// The same without these nodes.
    #[must_use]
    pub fn without(mut self, nodes: &[String]) -> Promise {
        self.nodes.retain(|node, _| !nodes.contains(node));
        self
    }

    /// What stays promised: the nodes that are out, or may be at any moment, with the revision of the order.
    pub fn kept<'s>(
        &'s self,
        nodes: &'s [&'s NodeView<'s>],
        target: Target<'s>,
    ) -> impl Iterator<Item = (&'s str, &'s str)> {
        let is_out = move |node: &&&NodeView<'_>| self.is_open(node) || node.is_away(target);
        nodes.iter().filter(is_out).filter_map(|node| Some((node.name, self.nodes.get(node.name)?.as_str())))
    }

    /// The promise to write before these nodes are given the target; `None` if all of it is promised already.
    ///
    /// What was promised stays promised until its node is seen back: who decides next may see nodes as they were long ago,
    /// and would otherwise not know that they are away.
    pub fn next(&self, chosen: &[&str], nodes: &[&NodeView<'_>], target: Option<Target<'_>>) -> Option<Promise> {
        let target = target.filter(|_| !chosen.is_empty())?;
        let by_name: BTreeMap<&str, &NodeView<'_>> = nodes.iter().map(|node| (node.name, *node)).collect();
        let promised: BTreeMap<String, String> = chosen
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), by_name.get(name)?.resource_version?.to_owned())))
            .collect();
        let is_kept = |(node, revision): (&String, &String)| self.nodes.get(node) == Some(revision);
        if self.config == target.config && promised.iter().all(is_kept) {
            return None;
        }
        let mut all: BTreeMap<String, String> =
            self.kept(nodes, target).map(|(node, revision)| (node.to_owned(), revision.to_owned())).collect();
        all.extend(promised);
        Some(Promise { config: target.config.to_owned(), nodes: all })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Node;

    fn node(revision: &str, desired: &str) -> Node {
        let annotation = "machineconfiguration.openshift.io/desiredConfig";
        let metadata = json!({"name": "w1", "resourceVersion": revision, "annotations": {annotation: desired}});
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    fn promise() -> Promise {
        Promise { config: "new".to_owned(), nodes: BTreeMap::from([("w1".to_owned(), "7".to_owned())]) }
    }

    #[test]
    fn promise_is_open_until_the_node_has_changed() {
        assert!(promise().is_open(&NodeView::of(&node("7", "old"), None)));
        assert!(!promise().is_open(&NodeView::of(&node("8", "old"), None)), "an order at revision 7 is refused now");
        assert!(!promise().is_open(&NodeView::of(&node("8", "new"), None)), "it was given");
        assert!(!Promise::default().is_open(&NodeView::of(&node("7", "old"), None)));
    }

    #[test]
    fn what_is_promised_already_is_not_written_again() {
        let node = node("7", "old");
        let view = NodeView::of(&node, None);
        let target = |config| Some(Target { config, image: None });
        assert_eq!(promise().next(&["w1"], &[&view], target("new")), None);
        assert_eq!(promise().next(&[], &[&view], target("other")), None);
        assert_eq!(Promise::default().next(&["w1"], &[&view], target("new")), Some(promise()));
        assert_eq!(promise().next(&["w1"], &[&view], target("other")).unwrap().config, "other");
    }

    #[test]
    fn promise_survives_the_pool() {
        let mut pool = MachineConfigPool::default();
        assert_eq!(Promise::of(&pool), Promise::default());
        let annotations = pool.metadata.annotations.get_or_insert_default();
        annotations.insert(annotation::PROMISED.into(), promise().to_text());
        assert_eq!(Promise::of(&pool), promise());
    }
}
