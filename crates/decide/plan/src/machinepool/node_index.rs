//! Node index: the Nodes of a workload cluster as pools see them, by name and by provider ID.
//!
//! One index for each cluster, shared by its pools. A Node's event takes constant time, and a Node whose event says nothing new
//! to a pool is known as such.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use seaworthy_api::vocabulary::cluster::{NODE_LABEL_DOMAINS, UNINITIALIZED, annotation};
use seaworthy_change::{ObjectRef, ResourceType};

/// The annotations that a pool sets on its Nodes.
pub(super) const MARKS: [seaworthy_api::vocabulary::Annotation; 4] =
    [annotation::CLUSTER_NAME, annotation::CLUSTER_NAMESPACE, annotation::OWNER_KIND, annotation::OWNER_NAME];

/// A Node, reduced to what pools look at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkloadNode {
    pub name: String,
    pub uid: String,
    pub resource_version: Option<String>,
    pub created: Option<Timestamp>,
    /// Empty until its cloud has named it.
    pub provider_id: String,
    pub is_deleting: bool,
    /// Whether the condition `Ready` is true.
    pub is_ready: bool,
    /// When that condition changed last.
    pub ready_since: Option<Timestamp>,
    /// Empty until its kubelet has reported.
    pub kubelet_version: String,
    /// The values of the annotations that pools set.
    pub marks: BTreeMap<&'static str, String>,
    /// The labels in the domains that come from templates.
    pub labels: BTreeMap<String, String>,
    /// All taints, if one of them is for a pool to remove.
    pub taints: Option<Vec<Taint>>,
}

impl WorkloadNode {
    /// A Node as pools see it.
    pub fn of(node: &Node) -> WorkloadNode {
        let ObjectMeta { name, uid, resource_version, .. } = &node.metadata;
        let spec = node.spec.as_ref();
        let status = node.status.as_ref();
        let mut conditions = status.iter().flat_map(|status| status.conditions.iter().flatten());
        let ready = conditions.find(|condition| condition.type_ == "Ready");
        let taints = spec.and_then(|spec| spec.taints.as_ref());
        let labels = node.metadata.labels.iter().flatten().filter(|(key, _)| is_template_label(key));
        WorkloadNode {
            name: name.clone().unwrap_or_default(),
            uid: uid.clone().unwrap_or_default(),
            resource_version: resource_version.clone(),
            created: node.metadata.creation_timestamp.as_ref().map(|time| time.0),
            provider_id: spec.and_then(|spec| spec.provider_id.clone()).unwrap_or_default(),
            is_deleting: node.metadata.deletion_timestamp.is_some(),
            is_ready: ready.is_some_and(|ready| ready.status == "True"),
            ready_since: ready.and_then(|ready| ready.last_transition_time.as_ref()).map(|time| time.0),
            kubelet_version: status
                .and_then(|status| status.node_info.as_ref())
                .map(|info| info.kubelet_version.clone())
                .unwrap_or_default(),
            marks: MARKS.iter().filter_map(|key| Some((key.as_str(), key.of(&node.metadata)?.to_owned()))).collect(),
            labels: labels.map(|(key, value)| (key.clone(), value.clone())).collect(),
            taints: taints.filter(|taints| taints.iter().any(is_uninitialized)).cloned(),
        }
    }

    fn equals_but_for_its_revision(&self, other: &WorkloadNode) -> bool {
        let WorkloadNode { name, uid, resource_version: _, created, provider_id, is_deleting, is_ready, .. } = self;
        let WorkloadNode { ready_since, kubelet_version, marks, labels, taints, .. } = self;
        (name, uid, created, provider_id) == (&other.name, &other.uid, &other.created, &other.provider_id)
            && (is_deleting, is_ready) == (&other.is_deleting, &other.is_ready)
            && (ready_since, kubelet_version) == (&other.ready_since, &other.kubelet_version)
            && (marks, labels, taints) == (&other.marks, &other.labels, &other.taints)
    }

    /// The Node in the state that it was seen in.
    pub(super) fn object_ref(&self) -> ObjectRef {
        ObjectRef {
            resource: ResourceType::of::<Node>(),
            namespace: None,
            name: self.name.clone(),
            uid: Some(self.uid.clone()).filter(|uid| !uid.is_empty()),
            resource_version: self.resource_version.clone(),
        }
    }
}

/// What the state of a Node means to the pools of its cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeChange {
    /// Nothing that a pool looks at: nothing has to be decided.
    None,
    /// It is new.
    Added,
    /// It was this before: its former pools may be others.
    From(Box<WorkloadNode>),
}

/// Whether a label of a template is copied to Nodes: the domains that a kubelet may not set itself, and their subdomains.
pub(super) fn is_template_label(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else { return false };
    NODE_LABEL_DOMAINS
        .iter()
        .any(|managed| domain.strip_suffix(managed).is_some_and(|before| before.is_empty() || before.ends_with('.')))
}

/// Whether a pool removes this taint.
pub(super) fn is_uninitialized(taint: &Taint) -> bool {
    taint.key == UNINITIALIZED.key && taint.effect == UNINITIALIZED.effect
}

/// The Nodes of one workload cluster.
#[derive(Clone, Debug, Default)]
pub struct NodeIndex {
    nodes: HashMap<String, WorkloadNode>,
    /// The names of the Nodes with a provider ID; several only where a machine has registered again under another name.
    by_provider_id: HashMap<String, BTreeSet<String>>,
}

impl NodeIndex {
    /// Takes in a Node as it is now. Returns what that means to pools.
    pub fn set(&mut self, node: WorkloadNode) -> NodeChange {
        let (name, provider_id) = (node.name.clone(), node.provider_id.clone());
        let Some(old) = self.nodes.get_mut(&name) else {
            self.nodes.insert(name.clone(), node);
            self.remember(provider_id, name);
            return NodeChange::Added;
        };
        let old = std::mem::replace(old, node);
        if self.nodes[&name].equals_but_for_its_revision(&old) {
            return NodeChange::None;
        }
        if old.provider_id != provider_id {
            self.forget(&old.provider_id, &name);
            self.remember(provider_id, name);
        }
        NodeChange::From(Box::new(old))
    }

    /// Forgets a Node that is gone.
    pub fn remove(&mut self, name: &str) -> Option<WorkloadNode> {
        let old = self.nodes.remove(name)?;
        self.forget(&old.provider_id, name);
        Some(old)
    }

    /// The Node with this name.
    pub fn get(&self, name: &str) -> Option<&WorkloadNode> {
        self.nodes.get(name)
    }

    /// The Nodes with this provider ID, by name; none for an empty one.
    pub fn with_provider_id<'a>(&'a self, provider_id: &str) -> impl Iterator<Item = &'a WorkloadNode> + use<'a> {
        let names = self.by_provider_id.get(provider_id).into_iter().flatten();
        names.filter_map(|name| self.nodes.get(name))
    }

    /// How many different provider IDs the Nodes have.
    pub fn provider_ids(&self) -> usize {
        self.by_provider_id.len()
    }

    fn remember(&mut self, provider_id: String, name: String) {
        if !provider_id.is_empty() {
            self.by_provider_id.entry(provider_id).or_default().insert(name);
        }
    }

    fn forget(&mut self, provider_id: &str, name: &str) {
        if let Some(names) = self.by_provider_id.get_mut(provider_id) {
            names.remove(name);
            if names.is_empty() {
                self.by_provider_id.remove(provider_id);
            }
        }
    }
}

impl FromIterator<WorkloadNode> for NodeIndex {
    fn from_iter<I: IntoIterator<Item = WorkloadNode>>(nodes: I) -> NodeIndex {
        let mut index = NodeIndex::default();
        for node in nodes {
            index.set(node);
        }
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, provider_id: &str, resource_version: &str) -> WorkloadNode {
        WorkloadNode {
            name: name.to_owned(),
            provider_id: provider_id.to_owned(),
            resource_version: Some(resource_version.to_owned()),
            ..WorkloadNode::default()
        }
    }

    fn names(index: &NodeIndex, provider_id: &str) -> Vec<String> {
        index.with_provider_id(provider_id).map(|node| node.name.clone()).collect()
    }

    #[test]
    fn node_is_found_by_the_provider_id_that_it_has_now() {
        let mut index = NodeIndex::default();
        assert_eq!(index.set(node("a", "", "1")), NodeChange::Added);
        assert_eq!(index.set(node("a", "x", "2")), NodeChange::From(Box::new(node("a", "", "1"))));
        index.set(node("b", "x", "3"));
        assert_eq!(names(&index, "x"), ["a", "b"]);
        index.set(node("a", "y", "4"));
        assert_eq!((names(&index, "x"), names(&index, "y")), (vec!["b".to_owned()], vec!["a".to_owned()]));
        index.remove("b");
        assert_eq!((names(&index, "x").len(), names(&index, "").len(), index.provider_ids()), (0, 0, 1));
    }

    #[test]
    fn event_that_changes_the_revision_only_is_nothing_new() {
        let mut index = NodeIndex::default();
        index.set(node("a", "x", "1"));
        assert_eq!(index.set(node("a", "x", "2")), NodeChange::None);
        assert_eq!(index.get("a").unwrap().resource_version.as_deref(), Some("2"));
    }

    #[test]
    fn labels_of_managed_domains_and_their_subdomains_come_from_templates() {
        for key in ["node-role.kubernetes.io/infra", "a.node-restriction.kubernetes.io/x", "node.cluster.x-k8s.io/y"] {
            assert!(is_template_label(key), "{key}");
        }
        for key in ["team", "example.com/team", "xnode.cluster.x-k8s.io/y", "kubernetes.io/os"] {
            assert!(!is_template_label(key), "{key}");
        }
    }
}
