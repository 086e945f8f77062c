//! Targeting: what a decision writes onto nodes (orders, taints, labels).
//!
//! - A node gets at most one patch a decision, with the version that was read as precondition: a node that was
//!   changed meanwhile is decided about again.
//! - The controller never writes `currentConfig`, `state` or `currentImage`: those are reported by the node itself.

use std::collections::{BTreeMap, HashSet};

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::jiff::Timestamp;
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigPool};
use seaworthy_api::vocabulary::machineconfiguration::{
    MASTER, PoolEvent, UPDATE_IN_PROGRESS, label, node as annotation,
};
use seaworthy_api::vocabulary::{Annotation, Label, seaworthy};
use seaworthy_change::{Change, Event, ObjectRef};
use seaworthy_values::list;
use serde_json::{Map, Value, json};

use crate::fleet::first_boot::MissingLabels;
use crate::fleet::{NodeView, PoolView, Target};
use crate::rollout::Verdicts;
use crate::rollout::forecast;

/// Everything that the changes depend on.
#[derive(Clone, Copy, Debug)]
pub struct TargetingInputs<'a> {
    pub pool: PoolView<'a>,
    pub nodes: &'a [&'a NodeView<'a>],
    /// What was decided about them.
    pub decision: &'a Verdicts<'a>,
    /// How many control-plane nodes the cluster has, in the words of Infrastructure; `None` where it is not known.
    pub topology: Option<&'a str>,
    /// The time.
    pub now: Timestamp,
}

/// The changes that carry out a decision, nodes in the order in which they were chosen, then the others.
///
/// A pool that is on its way out changes no node, and one that is paused only those that are ordered to keep what they run.
pub fn changes(inputs: &TargetingInputs<'_>) -> Vec<Change> {
    let Some(target) = inputs.pool.target().filter(|_| !inputs.pool.is_deleting()) else {
        return Vec::new();
    };
    let is_paused = inputs.pool.is_paused();
    let nodes: BTreeMap<&str, &NodeView<'_>> = inputs.nodes.iter().map(|node| (node.name, *node)).collect();
    let missing_labels: BTreeMap<&str, &MissingLabels<'_>> =
        inputs.decision.missing_labels.iter().map(|missing_labels| (missing_labels.node, missing_labels)).collect();
    let chosen: HashSet<&str> = inputs.decision.chosen.iter().copied().collect();
    let first = inputs.decision.chosen.iter().filter_map(|name| nodes.get(name)).copied();
    let rest = nodes.values().copied().filter(|node| !is_paused && !chosen.contains(node.name));
    let mut changes: Vec<Change> = first
        .chain(rest)
        .filter_map(|node| {
            let mut patch = NodePatch::default();
            if chosen.contains(node.name) {
                patch.order(node, target, inputs.now);
            }
            patch.taint(node, target, chosen.contains(node.name));
            if let Some(topology) = inputs.topology {
                patch.annotate(annotation::CONTROL_PLANE_TOPOLOGY, node.control_plane_topology, Some(topology));
            }
            if inputs.pool.name == MASTER {
                patch.label(node, label::NODE_ROLE_CONTROL_PLANE, "");
            }
            if let Some(missing_labels) = missing_labels.get(node.name) {
                for (key, value) in &missing_labels.labels {
                    patch.labels.insert(key.clone(), value.as_str().into());
                }
                patch.annotate(annotation::CUSTOM_POOL_LABELS_APPLIED, None, Some(""));
            }
            patch.into_change(node)
        })
        .collect();
    changes.extend(deferral_event(inputs));
    changes
}

/// The event about a node that is updated last.
fn deferral_event(inputs: &TargetingInputs<'_>) -> Option<Change> {
    let node = inputs.decision.deferred?;
    let event = Event {
        is_warning: false,
        reason: PoolEvent::DeferringOperatorNodeUpdate.as_str(),
        message: format!("Node {node} runs the controllers; the other nodes of the pool are updated first"),
        related: None,
    };
    Some(Change::emit(inputs.pool.object_ref(), event))
}

/// How many nodes an event names one by one; it has room for about a thousand characters.
const MAX_NAMED: usize = 10;

/// The event about the orders that were given: not every order that was decided may have been.
pub fn orders_event(pool: &str, target: Target<'_>, nodes: &[String]) -> Option<Change> {
    let (reason, image) = match target.image {
        None => (PoolEvent::SetDesiredConfig, String::new()),
        Some(image) => (PoolEvent::SetDesiredConfigAndOsImage, format!(" / Image: {image}")),
    };
    let config = target.config;
    let message = match nodes {
        [] => return None,
        [node] => format!("Targeted node {node} to MachineConfig: {config}{image}"),
        nodes => {
            let named = list::examples(nodes, MAX_NAMED);
            format!("Set target for {} nodes to MachineConfig: {config}{image} ({named})", nodes.len())
        }
    };
    let related = Some(ObjectRef::named::<MachineConfig>(config));
    let event = Event { is_warning: false, reason: reason.as_str(), message, related };
    Some(Change::emit(ObjectRef::named::<MachineConfigPool>(pool), event))
}

/// A merge patch of a node.
#[derive(Default)]
struct NodePatch {
    annotations: Map<String, Value>,
    labels: Map<String, Value>,
    taints: Option<Vec<Taint>>,
}

impl NodePatch {
    fn order(&mut self, node: &NodeView<'_>, target: Target<'_>, now: Timestamp) {
        if node.desired_config != Some(target.config) {
            let ordered = forecast::ordered(now, node.current_config);
            // Written in any case: what was found may be under the former key.
            self.annotations.insert(seaworthy::annotation::LAST_ORDER.into(), ordered.into());
            self.annotations.insert(seaworthy::annotation::FORMER_LAST_ORDER.into(), Value::Null);
        }
        self.annotate(annotation::DESIRED_CONFIG, node.desired_config, Some(target.config));
        self.annotate(annotation::DESIRED_IMAGE, node.desired_image, target.image);
    }

    /// The taint is on every node that is still to be given the target, so that pods rather go where they can stay.
    ///
    /// Differs: upstream taints a node that it is about to target and takes the taint away in the next pass; here both
    /// are one write, and a node that is targeted at once is never tainted.
    fn taint(&mut self, node: &NodeView<'_>, target: Target<'_>, is_chosen: bool) {
        let is_ours = |taint: &Taint| taint.key == UPDATE_IN_PROGRESS.key && taint.effect == UPDATE_IN_PROGRESS.effect;
        let is_wanted = !is_chosen && !node.is_targeted(target);
        if is_wanted == node.taints.iter().any(is_ours) {
            return;
        }
        let mut taints: Vec<Taint> = node.taints.iter().filter(|taint| !is_ours(taint)).cloned().collect();
        if is_wanted {
            taints.push(Taint {
                key: UPDATE_IN_PROGRESS.key.to_owned(),
                effect: UPDATE_IN_PROGRESS.effect.to_owned(),
                ..Taint::default()
            });
        }
        self.taints = Some(taints);
    }

    fn annotate(&mut self, key: Annotation, found: Option<&str>, wanted: Option<&str>) {
        if found != wanted {
            self.annotations.insert(key.into(), wanted.map_or(Value::Null, Value::from));
        }
    }

    fn label(&mut self, node: &NodeView<'_>, key: Label, value: &str) {
        if node.label(key.as_str()) != Some(value) {
            self.labels.insert(key.into(), value.into());
        }
    }

    fn into_change(self, node: &NodeView<'_>) -> Option<Change> {
        let mut metadata = Map::new();
        if !self.annotations.is_empty() {
            metadata.insert("annotations".to_owned(), self.annotations.into());
        }
        if !self.labels.is_empty() {
            metadata.insert("labels".to_owned(), self.labels.into());
        }
        let mut patch = Map::new();
        if !metadata.is_empty() {
            patch.insert("metadata".to_owned(), metadata.into());
        }
        if let Some(taints) = self.taints {
            patch.insert("spec".to_owned(), json!({ "taints": taints }));
        }
        (!patch.is_empty()).then(|| Change::patch(node.object_ref(), patch.into()))
    }
}
