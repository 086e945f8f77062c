//! Pool decision: everything that the pool controller decides about one pool, as changes and a report.
//!
//! Applying the changes and deciding again leads, without progress of nodes, to no further change; an idle pool causes
//! none at all.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use seaworthy_api::machineconfiguration::MachineConfigPoolStatus;
use seaworthy_api::machineconfiguration::controller_config::ControllerCertificate;
use seaworthy_api::vocabulary::seaworthy::annotation;
use seaworthy_change::{Change, Decision, Deferred, Purpose, Stage};
use serde_json::json;

use super::targeting;
use super::waiting::Reason;
use crate::fleet::NodeView;
use crate::rollout;
use crate::status::remark::Remarks;
use crate::status::{node_status, pool_status};

/// Everything that the decision may look at.
#[derive(Clone, Copy, Debug)]
pub struct PoolRolloutInputs<'a> {
    /// What decides which nodes move. Its nodes come with their MachineConfigNodes.
    pub rollout: rollout::RolloutInputs<'a>,
    /// The blockers of drains under way, by node.
    pub blockers: &'a BTreeMap<String, Arc<str>>,
    /// The nodes that were given an order a moment ago. While they are on their way without trouble, their
    /// MachineConfigNodes are written when they are done, which is often at once: one write instead of two.
    pub unanswered: &'a BTreeSet<String>,
    /// The nodes that are in no pool because this one and another both select them, each in a sentence.
    pub conflicting: &'a [String],
    /// The certificates of the ControllerConfig.
    pub certificates: &'a [ControllerCertificate],
    /// How many control-plane nodes the cluster has, in the words of Infrastructure.
    pub topology: Option<&'a str>,
    /// How long counts of nodes are not to be written yet, because they were written a moment ago. The rest of the status is
    /// written at once.
    pub count_delay: Option<Duration>,
}

/// How many MachineConfigNodes are written in one decision: what was decided on is held until it is performed.
const MAX_STATUS_UPDATES: usize = 1000;

/// What was found about a pool.
#[derive(Clone, Debug)]
pub struct PoolRolloutReport<'a> {
    /// Which node moves, which waits and why.
    pub verdicts: rollout::Verdicts<'a>,
    /// The status that the pool should have, if it has another.
    pub status: Option<MachineConfigPoolStatus>,
    /// Whether that status is written by this decision.
    pub is_status_written: bool,
}

/// Decides about a pool.
///
/// The stages: fences and the reservation, which make sure that the budget holds; what MachineConfigNodes report; the
/// orders; the pool's own status, which is written even if writes of single nodes fail.
pub fn desired<'a>(inputs: &PoolRolloutInputs<'a>) -> Decision<'a, PoolRolloutReport<'a>> {
    let rollout::RolloutInputs { pool, nodes, reservation, now, .. } = inputs.rollout;
    let verdicts = rollout::decide(&inputs.rollout);
    let next = reservation.next(&verdicts.chosen, nodes, pool.target());
    let reserve = next.map(|next| next.change(pool));
    let mut updates = status_updates(inputs, &verdicts);
    // Nodes that move now come first: there are no more of them than can be reserved at a time.
    updates.sort_by_key(|update| !update.is_order());
    let are_all_written = updates.len() <= MAX_STATUS_UPDATES;
    updates.truncate(MAX_STATUS_UPDATES);
    let topology = inputs.topology;
    let orders = targeting::changes(&targeting::TargetingInputs { pool, nodes, decision: &verdicts, topology, now });
    let certificates = inputs.certificates;
    let remarks = Remarks::of(nodes, pool.target(), &verdicts.waiting, inputs.conflicting);
    let status =
        pool_status::status(&pool_status::PoolStatusInputs { pool, nodes, remarks: &remarks, certificates, now });
    let status = status.filter(|status| pool.object.status.as_ref() != Some(status));
    let is_count = |status: &MachineConfigPoolStatus| {
        pool.object.status.as_ref().is_some_and(|old| pool_status::differ_in_counts_only(old, status))
    };
    let delay = status.as_ref().and_then(|status| inputs.count_delay.filter(|_| is_count(status)));
    let written = status.as_ref().filter(|_| delay.is_none());
    // Its conditions are one list with several writers, so the status is bound to the revision that the reservation left.
    let status_changes = written.into_iter().flat_map(|status| {
        let patch = Change::patch_status(pool.object_ref(), status);
        std::iter::once(patch).chain(pool_status::events(pool, status, &remarks))
    });
    let recheck = verdicts.recheck.and_then(|wait| Duration::try_from(wait).ok());
    let recheck = [recheck, delay, (!are_all_written).then_some(Duration::ZERO)].into_iter().flatten().min();
    let stages = vec![
        Stage::sequence(Purpose::Fence, fences(nodes, &verdicts)),
        Stage::sequence(Purpose::Reserve, reserve),
        Stage::per_object(Purpose::Report, []).with_deferred(updates.into_iter().map(NodeStatusUpdate::into_deferred)),
        Stage::per_object(Purpose::Order, orders),
        Stage::sequence(Purpose::Status, status_changes),
    ];
    let is_status_written = written.is_some();
    Decision { stages, report: PoolRolloutReport { verdicts, status, is_status_written }, recheck }
}

/// A MachineConfigNode that differs from what it should be.
///
/// A decision about a large pool may change thousands of these objects, each many times the size of what it follows from.
/// So each is built when its turn comes to be written.
#[derive(Clone, Debug)]
struct NodeStatusUpdate<'a> {
    inputs: node_status::NodeStatusInputs<'a>,
    waiting: Option<Reason>,
    is_unanswered: bool,
}

impl<'a> NodeStatusUpdate<'a> {
    /// Whether it reports an order that is about to be given.
    fn is_order(&self) -> bool {
        self.inputs.is_chosen
    }

    fn into_deferred(self) -> Deferred<'a> {
        Deferred::new(move || {
            let inputs = node_status::NodeStatusInputs { waiting: self.waiting.as_ref(), ..self.inputs };
            node_status::changes(inputs.node.progress, &node_status::desired(&inputs), self.is_unanswered)
        })
    }
}

/// The MachineConfigNodes of the pool's nodes, as far as they differ from what they should be.
fn status_updates<'a>(inputs: &PoolRolloutInputs<'a>, verdicts: &rollout::Verdicts<'_>) -> Vec<NodeStatusUpdate<'a>> {
    let waiting: HashMap<&str, &Reason> =
        verdicts.waiting.iter().map(|waiting| (waiting.node.as_str(), &waiting.reason)).collect();
    let chosen: HashSet<&str> = verdicts.chosen.iter().copied().collect();
    let rollout::RolloutInputs { pool, nodes, now, .. } = inputs.rollout;
    let target = pool.target();
    let mut updates = Vec::new();
    for node in nodes.iter().copied() {
        let is_chosen = chosen.contains(node.name);
        let about = node_status::NodeStatusInputs {
            node,
            pool: Some(pool.name),
            target,
            is_chosen,
            waiting: None,
            blocker: inputs.blockers.get(node.name).map(Arc::as_ref),
            now,
        };
        let waiting = waiting.get(node.name).copied();
        let is_unanswered = is_chosen || (inputs.unanswered.contains(node.name) && node.is_on_course());
        if !node_status::is_current(&node_status::NodeStatusInputs { waiting, ..about }, is_unanswered) {
            updates.push(NodeStatusUpdate { inputs: about, waiting: waiting.cloned(), is_unanswered });
        }
    }
    updates
}

/// Fences nodes, so that a reserved order which is obsolete is refused.
fn fences(nodes: &[&NodeView<'_>], verdicts: &rollout::Verdicts<'_>) -> Vec<Change> {
    let is_stray = |node: &&&NodeView<'_>| verdicts.fence.binary_search(&node.name).is_ok();
    let fence = |node: &&NodeView<'_>| {
        let revision = node.resource_version.unwrap_or_default();
        let (key, former) = (annotation::ORDER_FENCE.as_str(), annotation::FORMER_ORDER_FENCE.as_str());
        let patch = json!({"metadata": {"annotations": {key: revision, former: null}}});
        Change::patch(node.object_ref(), patch)
    };
    nodes.iter().filter(is_stray).map(fence).collect()
}
