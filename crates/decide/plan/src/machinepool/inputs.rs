//! Inputs: everything that a decision about a pool may look at.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use seaworthy_api::cluster::v1beta2::{Cluster, Machine, MachinePool};
use seaworthy_api::meta::ConditionStatus;
use seaworthy_api::vocabulary::cluster::{ClusterCondition, Contract, label};
use seaworthy_change::ResourceType;
use serde_json::Value;

use super::node_index::NodeIndex;
use super::pool_index::PoolIndex;

/// Everything that the decision may look at. The caller holds the objects; nothing is copied.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The pool, with its resource version: what is written is bound to it.
    pub pool: &'a MachinePool,
    /// The Cluster with the name [`cluster_name`] in the pool's namespace, if there is one.
    pub cluster: Option<&'a Cluster>,
    /// What `spec.template.spec.bootstrap.configRef` leads to.
    pub bootstrap: External<'a>,
    /// What `spec.template.spec.infrastructureRef` leads to.
    pub infrastructure: External<'a>,
    /// The provider's machines, where [`infrastructure_machine_kind`](super::infrastructure_machine_kind) names a kind.
    pub infra_machines: InfraMachines<'a>,
    /// The Machines with the pool's labels, and those that are named like one of the provider's machines. With
    /// `managedFields`, labels that were taken from the template are removed from Machines again; without, they stay.
    pub machines: &'a [Arc<Machine>],
    /// What is known of the workload cluster.
    pub workload: Workload<'a>,
    /// The pools of the same Cluster, this one included: who else lists a provider ID.
    pub pools: &'a PoolIndex,
    /// What became of the deletions in the last decision's `workload`, while this pool is being deleted.
    pub node_deletion: NodeDeletion<'a>,
    /// Which machines count as up to date.
    pub up_to_date: UpToDateRule,
    /// The time.
    pub now: Timestamp,
}

/// What a reference of the pool leads to.
#[derive(Clone, Copy, Debug)]
pub enum External<'a> {
    /// The pool has no such reference.
    Undefined,
    /// No definition has the kind: its provider is not installed, not yet or not any more.
    KindNotInstalled {
        /// The definition that is missing, such as `devmachinepools.infrastructure.cluster.x-k8s.io`.
        definition: &'a str,
    },
    /// The kind is there, the object is not.
    NotFound,
    Found(FoundObject<'a>),
    /// Whether it is there is not known.
    Unreadable {
        reason: &'a str,
    },
}

/// An object of a provider.
#[derive(Clone, Copy, Debug)]
pub struct FoundObject<'a> {
    pub object: &'a Value,
    /// Its type, in the version that it was read in.
    pub resource: &'a ResourceType,
    /// The contract of that version; `None` where its definition has no label of one (see
    /// [`provider_contract`](super::provider_contract)).
    pub contract: Option<Contract>,
}

/// The provider's machines of a pool.
#[derive(Clone, Copy, Debug)]
pub enum InfraMachines<'a> {
    /// Which there are is not known: no Machine is created or deleted. The reason is for people.
    Unknown {
        reason: &'a str,
    },
    Known(&'a [InfraMachine]),
}

/// One machine of a provider, in the API group of its own definition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InfraMachine {
    pub api_group: String,
    pub kind: String,
    pub name: String,
    /// The provider's name for it, once it has one.
    pub provider_id: Option<String>,
    pub is_deleting: bool,
}

/// What is known of the workload cluster.
#[derive(Clone, Copy, Debug)]
pub enum Workload<'a> {
    /// The Cluster does not have the condition `ControlPlaneInitialized` yet ([`is_initialized`]).
    NotInitialized,
    /// It is not connected.
    Unreachable(Unreachable<'a>),
    /// Its Nodes.
    Known(&'a NodeIndex),
}

/// A workload cluster that does not answer.
#[derive(Clone, Copy, Debug)]
pub struct Unreachable<'a> {
    /// For people, without credentials.
    pub reason: &'a str,
    pub since: Timestamp,
    /// When it is tried again, if that is known. It is part of a condition: a time that changes is a write.
    pub next_try: Option<Timestamp>,
}

/// What became of the deletions of Nodes in the last decision about this deleted pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeDeletion<'a> {
    /// There were none, or this process does not know of them.
    NotTried,
    /// The workload cluster has accepted them all.
    Accepted,
    /// At least one was not accepted.
    Failed(&'a str),
}

/// Which machines of a pool without Machines count as up to date.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpToDateRule {
    /// As many as there should be.
    ///
    /// Compat: upstream does not look at them.
    #[default]
    Replicas,
    /// Those whose Node has the template's Kubernetes version; where the template has none, all Nodes.
    KubeletVersion,
}

/// The name of the Cluster that a pool belongs to.
///
/// Differs: a pool without `spec.clusterName` is found by its label, because the seed contract associates by label.
pub fn cluster_name(pool: &MachinePool) -> Option<&str> {
    let named = Some(pool.spec.cluster_name.as_str()).filter(|name| !name.is_empty());
    named.or_else(|| label::CLUSTER_NAME.of(&pool.metadata)).filter(|name| !name.is_empty())
}

/// Whether the control plane of a Cluster has answered once, so that its Nodes can be watched.
pub fn is_initialized(cluster: &Cluster) -> bool {
    let conditions = cluster.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions
        .filter(|condition| condition.type_ == ClusterCondition::ControlPlaneInitialized.as_str())
        .any(|condition| condition.status == ConditionStatus::True)
}
