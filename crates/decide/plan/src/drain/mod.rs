//! What the drain controller does about a node now (server-and-daemon.md, B21).
//!
//! - The node asks with the annotation `desiredDrain`; the answer is `lastAppliedDrain`, written only when it is true.
//! - Nothing is cordoned before it is known that the pods can leave.
//! - A cordon is lifted only if it is ours, which the annotation `seaworthy.dev/cordoned-for` on the node says.
//! - Everything that is remembered is on objects: a controller that starts anew goes on where the last one stopped.

pub mod eviction;

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use seaworthy_api::vocabulary::machineconfiguration::{NodeEvent, node as annotation};
use seaworthy_api::vocabulary::seaworthy;
use seaworthy_change::{Change, Decision, Event, ObjectRef, Purpose, Stage};
use serde_json::{Value, json};

use self::eviction::{Blocker, Evictions, ObjectName};
use crate::duration;
use crate::fleet::NodeView;
use crate::sentence::shorten;

/// How long one attempt to evict a pod may take.
pub const ATTEMPT: SignedDuration = SignedDuration::from_secs(90);
/// When to try again.
pub const RETRY: SignedDuration = SignedDuration::from_mins(1);
/// When to try again once it has failed for [`LONG`]: whatever is in the way will not be gone in a minute.
pub const SLOW_RETRY: SignedDuration = SignedDuration::from_mins(5);
/// After that long, tries become rarer.
pub const LONG: SignedDuration = SignedDuration::from_mins(10);
/// How long a pod that should be gone may still be there before it is said to be in the way.
pub const OVERDUE: SignedDuration = SignedDuration::from_mins(1);
/// How long what is said to be in the way may be.
const LONGEST: usize = 16 << 10;
/// After that long somebody is told.
pub const ALARM: SignedDuration = SignedDuration::from_hours(1);

/// What a node asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// The pods shall leave.
    Drain,
    /// The node takes pods again.
    Uncordon,
}

/// A wish that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "Node {node}: annotation {} is {found:?}; accepted are drain-<config> and uncordon-<config>",
    annotation::DESIRED_DRAIN
)]
pub struct UnknownWish {
    /// The node.
    pub node: String,
    /// What was found.
    pub found: String,
}

/// The wish of a node that is not fulfilled yet.
pub fn wish(node: &NodeView<'_>) -> Result<Option<Wish>, UnknownWish> {
    let Some(text) = node.desired_drain.filter(|text| !text.is_empty()) else { return Ok(None) };
    let is_answered = node.last_applied_drain == Some(text);
    match text.split_once('-').map(|(verb, _)| verb) {
        // A node that was given its old order back while its pods left asks for what was its last wish before, and was
        // cordoned since.
        Some("uncordon") if !is_answered || node.cordoned_for.is_some() => Ok(Some(Wish::Uncordon)),
        _ if is_answered => Ok(None),
        Some("drain") => Ok(Some(Wish::Drain)),
        _ => Err(UnknownWish { node: node.name.to_owned(), found: text.to_owned() }),
    }
}

/// Everything that the decision may look at.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The node.
    pub node: &'a NodeView<'a>,
    /// What becomes of its pods.
    pub evictions: &'a Evictions,
    /// Since when the wish is not fulfilled, as its MachineConfigNode has it: the time of the condition `Drained`.
    pub since: Option<Timestamp>,
    /// When the drain last got on: a pod was let go, or the node was cordoned; `None` where that is too new to be told.
    pub moved: Option<Timestamp>,
    /// The time.
    pub now: Timestamp,
}

/// Where a drain is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The node wants nothing.
    Idle,
    /// It cannot begin: the pods could not leave.
    Blocked,
    /// The node was, or is being, taken out of scheduling, and its pods leave.
    Draining,
    /// It is done.
    Done,
}

/// What was found about a drain.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Where the drain is.
    pub progress: Progress,
    /// Whether it takes so long that the metric for it is raised.
    pub is_alarming: bool,
    /// What is in the way, for people, where waiting alone does not help. The same words as long as it is the same.
    pub hindrance: Option<String>,
}

impl Report {
    fn new(progress: Progress) -> Self {
        Self { progress, is_alarming: false, hindrance: None }
    }
}

fn decided(report: Report, stage: Stage<'static>) -> Decision<'static, Report> {
    Decision { stages: vec![stage], report, recheck: None }
}

/// Decides about a node.
pub fn decide(inputs: &Inputs<'_>) -> Result<Decision<'static, Report>, UnknownWish> {
    let node = inputs.node;
    let Some((wish, text)) = wish(node)?.zip(node.desired_drain) else {
        return Ok(Decision::nothing(Report::new(Progress::Idle)));
    };
    Ok(match wish {
        Wish::Uncordon => uncordon(node, text),
        Wish::Drain => drain(inputs, text),
    })
}

/// Differs: upstream lifts any cordon, because it does not know whose it is.
fn uncordon(node: &NodeView<'_>, text: &str) -> Decision<'static, Report> {
    let mut changes = Vec::new();
    let is_ours = node.cordoned_for.is_some();
    let mut annotations = json!({ annotation::LAST_APPLIED_DRAIN.as_str(): text });
    let mut patch = json!({});
    if is_ours {
        annotations[seaworthy::annotation::CORDONED_FOR.as_str()] = Value::Null;
    }
    if is_ours && node.is_unschedulable {
        patch["spec"] = json!({ "unschedulable": null });
        changes.push(emit(node, false, NodeEvent::Uncordon, "The node takes pods again".to_owned()));
    }
    patch["metadata"] = json!({ "annotations": annotations });
    changes.insert(0, Change::patch(node.object_ref(), patch));
    decided(Report::new(Progress::Done), Stage::sequence(Purpose::Write, changes))
}

/// What is in the way of a drain. In the middle of one that goes well, a budget allows nothing until those who left run
/// elsewhere, and pods take their time to end: that is not in the way until it takes too long.
fn hindrance(inputs: &Inputs<'_>) -> Option<String> {
    let gets_on = inputs.moved.is_none_or(|moved| inputs.now.duration_since(moved) < LONG);
    let is_under_way = inputs.node.is_unschedulable && gets_on;
    let said = inputs.evictions.said_of(|blocker| match blocker {
        Blocker::Leaving { due, .. } => inputs.now.duration_since(due.0) >= OVERDUE,
        Blocker::Budget { is_final: false, .. } => !is_under_way,
        _ => true,
    });
    (!said.is_empty()).then(|| shorten(&said, LONGEST).into_owned())
}

fn drain(inputs: &Inputs<'_>, text: &str) -> Decision<'static, Report> {
    let (node, evictions) = (inputs.node, inputs.evictions);
    let lasts = inputs.since.map(|since| inputs.now.duration_since(since)).unwrap_or_default();
    if node.is_unschedulable && evictions.is_drained() {
        let patch = json!({"metadata": {"annotations": {annotation::LAST_APPLIED_DRAIN.as_str(): text}}});
        let change = Change::patch(node.object_ref(), patch);
        return decided(Report::new(Progress::Done), Stage::sequence(Purpose::Write, [change]));
    }
    let retry = if lasts > LONG { SLOW_RETRY } else { RETRY };
    let (is_alarming, hindrance) = (lasts >= ALARM, hindrance(inputs));
    let (mut changes, mut evicted) = (Vec::new(), Vec::new());
    if is_alarming {
        // The same words every time, so that it is one event.
        let limit = duration::short(ALARM.as_secs());
        let what = hindrance.as_deref().unwrap_or("its pods are still leaving");
        let message = format!("The node could not be drained for over {limit}: {what}");
        changes.push(emit(node, true, NodeEvent::DrainFailed, message));
    }
    // Once: what is in the way stands in the MachineConfigNode from then on, and is tried again often.
    if let Some(hindrance) = hindrance.as_deref().filter(|said| node.drain_blocked() != Some(said)) {
        let message = format!("The node cannot be drained: {hindrance}");
        changes.push(emit(node, true, NodeEvent::DrainBlocked, message));
    }
    let progress = if !node.is_unschedulable && !evictions.is_feasible() {
        // A cordon that did not empty the node only takes room from others.
        Progress::Blocked
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
        changes.push(emit(node, false, NodeEvent::Cordon, "The node takes no new pods".to_owned()));
        Progress::Draining
    } else {
        evicted.extend(evictions.evict.iter().map(|pod| Change::evict(reference(pod))));
        Progress::Draining
    };
    // A pod that cannot go keeps no other from going.
    let stages = vec![Stage::sequence(Purpose::Write, changes), Stage::each(Purpose::Evict, evicted)];
    Decision { stages, report: Report { progress, is_alarming, hindrance }, recheck: Duration::try_from(retry).ok() }
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
