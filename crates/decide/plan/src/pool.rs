//! Everything about one pool at once: the decision of the pool controller, as changes and a report.
//!
//! Applying the changes and deciding again leads, without progress of nodes, to no further change; an idle pool causes
//! none at all.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use seaworthy_api::machineconfiguration::MachineConfigPoolStatus;
use seaworthy_api::machineconfiguration::controller_config::ControllerCertificate;
use seaworthy_api::vocabulary::seaworthy::annotation;
use serde_json::json;

use crate::change::{Change, Event, Reference};
use crate::custom_boot::Boots;
use crate::fleet::{NodeView, PoolView};
use crate::hold::Hold;
use crate::promise::Promise;
use crate::remark::Remarks;
use crate::rollout::Partner;
use crate::waiting::Reason;
use crate::{node_status, pool_status, rollout, targeting};

/// Everything that the decision may look at.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The pool.
    pub pool: PoolView<'a>,
    /// The nodes that take their configuration from it, with their MachineConfigNodes.
    pub nodes: &'a [&'a NodeView<'a>],
    /// What is in the way of drains under way, by node.
    pub hindrances: &'a BTreeMap<String, Arc<str>>,
    /// The nodes that were given an order a moment ago. While they are on their way without trouble, their
    /// MachineConfigNodes are told with the end, which often follows at once: one write instead of two.
    pub unanswered: &'a BTreeSet<String>,
    /// What else asks nodes to wait.
    pub holds: &'a [Hold],
    /// The nodes that the pods of the controllers run on, one for each pod.
    pub operator_nodes: &'a [&'a str],
    /// Custom pools that nodes may have booted for.
    pub boots: &'a Boots<'a>,
    /// The pool that keeps quorum together with this one.
    pub partner: Option<Partner<'a>>,
    /// What is promised on the pool.
    pub promised: &'a Promise,
    /// The nodes that are in no pool because this one and another both select them, each in a sentence.
    pub disputed: &'a [String],
    /// The certificates of the ControllerConfig.
    pub certificates: &'a [ControllerCertificate],
    /// How many control-plane nodes the cluster has, in the words of Infrastructure.
    pub topology: Option<&'a str>,
    /// The time.
    pub now: Timestamp,
}

/// What should change, and the reason for everything that should not.
#[derive(Clone, Debug)]
pub struct Decision<'a> {
    /// What to do first, one after the other, and nothing else if one of them fails: what makes sure that the budget holds.
    pub before: Vec<Change>,
    /// The MachineConfigNodes that say something else than they should; they come first of what is done then.
    pub tellings: Vec<Telling<'a>>,
    /// What to do then; those of one object in their order, different objects at the same time.
    pub changes: Vec<Change>,
    /// Who moves, who waits and why.
    pub report: rollout::Decision<'a>,
    /// The status that the pool should have, if it has another. Its conditions are one list with several writers, so it is
    /// written at the revision that is left after `before`.
    pub status: Option<MachineConfigPoolStatus>,
    /// What to tell once the status is written.
    pub events: Vec<Event>,
    /// When to decide again although nothing has changed.
    pub recheck: Option<SignedDuration>,
}

/// Decides about a pool.
pub fn desired<'a>(inputs: &Inputs<'a>) -> Decision<'a> {
    let Inputs { pool, nodes, now, .. } = *inputs;
    let promised = inputs.promised;
    let report = rollout::decide(&rollout::Inputs {
        pool,
        nodes,
        holds: inputs.holds,
        operator_nodes: inputs.operator_nodes,
        boots: inputs.boots,
        partner: inputs.partner,
        promised,
        now,
    });
    let mut before = fences(nodes, &report);
    before.extend(promised.next(&report.chosen, nodes, pool.target()).map(|promise| promise.change(pool)));
    let tellings = tellings(inputs, &report);
    let topology = inputs.topology;
    let changes = targeting::changes(&targeting::Inputs { pool, nodes, decision: &report, topology, now });
    let certificates = inputs.certificates;
    let remarks = Remarks::of(nodes, pool.target(), &report.waiting, inputs.disputed);
    let status = pool_status::status(&pool_status::Inputs { pool, nodes, remarks: &remarks, certificates, now });
    let recheck = report.recheck;
    let status = status.filter(|status| pool.object.status.as_ref() != Some(status));
    let events = status.as_ref().map(|status| pool_status::events(pool, status, &remarks)).unwrap_or_default();
    Decision { before, tellings, changes, report, status, events, recheck }
}

/// What a node's MachineConfigNode should say, and does not yet.
///
/// A decision about a large pool may change thousands of these objects, each many times the size of what it follows from.
/// So each is built when its turn comes to be written.
#[derive(Clone, Debug)]
pub struct Telling<'a> {
    about: node_status::Inputs<'a>,
    waiting: Option<Reason>,
    is_unanswered: bool,
}

impl Telling<'_> {
    /// Whether it tells of an order that is about to be given.
    pub fn is_order(&self) -> bool {
        self.about.is_chosen
    }

    /// The changes that tell it.
    pub fn changes(&self) -> Vec<Change> {
        let inputs = node_status::Inputs { waiting: self.waiting.as_ref(), ..self.about };
        node_status::changes(inputs.node.progress, &node_status::desired(&inputs), self.is_unanswered)
    }
}

/// The MachineConfigNodes of the pool's nodes, as far as they differ from what they should be.
fn tellings<'a>(inputs: &Inputs<'a>, report: &rollout::Decision<'_>) -> Vec<Telling<'a>> {
    let waiting: HashMap<&str, &Reason> =
        report.waiting.iter().map(|waiting| (waiting.node.as_str(), &waiting.reason)).collect();
    let chosen: HashSet<&str> = report.chosen.iter().copied().collect();
    let target = inputs.pool.target();
    let mut tellings = Vec::new();
    for node in inputs.nodes.iter().copied() {
        let is_chosen = chosen.contains(node.name);
        let about = node_status::Inputs {
            node,
            pool: Some(inputs.pool.name),
            target,
            is_chosen,
            waiting: None,
            hindrance: inputs.hindrances.get(node.name).map(Arc::as_ref),
            now: inputs.now,
        };
        let waiting = waiting.get(node.name).copied();
        let is_unanswered = is_chosen || (inputs.unanswered.contains(node.name) && node.is_on_course());
        if !node_status::is_told(&node_status::Inputs { waiting, ..about }, is_unanswered) {
            tellings.push(Telling { about, waiting: waiting.cloned(), is_unanswered });
        }
    }
    tellings
}

/// Touches nodes, so that an order which was promised and is not wanted any more is refused.
fn fences(nodes: &[&NodeView<'_>], report: &rollout::Decision<'_>) -> Vec<Change> {
    let is_stray = |node: &&&NodeView<'_>| report.fence.binary_search(&node.name).is_ok();
    let fence = |node: &&NodeView<'_>| {
        let revision = node.resource_version.unwrap_or_default();
        let patch = json!({"metadata": {"annotations": {annotation::FENCED.as_str(): revision}}});
        Change::Patch { object: Reference::node(node), patch }
    };
    nodes.iter().filter(is_stray).map(fence).collect()
}
