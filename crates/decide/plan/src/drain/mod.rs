//! Drains: what the drain controller does about a node now.
//!
//! - The node asks with the annotation `desiredDrain`; the answer is `lastAppliedDrain`, written only when it is true.
//! - Nothing is cordoned before it is known that the pods can leave.
//! - A cordon is lifted only if it is ours, which the annotation `seaworthy.dev/cordoned-for` on the node says.
//! - All state is on objects: a restarted controller goes on where the last one stopped.

pub mod eviction;

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use seaworthy_api::vocabulary::machineconfiguration::{NodeEvent, node as annotation};
use seaworthy_api::vocabulary::seaworthy;
use seaworthy_change::{Change, Decision, Event, ObjectRef, Purpose, Stage};
use seaworthy_values::text::truncate;
use serde_json::{Value, json};

use self::eviction::{Blocker, Evictions, ObjectName};
use crate::duration;
use crate::fleet::NodeView;

/// How long the API server has to answer.
pub const EVICTION_TIMEOUT: SignedDuration = SignedDuration::from_secs(90);
/// The time between two attempts.
pub const RETRY_INTERVAL: SignedDuration = SignedDuration::from_mins(1);
/// The time between two attempts after [`SLOW_RETRY_DELAY`]: the blocker is not likely to be gone in a minute.
pub const SLOW_RETRY_INTERVAL: SignedDuration = SignedDuration::from_mins(5);
/// How long a drain takes before attempts become rarer.
pub const SLOW_RETRY_DELAY: SignedDuration = SignedDuration::from_mins(10);
/// How long after its deadline a terminating pod is reported as a blocker.
pub const OVERDUE_DELAY: SignedDuration = SignedDuration::from_mins(1);
/// The size of the text about blockers.
const MAX_BLOCKER_BYTES: usize = 16 << 10;
/// How long a drain takes before the metric for it is raised.
pub const ALARM_DELAY: SignedDuration = SignedDuration::from_hours(1);

/// What a node requests with its annotation `desiredDrain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainRequest {
    /// The pods have to leave.
    Drain,
    /// The node takes pods again.
    Uncordon,
}

/// A drain request that is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "Node {node}: annotation {} is {found:?}; expected drain-<config> or uncordon-<config>",
    annotation::DESIRED_DRAIN
)]
pub struct InvalidDrainRequest {
    pub node: String,
    /// What was found.
    pub found: String,
}

/// The request of a node that is not completed yet.
pub fn request(node: &NodeView<'_>) -> Result<Option<DrainRequest>, InvalidDrainRequest> {
    let Some(text) = node.desired_drain.filter(|text| !text.is_empty()) else { return Ok(None) };
    let is_answered = node.last_applied_drain == Some(text);
    match text.split_once('-').map(|(verb, _)| verb) {
        // A node that was given its old order again during a drain repeats the last request before it, and was cordoned
        // since.
        Some("uncordon") if !is_answered || node.cordoned_for.is_some() => Ok(Some(DrainRequest::Uncordon)),
        _ if is_answered => Ok(None),
        Some("drain") => Ok(Some(DrainRequest::Drain)),
        _ => Err(InvalidDrainRequest { node: node.name.to_owned(), found: text.to_owned() }),
    }
}

/// Everything that the decision may look at.
#[derive(Clone, Copy, Debug)]
pub struct DrainInputs<'a> {
    pub node: &'a NodeView<'a>,
    /// What becomes of its pods.
    pub evictions: &'a Evictions,
    /// Since when the request is not completed, as its MachineConfigNode has it: the time of the condition `Drained`.
    pub since: Option<Timestamp>,
    /// When the drain last made progress: a pod was evicted, or the node was cordoned; `None` where that is not known yet.
    pub moved: Option<Timestamp>,
    /// The time.
    pub now: Timestamp,
}

/// Where a drain is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DrainProgress {
    /// The node wants nothing.
    Idle,
    /// It cannot begin: the pods could not leave.
    Blocked,
    /// The node was, or is being, taken out of scheduling, and its pods leave.
    Draining,
    Done,
}

/// What was found about a drain.
#[derive(Clone, Debug, PartialEq)]
pub struct DrainReport {
    /// Where the drain is.
    pub progress: DrainProgress,
    /// Whether it takes so long that the metric for it is raised.
    pub is_alarming: bool,
    /// What blocks the drain, for people, where waiting alone does not help. The text changes with the blockers only.
    pub blocker: Option<String>,
}

impl DrainReport {
    fn new(progress: DrainProgress) -> Self {
        Self { progress, is_alarming: false, blocker: None }
    }
}

fn decided(report: DrainReport, stage: Stage<'static>) -> Decision<'static, DrainReport> {
    Decision { stages: vec![stage], report, recheck: None }
}

/// Decides about a node.
pub fn decide(inputs: &DrainInputs<'_>) -> Result<Decision<'static, DrainReport>, InvalidDrainRequest> {
    let node = inputs.node;
    let Some((request, text)) = request(node)?.zip(node.desired_drain) else {
        return Ok(Decision::nothing(DrainReport::new(DrainProgress::Idle)));
    };
    Ok(match request {
        DrainRequest::Uncordon => uncordon(node, text),
        DrainRequest::Drain => drain(inputs, text),
    })
}

/// Differs: upstream lifts any cordon, because it does not know whose it is.
fn uncordon(node: &NodeView<'_>, text: &str) -> Decision<'static, DrainReport> {
    let mut changes = Vec::new();
    let is_ours = node.cordoned_for.is_some();
    let mut annotations = json!({ annotation::LAST_APPLIED_DRAIN.as_str(): text });
    let mut patch = json!({});
    if is_ours {
        annotations[seaworthy::annotation::CORDONED_FOR.as_str()] = Value::Null;
    }
    if is_ours && node.is_unschedulable {
        patch["spec"] = json!({ "unschedulable": null });
        changes.push(emit(node, false, NodeEvent::Uncordon, "Node uncordoned".to_owned()));
    }
    patch["metadata"] = json!({ "annotations": annotations });
    changes.insert(0, Change::patch(node.object_ref(), patch));
    decided(DrainReport::new(DrainProgress::Done), Stage::sequence(Purpose::Write, changes))
}

/// What blocks a drain. During one that makes progress, a budget allows nothing until evicted pods run elsewhere, and pods
/// need time to terminate: that is no blocker until it takes too long.
fn blocker(inputs: &DrainInputs<'_>) -> Option<String> {
    let gets_on = inputs.moved.is_none_or(|moved| inputs.now.duration_since(moved) < SLOW_RETRY_DELAY);
    let is_under_way = inputs.node.is_unschedulable && gets_on;
    let reported = inputs.evictions.summary_of(|blocker| match blocker {
        Blocker::Leaving { due, .. } => inputs.now.duration_since(due.0) >= OVERDUE_DELAY,
        Blocker::Budget { is_final: false, .. } => !is_under_way,
        _ => true,
    });
    (!reported.is_empty()).then(|| truncate(&reported, MAX_BLOCKER_BYTES).into_owned())
}

fn drain(inputs: &DrainInputs<'_>, text: &str) -> Decision<'static, DrainReport> {
    let (node, evictions) = (inputs.node, inputs.evictions);
    let lasts = inputs.since.map(|since| inputs.now.duration_since(since)).unwrap_or_default();
    if node.is_unschedulable && evictions.is_drained() {
        let patch = json!({"metadata": {"annotations": {annotation::LAST_APPLIED_DRAIN.as_str(): text}}});
        let change = Change::patch(node.object_ref(), patch);
        return decided(DrainReport::new(DrainProgress::Done), Stage::sequence(Purpose::Write, [change]));
    }
    let retry = if lasts > SLOW_RETRY_DELAY { SLOW_RETRY_INTERVAL } else { RETRY_INTERVAL };
    let (is_alarming, blocker) = (lasts >= ALARM_DELAY, blocker(inputs));
    let (mut changes, mut evicted) = (Vec::new(), Vec::new());
    if is_alarming {
        // The same words every time, so that it is one event.
        let limit = duration::short(ALARM_DELAY.as_secs());
        let what = blocker.as_deref().unwrap_or("its pods are still leaving");
        let message = format!("The node could not be drained for over {limit}: {what}");
        changes.push(emit(node, true, NodeEvent::DrainFailed, message));
    }
    // Once: the MachineConfigNode has the blocker from then on, and attempts are repeated often.
    if let Some(blocker) = blocker.as_deref().filter(|reported| node.drain_blocked() != Some(reported)) {
        let message = format!("The node cannot be drained: {blocker}");
        changes.push(emit(node, true, NodeEvent::DrainBlocked, message));
    }
    let progress = if !node.is_unschedulable && !evictions.is_feasible() {
        // A cordon that did not empty the node only takes room from others.
        DrainProgress::Blocked
    } else if !node.is_unschedulable {
        // Evictions follow in the next decision, on a node that is known to take no new pods.
        // Differs: the last answer is taken back, because it is true no longer: a node that goes back to the order before asks
        // for the same again, and would take that for done.
        let annotations = json!({
            seaworthy::annotation::CORDONED_FOR.as_str(): text,
            annotation::LAST_APPLIED_DRAIN.as_str(): null,
        });
        let patch = json!({"metadata": {"annotations": annotations}, "spec": {"unschedulable": true}});
        changes.push(Change::patch(node.object_ref(), patch));
        changes.push(emit(node, false, NodeEvent::Cordon, "Node cordoned".to_owned()));
        DrainProgress::Draining
    } else {
        evicted.extend(evictions.evict.iter().map(|pod| Change::evict(reference(pod))));
        DrainProgress::Draining
    };
    // A pod that cannot go keeps no other from going.
    let stages = vec![Stage::sequence(Purpose::Write, changes), Stage::each(Purpose::Evict, evicted)];
    Decision { stages, report: DrainReport { progress, is_alarming, blocker }, recheck: Duration::try_from(retry).ok() }
}

fn reference(pod: &ObjectName) -> ObjectRef {
    ObjectRef {
        namespace: Some(pod.namespace.clone()),
        uid: Some(pod.uid.clone()).filter(|uid| !uid.is_empty()),
        ..ObjectRef::named::<Pod>(&pod.name)
    }
}

fn emit(node: &NodeView<'_>, is_warning: bool, reason: NodeEvent, message: String) -> Change {
    Change::emit(node.object_ref(), Event { is_warning, reason: reason.as_str(), message, related: None })
}
