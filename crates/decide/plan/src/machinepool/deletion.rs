//! Deletion: the objects of the providers first, then the Nodes, then the finalizer.
//!
//! - The deletion of the Nodes is tried at least once; the timeout only decides whether a failure still holds the pool.
//! - All state is on objects: a controller that takes over goes on where the last one stopped.

use std::collections::HashSet;
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use seaworthy_api::cluster::v1beta2::MachinePool;
use seaworthy_change::Change;

use super::external;
use super::infrastructure::distinct;
use super::inputs::{External, Inputs, NodeDeletion, Workload, cluster_name};
use super::node_index::{NodeIndex, WorkloadNode};
use super::node_refs::{deletions, recorded};
use super::owner::{self, Control};
use super::pool_index::PoolIndex;
use super::report::{Problem, Waiting};

/// How long until objects that are being deleted are looked at again, in case their last event was missed.
const EXTERNAL_RECHECK_DELAY: Duration = Duration::from_secs(10);
/// How long after Nodes were deleted the result is looked at, should the caller not decide again by itself.
const NODE_RECHECK_DELAY: Duration = Duration::from_secs(1);

/// What was decided about a pool that is being deleted.
#[derive(Debug, Default)]
pub struct Deletion {
    /// Deletions of the providers' objects.
    pub external: Vec<Change>,
    /// Deletions of Nodes, in the workload cluster.
    pub nodes: Vec<Change>,
    /// Whether the finalizer is removed.
    pub is_released: bool,
    pub problems: Vec<Problem>,
    pub waiting: Vec<Waiting>,
    pub recheck: Option<Duration>,
}

/// Decides about a pool that is being deleted and has the finalizer.
pub fn decide(inputs: &Inputs<'_>) -> Deletion {
    let mut decided = Deletion::default();
    let spec = &inputs.pool.spec.template.spec;
    let references = [
        (inputs.bootstrap, spec.bootstrap.config_ref.as_ref()),
        (inputs.infrastructure, Some(&spec.infrastructure_ref)),
    ];
    let mut remaining = Vec::new();
    for (external, reference) in references {
        let object = external::described(inputs.pool, reference);
        match external {
            // Differs: an object whose kind is gone is gone too, because its API is; upstream waits for it without end.
            External::Undefined | External::NotFound | External::KindNotInstalled { .. } => {}
            External::Unreadable { reason } => {
                decided.problems.push(Problem::Unreadable { object: object.clone(), reason: reason.to_owned() });
                remaining.push(object);
            }
            External::Found(found) => {
                // Differs: what another object controls is left to it, because the reference alone makes it no part of the pool;
                // upstream deletes it.
                if matches!(owner::control(inputs.pool, found), Control::Another(_)) {
                    continue;
                }
                if !owner::is_deleting(found) {
                    decided.external.push(Change::delete(owner::object_ref(found)));
                }
                remaining.push(object);
            }
        }
    }
    if !remaining.is_empty() {
        decided.waiting.push(Waiting::ExternalDeletion { objects: remaining });
        decided.recheck = Some(EXTERNAL_RECHECK_DELAY);
        return decided;
    }
    nodes(inputs, &mut decided);
    decided
}

/// Decides about the Nodes of a pool whose machines are gone.
fn nodes(inputs: &Inputs<'_>, decided: &mut Deletion) {
    let Inputs { pool, now, .. } = *inputs;
    let Some(cluster) = inputs.cluster else {
        // Differs: a pool whose Cluster is gone is released, because nothing leads to its Nodes any more; upstream never
        // releases it.
        decided.is_released = true;
        return;
    };
    let refs = pool.status.as_ref().and_then(|status| status.node_refs.as_deref()).unwrap_or_default();
    let has_listed = pool.spec.provider_id_list.iter().flatten().any(|id| !id.is_empty());
    let has_passed = has_timed_out(pool, now);
    let (count, failure) = match inputs.workload {
        Workload::Known(index) => {
            let found = owned_nodes(pool, index, inputs.pools);
            let changes = deletions(found.iter().copied());
            let failure = match inputs.node_deletion {
                NodeDeletion::Failed(reason) => Some(reason.to_owned()),
                NodeDeletion::NotTried | NodeDeletion::Accepted => None,
            };
            let is_done = changes.is_empty() || inputs.node_deletion == NodeDeletion::Accepted;
            // Differs: a deletion that was never tried is tried, even after the timeout: machines that take long to go use it
            // up, and upstream then leaves their Nodes behind.
            if is_done || (has_passed && failure.is_some()) {
                if let Some(failure) = failure.filter(|_| !is_done) {
                    decided.waiting.push(Waiting::NodesLeft { nodes: changes.len(), failure });
                }
                decided.is_released = true;
                return;
            }
            let count = changes.len();
            decided.nodes = changes;
            decided.recheck = Some(NODE_RECHECK_DELAY);
            (count, failure)
        }
        Workload::NotInitialized if refs.is_empty() => {
            decided.is_released = true;
            return;
        }
        Workload::NotInitialized | Workload::Unreachable(_) => {
            let name = cluster_name(pool).unwrap_or_default();
            let failure = match inputs.workload {
                Workload::Unreachable(unreachable) => {
                    let (reason, since) = (unreachable.reason, unreachable.since);
                    format!("Cluster {name} cannot be reached since {since}: {reason}")
                }
                _ => format!("the control plane of Cluster {name} is not initialized"),
            };
            let nodes = refs.len();
            let has_none = refs.is_empty() && !has_listed;
            // Differs: the Nodes of a Cluster that is being deleted go with it, so that the timeout is not waited for.
            let is_cluster_deleting = cluster.metadata.deletion_timestamp.is_some();
            if has_none || is_cluster_deleting || has_passed {
                if !has_none {
                    decided.waiting.push(Waiting::NodesLeft { nodes, failure });
                }
                decided.is_released = true;
                return;
            }
            (nodes, Some(failure))
        }
    };
    if failure.is_some()
        && let Some(deadline) = deadline(pool)
    {
        // A deadline is passed once it lies before the time.
        let rest = Duration::try_from(deadline.duration_since(now)).unwrap_or_default() + NODE_RECHECK_DELAY;
        decided.recheck = Some(decided.recheck.map_or(rest, |_| rest.min(EXTERNAL_RECHECK_DELAY)));
    } else if failure.is_some() && decided.recheck.is_some() {
        decided.recheck = Some(EXTERNAL_RECHECK_DELAY);
    }
    let timeout = timeout_seconds(pool);
    decided.waiting.push(Waiting::NodeDeletion { nodes: count, failure, timeout });
}

/// The Nodes that belong to a pool: those that it has recorded, and those of the machines that it lists. Nodes of machines that
/// another pool lists as well are left to that.
///
/// Differs: upstream deletes only recorded Nodes whose machine is not listed any more, so that a healthy pool leaves its Nodes
/// behind.
pub fn owned_nodes<'a>(pool: &MachinePool, index: &'a NodeIndex, pools: &PoolIndex) -> Vec<&'a WorkloadNode> {
    let name = pool.metadata.name.as_deref().unwrap_or_default();
    let refs = pool.status.iter().flat_map(|status| status.node_refs.iter().flatten());
    let recorded = refs.filter_map(|found| recorded(found, index));
    let ids = distinct(pool.spec.provider_id_list.iter().flatten().map(String::as_str));
    let listed = ids.into_iter().flat_map(|id| index.with_provider_id(id));
    let mut seen = HashSet::new();
    recorded
        .chain(listed)
        .filter(|node| pools.others_listing(&node.provider_id, name).next().is_none())
        .filter(|node| seen.insert(node.name.as_str()))
        .collect()
}

/// Whether the time for deleting Nodes has passed. It never does where there is none, or it is zero.
pub fn has_timed_out(pool: &MachinePool, now: Timestamp) -> bool {
    deadline(pool).is_some_and(|deadline| deadline < now)
}

fn timeout_seconds(pool: &MachinePool) -> Option<i64> {
    let deletion = pool.spec.template.spec.deletion.as_ref()?;
    deletion.node_deletion_timeout_seconds.filter(|seconds| *seconds > 0).map(i64::from)
}

fn deadline(pool: &MachinePool) -> Option<Timestamp> {
    let deleted = pool.metadata.deletion_timestamp.as_ref()?.0;
    deleted.checked_add(SignedDuration::from_secs(timeout_seconds(pool)?)).ok()
}
