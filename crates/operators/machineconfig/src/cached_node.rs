//! Cached nodes: the part of a Node that the controllers read. Identity, labels, annotations, taints and conditions.
//!
//! That is a tenth of a Node. The rest (images, capacities, volumes, heartbeats) is never deserialized, and a cache of ten
//! thousand nodes is as much smaller.

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
use seaworthy_plan::fleet::NodeObject;
use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::text_interner::TextInterner;

/// The part of a Node that the controllers read. Nodes are written by patches only, never as a whole.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "ParsedNode")]
pub struct CachedNode {
    /// Without labels and annotations, which are fields of their own.
    metadata: ObjectMeta,
    labels: PairList,
    annotations: PairList,
    spec: Spec,
    conditions: Vec<Condition>,
}

/// Pairs by key. Most nodes have the same keys and many of the same values, which are kept once for all of them.
type PairList = Box<[(Text, Text)]>;

/// The fields of a Node that are deserialized.
#[derive(Deserialize)]
struct ParsedNode {
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
    labels: PairList,
    #[serde(default, deserialize_with = "annotations")]
    annotations: PairList,
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
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    // Methods of the type itself hide those of the metadata, which have no labels and annotations.
    pub fn labels(&self) -> Pairs<'_> {
        Pairs::List(&self.labels)
    }

    pub fn annotations(&self) -> Pairs<'_> {
        Pairs::List(&self.annotations)
    }

    pub fn annotation(&self, key: Annotation) -> Option<&str> {
        self.annotations().get(key.as_str())
    }

    /// The fields that the roll-out decides on, to compare. Heartbeats are not among them.
    pub fn rollout_fields(&self) -> impl PartialEq {
        let conditions = self.conditions().map(|(type_, status, _)| (type_, status));
        let CachedNode { metadata, labels, annotations, spec, .. } = self;
        (labels, annotations, &metadata.uid, &spec.taints, spec.unschedulable, conditions.collect::<Vec<_>>())
    }
}

impl From<ParsedNode> for CachedNode {
    fn from(ParsedNode { metadata, spec, status }: ParsedNode) -> CachedNode {
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

/// Whether a decision reads this annotation. The time of the last order is read by the forecast only, from whole Nodes.
fn is_relevant(key: &str) -> bool {
    let is_ours = key.split_once('/').is_some_and(|(group, _)| [GROUP, seaworthy::GROUP].contains(&group));
    let unread = [seaworthy::annotation::LAST_ORDER, seaworthy::annotation::FORMER_LAST_ORDER];
    is_ours && unread.iter().all(|annotation| annotation.as_str() != key)
}

fn labels<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PairList, D::Error> {
    deserializer.deserialize_any(PairsVisitor { what: "labels", is_wanted: |_| true })
}

fn annotations<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PairList, D::Error> {
    deserializer.deserialize_any(PairsVisitor { what: "annotations", is_wanted: is_relevant })
}

/// Reads the wanted pairs into a list sorted by key.
struct PairsVisitor {
    what: &'static str,
    is_wanted: fn(&str) -> bool,
}

impl<'de> Visitor<'de> for PairsVisitor {
    type Value = PairList;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)
    }

    fn visit_unit<E: Error>(self) -> Result<PairList, E> {
        Ok(PairList::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<PairList, A::Error> {
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

/// Shares the texts that many nodes have in common.
pub fn share_texts() -> impl Fn(&mut CachedNode) + Send + Sync {
    let texts = TextInterner::default();
    move |CachedNode { labels, annotations, conditions, .. }| {
        let pairs = labels.iter_mut().chain(annotations).flat_map(|(key, value)| [key, value]);
        texts.intern(pairs.chain(conditions.iter_mut().flat_map(|found| [&mut found.type_, &mut found.status])));
    }
}

impl NodeObject for CachedNode {
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
        let since = |found: &'_ Condition| found.last_transition_time.as_ref().map(|time| time.0);
        self.conditions.iter().map(move |found| (&*found.type_, &*found.status, since(found)))
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
        // Every annotation that a view has a field for, and a foreign one.
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

    fn cached(node: Value) -> CachedNode {
        serde_json::from_value(node).unwrap()
    }

    #[test]
    fn view_of_a_cached_node_equals_that_of_its_node() {
        let whole: Node = serde_json::from_value(node()).unwrap();
        let mut shared = cached(node());
        share_texts()(&mut shared);
        let shown = |view: NodeView<'_>| format!("{view:?}");
        assert_eq!(shown(NodeView::of(&shared, None)), shown(NodeView::of(&whole, None)));
        assert_eq!(shared.annotations.len(), 14);
        assert!(shared.annotations.is_sorted() && shared.labels.is_sorted());
        let mut ordered = node();
        ordered["metadata"]["annotations"][seaworthy::annotation::LAST_ORDER.as_str()] = "1 x".into();
        assert_eq!(cached(ordered).annotation(seaworthy::annotation::LAST_ORDER), None);
    }

    #[test]
    fn bare_node_and_one_with_nulls_are_read() {
        let bare = cached(json!({"metadata": {"name": "bare"}, "spec": null}));
        let nulls =
            json!({"metadata": {"name": "bare", "labels": null, "annotations": null}, "status": {"conditions": null}});
        let nulls = cached(nulls);
        assert!(bare.rollout_fields() == nulls.rollout_fields());
        let error =
            serde_json::from_value::<CachedNode>(json!({"metadata": {"labels": {"a": 1}}})).unwrap_err().to_string();
        assert!(error.contains("expected a string"), "{error}");
    }

    #[test]
    fn nodes_share_equal_texts() {
        let share = share_texts();
        let [one, other] = ["a", "b"].map(|name| {
            let mut machine = cached(node());
            machine.metadata.name = Some(name.to_owned());
            share(&mut machine);
            machine
        });
        let is_shared = |one: &Text, other: &Text| Arc::ptr_eq(one.as_arc(), other.as_arc());
        for lists in [(&one.labels, &other.labels), (&one.annotations, &other.annotations)] {
            let pairs = lists.0.iter().zip(lists.1);
            assert!(pairs.into_iter().all(|(one, other)| is_shared(&one.0, &other.0) && is_shared(&one.1, &other.1)));
        }
    }

    #[test]
    fn rollout_fields_leave_out_heartbeats_and_have_everything_that_counts() {
        let before = cached(node());
        let is_compared = |path: &str, value: Value| {
            let mut node = node();
            *node.pointer_mut(path).unwrap() = value;
            let after = cached(node);
            before.rollout_fields() != after.rollout_fields()
        };
        for (path, value) in [
            ("/metadata/resourceVersion", json!("8")),
            ("/metadata/annotations/other.example.com~1x", json!("z")),
            ("/status/images", json!([{"names": ["i"]}])),
            ("/status/conditions/0/lastTransitionTime", json!("2026-01-01T00:00:05Z")),
        ] {
            assert!(!is_compared(path, value), "{path}");
        }
        for (path, value) in [
            ("/metadata/uid", json!("v")),
            ("/metadata/labels/zone", json!("y")),
            ("/metadata/annotations/machineconfiguration.openshift.io~1state", json!("Working")),
            ("/spec/unschedulable", json!(false)),
            ("/spec/taints/0/effect", json!("NoExecute")),
            ("/status/conditions/0/status", json!("True")),
        ] {
            assert!(is_compared(path, value), "{path}");
        }
    }
}
