//! What a pool says beside how far it is: nodes that somebody has to do something about, and nodes that two pools want.
//!
//! Nothing here has a time that passes or a count that changes with every node: it is part of a status, which is written when it
//! changes.

use std::borrow::Cow;

use crate::fleet::membership::Membership;
use crate::fleet::{Ailment, NodeView, Target};
use crate::rollout::waiting::{Reason, Waiting};
use crate::sentence::shorten;

/// How many nodes are named one by one.
const NAMED: usize = 3;
/// How much is said of each. The rest stands in its MachineConfigNode.
const LONGEST: usize = 1 << 10;

/// What a pool says beside how far it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remarks {
    /// What keeps the pool from its target until somebody does something, in one line; empty where nothing does.
    pub held_up: String,
    /// The nodes that other custom pools select too, in one line; empty where there are none.
    pub disputed: String,
}

impl Remarks {
    /// The remarks about a pool: `waiting` says why nodes do not move, `disputed` which nodes are in no pool on its account.
    pub fn of(
        nodes: &[&NodeView<'_>],
        target: Option<Target<'_>>,
        waiting: &[Waiting],
        disputed: &[String],
    ) -> Remarks {
        let waits = |waiting: &Waiting| match &waiting.reason {
            reason @ (Reason::DrainBlocked { .. } | Reason::Cordoned) => {
                Some(format!("Node {}: {}", waiting.node, reason.lasting()))
            }
            _ => None,
        };
        let mut said: Vec<String> = waiting.iter().filter_map(waits).collect();
        let cordoned = |node: &&&NodeView<'_>| node.ailment == Some(Ailment::Cordoned);
        if let Some(target) = target {
            let unsettled = unsettled(nodes, target);
            let by_hand = unsettled.iter().filter(|(node, _)| cordoned(&node));
            said.extend(by_hand.map(|(node, what)| format!("Node {}: {what}", node.name)));
        }
        said.sort_unstable();
        Remarks { held_up: line(&said), disputed: line(disputed) }
    }
}

/// The nodes that run the target and keep their pool from being updated all the same, each with the reason; by name.
pub fn unsettled<'n>(nodes: &[&'n NodeView<'n>], target: Target<'_>) -> Vec<(&'n NodeView<'n>, String)> {
    let mut found: Vec<(&NodeView<'_>, String)> = nodes
        .iter()
        .copied()
        .filter(|node| node.is_updated(target))
        .filter_map(|node| {
            let what = match node.ailment? {
                Ailment::Cordoned => {
                    format!(
                        "runs the target, and is cordoned by someone else; `kubectl uncordon {}` ends that",
                        node.name
                    )
                }
                Ailment::CordonedForUpdate => "runs the target, and is about to take pods again".to_owned(),
                Ailment::Condition { type_, status, .. } => {
                    format!("runs the target, and is not ready: condition {type_} is {status}")
                }
            };
            Some((node, what))
        })
        .collect();
    found.sort_by_key(|(node, _)| node.name);
    found
}

/// Why a node is in no pool, for the pools that argue about it.
pub fn dispute(node: &str, membership: &Membership<'_>) -> Option<String> {
    match membership {
        Membership::Torn(pools) => Some(format!(
            "Node {node} is in no pool and gets no configuration, as the custom pools {} all select it; take the labels of all \
             but one from it",
            pools.join(", ")
        )),
        _ => None,
    }
}

/// The first of many, and how many more there are.
fn line(said: &[String]) -> String {
    let more = said.len().saturating_sub(NAMED);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    let named: Vec<Cow<'_, str>> = said.iter().take(NAMED).map(|one| shorten(one, LONGEST)).collect();
    format!("{}{more}", named.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_node_with_much_to_say_leaves_room_for_the_others() {
        let long = "x".repeat(1 << 20);
        let said = line(&["a".to_owned(), long, "c".to_owned(), "d".to_owned()]);
        assert!(said.len() < 2 << 10 && said.ends_with("…; c; and 1 more"), "{} {said:.80}", said.len());
    }
}
