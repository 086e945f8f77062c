//! Node match: the Node of each machine, by provider ID, and how far it is.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use seaworthy_api::meta::ObjectReference;

use super::node_index::{NodeIndex, WorkloadNode};
use super::report::{Member, MemberState};

/// A Node is available once it has been ready for longer than this, so that the next decision falls after that moment.
const RECHECK_DELAY: Duration = Duration::from_millis(1);

/// The machines of a pool with their Nodes, in the order of the list.
#[derive(Clone, Debug, Default)]
pub struct NodeMatch<'a> {
    pub members: Vec<Member>,
    /// The Nodes that were found, in the same order.
    pub nodes: Vec<&'a WorkloadNode>,
    pub ready: i32,
    pub available: i32,
    /// When the next Node will have been ready for long enough.
    pub recheck: Option<Duration>,
}

/// What a match depends on beside list and Nodes.
#[derive(Clone, Copy, Debug)]
pub struct MatchInputs<'a> {
    /// The Nodes that the pool has now.
    pub refs: &'a [ObjectReference],
    pub min_ready_seconds: i32,
    pub now: Timestamp,
}

/// Finds the Nodes of these provider IDs, which are different ones.
///
/// Differs: Nodes are looked up in each decision, and what is lost is lost, because upstream skips this while its counters
/// agree with each other, and keeps stale Nodes when it finds none.
pub fn matched<'a>(ids: &[&str], index: &'a NodeIndex, inputs: MatchInputs<'_>) -> NodeMatch<'a> {
    let known: HashSet<&str> = inputs.refs.iter().filter_map(|found| found.uid.as_deref()).collect();
    let mut result = NodeMatch::default();
    for id in ids {
        // A machine that has registered again under another name has two Nodes until its cloud removes one: the one that the
        // pool has stays, then the newest counts.
        let preferred =
            |node: &&WorkloadNode| (!known.contains(node.uid.as_str()), Reverse(node.created), node.name.clone());
        let node = index.with_provider_id(id).min_by_key(preferred);
        let state = node.map_or(MemberState::NoNode, |node| state(node, inputs));
        result.ready += i32::from(state.is_ready());
        result.available += i32::from(state == MemberState::Available);
        if let MemberState::NotYetAvailable { due: Some(due) } = state {
            // Differs: a timer wakes the pool when a Node has been ready for long enough; upstream waits for another event.
            let rest = Duration::try_from(due.duration_since(inputs.now)).unwrap_or_default() + RECHECK_DELAY;
            result.recheck = Some(result.recheck.map_or(rest, |recheck| recheck.min(rest)));
        }
        let node_name = node.map(|node| node.name.clone());
        result.members.push(Member { provider_id: (*id).to_owned(), node: node_name, state });
        result.nodes.extend(node);
    }
    result
}

fn state(node: &WorkloadNode, inputs: MatchInputs<'_>) -> MemberState {
    if !node.is_ready {
        return MemberState::NotReady;
    }
    if inputs.min_ready_seconds <= 0 {
        return MemberState::Available;
    }
    let needed = SignedDuration::from_secs(inputs.min_ready_seconds.into());
    // A time that overflows is one that does not come.
    let due = node.ready_since.and_then(|since| since.checked_add(needed).ok());
    match due {
        Some(due) if due < inputs.now => MemberState::Available,
        due => MemberState::NotYetAvailable { due },
    }
}
