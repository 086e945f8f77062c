//! Of a Node what the controllers want to know: who it is, what was said to it and by it, and whether it can be relied on.
//!
//! That is a tenth of what there is. The rest (images, capacities, volumes, heartbeats) is never made into anything, and a
//! cache of ten thousand is as much smaller.

use std::borrow::Cow;
use std::fmt;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Resource;
use kube::core::ObjectMeta;
use seaworthy_api::machineconfiguration::GROUP;
use seaworthy_api::meta::Pairs;
use seaworthy_api::text::Text;
use seaworthy_api::vocabulary::{Annotation, seaworthy};
use seaworthy_plan::fleet::Observed;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::texts::Texts;

/// A Node as the controllers see it. It is written by patches only, never as a whole.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "Shown")]
pub struct Machine {
    /// Without labels and annotations, which are beside it.
    metadata: ObjectMeta,
    labels: List,
    annotations: List,
    spec: Spec,
    conditions: Vec<Condition>,
}

/// Pairs by key. Most nodes have the same keys and many of the same values, which are kept once for all of them.
type List = Box<[(Text, Text)]>;

/// A Node, as far as it is read.
#[derive(Deserialize)]
struct Shown {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    spec: Option<Spec>,
    #[serde(default)]
    status: Option<Status>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    uid: Option<String>,
    #[serde(default)]
    resource_version: Option<String>,
    #[serde(default)]
    creation_timestamp: Option<Time>,
    #[serde(default)]
    deletion_timestamp: Option<Time>,
    #[serde(default, deserialize_with = "pairs")]
    labels: Vec<(Text, Text)>,
    #[serde(default, deserialize_with = "pairs")]
    annotations: Vec<(Text, Text)>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Spec {
    #[serde(default)]
    taints: Option<Vec<Taint>>,
    #[serde(default)]
    unschedulable: Option<bool>,
}

#[derive(Default, Deserialize)]
struct Status {
    #[serde(default)]
    conditions: Option<Vec<Condition>>,
}

#[derive(Clone, Debug, Deserialize)]
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

    /// Its name.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// The value of an annotation.
    pub fn annotation(&self, key: Annotation) -> Option<&str> {
        self.annotations().get(key.as_str())
    }

    /// What the roll-out looks at. Heartbeats are not among it.
    pub fn seen(&self) -> impl PartialEq {
        let conditions = self.conditions().map(|(type_, status, _)| (type_, status));
        let Machine { metadata, labels, annotations, spec, .. } = self;
        (labels, annotations, &metadata.uid, &spec.taints, spec.unschedulable, conditions.collect::<Vec<_>>())
    }
}

impl From<Shown> for Machine {
    fn from(Shown { metadata, spec, status }: Shown) -> Machine {
        let Metadata { name, uid, resource_version, creation_timestamp, deletion_timestamp, labels, annotations } =
            metadata;
        Machine {
            metadata: ObjectMeta {
                name,
                uid,
                resource_version,
                creation_timestamp,
                deletion_timestamp,
                ..ObjectMeta::default()
            },
            labels: labels.into(),
            annotations: annotations.into_iter().filter(|(key, _)| is_looked_at(key)).collect(),
            spec: spec.unwrap_or_default(),
            conditions: status.and_then(|status| status.conditions).unwrap_or_default(),
        }
    }
}

/// Whether an annotation is one of ours. When an order was given is for those who estimate how long the next will take.
fn is_looked_at(key: &str) -> bool {
    let is_ours = key.split_once('/').is_some_and(|(group, _)| [GROUP, seaworthy::GROUP].contains(&group));
    is_ours && key != seaworthy::annotation::ORDERED.as_str()
}

/// Reads pairs into a list by key.
fn pairs<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(Text, Text)>, D::Error> {
    struct Reader;

    impl<'de> Visitor<'de> for Reader {
        type Value = Vec<(Text, Text)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("labels or annotations")
        }

        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok(Vec::new())
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut pairs = Vec::with_capacity(map.size_hint().unwrap_or(16));
            while let Some(pair) = map.next_entry()? {
                pairs.push(pair);
            }
            pairs.sort_unstable();
            Ok(pairs)
        }
    }

    deserializer.deserialize_any(Reader)
}

/// Shares what many machines say alike.
pub fn slim() -> impl Fn(&mut Machine) + Send + Sync {
    let texts = Texts::default();
    move |Machine { labels, annotations, conditions, .. }| {
        let pairs = labels.iter_mut().chain(annotations).flat_map(|(key, value)| [key, value]);
        texts.share(pairs.chain(conditions.iter_mut().flat_map(|found| [&mut found.type_, &mut found.status])));
    }
}

impl Observed for Machine {
    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn labels(&self) -> Pairs<'_> {
        Pairs::List(&self.labels)
    }

    fn annotations(&self) -> Pairs<'_> {
        Pairs::List(&self.annotations)
    }

    fn taints(&self) -> &[Taint] {
        self.spec.taints.as_deref().unwrap_or_default()
    }

    fn is_unschedulable(&self) -> bool {
        self.spec.unschedulable == Some(true)
    }

    fn conditions(&self) -> impl Iterator<Item = (&str, &str, Option<Timestamp>)> {
        let shown = |found: &'_ Condition| found.last_transition_time.as_ref().map(|time| time.0);
        self.conditions.iter().map(move |found| (&*found.type_, &*found.status, shown(found)))
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
            "metadata": {"name": "a", "uid": "u", "resourceVersion": "7", "labels": {"zone": "z", "a": ""},
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
        assert_eq!(machine.annotations.len(), 1);
        assert!(serde_json::from_value::<Machine>(json!({"metadata": {"name": "bare"}, "spec": null})).is_ok());
        let nulls =
            json!({"metadata": {"name": "bare", "labels": null, "annotations": null}, "status": {"conditions": null}});
        assert!(serde_json::from_value::<Machine>(nulls).is_ok());
    }
}
