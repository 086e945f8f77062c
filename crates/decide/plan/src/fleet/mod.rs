//! Fleet snapshots: pools and nodes as borrowed, flat values for decisions.
//!
//! A view borrows from the objects of a watch, so that a view of 5,000 nodes costs a look at each of their annotations and no
//! copy. What a decision may know of an object is what its view has.

pub mod first_boot;
pub mod membership;
mod state;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use seaworthy_api::machineconfiguration::infrastructure::ControlPlaneTopology;
use seaworthy_api::machineconfiguration::{ControllerConfig, MachineConfigNode, MachineConfigPool, PoolConfiguration};
use seaworthy_api::meta::{Condition, ConditionStatus, IntOrString, LabelSelector, Pairs};
use seaworthy_api::vocabulary::machineconfiguration::{NodeCondition, State, WaitingReason, label, node};
use seaworthy_api::vocabulary::{Annotation, seaworthy};
use seaworthy_change::ObjectRef;

use crate::rollout::forecast;

/// The control-plane topology in which an arbiter keeps quorum together with two control-plane nodes.
pub const ARBITER_TOPOLOGY: &str = ControlPlaneTopology::HighlyAvailableArbiter.as_str();

/// The control-plane topology of a cluster, in the words of Infrastructure.
pub fn control_plane_topology(cluster: &ControllerConfig) -> Option<&str> {
    let infrastructure = cluster.spec.infra.as_ref()?.status.as_ref()?;
    infrastructure.control_plane_topology.as_ref().map(|topology| topology.as_str())
}

/// What the nodes of a pool should run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// The rendered MachineConfig.
    pub config: &'a str,
    /// The built image, where the pool builds one.
    pub image: Option<&'a str>,
}

/// A pool.
#[derive(Clone, Copy, Debug)]
pub struct PoolView<'a> {
    pub name: &'a str,
    /// The whole object.
    pub object: &'a MachineConfigPool,
    /// The image that was built for its configuration and is published, where the pool builds one.
    pub image: Option<&'a str>,
}

impl<'a> PoolView<'a> {
    /// The pool as it was seen, for a change.
    pub fn object_ref(&self) -> ObjectRef {
        ObjectRef::of(self.object)
    }

    /// A view of a pool that builds no image.
    pub fn of(object: &'a MachineConfigPool) -> Self {
        Self { name: object.metadata.name.as_deref().unwrap_or_default(), object, image: None }
    }

    /// The configuration that the render controller asks for.
    pub fn configuration(&self) -> Option<&'a PoolConfiguration> {
        self.object.spec.configuration.as_ref()
    }

    /// What its nodes should run; `None` as long as nothing was rendered.
    pub fn target(&self) -> Option<Target<'a>> {
        let config = self.configuration()?.name.as_deref().filter(|name| !name.is_empty())?;
        Some(Target { config, image: self.image })
    }

    /// Which nodes belong to it.
    pub fn node_selector(&self) -> Option<&'a LabelSelector> {
        self.object.spec.node_selector.as_ref()
    }

    /// How many nodes may be away at a time.
    pub fn max_unavailable(&self) -> Option<&'a IntOrString> {
        self.object.spec.max_unavailable.as_ref()
    }

    /// Whether no node may be given a new target.
    pub fn is_paused(&self) -> bool {
        self.object.spec.paused == Some(true)
    }

    /// Whether it is on its way out.
    pub fn is_deleting(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }
}

/// Why a node is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnreadyReason<'a> {
    /// A condition is not as it should be.
    Condition {
        type_: &'a str,
        status: &'a str,
        /// Since when.
        since: Option<Timestamp>,
    },
    /// The node takes no pods, and it was not cordoned by the drain controller.
    Cordoned,
    /// The node takes no pods because it is drained for an update.
    CordonedForUpdate,
}

/// The parts of a Node that a view reads: implemented by Node and by smaller copies of it.
pub trait NodeObject {
    /// Its metadata, but for labels and annotations.
    fn metadata(&self) -> &ObjectMeta;
    fn labels(&self) -> Pairs<'_>;
    fn annotations(&self) -> Pairs<'_>;
    fn taints(&self) -> &[Taint];
    /// Whether it takes no pods.
    fn is_unschedulable(&self) -> bool;
    /// Its conditions: type, status, and since when.
    fn conditions(&self) -> impl Iterator<Item = (&str, &str, Option<Timestamp>)>;
}

impl NodeObject for Node {
    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn labels(&self) -> Pairs<'_> {
        self.metadata.labels.as_ref().into()
    }

    fn annotations(&self) -> Pairs<'_> {
        self.metadata.annotations.as_ref().into()
    }

    fn taints(&self) -> &[Taint] {
        self.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
    }

    fn is_unschedulable(&self) -> bool {
        self.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true)
    }

    fn conditions(&self) -> impl Iterator<Item = (&str, &str, Option<Timestamp>)> {
        let conditions = self.status.as_ref().and_then(|status| status.conditions.as_ref());
        conditions.into_iter().flatten().map(|found| {
            let since = found.last_transition_time.as_ref().map(|time| time.0);
            (found.type_.as_str(), found.status.as_str(), since)
        })
    }
}

impl<N: NodeObject> NodeObject for Arc<N> {
    fn metadata(&self) -> &ObjectMeta {
        (**self).metadata()
    }

    fn labels(&self) -> Pairs<'_> {
        (**self).labels()
    }

    fn annotations(&self) -> Pairs<'_> {
        (**self).annotations()
    }

    fn taints(&self) -> &[Taint] {
        (**self).taints()
    }

    fn is_unschedulable(&self) -> bool {
        (**self).is_unschedulable()
    }

    fn conditions(&self) -> impl Iterator<Item = (&str, &str, Option<Timestamp>)> {
        (**self).conditions()
    }
}

/// A node.
#[derive(Clone, Debug)]
pub struct NodeView<'a> {
    pub name: &'a str,
    /// Its unique identity; empty in manifests.
    pub uid: &'a str,
    /// The version that was seen, as precondition of a change.
    pub resource_version: Option<&'a str>,
    pub labels: Pairs<'a>,
    pub taints: &'a [Taint],
    /// When it was made.
    pub created: Option<Timestamp>,
    /// The rendered MachineConfig that it runs.
    pub current_config: Option<&'a str>,
    /// The rendered MachineConfig that it should run.
    pub desired_config: Option<&'a str>,
    /// The image that it runs.
    pub current_image: Option<&'a str>,
    /// The image that it should run.
    pub desired_image: Option<&'a str>,
    /// What its daemon is doing.
    pub state: Option<State>,
    /// Why, in the daemon's words.
    pub reason: &'a str,
    /// The rendered MachineConfig that it booted with first.
    pub first_pivot_config: Option<&'a str>,
    /// Whether it got the labels of its custom pool.
    pub has_pool_labels: bool,
    /// The control-plane topology that was written on it.
    pub control_plane_topology: Option<&'a str>,
    /// What its daemon asks the drain controller for.
    pub desired_drain: Option<&'a str>,
    /// What the drain controller did last.
    pub last_applied_drain: Option<&'a str>,
    /// The drain for which we took it out of scheduling.
    pub cordoned_for: Option<&'a str>,
    /// When it was given its order, and what it ran then.
    pub last_order: Option<&'a str>,
    /// Why it gets no new configuration, where an annotation asks for that.
    pub paused: Option<&'a str>,
    /// Whether it is about to reboot.
    pub is_rebooting: bool,
    /// Whether it takes no pods.
    pub is_unschedulable: bool,
    /// Why it cannot be relied on; the first of several causes.
    pub unready_reason: Option<UnreadyReason<'a>>,
    /// Its MachineConfigNode, if it has one. A view that was made without looking for one must not be
    /// reported on.
    pub progress: Option<&'a MachineConfigNode>,
}

impl<'a> NodeView<'a> {
    /// The node as it was seen, for a change.
    pub fn object_ref(&self) -> ObjectRef {
        ObjectRef {
            uid: Some(self.uid).filter(|uid| !uid.is_empty()).map(str::to_owned),
            resource_version: self.resource_version.map(str::to_owned),
            ..ObjectRef::named::<Node>(self.name)
        }
    }

    /// A view of a node, with what its MachineConfigNode adds.
    pub fn of(object: &'a impl NodeObject, progress: Option<&'a MachineConfigNode>) -> Self {
        let metadata = object.metadata();
        let annotations = object.annotations();
        let annotation = |key: Annotation| annotations.get(key.as_str());
        let is_unschedulable = object.is_unschedulable();
        let cordoned_for = annotation(seaworthy::annotation::CORDONED_FOR);
        Self {
            name: metadata.name.as_deref().unwrap_or_default(),
            uid: metadata.uid.as_deref().unwrap_or_default(),
            resource_version: metadata.resource_version.as_deref(),
            labels: object.labels(),
            taints: object.taints(),
            created: metadata.creation_timestamp.as_ref().map(|time| time.0),
            current_config: annotation(node::CURRENT_CONFIG),
            desired_config: annotation(node::DESIRED_CONFIG),
            current_image: annotation(node::CURRENT_IMAGE),
            desired_image: annotation(node::DESIRED_IMAGE),
            state: annotation(node::STATE).and_then(|text| text.parse().ok()),
            reason: annotation(node::REASON).unwrap_or_default(),
            first_pivot_config: annotation(node::FIRST_PIVOT_CONFIG),
            has_pool_labels: annotation(node::CUSTOM_POOL_LABELS_APPLIED).is_some(),
            control_plane_topology: annotation(node::CONTROL_PLANE_TOPOLOGY),
            desired_drain: annotation(node::DESIRED_DRAIN),
            last_applied_drain: annotation(node::LAST_APPLIED_DRAIN),
            cordoned_for,
            // After a downgrade and another upgrade a node has both.
            last_order: [seaworthy::annotation::LAST_ORDER, seaworthy::annotation::FORMER_LAST_ORDER]
                .into_iter()
                .filter_map(annotation)
                .max_by_key(|order| forecast::ordered_at(order)),
            paused: annotation(seaworthy::annotation::PAUSED),
            is_rebooting: annotation(node::POST_CONFIG_ACTION) == Some(State::Rebooting.as_str()),
            is_unschedulable,
            unready_reason: unready_reason(object).or(match (is_unschedulable, cordoned_for) {
                (false, _) => None,
                (true, None) => Some(UnreadyReason::Cordoned),
                (true, Some(_)) => Some(UnreadyReason::CordonedForUpdate),
            }),
            progress,
        }
    }

    /// Since when it is not updated, as its MachineConfigNode has it.
    pub fn since(&self) -> Option<Timestamp> {
        self.since_when(NodeCondition::Updated, ConditionStatus::False)
    }

    /// Since when its MachineConfigNode says this of something, if it does.
    pub fn since_when(&self, type_: NodeCondition, status: ConditionStatus) -> Option<Timestamp> {
        let condition = self.condition(type_)?;
        (condition.status == status).then_some(condition.last_transition_time.0)
    }

    /// What keeps its pods from being evicted, as its MachineConfigNode has it.
    pub fn drain_blocked(&self) -> Option<&'a str> {
        let drained = self.condition(NodeCondition::Drained)?;
        (drained.reason == WaitingReason::DrainBlocked.as_str()).then_some(drained.message.as_str())
    }

    /// What its MachineConfigNode says of something.
    pub fn condition(&self, type_: NodeCondition) -> Option<&'a Condition> {
        let conditions = self.progress?.status.as_ref()?.conditions.as_ref()?;
        conditions.iter().find(|condition| condition.type_ == type_.as_str())
    }

    /// The zone that it says it is in.
    pub fn zone(&self) -> Option<&'a str> {
        self.label(label::ZONE.as_str())
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&'a str> {
        self.labels.get(key)
    }
}

/// Conditions that a node must have a certain status of, if it has them at all.
const CONDITIONS: [(&str, &str); 3] = [("Ready", "True"), ("DiskPressure", "False"), ("NetworkUnavailable", "False")];

fn unready_reason(node: &impl NodeObject) -> Option<UnreadyReason<'_>> {
    node.conditions().find_map(|(type_, status, since)| {
        let (_, wanted) = CONDITIONS.iter().find(|(known, _)| *known == type_)?;
        (status != *wanted).then_some(UnreadyReason::Condition { type_, status, since })
    })
}
