//! What the drain controller does about a node now (server-and-daemon.md, B21).
//!
//! - The node asks with the annotation `desiredDrain`; the answer is `lastAppliedDrain`, written only when it is true.
//! - Nothing is cordoned before it is known that the pods can leave.
//! - A cordon is lifted only if it is ours, which the annotation `seaworthy.dev/cordoned-for` on the node says.
//! - Everything that is remembered is on objects: a controller that starts anew goes on where the last one stopped.

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use seaworthy_api::vocabulary::machineconfiguration::{NodeEvent, node as annotation};
use seaworthy_api::vocabulary::seaworthy;
use serde_json::{Value, json};

use crate::change::{Change, Event, Reference};
use crate::duration;
use crate::eviction::{Evictions, ObjectName};
use crate::fleet::NodeView;

/// How long one attempt to evict a pod may take.
pub const ATTEMPT: SignedDuration = SignedDuration::from_secs(90);
/// When to try again.
pub const RETRY: SignedDuration = SignedDuration::from_mins(1);
/// When to try again once it has failed for [`LONG`]: whatever is in the way will not be gone in a minute.
pub const SLOW_RETRY: SignedDuration = SignedDuration::from_mins(5);
/// After that long, tries become rarer.
pub const LONG: SignedDuration = SignedDuration::from_mins(10);
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
    if node.last_applied_drain == Some(text) {
        return Ok(None);
    }
    match text.split_once('-').map(|(verb, _)| verb) {
        Some("drain") => Ok(Some(Wish::Drain)),
        Some("uncordon") => Ok(Some(Wish::Uncordon)),
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

/// What to do about a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Where the drain is.
    pub progress: Progress,
    /// What to do, in order.
    pub changes: Vec<Change>,
    /// When to look again although nothing has changed.
    pub recheck: Option<SignedDuration>,
    /// Whether it takes so long that the metric for it is raised.
    pub is_alarming: bool,
}

/// Decides about a node.
pub fn decide(inputs: &Inputs<'_>) -> Result<Decision, UnknownWish> {
    let node = inputs.node;
    let Some((wish, text)) = wish(node)?.zip(node.desired_drain) else {
        return Ok(Decision { progress: Progress::Idle, changes: Vec::new(), recheck: None, is_alarming: false });
    };
    Ok(match wish {
        Wish::Uncordon => uncordon(node, text),
        Wish::Drain => drain(inputs, text),
    })
}

/// Differs: upstream lifts any cordon, because it does not know whose it is.
fn uncordon(node: &NodeView<'_>, text: &str) -> Decision {
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
    changes.insert(0, Change::Patch { object: Reference::node(node), patch });
    Decision { progress: Progress::Done, changes, recheck: None, is_alarming: false }
}

fn drain(inputs: &Inputs<'_>, text: &str) -> Decision {
    let (node, evictions) = (inputs.node, inputs.evictions);
    let object = || Reference::node(node);
    let lasts = inputs.since.map(|since| inputs.now.duration_since(since)).unwrap_or_default();
    if node.is_unschedulable && evictions.is_drained() {
        let patch = json!({"metadata": {"annotations": {annotation::LAST_APPLIED_DRAIN.as_str(): text}}});
        let changes = vec![Change::Patch { object: object(), patch }];
        return Decision { progress: Progress::Done, changes, recheck: None, is_alarming: false };
    }
    let retry = if lasts > LONG { SLOW_RETRY } else { RETRY };
    let mut changes = Vec::new();
    if lasts >= ALARM {
        // The same words every time, so that it is one event.
        let limit = duration::short(ALARM.as_secs());
        let message = format!("The node could not be drained for over {limit}: {}", evictions.said());
        changes.push(emit(node, true, NodeEvent::DrainFailed, message));
    }
    let is_alarming = lasts >= ALARM;
    // Once: what is in the way stands in the MachineConfigNode from then on, and is tried again often.
    let said = evictions.said();
    if !evictions.is_feasible() && node.drain_blocked != Some(said.as_str()) {
        let message = format!("The node cannot be drained: {said}");
        changes.push(emit(node, true, NodeEvent::DrainBlocked, message));
    }
    // A cordon that did not empty the node only takes room from others.
    if !node.is_unschedulable && !evictions.is_feasible() {
        return Decision { progress: Progress::Blocked, changes, recheck: Some(retry), is_alarming };
    }
    if !node.is_unschedulable {
        // Evictions follow in the next decision, on a node that is known to take no new pods.
        let annotations = json!({ seaworthy::annotation::CORDONED_FOR.as_str(): text });
        let patch = json!({"metadata": {"annotations": annotations}, "spec": {"unschedulable": true}});
        changes.push(Change::Patch { object: object(), patch });
        changes.push(emit(node, false, NodeEvent::Cordon, "The node takes no new pods".to_owned()));
        return Decision { progress: Progress::Draining, changes, recheck: Some(retry), is_alarming };
    }
    changes.extend(evictions.evict.iter().map(|pod| Change::Evict { pod: reference(pod) }));
    Decision { progress: Progress::Draining, changes, recheck: Some(retry), is_alarming }
}

fn reference(pod: &ObjectName) -> Reference {
    Reference {
        api_version: "v1",
        kind: "Pod",
        namespace: Some(pod.namespace.clone()),
        name: pod.name.clone(),
        uid: Some(pod.uid.clone()).filter(|uid| !uid.is_empty()),
        ..Reference::default()
    }
}

fn emit(node: &NodeView<'_>, is_warning: bool, reason: NodeEvent, message: String) -> Change {
    let about = Reference { resource_version: None, ..Reference::node(node) };
    Change::Emit { event: Event { about, is_warning, reason: reason.as_str(), message, config: None } }
}
