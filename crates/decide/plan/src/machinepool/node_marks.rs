//! Node marks: what a pool writes onto its Nodes: whose they are, labels of the template, and that they are initialized.
//!
//! Differs: labels of the template reach the Nodes of every pool, in the write that removes the taint, because upstream removes
//! the taint before labels are there, and copies none where a pool has no Machines.

use std::collections::BTreeMap;

use kube::Resource as _;
use seaworthy_api::cluster::v1beta2::MachinePool;
use seaworthy_api::vocabulary::cluster::annotation;
use seaworthy_change::Change;
use serde_json::{Map, Value, json};

use super::node_index::{MARKS, WorkloadNode, is_template_label, is_uninitialized};
use super::pool_index::PoolIndex;

/// What the Nodes of a pool should have.
#[derive(Clone, Debug)]
pub struct Marks<'a> {
    pool: &'a str,
    annotations: [(&'static str, String); MARKS.len()],
    labels: BTreeMap<&'a str, &'a str>,
}

impl<'a> Marks<'a> {
    /// The marks of a pool of this Cluster.
    pub fn new(pool: &'a MachinePool, cluster: &str) -> Marks<'a> {
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        let namespace = pool.metadata.namespace.as_deref().unwrap_or_default();
        let template = pool.spec.template.metadata.as_ref();
        let labels = template.and_then(|template| template.labels.as_ref()).into_iter().flatten();
        let values = [cluster.to_owned(), namespace.to_owned(), MachinePool::kind(&()).into_owned(), name.to_owned()];
        let mut values = values.into_iter();
        Marks {
            pool: name,
            annotations: MARKS.map(|key| (key.as_str(), values.next().unwrap_or_default())),
            labels: labels
                .filter(|(key, _)| is_template_label(key))
                .map(|(key, value)| (key.as_str(), value.as_str()))
                .collect(),
        }
    }

    /// The change that gives a Node its marks; `None` if it has them, or is another pool's as well.
    pub fn change(&self, node: &WorkloadNode, pools: &PoolIndex) -> Option<Change> {
        if node.is_deleting || !self.is_for_this_pool(node, pools) {
            return None;
        }
        let mut patch = Map::new();
        let mut metadata = Map::new();
        let missing = self.annotations.iter().filter(|(key, value)| node.marks.get(key) != Some(value));
        let annotations: Map<_, _> = missing.map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        let is_missing = |(key, value): &(&&str, &&str)| node.labels.get(**key).map(String::as_str) != Some(**value);
        let missing = self.labels.iter().filter(is_missing);
        let labels: Map<_, _> = missing.map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        for (key, found) in [("annotations", annotations), ("labels", labels)] {
            if !found.is_empty() {
                metadata.insert(key.to_owned(), Value::Object(found));
            }
        }
        if !metadata.is_empty() {
            patch.insert("metadata".to_owned(), Value::Object(metadata));
        }
        if let Some(taints) = &node.taints {
            let rest: Vec<_> = taints.iter().filter(|taint| !is_uninitialized(taint)).collect();
            let rest = if rest.is_empty() { Value::Null } else { json!(rest) };
            patch.insert("spec".to_owned(), json!({ "taints": rest }));
        }
        // Bound to the revision: the list of taints is replaced as a whole, and a Node of the same name may be another one.
        (!patch.is_empty()).then(|| Change::patch(node.object_ref(), Value::Object(patch)))
    }

    /// Of several pools that list a Node's provider ID one marks it: the one that has, or the first by name.
    fn is_for_this_pool(&self, node: &WorkloadNode, pools: &PoolIndex) -> bool {
        let mut others = pools.others_listing(&node.provider_id, self.pool).peekable();
        if others.peek().is_none() {
            return true;
        }
        let owner = node.marks.get(annotation::OWNER_NAME.as_str()).map(String::as_str);
        owner == Some(self.pool) || others.all(|other| owner != Some(other) && self.pool < other)
    }
}
