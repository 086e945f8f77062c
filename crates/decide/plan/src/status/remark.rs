//! Remarks: conditions of a pool outside its progress, for nodes that need a user's action and nodes that several pools select.
//!
//! Nothing here has a time that passes or a count that changes with every node: it is part of a status, which is written when it
//! changes.

use seaworthy_values::list;
use seaworthy_values::text::truncate;

use crate::fleet::membership::Membership;
use crate::fleet::{NodeView, Target, UnreadyReason};
use crate::rollout::waiting::{Reason, Waiting};

/// How many nodes are named one by one.
const MAX_NAMED: usize = 3;
/// The size of the text about each. All of it is in the MachineConfigNode.
const MAX_REMARK_BYTES: usize = 1 << 10;

/// Remarks of a pool beside its progress.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remarks {
    /// What keeps the pool from its target until a user acts, in one line; empty where nothing does.
    pub blockers: String,
    /// The nodes that other custom pools select too, in one line; empty where there are none.
    pub conflicting: String,
}

impl Remarks {
    /// The remarks about a pool: `waiting` says why nodes do not move, `conflicting` which nodes are in no pool on its account.
    pub fn of(
        nodes: &[&NodeView<'_>],
        target: Option<Target<'_>>,
        waiting: &[Waiting],
        conflicting: &[String],
    ) -> Remarks {
        let waits = |waiting: &Waiting| match &waiting.reason {
            reason @ (Reason::DrainBlocked { .. } | Reason::Cordoned) => {
                Some(format!("Node {}: {}", waiting.node, reason.stable_text()))
            }
            _ => None,
        };
        let mut remarks: Vec<String> = waiting.iter().filter_map(waits).collect();
        let cordoned = |node: &&&NodeView<'_>| node.unready_reason == Some(UnreadyReason::Cordoned);
        if let Some(target) = target {
            let unsettled = unsettled(nodes, target);
            let by_hand = unsettled.iter().filter(|(node, _)| cordoned(&node));
            remarks.extend(by_hand.map(|(node, what)| format!("Node {}: {what}", node.name)));
        }
        remarks.sort_unstable();
        Remarks { blockers: line(&remarks), conflicting: line(conflicting) }
    }
}

/// The nodes that run the target and keep their pool from being updated all the same, each with the reason; by name.
pub fn unsettled<'n>(nodes: &[&'n NodeView<'n>], target: Target<'_>) -> Vec<(&'n NodeView<'n>, String)> {
    let mut found: Vec<(&NodeView<'_>, String)> = nodes
        .iter()
        .copied()
        .filter(|node| node.is_updated(target))
        .filter_map(|node| {
            let what = match node.unready_reason? {
                UnreadyReason::Cordoned => {
                    format!(
                        "runs the target, and is cordoned by a user or another controller; run `kubectl uncordon {}`",
                        node.name
                    )
                }
                UnreadyReason::CordonedForUpdate => "runs the target, and is about to be uncordoned".to_owned(),
                UnreadyReason::Condition { type_, status, .. } => {
                    format!("runs the target, and is not ready: condition {type_} is {status}")
                }
            };
            Some((node, what))
        })
        .collect();
    found.sort_by_key(|(node, _)| node.name);
    found
}

/// Why a node is in no pool, for the pools that all select it.
pub fn conflict_message(node: &str, membership: &Membership<'_>) -> Option<String> {
    match membership {
        Membership::Conflict(pools) => Some(format!(
            "Node {node} is in no pool and gets no configuration, as the custom pools {} all select it; remove the labels of \
             all but one",
            pools.join(", ")
        )),
        _ => None,
    }
}

/// The first of many, and how many more there are.
fn line(remarks: &[String]) -> String {
    list::clauses(remarks.iter().map(|one| truncate(one, MAX_REMARK_BYTES)), MAX_NAMED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_node_with_many_remarks_leaves_room_for_the_others() {
        let long = "x".repeat(1 << 20);
        let remarks = line(&["a".to_owned(), long, "c".to_owned(), "d".to_owned()]);
        assert!(remarks.len() < 2 << 10 && remarks.ends_with("…; c; and 1 more"), "{} {remarks:.80}", remarks.len());
    }
}
