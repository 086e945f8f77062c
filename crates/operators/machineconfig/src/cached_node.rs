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
use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::shared_texts::SharedTexts;

/// A Node as the controllers see it. It is written by patches only, never as a whole.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "Shown")]
pub struct CachedNode {
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
    #[serde(default, deserialize_with = "labels")]
    labels: List,
    #[serde(default, deserialize_with = "annotations")]
    annotations: List,
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

impl CachedNode {
    /// A reference to a Node.
    pub fn referred(metadata: ObjectMeta) -> CachedNode {
        CachedNode { metadata, ..CachedNode::default() }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    // As methods of the type itself, so that nobody asks the metadata, which have none.
    /// Its labels.
    pub fn labels(&self) -> Pairs<'_> {
        Pairs::List(&self.labels)
    }

    /// Its annotations.
    pub fn annotations(&self) -> Pairs<'_> {
        Pairs::List(&self.annotations)
    }

    /// The value of an annotation.
    pub fn annotation(&self, key: Annotation) -> Option<&str> {
        self.annotations().get(key.as_str())
    }

    /// What the roll-out looks at. Heartbeats are not among it.
    pub fn seen(&self) -> impl PartialEq {
        let conditions = self.conditions().map(|(type_, status, _)| (type_, status));
        let CachedNode { metadata, labels, annotations, spec, .. } = self;
        (labels, annotations, &metadata.uid, &spec.taints, spec.unschedulable, conditions.collect::<Vec<_>>())
    }
}

impl From<Shown> for CachedNode {
    fn from(Shown { metadata, spec, status }: Shown) -> CachedNode {
        let Metadata { name, uid, resource_version, creation_timestamp, labels, annotations } = metadata;
        CachedNode {
            metadata: ObjectMeta { name, uid, resource_version, creation_timestamp, ..ObjectMeta::default() },
            labels,
            annotations,
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

fn labels<'de, D: Deserializer<'de>>(deserializer: D) -> Result<List, D::Error> {
    deserializer.deserialize_any(Reader { what: "labels", is_wanted: |_| true })
}

fn annotations<'de, D: Deserializer<'de>>(deserializer: D) -> Result<List, D::Error> {
    deserializer.deserialize_any(Reader { what: "annotations", is_wanted: is_looked_at })
}

/// Reads pairs into a list by key, and those that are not wanted into nothing.
struct Reader {
    what: &'static str,
    is_wanted: fn(&str) -> bool,
}

impl<'de> Visitor<'de> for Reader {
    type Value = List;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)
    }

    fn visit_unit<E: Error>(self) -> Result<List, E> {
        Ok(List::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<List, A::Error> {
        let mut pairs = Vec::with_capacity(16);
        while let Some(key) = map.next_key::<Text>()? {
            if (self.is_wanted)(&key) {
                pairs.push((key, map.next_value()?));
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        pairs.sort_unstable();
        Ok(pairs.into())
    }
}

/// Shares what many machines say alike.
pub fn slim() -> impl Fn(&mut CachedNode) + Send + Sync {
    let texts = SharedTexts::default();
    move |CachedNode { labels, annotations, conditions, .. }| {
        let pairs = labels.iter_mut().chain(annotations).flat_map(|(key, value)| [key, value]);
        texts.share(pairs.chain(conditions.iter_mut().flat_map(|found| [&mut found.type_, &mut found.status])));
    }
}

impl Observed for CachedNode {
    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn labels(&self) -> Pairs<'_> {
        CachedNode::labels(self)
    }

    fn annotations(&self) -> Pairs<'_> {
        CachedNode::annotations(self)
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

impl Resource for CachedNode {
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
    use std::sync::Arc;

    use seaworthy_api::vocabulary::machineconfiguration::node as annotation;
    use seaworthy_plan::fleet::NodeView;
    use serde_json::{Map, Value, json};

    use super::*;

    fn node() -> Value {
        // Every annotation that a view has a field for, and one that is nobody's here.
        let keys = [
            annotation::STATE,
            annotation::REASON,
            annotation::CURRENT_CONFIG,
            annotation::DESIRED_CONFIG,
            annotation::CURRENT_IMAGE,
            annotation::DESIRED_IMAGE,
            annotation::FIRST_PIVOT_CONFIG,
            annotation::CUSTOM_POOL_LABELS_APPLIED,
            annotation::CONTROL_PLANE_TOPOLOGY,
            annotation::DESIRED_DRAIN,
            annotation::LAST_APPLIED_DRAIN,
            annotation::POST_CONFIG_ACTION,
            seaworthy::annotation::CORDONED_FOR,
            seaworthy::annotation::PAUSED,
        ];
        let mut annotations: Map<String, Value> =
            keys.iter().map(|key| (key.as_str().to_owned(), format!("of {key}").into())).collect();
        annotations[annotation::STATE.as_str()] = "Done".into();
        annotations.insert("other.example.com/x".to_owned(), "y".into());
        json!({
            "metadata": {"name": "a", "uid": "u", "resourceVersion": "7", "creationTimestamp": "2025-01-01T00:00:00Z",
                "generation": 3, "labels": {"zone": "z", "a": ""}, "annotations": annotations},
            "spec": {"unschedulable": true, "podCIDR": "10.0.0.0/24", "taints": [{"key": "k", "effect": "NoSchedule"}]},
            "status": {"images": [], "conditions": [
                {"type": "Ready", "status": "False", "reason": "r", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            ]},
        })
    }

    fn machine(node: Value) -> CachedNode {
        serde_json::from_value(node).unwrap()
    }

    #[test]
    fn machine_looks_as_its_node_does() {
        let whole: Node = serde_json::from_value(node()).unwrap();
        let mut slimmed = machine(node());
        slim()(&mut slimmed);
        let shown = |view: NodeView<'_>| format!("{view:?}");
        assert_eq!(shown(NodeView::of(&slimmed, None)), shown(NodeView::of(&whole, None)));
        assert_eq!(slimmed.annotations.len(), 14);
        assert!(slimmed.annotations.is_sorted() && slimmed.labels.is_sorted());
        let mut ordered = node();
        ordered["metadata"]["annotations"][seaworthy::annotation::ORDERED.as_str()] = "1 x".into();
        assert_eq!(machine(ordered).annotation(seaworthy::annotation::ORDERED), None);
    }

    #[test]
    fn bare_node_and_one_with_nulls_are_read() {
        let bare = machine(json!({"metadata": {"name": "bare"}, "spec": null}));
        let nulls =
            json!({"metadata": {"name": "bare", "labels": null, "annotations": null}, "status": {"conditions": null}});
        let nulls = machine(nulls);
        assert!(bare.seen() == nulls.seen());
        let said =
            serde_json::from_value::<CachedNode>(json!({"metadata": {"labels": {"a": 1}}})).unwrap_err().to_string();
        assert!(said.contains("expected a string"), "{said}");
    }

    #[test]
    fn machines_share_what_they_say_alike() {
        let slim = slim();
        let [one, other] = ["a", "b"].map(|name| {
            let mut machine = machine(node());
            machine.metadata.name = Some(name.to_owned());
            slim(&mut machine);
            machine
        });
        let is_shared = |one: &Text, other: &Text| Arc::ptr_eq(one.as_arc(), other.as_arc());
        for lists in [(&one.labels, &other.labels), (&one.annotations, &other.annotations)] {
            let pairs = lists.0.iter().zip(lists.1);
            assert!(pairs.into_iter().all(|(one, other)| is_shared(&one.0, &other.0) && is_shared(&one.1, &other.1)));
        }
    }

    #[test]
    fn heartbeat_is_not_seen_and_everything_that_counts_is() {
        let before = machine(node());
        let is_seen = |path: &str, value: Value| {
            let mut node = node();
            *node.pointer_mut(path).unwrap() = value;
            let after = machine(node);
            before.seen() != after.seen()
        };
        for (path, value) in [
            ("/metadata/resourceVersion", json!("8")),
            ("/metadata/annotations/other.example.com~1x", json!("z")),
            ("/status/images", json!([{"names": ["i"]}])),
            ("/status/conditions/0/lastTransitionTime", json!("2026-01-01T00:00:05Z")),
        ] {
            assert!(!is_seen(path, value), "{path}");
        }
        for (path, value) in [
            ("/metadata/uid", json!("v")),
            ("/metadata/labels/zone", json!("y")),
            ("/metadata/annotations/machineconfiguration.openshift.io~1state", json!("Working")),
            ("/spec/unschedulable", json!(false)),
            ("/spec/taints/0/effect", json!("NoExecute")),
            ("/status/conditions/0/status", json!("True")),
        ] {
            assert!(is_seen(path, value), "{path}");
        }
    }
}
