//! Of a Node what the controllers want to know: who it is, what was said to it and by it, and whether it can be relied on.
//!
//! That is a tenth of what there is. The rest (images, capacities, volumes, heartbeats) is never made into anything, and a
//! cache of ten thousand is as much smaller.

use std::borrow::Cow;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Resource;
use kube::core::ObjectMeta;
use seaworthy_api::machineconfiguration::GROUP;
use seaworthy_api::text::Text;
use seaworthy_api::vocabulary::seaworthy;
use seaworthy_plan::fleet::Observed;
use serde::{Deserialize, Serialize};

use crate::texts::Texts;

/// A Node as the controllers see it. It is written by patches only, never as a whole.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    /// Its metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(default)]
    spec: Option<Spec>,
    #[serde(default)]
    status: Option<Status>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Spec {
    #[serde(default)]
    taints: Option<Vec<Taint>>,
    #[serde(default)]
    unschedulable: Option<bool>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Status {
    #[serde(default)]
    conditions: Option<Vec<Condition>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Condition {
    #[serde(rename = "type")]
    type_: Text,
    status: Text,
    #[serde(default)]
    last_transition_time: Option<Time>,
}

impl Machine {
    /// A reference to a Node.
    pub fn referred(metadata: ObjectMeta) -> Machine {
        Machine { metadata, ..Machine::default() }
    }

    /// What the roll-out looks at. Heartbeats are not among it.
    pub fn seen(&self) -> impl PartialEq {
        let conditions = self.conditions().map(|(type_, status, _)| (type_, status));
        let Machine { metadata, spec, .. } = self;
        (
            &metadata.labels,
            &metadata.annotations,
            &metadata.uid,
            spec.as_ref().map(|spec| (&spec.taints, spec.unschedulable)),
            conditions.collect::<Vec<_>>(),
        )
    }
}

/// Takes from a machine what only others read, and shares what all say alike.
pub fn slim() -> impl Fn(&mut Machine) + Send + Sync {
    let texts = Texts::default();
    move |machine| {
        if let Some(annotations) = &mut machine.metadata.annotations {
            let is_ours =
                |key: &str| key.split_once('/').is_some_and(|(group, _)| [GROUP, seaworthy::GROUP].contains(&group));
            // When an order was given is for those who estimate how long the next will take.
            annotations.retain(|key, _| is_ours(key) && key != seaworthy::annotation::ORDERED.as_str());
        }
        let conditions = machine.status.as_mut().and_then(|status| status.conditions.as_mut());
        texts.share(conditions.into_iter().flatten().flat_map(|found| [&mut found.type_, &mut found.status]));
    }
}

impl Observed for Machine {
    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn taints(&self) -> &[Taint] {
        self.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
    }

    fn is_unschedulable(&self) -> bool {
        self.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true)
    }

    fn conditions(&self) -> impl Iterator<Item = (&str, &str, Option<Timestamp>)> {
        let conditions = self.status.as_ref().and_then(|status| status.conditions.as_ref());
        let shown = |found: &'_ Condition| found.last_transition_time.as_ref().map(|time| time.0);
        conditions.into_iter().flatten().map(move |found| (&*found.type_, &*found.status, shown(found)))
    }
}

impl Resource for Machine {
    type DynamicType = ();
    type Scope = <Node as Resource>::Scope;

    fn kind(type_: &()) -> Cow<'_, str> {
        Node::kind(type_)
    }

    fn group(type_: &()) -> Cow<'_, str> {
        Node::group(type_)
    }

    fn version(type_: &()) -> Cow<'_, str> {
        Node::version(type_)
    }

    fn plural(type_: &()) -> Cow<'_, str> {
        Node::plural(type_)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seaworthy_plan::fleet::NodeView;
    use serde_json::json;

    #[test]
    fn machine_looks_as_its_node_does() {
        let node = json!({
            "metadata": {"name": "a", "uid": "u", "resourceVersion": "7", "labels": {"zone": "z"},
                "annotations": {"machineconfiguration.openshift.io/state": "Done", "other.example.com/x": "y"}},
            "spec": {"unschedulable": true, "podCIDR": "10.0.0.0/24", "taints": [{"key": "k", "effect": "NoSchedule"}]},
            "status": {"images": [], "conditions": [
                {"type": "Ready", "status": "False", "reason": "r", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            ]},
        });
        let whole: Node = serde_json::from_value(node.clone()).unwrap();
        let mut machine: Machine = serde_json::from_value(node).unwrap();
        slim()(&mut machine);
        let shown = |view: NodeView<'_>| format!("{view:?}");
        assert_eq!(shown(NodeView::of(&machine, None)), shown(NodeView::of(&whole, None)));
        assert_eq!(machine.metadata.annotations.unwrap().len(), 1);
        assert!(serde_json::from_value::<Machine>(json!({"metadata": {"name": "bare"}, "spec": null})).is_ok());
    }
}
