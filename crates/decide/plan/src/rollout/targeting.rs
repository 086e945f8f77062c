//! What a decision writes onto nodes: orders, taints, labels (machineconfig.md, 4.5).
//!
//! - A node gets at most one patch a decision, with the version that was looked at as precondition: whoever changed the
//!   node meanwhile changes the decision too.
//! - The controller never writes `currentConfig`, `state` or `currentImage`: those are the node's own words.

use std::collections::{BTreeMap, HashSet};

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::jiff::Timestamp;
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigPool};
use seaworthy_api::vocabulary::machineconfiguration::{
    MASTER, PoolEvent, UPDATE_IN_PROGRESS, label, node as annotation,
};
use seaworthy_api::vocabulary::{Annotation, Label, seaworthy};
use seaworthy_change::{Change, Event, ObjectRef};
use serde_json::{Map, Value, json};

use crate::fleet::custom_boot::Joining;
use crate::fleet::{NodeView, PoolView, Target};
use crate::rollout::Verdicts;
use crate::rollout::forecast;

/// Everything that the changes depend on.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The pool.
    pub pool: PoolView<'a>,
    /// Its nodes.
    pub nodes: &'a [&'a NodeView<'a>],
    /// What was decided about them.
    pub decision: &'a Verdicts<'a>,
    /// How many control-plane nodes the cluster has, in the words of Infrastructure; `None` where nobody says.
    pub topology: Option<&'a str>,
    /// The time.
    pub now: Timestamp,
}

/// The changes that carry out a decision, nodes in the order in which they were chosen, then the others.
///
/// A pool that is on its way out changes no node, and one that is paused only those that are told to stay what they are.
pub fn changes(inputs: &Inputs<'_>) -> Vec<Change> {
    let Some(target) = inputs.pool.target().filter(|_| !inputs.pool.is_deleting()) else {
        return Vec::new();
    };
    let is_paused = inputs.pool.is_paused();
    let nodes: BTreeMap<&str, &NodeView<'_>> = inputs.nodes.iter().map(|node| (node.name, *node)).collect();
    let joining: BTreeMap<&str, &Joining<'_>> =
        inputs.decision.joining.iter().map(|joining| (joining.node, joining)).collect();
    let chosen: HashSet<&str> = inputs.decision.chosen.iter().copied().collect();
    let first = inputs.decision.chosen.iter().filter_map(|name| nodes.get(name)).copied();
    let rest = nodes.values().copied().filter(|node| !is_paused && !chosen.contains(node.name));
    let mut changes: Vec<Change> = first
        .chain(rest)
        .filter_map(|node| {
            let mut patch = Patch::default();
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
            if let Some(joining) = joining.get(node.name) {
                for (key, value) in &joining.labels {
                    patch.labels.insert(key.clone(), value.as_str().into());
                }
                patch.annotate(annotation::CUSTOM_POOL_LABELS_APPLIED, None, Some(""));
            }
            patch.into_change(node)
        })
        .collect();
    changes.extend(deferral(inputs));
    changes
}

/// The event that tells of a node which comes last.
fn deferral(inputs: &Inputs<'_>) -> Option<Change> {
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
const NAMED: usize = 10;

/// The event that tells of the orders which were given: of those that were to be, not every one may have been.
pub fn given(pool: &str, target: Target<'_>, nodes: &[String]) -> Option<Change> {
    let (reason, image) = match target.image {
        None => (PoolEvent::SetDesiredConfig, String::new()),
        Some(image) => (PoolEvent::SetDesiredConfigAndOsImage, format!(" / Image: {image}")),
    };
    let config = target.config;
    let message = match nodes {
        [] => return None,
        [node] => format!("Targeted node {node} to MachineConfig: {config}{image}"),
        nodes => {
            let more = if nodes.len() > NAMED { ", …" } else { "" };
            let named = nodes[..nodes.len().min(NAMED)].join(", ");
            format!("Set target for {} nodes to MachineConfig: {config}{image} ({named}{more})", nodes.len())
        }
    };
    let related = Some(ObjectRef::named::<MachineConfig>(config));
    let event = Event { is_warning: false, reason: reason.as_str(), message, related };
    Some(Change::emit(ObjectRef::named::<MachineConfigPool>(pool), event))
}

/// A merge patch of a node.
#[derive(Default)]
struct Patch {
    annotations: Map<String, Value>,
    labels: Map<String, Value>,
    taints: Option<Vec<Taint>>,
}

impl Patch {
    fn order(&mut self, node: &NodeView<'_>, target: Target<'_>, now: Timestamp) {
        if node.desired_config != Some(target.config) {
            let ordered = forecast::ordered(now, node.current_config);
            self.annotate(seaworthy::annotation::ORDERED, node.ordered, Some(&ordered));
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
