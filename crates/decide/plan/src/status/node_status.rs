//! Node status: the MachineConfigNode of a node, with its order and the progress of each step.
//!
//! - Everything is derived from the Node, its drain and the roll-out's verdict, so a lost object comes back as it was.
//! - A step that belongs to the order that the node is on is True when done, Unknown while under way, False before; when
//!   the node runs its target, all steps are False again and `Updated` is True.
//! - `Updated` carries the reason why the node does not move. The sentence stays the same as long as the reason does.
//! - Only the fields that follow from these inputs are written. No other component of ours writes the object (the daemon
//!   reports with annotations of its Node); what other clients wrote into it stays.

use std::borrow::Cow;
use std::collections::BTreeSet;

use k8s_openapi::Resource as _;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use k8s_openapi::jiff::Timestamp;
use kube::Resource as _;
use seaworthy_api::machineconfiguration::machine_config_node::{
    NodeConfigImageSpec, NodeConfigImageStatus, NodeConfigVersionSpec, NodeConfigVersionStatus, NodeReference,
};
use seaworthy_api::machineconfiguration::{MachineConfigNode, MachineConfigNodeSpec, MachineConfigNodeStatus};
use seaworthy_api::meta::{Condition, ConditionStatus};
use seaworthy_api::unknown::Unknown;
use seaworthy_api::vocabulary::machineconfiguration::{NOT_YET_SET, NodeCondition, NodeReason, State, WaitingReason};
use seaworthy_change::{Action, Change, ObjectRef};
use seaworthy_values::names::is_dns_subdomain;
use seaworthy_values::text::truncate;
use serde_json::{Value, json};

use crate::fleet::{NodeView, Target};
use crate::image_name::is_image_name;
use crate::rollout::waiting::{Reason, UPDATING};

use ConditionStatus::{False, True, Unknown as Underway};

/// The steps and facts that a MachineConfigNode always has.
const TYPES: [NodeCondition; 15] = [
    NodeCondition::UpdatePrepared,
    NodeCondition::UpdateExecuted,
    NodeCondition::UpdatePostActionComplete,
    NodeCondition::UpdateComplete,
    NodeCondition::Updated,
    NodeCondition::Resumed,
    NodeCondition::Drained,
    NodeCondition::AppliedFilesAndOs,
    NodeCondition::Cordoned,
    NodeCondition::Uncordoned,
    NodeCondition::RebootedNode,
    NodeCondition::NodeDegraded,
    NodeCondition::PinnedImageSetsProgressing,
    NodeCondition::PinnedImageSetsDegraded,
    NodeCondition::InternalReleaseImageDegraded,
];

/// How long the message of a condition may be: the API server refuses the object otherwise, for as long as it says that.
const MAX_MESSAGE_BYTES: usize = 32 << 10;

/// Everything that a MachineConfigNode depends on.
#[derive(Clone, Copy, Debug)]
pub struct NodeStatusInputs<'a> {
    /// The node, with the object as it is.
    pub node: &'a NodeView<'a>,
    /// The name of its pool, if it has one.
    pub pool: Option<&'a str>,
    /// What the pool wants it to run, if it wants anything.
    pub target: Option<Target<'a>>,
    /// Whether the roll-out gives it the target now: the order is reported here first, as upstream does.
    pub is_chosen: bool,
    /// Why it does not move; `None` when it is chosen or runs its target.
    pub waiting: Option<&'a Reason>,
    /// What blocks its drain.
    pub blocker: Option<&'a str>,
    /// The time.
    pub now: Timestamp,
}

/// The MachineConfigNodes whose node is gone. In a cluster the garbage collector deletes them as well; where they have
/// no owner reference, only this does.
pub fn orphans<'a>(
    progress: impl IntoIterator<Item = &'a MachineConfigNode>,
    nodes: &[NodeView<'_>],
) -> Vec<&'a MachineConfigNode> {
    let nodes: BTreeSet<&str> = nodes.iter().map(|node| node.name).collect();
    let is_orphan = |object: &&MachineConfigNode| {
        let metadata = &object.metadata;
        // One that is being deleted is left alone.
        metadata.deletion_timestamp.is_none() && metadata.name.as_deref().is_some_and(|name| !nodes.contains(name))
    };
    progress.into_iter().filter(is_orphan).collect()
}

/// The object that a node should have, with its status.
pub fn desired(inputs: &NodeStatusInputs<'_>) -> MachineConfigNode {
    let order = Order::of(inputs);
    let mut object = MachineConfigNode::new(inputs.node.name, order.spec(inputs));
    object.metadata.owner_references = owners(inputs.node);
    object.status = Some(status(inputs, &order));
    object
}

/// Whether the object is up to date; of one whose status waits, only the spec is compared. This runs for every node in every
/// decision and is mostly true, so nothing is allocated for the answer.
pub fn is_current(inputs: &NodeStatusInputs<'_>, is_unanswered: bool) -> bool {
    let Some((old, status)) = inputs.node.progress.and_then(|old| old.status.as_ref().map(|status| (old, status)))
    else {
        return false;
    };
    let (node, order) = (inputs.node, Order::of(inputs));
    let mut owners = old.metadata.owner_references.iter().flatten();
    let is_owned = node.uid.is_empty() || owners.any(|owner| is_owner(owner, node));
    if !order.is_spec(&old.spec, inputs) || !is_owned {
        return false;
    }
    if is_unanswered {
        return true;
    }
    let steps = Steps::of(inputs);
    let mut types = TYPES.map(|_| false);
    let mut is_condition_current = |(nth, found): (usize, &Condition)| {
        // Mostly they are in this order, because they were written in it.
        let is = |type_: &NodeCondition| type_.as_str() == found.type_;
        let nth = if TYPES.get(nth).is_some_and(is) { Some(nth) } else { TYPES.iter().position(is) };
        let Some(nth) = nth else { return true };
        types[nth] = true;
        steps.is_current(TYPES[nth], found)
    };
    order.is_version(status.config_version.as_ref(), node)
        && is_image(status.config_image.as_ref(), node)
        && status.observed_generation == Some(generation(inputs, true))
        && status.conditions.iter().flatten().enumerate().all(&mut is_condition_current)
        && types.into_iter().all(|is_present| is_present)
}

/// What the spec says that a node should run.
struct Order<'a> {
    /// As it is on the node or the pool.
    config: &'a str,
    image: Option<&'a str>,
}

impl<'a> Order<'a> {
    fn of(inputs: &NodeStatusInputs<'a>) -> Self {
        let node = inputs.node;
        let (config, image) = match inputs.target.filter(|_| inputs.is_chosen) {
            Some(target) => (Some(target.config), target.image),
            None => (node.desired_config, node.desired_image),
        };
        Self { config: config.unwrap_or_default(), image: image.filter(|image| is_image_name(image)) }
    }

    /// The name, if it is one: the API server would refuse any other text at every attempt.
    fn desired(&self) -> &'a str {
        if is_dns_subdomain(self.config) { self.config } else { NOT_YET_SET }
    }

    /// Whether this is what [`Order::desired`] gives. What an object has is a name, so mostly none has to be checked.
    fn is_desired(&self, found: &str) -> bool {
        found == self.config || found == self.desired()
    }

    fn spec(&self, inputs: &NodeStatusInputs<'_>) -> MachineConfigNodeSpec {
        MachineConfigNodeSpec {
            node: reference(inputs.node.name),
            pool: reference(inputs.pool.unwrap_or(NOT_YET_SET)),
            config_version: NodeConfigVersionSpec { desired: self.desired().to_owned(), unknown: Unknown::default() },
            config_image: self
                .image
                .map(|image| NodeConfigImageSpec { desired_image: image.to_owned(), unknown: Unknown::default() }),
            unknown: Unknown::default(),
        }
    }

    /// Whether this spec says what [`Order::spec`] would.
    fn is_spec(&self, spec: &MachineConfigNodeSpec, inputs: &NodeStatusInputs<'_>) -> bool {
        let MachineConfigNodeSpec { node, pool, config_version, config_image, unknown: _ } = spec;
        node.name == inputs.node.name
            && pool.name == inputs.pool.unwrap_or(NOT_YET_SET)
            && self.is_desired(&config_version.desired)
            && config_image.as_ref().map(|image| image.desired_image.as_str()) == self.image
    }

    fn version(&self, node: &NodeView<'_>) -> NodeConfigVersionStatus {
        NodeConfigVersionStatus {
            current: current(node).map(str::to_owned),
            desired: self.desired().to_owned(),
            unknown: Unknown::default(),
        }
    }

    /// Whether this is the version that [`Order::version`] would build.
    fn is_version(&self, version: Option<&NodeConfigVersionStatus>, node: &NodeView<'_>) -> bool {
        version.is_some_and(|version| {
            let found = version.current.as_deref();
            let is_current = (found.is_some() && found == node.current_config) || found == current(node);
            is_current && self.is_desired(&version.desired) && version.unknown.is_empty()
        })
    }
}

/// A Node without a uid cannot be an owner: manifests are not in a cluster.
fn owners(node: &NodeView<'_>) -> Option<Vec<OwnerReference>> {
    let owner = || OwnerReference {
        api_version: Node::API_VERSION.to_owned(),
        kind: Node::KIND.to_owned(),
        name: node.name.to_owned(),
        uid: node.uid.to_owned(),
        ..OwnerReference::default()
    };
    (!node.uid.is_empty()).then(|| vec![owner()])
}

/// Whether this is the owner that [`owners`] would build.
fn is_owner(owner: &OwnerReference, node: &NodeView<'_>) -> bool {
    let OwnerReference { api_version, block_owner_deletion, controller, kind, name, uid } = owner;
    !node.uid.is_empty()
        && uid == node.uid
        && name == node.name
        && *kind == Node::KIND
        && *api_version == Node::API_VERSION
        && block_owner_deletion.is_none()
        && controller.is_none()
}

/// Whether the object has to be written, and its status: an object that says the same is left alone.
pub fn differs(old: Option<&MachineConfigNode>, new: &MachineConfigNode) -> (bool, bool) {
    let Some(old) = old else { return (true, true) };
    let owners = |object: &MachineConfigNode| object.metadata.owner_references.clone().unwrap_or_default();
    let (found, wanted) = (owners(old), owners(new));
    let is_owned = wanted.iter().all(|owner| found.contains(owner));
    (reported(&old.spec) != reported(&new.spec) || !is_owned, old.status != new.status)
}

/// The fields of a spec that are written here. Other fields belong to other clients.
fn reported(spec: &MachineConfigNodeSpec) -> [Option<&str>; 4] {
    let image = spec.config_image.as_ref().map(|image| image.desired_image.as_str());
    [Some(&spec.node.name), Some(&spec.pool.name), Some(&spec.config_version.desired), image]
}

/// The changes that bring an object to what it should be. While a node that was given an order has not answered, its
/// status waits, unless there is none yet.
pub fn changes(old: Option<&MachineConfigNode>, new: &MachineConfigNode, is_unanswered: bool) -> Vec<Change> {
    let (spec_differs, status_differs) = differs(old, new);
    let name = new.metadata.name.as_deref().unwrap_or_default();
    let object = || ObjectRef::named::<MachineConfigNode>(name);
    let (api_version, kind) = (MachineConfigNode::api_version(&()), MachineConfigNode::kind(&()));
    let applied = |metadata: Value, part: &str, value: Value| json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata, part: value });
    let mut changes = Vec::new();
    if spec_differs {
        let mut metadata = json!({ "name": name });
        if let Some(owners) = &new.metadata.owner_references {
            metadata["ownerReferences"] = json!(owners);
        }
        let body = applied(metadata, "spec", json!(new.spec));
        changes.push(Change { object: object(), action: Action::Apply(body) });
    }
    if status_differs && (!is_unanswered || old.is_none()) {
        let metadata = json!({ "name": name });
        let status = new.status.as_ref().map(owned);
        let body = applied(metadata, "status", json!(status));
        changes.push(Change { object: object(), action: Action::ApplyStatus(body) });
    }
    changes
}

/// The part of a status that is ours. To apply more would take fields from their owners and revert their next writes.
fn owned(status: &MachineConfigNodeStatus) -> MachineConfigNodeStatus {
    let is_ours = |found: &&Condition| {
        let type_ = TYPES.into_iter().find(|type_| type_.as_str() == found.type_);
        type_.is_some_and(|type_| !is_unmanaged(type_) || is_untouched(type_, found))
    };
    let ours =
        |found: &Condition| Condition { observed_generation: None, unknown: Unknown::default(), ..found.clone() };
    MachineConfigNodeStatus {
        conditions: status.conditions.as_ref().map(|all| all.iter().filter(is_ours).map(ours).collect()),
        config_image: status.config_image.clone(),
        config_version: status.config_version.clone(),
        observed_generation: status.observed_generation,
        ..MachineConfigNodeStatus::default()
    }
}

/// The status as it should be as a whole, with what belongs to others.
fn status(inputs: &NodeStatusInputs<'_>, order: &Order<'_>) -> MachineConfigNodeStatus {
    // What else is in the status belongs to others: pinned images, changes that could not be taken over.
    let mut status = inputs.node.progress.and_then(|old| old.status.clone()).unwrap_or_default();
    status.config_version = Some(order.version(inputs.node));
    status.config_image = image(inputs.node);
    let is_same = inputs.node.progress.is_some_and(|old| order.is_spec(&old.spec, inputs));
    status.observed_generation = Some(generation(inputs, is_same));
    let old = status.conditions.take().unwrap_or_default();
    let steps = Steps::of(inputs);
    // The list keeps its order, including conditions of others: a new order would be a write.
    let known = |found: &Condition| TYPES.into_iter().find(|type_| type_.as_str() == found.type_);
    let mut conditions: Vec<Condition> = old
        .iter()
        .map(|found| match known(found) {
            Some(type_) => condition(type_, &steps, Some(found), inputs.now),
            None => found.clone(),
        })
        .collect();
    let is_missing = |type_: &NodeCondition| !old.iter().any(|found| found.type_ == type_.as_str());
    let missing = TYPES.into_iter().filter(is_missing);
    conditions.extend(missing.map(|type_| condition(type_, &steps, None, inputs.now)));
    status.conditions = Some(conditions);
    status
}

fn image(node: &NodeView<'_>) -> Option<NodeConfigImageStatus> {
    let [current, desired] = images(node);
    (current.is_some() || desired.is_some()).then(|| NodeConfigImageStatus {
        current_image: current.map(str::to_owned),
        desired_image: desired.map(str::to_owned),
        unknown: Unknown::default(),
    })
}

/// Whether this is what [`image`] would build.
fn is_image(found: Option<&NodeConfigImageStatus>, node: &NodeView<'_>) -> bool {
    match found {
        None => images(node) == [None, None],
        Some(_) => found == image(node).as_ref(),
    }
}

/// The images that a node runs and should run, as far as they are names of images.
fn images<'a>(node: &NodeView<'a>) -> [Option<&'a str>; 2] {
    [node.current_image, node.desired_image].map(|image| image.filter(|image| is_image_name(image)))
}

/// What a node runs, as far as it is the name of a MachineConfig.
fn current<'a>(node: &NodeView<'a>) -> Option<&'a str> {
    node.current_config.filter(|config| is_dns_subdomain(config))
}

/// The spec is applied first, and one that differs makes a new generation: so one write of the status is enough.
fn generation(inputs: &NodeStatusInputs<'_>, is_same: bool) -> i64 {
    let seen = inputs.node.progress.and_then(|old| old.metadata.generation).unwrap_or(0);
    let next = seen + i64::from(!is_same);
    let observed = inputs.node.progress.and_then(|old| old.status.as_ref()?.observed_generation).unwrap_or(1);
    next.max(observed).max(1)
}

/// Status, reason and message of a condition.
type ConditionContent<'a> = (ConditionStatus, &'static str, Cow<'a, str>);

/// How far a node is.
struct Steps<'a> {
    inputs: &'a NodeStatusInputs<'a>,
    /// The configuration that the node is on its way to; empty where it is not.
    order: &'a str,
    is_failing: bool,
    is_drained: bool,
}

impl<'a> Steps<'a> {
    fn of(inputs: &'a NodeStatusInputs<'a>) -> Self {
        let node = inputs.node;
        let order = node.desired_config.unwrap_or_default();
        let is_on_way = !node.is_done() && !order.is_empty() && node.current_config != node.desired_config;
        let is_drained = |applied: &str| applied.strip_prefix("drain-") == Some(order);
        Self {
            inputs,
            order: if is_on_way { order } else { "" },
            is_failing: node.is_degraded(),
            is_drained: node.last_applied_drain.is_some_and(is_drained),
        }
    }

    /// Whether the node runs another configuration than was reported last.
    fn runs_another(&self) -> bool {
        let reported = self.inputs.node.progress.and_then(|old| old.status.as_ref()?.config_version.as_ref());
        reported.is_some_and(|reported| reported.current.as_deref() != current(self.inputs.node))
    }

    /// Whether a condition is up to date.
    fn is_current(&self, type_: NodeCondition, found: &Condition) -> bool {
        if is_unmanaged(type_) {
            return true;
        }
        let (status, reason, message) = self.content(type_, Some(found));
        found.status == status && found.reason == reason && found.message == message
    }

    /// What a condition should be, with a message of at most [`MAX_MESSAGE_BYTES`].
    fn content<'s>(&'s self, type_: NodeCondition, found: Option<&'s Condition>) -> ConditionContent<'s> {
        let (status, reason, message) = self.reached(type_).unwrap_or_else(|| self.not_reached(type_, found));
        let message = match message.len() > MAX_MESSAGE_BYTES {
            true => truncate(&message, MAX_MESSAGE_BYTES).into_owned().into(),
            false => message,
        };
        (status, reason, message)
    }

    /// A condition that this order has reached; `None` for others.
    fn reached(&self, type_: NodeCondition) -> Option<ConditionContent<'a>> {
        let node = self.inputs.node;
        let done = |what: &'static str| (True, NodeReason::Done.as_str(), what.into());
        let underway = |what: &'static str| (Underway, NodeReason::InProgress.as_str(), what.into());
        let is_working = matches!(node.state, Some(State::Working | State::Rebooting)) || self.is_failing;
        let is_draining =
            node.desired_drain.is_some_and(|text| text.strip_prefix("drain-") == Some(self.order)) && !self.is_drained;
        let is_written = node.is_rebooting || node.state == Some(State::Rebooting);
        match type_ {
            NodeCondition::Updated => Some(self.updated()),
            NodeCondition::NodeDegraded if self.is_failing => {
                Some((True, NodeReason::Failed.as_str(), node.reason.into()))
            }
            NodeCondition::NodeDegraded => Some((False, NodeReason::Healthy.as_str(), "".into())),
            _ if self.order.is_empty() => None,
            NodeCondition::UpdatePrepared if is_working => Some(done("The update was checked")),
            NodeCondition::Cordoned if is_draining || self.is_drained => Some(match node.is_unschedulable {
                true => done("Node cordoned"),
                false => underway("The node is being cordoned"),
            }),
            NodeCondition::Drained if self.is_drained => Some(done("The pods have left")),
            NodeCondition::Drained if is_draining => Some(self.draining()),
            NodeCondition::UpdateExecuted if is_written => Some(done("Files and system are in place")),
            NodeCondition::UpdateExecuted if is_working => Some(underway("The update is being carried out")),
            NodeCondition::AppliedFilesAndOs if is_written => Some(done("Files and system are in place")),
            NodeCondition::AppliedFilesAndOs if is_working && !is_draining => {
                Some(underway("Files and system are being written"))
            }
            NodeCondition::RebootedNode if is_written => Some(underway("The node is rebooting")),
            _ => None,
        }
    }

    fn updated(&self) -> ConditionContent<'a> {
        let NodeStatusInputs { node, target, waiting, .. } = self.inputs;
        match (target, waiting) {
            (Some(target), _) if node.is_updated(*target) => {
                let message = format!("The node runs {}", target.config);
                (True, WaitingReason::Updated.as_str(), message.into())
            }
            (_, Some(reason)) => (False, reason.code().as_str(), reason.stable_text().into()),
            // In the words of a node that is on its way, which it is as soon as the order is written.
            (Some(_), None) => (False, WaitingReason::Updating.as_str(), UPDATING.into()),
            (None, None) => (False, WaitingReason::NotInPool.as_str(), Reason::NotInPool.to_string().into()),
        }
    }

    fn draining(&self) -> ConditionContent<'a> {
        match self.inputs.blocker {
            Some(blocker) => (Underway, WaitingReason::DrainBlocked.as_str(), blocker.into()),
            None => (Underway, NodeReason::InProgress.as_str(), "The pods are leaving".into()),
        }
    }

    /// A step that this order has not reached.
    fn not_reached<'s>(&'s self, type_: NodeCondition, old: Option<&'s Condition>) -> ConditionContent<'s> {
        // A message that is right already is taken as it is.
        let message = |old: &'s Condition, about: &str, what: &str| -> Cow<'s, str> {
            match old.message.strip_prefix(about) == Some(what) {
                true => Cow::Borrowed(&old.message),
                false => format!("{about}{what}").into(),
            }
        };
        match old {
            None => (False, NodeReason::NotYetOccurred.as_str(), not_entered(type_).into()),
            Some(old) if old.reason == NodeReason::NotYetOccurred.as_str() => {
                (False, NodeReason::NotYetOccurred.as_str(), Cow::Borrowed(&old.message))
            }
            Some(old) if self.order.is_empty() => {
                let config = self.inputs.node.current_config.unwrap_or(NOT_YET_SET);
                (False, NodeReason::Updated.as_str(), message(old, config, ": all steps are complete"))
            }
            Some(old) => (False, NodeReason::NotReached.as_str(), message(old, self.order, ": not reached yet")),
        }
    }
}

/// Nothing is known here about pinned images and release images: conditions of others stay.
fn is_unmanaged(type_: NodeCondition) -> bool {
    matches!(
        type_,
        NodeCondition::PinnedImageSetsProgressing
            | NodeCondition::PinnedImageSetsDegraded
            | NodeCondition::InternalReleaseImageDegraded
    )
}

/// The first message of a condition.
fn not_entered(type_: NodeCondition) -> String {
    format!("This node has not yet entered the {type_} phase")
}

/// Whether a condition that others have something to say in is still as it was made.
fn is_untouched(type_: NodeCondition, found: &Condition) -> bool {
    found.status == False
        && found.reason == NodeReason::NotYetOccurred.as_str()
        && *found.message == *not_entered(type_)
}

fn condition(type_: NodeCondition, steps: &Steps<'_>, old: Option<&Condition>, now: Timestamp) -> Condition {
    if let Some(old) = old.filter(|_| is_unmanaged(type_)) {
        return old.clone();
    }
    let (status, reason, message) = steps.content(type_, old);
    // A quick node is reported when it is done again: it was not done for a moment, and the time is when that ended.
    // `UpdateComplete` keeps that time when the node has to wait for its next turn, so that it is known what the last took.
    let is_restarted = matches!(type_, NodeCondition::Updated | NodeCondition::UpdateComplete) && steps.runs_another();
    let same = old.filter(|old| old.status == status && !is_restarted);
    Condition {
        last_transition_time: same.map_or(Time(now), |old| old.last_transition_time.clone()),
        observed_generation: old.and_then(|old| old.observed_generation),
        status: status.into(),
        reason: reason.into(),
        message: message.into(),
        type_: type_.as_str().into(),
        unknown: old.map(|old| old.unknown.clone()).unwrap_or_default(),
    }
}

fn reference(name: &str) -> NodeReference {
    NodeReference { name: name.to_owned(), unknown: Unknown::default() }
}
