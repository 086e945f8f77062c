//! Report: why a pool is where it is, down to the provider ID that has no Node.

use std::fmt;

use k8s_openapi::jiff::Timestamp;
use seaworthy_api::vocabulary::cluster::MachinePoolPhase;
use serde::{Serialize, Serializer};

use super::field::FieldError;
use crate::duration;

/// What was found about a pool.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Why the decision ended before the pool's machines were looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
    pub phase: MachinePoolPhase,
    /// How many machines there should be; 1 if the pool does not say.
    pub desired: i32,
    /// What is wrong and does not pass by waiting. The caller tries again with a growing delay.
    pub problems: Vec<Problem>,
    /// What the pool waits for. Watches report when it is there.
    pub waiting: Vec<Waiting>,
    /// The machines by provider ID, in the order of the list; empty while the Nodes are not known.
    pub members: Vec<Member>,
    /// The Nodes that belonged to machines which are gone, and are deleted now or once the list is complete.
    pub retiring: Vec<String>,
    /// Whether the Nodes were known.
    pub is_workload_known: bool,
}

/// Why a decision ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Stop {
    /// Its Cluster does not exist; nothing is written.
    ClusterMissing,
    /// It was given the finalizer. The next decision goes on.
    FinalizerAdded,
    /// The condition `Paused` was written. The next decision goes on.
    PauseWritten,
    /// It is paused.
    Paused,
    /// It is being deleted.
    Deleting,
    /// It is being deleted, and nothing of it is left for this controller.
    Released,
}

/// A machine by the provider's name.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    #[serde(rename = "providerID")]
    pub provider_id: String,
    /// Its Node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    pub state: MemberState,
}

/// How far a machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum MemberState {
    /// No Node has its provider ID.
    NoNode,
    /// Its Node is not ready.
    NotReady,
    /// Its Node is ready, but not for long enough. `None` where the Node does not say since when it is ready.
    NotYetAvailable {
        /// When it will be available.
        due: Option<Timestamp>,
    },
    Available,
}

impl MemberState {
    /// Whether the Node is ready.
    pub fn is_ready(&self) -> bool {
        matches!(self, MemberState::NotYetAvailable { .. } | MemberState::Available)
    }
}

impl fmt::Display for Member {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, node) = (&self.provider_id, self.node.as_deref().unwrap_or_default());
        match self.state {
            MemberState::NoNode => write!(out, "{id} has no Node"),
            MemberState::NotReady => write!(out, "Node {node} ({id}) is not ready"),
            MemberState::NotYetAvailable { due: Some(due) } => {
                write!(out, "Node {node} ({id}) is available after {due}")
            }
            MemberState::NotYetAvailable { due: None } => {
                write!(out, "Node {node} ({id}) does not say since when it is ready")
            }
            MemberState::Available => write!(out, "Node {node} ({id}) is available"),
        }
    }
}

/// Something that waiting alone does not change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error(
        "MachinePool {pool}: spec.clusterName is empty, and so is the label; expected the name of a Cluster; set it"
    )]
    NoClusterName { pool: String },
    #[error("MachinePool {pool}: Cluster {cluster} does not exist; expected one in the same namespace; create it")]
    ClusterMissing { pool: String, cluster: String },
    #[error(
        "MachinePool {pool}: spec.template.spec.bootstrap has neither configRef nor dataSecretName; expected one of them; set \
         dataSecretName to \"\" if the machines need no bootstrap data"
    )]
    NoBootstrap { pool: String },
    #[error("MachinePool {pool}: {path} is empty; expected apiGroup, kind and name of an object; set them")]
    NoReference { pool: String, path: &'static str },
    #[error(
        "MachinePool {pool}: {object}, to which {path} refers, does not exist; expected it in the same namespace; create it, or \
         change the reference"
    )]
    ObjectMissing { pool: String, path: &'static str, object: String },
    #[error("{object}: it could not be read: {reason}; the rights of this controller must include objects of its kind")]
    Unreadable { object: String, reason: String },
    #[error(
        "{object}: it is controlled by {owner}; expected no controller, or MachinePool {pool}; refer to an object that no other \
         one controls"
    )]
    ControlledByAnother { object: String, owner: String, pool: String },
    #[error(transparent)]
    Field(#[from] FieldError),
    #[error(
        "{object}: it is ready, and status.dataSecretName is {found}; expected the name of the Secret with the bootstrap data; its \
         provider has to set it"
    )]
    NoSecretName { object: String, found: &'static str },
    #[error("{object}: spec.providerIDList has {found}; expected at most {accepted}; its provider has to correct it")]
    InvalidProviderIds { object: String, found: String, accepted: String },
    #[error(
        "Machine {machine}: it exists and belongs to {owner}; expected none, or one with the labels of MachinePool {pool}; delete \
         or rename it"
    )]
    ForeignMachine { machine: String, owner: String, pool: String },
}

impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Something that a pool waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Waiting {
    /// It is paused, for these reasons.
    Paused { causes: Vec<String> },
    /// The provider of a reference is not installed.
    ProviderNotInstalled { object: String, definition: String },
    /// An object that the pool refers to is being deleted.
    ObjectDeleting { object: String },
    /// The bootstrap data is not there yet.
    BootstrapNotReady { object: String },
    /// The provider's object is not ready.
    InfrastructureNotReady { object: String },
    /// The provider lists no machine although it reports some; the list is kept.
    ProviderIdsWithheld { object: String, replicas: i32 },
    /// The provider reports another number of machines than there should be.
    ProviderReplicas { object: String, replicas: i32, desired: i32 },
    /// Another pool of the Cluster lists the same provider ID; its Node is not deleted.
    SharedProviderId { provider_id: String, pools: Vec<String> },
    /// The control plane of the workload cluster has not answered yet.
    ControlPlaneNotInitialized { cluster: String },
    /// The workload cluster does not answer.
    Unreachable { cluster: String, reason: String, since: Timestamp, next_try: Option<Timestamp> },
    /// The provider's machines are not known.
    InfraMachinesUnknown { reason: String },
    /// Objects that the deletion of the pool has deleted still exist.
    ExternalDeletion { objects: Vec<String> },
    /// Nodes that the deletion of the pool has to delete still exist.
    NodeDeletion { nodes: usize, failure: Option<String>, timeout: Option<i64> },
    /// Nodes were left behind: their deletion failed until it was given up.
    NodesLeft { nodes: usize, failure: String },
}

impl fmt::Display for Waiting {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Waiting::Paused { causes } => write!(out, "paused: {}", causes.join(", ")),
            Waiting::ProviderNotInstalled { object, definition } => {
                write!(
                    out,
                    "{object}: its provider is not installed: there is no CustomResourceDefinition {definition}"
                )
            }
            Waiting::ObjectDeleting { object } => write!(out, "{object} is being deleted"),
            Waiting::BootstrapNotReady { object } => write!(out, "{object} has no bootstrap data yet"),
            Waiting::InfrastructureNotReady { object } => write!(out, "{object} is not ready"),
            Waiting::ProviderIdsWithheld { object, replicas } => {
                write!(out, "{object} reports {replicas} replicas and lists no provider ID; the former list is kept")
            }
            Waiting::ProviderReplicas { object, replicas, desired } => {
                write!(out, "{object} reports {replicas} of {desired} replicas")
            }
            Waiting::SharedProviderId { provider_id, pools } => {
                write!(out, "{provider_id} is also listed by MachinePool {}", pools.join(", "))
            }
            Waiting::ControlPlaneNotInitialized { cluster } => {
                write!(out, "the control plane of Cluster {cluster} is not initialized")
            }
            Waiting::Unreachable { cluster, reason, since, next_try } => {
                write!(out, "Cluster {cluster} cannot be reached since {since}: {reason}")?;
                next_try.map_or(Ok(()), |next_try| write!(out, "; next try at {next_try}"))
            }
            Waiting::InfraMachinesUnknown { reason } => write!(out, "the provider's machines are not known: {reason}"),
            Waiting::ExternalDeletion { objects } => write!(out, "{} still to be deleted", objects.join(", ")),
            Waiting::NodeDeletion { nodes, failure, timeout } => {
                write!(out, "{nodes} of its Nodes still to be deleted")?;
                failure.as_ref().map_or(Ok(()), |failure| write!(out, ": {failure}"))?;
                match timeout {
                    Some(seconds) => write!(out, "; given up {} after the deletion", duration::short(*seconds)),
                    None => write!(out, "; there is no time limit"),
                }
            }
            Waiting::NodesLeft { nodes, failure } => write!(out, "{nodes} Nodes may be left behind: {failure}"),
        }
    }
}
