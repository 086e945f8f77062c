//! Node references: the Nodes that a pool has, and those whose machine is gone.
//!
//! - A Node is recorded when its provider ID is listed, with its uid. Only what is recorded is ever deleted, and only while a
//!   Node of that name still has that uid.
//! - The record stays until the Node is gone, so that a deletion that fails, or a controller that is stopped before it, leaves no
//!   Node behind.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::Node;
use kube::Resource as _;
use seaworthy_api::meta::ObjectReference;
use seaworthy_change::Change;

use super::node_index::{NodeIndex, WorkloadNode};
use super::node_match::NodeMatch;
use super::pool_index::PoolIndex;

/// How many Nodes the definition of pools accepts.
const MAX_REFS: usize = 10_000;

/// The Nodes of a pool after a decision.
#[derive(Clone, Debug, Default)]
pub struct NodeRefs<'a> {
    /// The Nodes of listed machines, then those that are to be deleted.
    pub refs: Vec<ObjectReference>,
    /// The Nodes whose machine is gone.
    pub retiring: Vec<&'a WorkloadNode>,
}

/// The Nodes of a pool: those that were matched, and those that it had whose machine is not listed any more.
///
/// Differs: a Node that has registered again under the same name is another one, and is never deleted for the machine that had
/// the name before; upstream compares names only. Since only recorded Nodes are deleted, no grace period is needed for those
/// whose provider ID is not listed yet.
pub fn refs<'a>(
    old: &[ObjectReference],
    ids: &[&str],
    matched: &NodeMatch<'a>,
    index: &'a NodeIndex,
    pools: &PoolIndex,
    pool: &str,
) -> NodeRefs<'a> {
    let listed: HashSet<&str> = ids.iter().copied().collect();
    let is_retiring = |node: &&WorkloadNode| {
        !node.provider_id.is_empty()
            && !listed.contains(node.provider_id.as_str())
            && pools.others_listing(&node.provider_id, pool).next().is_none()
    };
    let retiring: Vec<&WorkloadNode> =
        old.iter().filter_map(|found| recorded(found, index)).filter(is_retiring).collect();
    let all = matched.nodes.iter().chain(&retiring);
    NodeRefs { refs: all.take(MAX_REFS).map(|node| reference(node)).collect(), retiring }
}

/// The Node that was recorded, if it still exists.
pub fn recorded<'a>(found: &ObjectReference, index: &'a NodeIndex) -> Option<&'a WorkloadNode> {
    let node = index.get(found.name.as_deref()?)?;
    let uid = found.uid.as_deref().filter(|uid| !uid.is_empty())?;
    (node.uid == uid).then_some(node)
}

/// Deletes Nodes that are not being deleted yet.
pub fn deletions<'a>(nodes: impl IntoIterator<Item = &'a WorkloadNode>) -> Vec<Change> {
    let nodes = nodes.into_iter().filter(|node| !node.is_deleting);
    nodes.map(|node| Change::delete(node.object_ref())).collect()
}

fn reference(node: &WorkloadNode) -> ObjectReference {
    ObjectReference {
        api_version: Some(Node::api_version(&()).into_owned()),
        kind: Some(Node::kind(&()).into_owned()),
        name: Some(node.name.clone()),
        uid: Some(node.uid.clone()).filter(|uid| !uid.is_empty()),
        ..ObjectReference::default()
    }
}
