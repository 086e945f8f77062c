//! Reservations: the orders that are about to be given, written on the pool before any of them is.
//!
//! Between a decision and its orders anything may happen: the process ends, another one decides, a request hangs and arrives
//! later. A reserved order therefore counts as given until it is certain that it is not: an order is
//! given at the revision of the node that was decided on, so once the node has another revision, the order has either been
//! given or will be refused.

use std::collections::BTreeMap;

use seaworthy_api::machineconfiguration::MachineConfigPool;
use seaworthy_api::vocabulary::seaworthy::annotation;
use seaworthy_change::Change;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::fleet::{NodeView, PoolView, Target};

/// How many orders are reserved at a time.
pub const MAX_NODES: usize = 1000;
/// How many bytes a reservation may have: it is an annotation, all annotations of an object together may have 256 KiB, and
/// the pool's owner has some too.
pub const MAX_BYTES: usize = 128 << 10;
/// What a reservation has beside its nodes: braces, keys, and a configuration with the longest name there is.
const OVERHEAD_BYTES: usize = 320;

/// What can still be added to a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headroom {
    pub nodes: usize,
    bytes: usize,
}

impl Headroom {
    /// The headroom that is left when these stay reserved.
    pub fn after<'a>(kept: impl Iterator<Item = (&'a str, &'a str)>) -> Headroom {
        kept.fold(Headroom { nodes: MAX_NODES, bytes: MAX_BYTES - OVERHEAD_BYTES }, |room, (node, revision)| Headroom {
            nodes: room.nodes.saturating_sub(1),
            bytes: room.bytes.saturating_sub(size(node, revision)),
        })
    }

    /// Adds this node, if it fits.
    pub fn take(&mut self, node: &NodeView<'_>) -> bool {
        let size = size(node.name, node.resource_version.unwrap_or_default());
        let fits = self.nodes > 0 && self.bytes >= size;
        if fits {
            *self = Headroom { nodes: self.nodes - 1, bytes: self.bytes - size };
        }
        fits
    }
}

/// The bytes of one node in a reservation: names and revisions need no escapes, but quotes, a colon and a comma.
fn size(node: &str, revision: &str) -> usize {
    node.len() + revision.len() + 6
}

/// The nodes of a reservation that were read again and are gone or in another pool. Their orders cannot be given any more,
/// and one read is enough to find that out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettledNodes(BTreeMap<String, String>);

impl SettledNodes {
    /// Those of the stale nodes that have to be read.
    pub fn unread<'a>(&self, reservation: &Reservation, stale: &'a [String]) -> Vec<&'a String> {
        stale.iter().filter(|node| self.0.get(*node) != reservation.nodes.get(*node)).collect()
    }

    /// Records that these were read, in place of what was known of an earlier reservation.
    pub fn note(&mut self, reservation: &Reservation, stale: &[String]) {
        let entry = |node: &String| Some((node.clone(), reservation.nodes.get(node)?.clone()));
        self.0 = stale.iter().filter_map(entry).collect();
    }
}

/// The orders that are about to be given, or were when it was written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reservation {
    /// The rendered MachineConfig; empty if there are several.
    pub config: String,
    /// The nodes, with the revision at which each is given the order.
    pub nodes: BTreeMap<String, String>,
}

impl Reservation {
    /// The reservation on a pool. What cannot be read reserves nothing: no controller wrote it.
    ///
    /// After a downgrade and another upgrade there is one under the present key and one under the former: orders of both may
    /// still be on their way, so both count.
    pub fn of(pool: &MachineConfigPool) -> Reservation {
        let keys = [annotation::RESERVED_NODES, annotation::FORMER_RESERVED_NODES];
        let found = keys.into_iter().filter_map(|key| serde_json::from_str(key.of(&pool.metadata)?).ok());
        found.reduce(Reservation::union).unwrap_or_default()
    }

    /// The nodes of both, each with the later revision. An order at the earlier one is refused by now, because the later one was
    /// reserved when the node had it.
    fn union(mut self, other: Reservation) -> Reservation {
        if self.config != other.config {
            // It is about no single configuration, so the next orders write it again, under one key.
            self.config.clear();
        }
        let number = |revision: &String| revision.parse::<u64>().ok();
        for (node, revision) in other.nodes {
            let is_later = self.nodes.get(&node).is_none_or(|known| number(known) < number(&revision));
            if is_later {
                self.nodes.insert(node, revision);
            }
        }
        self
    }

    /// As it is written on a pool.
    pub fn to_text(&self) -> String {
        // Texts in a map can always be written.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The change that writes it on a pool as it was seen.
    pub fn change(&self, pool: PoolView<'_>) -> Change {
        let (key, former) = (annotation::RESERVED_NODES.as_str(), annotation::FORMER_RESERVED_NODES.as_str());
        let patch = json!({"metadata": {"annotations": {key: self.to_text(), former: null}}});
        Change::patch(pool.object_ref(), patch)
    }

    /// Whether a node may still receive its reserved order. That does not depend on the target of the node as it was seen: the
    /// reserved order may be another one.
    pub fn is_open(&self, node: &NodeView<'_>) -> bool {
        let is_at = |revision: &String| node.resource_version == Some(revision);
        self.nodes.get(node.name).is_some_and(is_at)
    }

    /// The nodes that were reserved at a later revision than they have here, or that are not here at all. Before anything is
    /// decided they have to be read again: one of them may be unavailable, and does not look so.
    pub fn stale<'s>(&'s self, nodes: &[&NodeView<'_>]) -> Vec<&'s str> {
        let seen: BTreeMap<&str, Option<u64>> =
            nodes.iter().map(|node| (node.name, node.resource_version.and_then(|text| text.parse().ok()))).collect();
        let is_stale = |(name, revision): &(&String, &String)| match seen.get(name.as_str()) {
            None => true,
            // Revisions that are no numbers cannot be compared.
            Some(seen) => seen.zip(revision.parse().ok()).is_some_and(|(seen, reserved): (u64, u64)| seen < reserved),
        };
        self.nodes.iter().filter(is_stale).map(|(name, _)| name.as_str()).collect()
    }

    /// The reservation without these nodes.
    #[must_use]
    pub fn without(mut self, nodes: &[String]) -> Reservation {
        self.nodes.retain(|node, _| !nodes.contains(node));
        self
    }

    /// What stays reserved: the nodes that carry out an order, or may at any moment, with the revision of the order.
    pub fn kept<'s>(
        &'s self,
        nodes: &'s [&'s NodeView<'s>],
        target: Target<'s>,
    ) -> impl Iterator<Item = (&'s str, &'s str)> {
        let is_out = move |node: &&&NodeView<'_>| self.is_open(node) || node.uses_budget(target);
        nodes.iter().filter(is_out).filter_map(|node| Some((node.name, self.nodes.get(node.name)?.as_str())))
    }

    /// The reservation to write before these nodes are given the target; `None` if all of it is reserved already.
    ///
    /// A node stays reserved until it is seen available again: the next decision may see nodes as they were long ago, and would
    /// otherwise not know that they are unavailable.
    pub fn next(&self, chosen: &[&str], nodes: &[&NodeView<'_>], target: Option<Target<'_>>) -> Option<Reservation> {
        let target = target.filter(|_| !chosen.is_empty())?;
        let by_name: BTreeMap<&str, &NodeView<'_>> = nodes.iter().map(|node| (node.name, *node)).collect();
        let reserved: BTreeMap<String, String> = chosen
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), by_name.get(name)?.resource_version?.to_owned())))
            .collect();
        let is_kept = |(node, revision): (&String, &String)| self.nodes.get(node) == Some(revision);
        if self.config == target.config && reserved.iter().all(is_kept) {
            return None;
        }
        let mut all: BTreeMap<String, String> =
            self.kept(nodes, target).map(|(node, revision)| (node.to_owned(), revision.to_owned())).collect();
        all.extend(reserved);
        Some(Reservation { config: target.config.to_owned(), nodes: all })
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

    fn reservation() -> Reservation {
        Reservation { config: "new".to_owned(), nodes: BTreeMap::from([("w1".to_owned(), "7".to_owned())]) }
    }

    #[test]
    fn reservation_is_open_until_the_node_has_changed() {
        assert!(reservation().is_open(&NodeView::of(&node("7", "old"), None)));
        assert!(
            !reservation().is_open(&NodeView::of(&node("8", "old"), None)),
            "an order at revision 7 is refused now"
        );
        assert!(!reservation().is_open(&NodeView::of(&node("8", "new"), None)), "it was given");
        assert!(!Reservation::default().is_open(&NodeView::of(&node("7", "old"), None)));
    }

    #[test]
    fn existing_reservation_is_not_written_again() {
        let node = node("7", "old");
        let view = NodeView::of(&node, None);
        let target = |config| Some(Target { config, image: None });
        assert_eq!(reservation().next(&["w1"], &[&view], target("new")), None);
        assert_eq!(reservation().next(&[], &[&view], target("other")), None);
        assert_eq!(Reservation::default().next(&["w1"], &[&view], target("new")), Some(reservation()));
        assert_eq!(reservation().next(&["w1"], &[&view], target("other")).unwrap().config, "other");
    }

    #[test]
    fn deleted_node_is_read_once_per_reservation() {
        let (mut settled, stale) = (SettledNodes::default(), ["w1".to_owned()]);
        assert_eq!(settled.unread(&reservation(), &stale), [&stale[0]]);
        settled.note(&reservation(), &stale);
        assert!(settled.unread(&reservation(), &stale).is_empty());
        let later = Reservation { nodes: BTreeMap::from([("w1".to_owned(), "9".to_owned())]), ..reservation() };
        assert_eq!(settled.unread(&later, &stale), [&stale[0]], "another process has seen it since");
        settled.note(&later, &[]);
        assert_eq!(settled, SettledNodes::default());
    }

    #[test]
    fn full_reservation_fits_an_annotation_whatever_its_nodes_are_called() {
        for length in [1, 40, 253] {
            let nodes: Vec<Node> = (0..MAX_NODES + 1)
                .map(|nth| {
                    let metadata = json!({"name": format!("{nth:0>length$}"), "resourceVersion": u64::MAX.to_string()});
                    serde_json::from_value(json!({"metadata": metadata})).unwrap()
                })
                .collect();
            let mut room = Headroom::after(std::iter::empty());
            let mut reservation = Reservation { config: "c".repeat(253), nodes: BTreeMap::new() };
            for view in nodes.iter().map(|node| NodeView::of(node, None)).filter(|view| room.take(view)) {
                reservation.nodes.insert(view.name.to_owned(), view.resource_version.unwrap().to_owned());
            }
            let count = reservation.nodes.len();
            assert!(reservation.to_text().len() <= MAX_BYTES, "{length}: {}", reservation.to_text().len());
            assert!(
                if length < 100 { count == MAX_NODES } else { (400..MAX_NODES).contains(&count) },
                "{length}: {count}"
            );
            let kept = reservation.nodes.iter().map(|(node, revision)| (node.as_str(), revision.as_str()));
            assert_eq!(Headroom::after(kept), room);
        }
    }

    #[test]
    fn reservation_survives_a_round_trip_through_the_pool() {
        let mut pool = MachineConfigPool::default();
        assert_eq!(Reservation::of(&pool), Reservation::default());
        let annotations = pool.metadata.annotations.get_or_insert_default();
        annotations.insert(annotation::RESERVED_NODES.into(), reservation().to_text());
        assert_eq!(Reservation::of(&pool), reservation());
    }

    fn of_both(present: &str, former: &str) -> Reservation {
        let mut pool = MachineConfigPool::default();
        annotation::RESERVED_NODES.set(&mut pool.metadata, present);
        annotation::FORMER_RESERVED_NODES.set(&mut pool.metadata, former);
        Reservation::of(&pool)
    }

    #[test]
    fn reservations_under_both_keys_count_with_the_later_revision_of_each_node() {
        let found = of_both(
            r#"{"config":"stale","nodes":{"both":"9","later":"30","present":"5"}}"#,
            r#"{"config":"new","nodes":{"both":"10","former":"8","later":"7"}}"#,
        );
        let revisions = [("both", "10"), ("former", "8"), ("later", "30"), ("present", "5")];
        let nodes = revisions.map(|(node, revision)| (node.to_owned(), revision.to_owned())).into();
        assert_eq!(found, Reservation { config: String::new(), nodes });
        for (present, former) in [(reservation().to_text().as_str(), "{"), ("{", &*reservation().to_text())] {
            assert_eq!(of_both(present, former), reservation(), "one that cannot be read does not hide the other");
        }
    }

    #[test]
    fn order_of_an_earlier_version_is_open_beside_an_outdated_reservation_until_the_next_one_is_written() {
        let found = of_both(r#"{"config":"stale","nodes":{"w1":"5","w2":"6"}}"#, &reservation().to_text());
        let node = node("7", "old");
        let view = NodeView::of(&node, None);
        assert!(found.is_open(&view));
        let target = Target { config: "new", image: None };
        assert_eq!(found.kept(&[&view], target).collect::<Vec<_>>(), [("w1", "7")], "there is no w2");
        // It is written, although the same order is reserved: that removes the former key.
        assert_eq!(found.next(&["w1"], &[&view], Some(target)), Some(reservation()));
        let agreed = of_both(&reservation().to_text(), &reservation().to_text());
        assert_eq!((agreed.next(&["w1"], &[&view], Some(target)), agreed), (None, reservation()));
    }
}
