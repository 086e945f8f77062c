//! Promises: the orders that are about to be given, written on the pool before any of them is.
//!
//! Between a decision and the orders that come of it anything may happen: the process ends, another one decides, a request
//! hangs and arrives later. What was promised is therefore counted as given until it is certain that it is not: an order is
//! given at the revision of the node that was decided on, so once the node has another revision, the order has either been
//! given or will be refused.

use std::collections::BTreeMap;

use seaworthy_api::machineconfiguration::MachineConfigPool;
use seaworthy_api::vocabulary::seaworthy::annotation;
use seaworthy_change::Change;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::fleet::{NodeView, PoolView, Target};

/// How many orders are promised at a time.
pub const MOST: usize = 1000;
/// How many bytes a promise may have: it is an annotation, all annotations of an object together may have 256 KiB, and
/// the pool's owner has some too.
pub const MOST_BYTES: usize = 128 << 10;
/// What a promise has beside its nodes: braces, keys, and a configuration with the longest name there is.
const FRAME: usize = 320;

/// What a promise has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// So many more nodes.
    pub nodes: usize,
    bytes: usize,
}

impl Room {
    /// The room that is left beside what stays promised.
    pub fn beside<'a>(kept: impl Iterator<Item = (&'a str, &'a str)>) -> Room {
        kept.fold(Room { nodes: MOST, bytes: MOST_BYTES - FRAME }, |room, (node, revision)| Room {
            nodes: room.nodes.saturating_sub(1),
            bytes: room.bytes.saturating_sub(size(node, revision)),
        })
    }

    /// Takes a place for this node, if there is one.
    pub fn take(&mut self, node: &NodeView<'_>) -> bool {
        let size = size(node.name, node.resource_version.unwrap_or_default());
        let fits = self.nodes > 0 && self.bytes >= size;
        if fits {
            *self = Room { nodes: self.nodes - 1, bytes: self.bytes - size };
        }
        fits
    }
}

/// The bytes of one node in a promise: names and revisions need no escapes, but quotes, a colon and a comma.
fn size(node: &str, revision: &str) -> usize {
    node.len() + revision.len() + 6
}

/// The nodes of a promise that were read anew and are not what the promise is about: gone, or in another pool. What was
/// promised of them cannot come about any more, and once is enough to find that out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled(BTreeMap<String, String>);

impl Settled {
    /// Of the nodes that a promise is ahead of those that have to be read.
    pub fn unread<'a>(&self, promise: &Promise, unseen: &'a [String]) -> Vec<&'a String> {
        unseen.iter().filter(|node| self.0.get(*node) != promise.nodes.get(*node)).collect()
    }

    /// Takes down what all of them turned out to be, in place of what was known of an earlier promise.
    pub fn note(&mut self, promise: &Promise, unseen: &[String]) {
        let entry = |node: &String| Some((node.clone(), promise.nodes.get(node)?.clone()));
        self.0 = unseen.iter().filter_map(entry).collect();
    }
}

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
        let patch = json!({"metadata": {"annotations": {annotation::PROMISED.as_str(): self.to_text()}}});
        Change::patch(pool.object_ref(), patch)
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
    fn node_that_is_gone_is_read_once_for_every_promise() {
        let (mut settled, unseen) = (Settled::default(), ["w1".to_owned()]);
        assert_eq!(settled.unread(&promise(), &unseen), [&unseen[0]]);
        settled.note(&promise(), &unseen);
        assert!(settled.unread(&promise(), &unseen).is_empty());
        let later = Promise { nodes: BTreeMap::from([("w1".to_owned(), "9".to_owned())]), ..promise() };
        assert_eq!(settled.unread(&later, &unseen), [&unseen[0]], "somebody has seen it since");
        settled.note(&later, &[]);
        assert_eq!(settled, Settled::default());
    }

    #[test]
    fn full_promise_fits_an_annotation_whatever_its_nodes_are_called() {
        for length in [1, 40, 253] {
            let nodes: Vec<Node> = (0..MOST + 1)
                .map(|nth| {
                    let metadata = json!({"name": format!("{nth:0>length$}"), "resourceVersion": u64::MAX.to_string()});
                    serde_json::from_value(json!({"metadata": metadata})).unwrap()
                })
                .collect();
            let mut room = Room::beside(std::iter::empty());
            let mut promise = Promise { config: "c".repeat(253), nodes: BTreeMap::new() };
            for view in nodes.iter().map(|node| NodeView::of(node, None)).filter(|view| room.take(view)) {
                promise.nodes.insert(view.name.to_owned(), view.resource_version.unwrap().to_owned());
            }
            let count = promise.nodes.len();
            assert!(promise.to_text().len() <= MOST_BYTES, "{length}: {}", promise.to_text().len());
            assert!(if length < 100 { count == MOST } else { (400..MOST).contains(&count) }, "{length}: {count}");
            let kept = promise.nodes.iter().map(|(node, revision)| (node.as_str(), revision.as_str()));
            assert_eq!(Room::beside(kept), room);
        }
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
