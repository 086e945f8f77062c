//! Vocabulary of clusters and pools of machines: labels, annotations, phases, condition types and reasons.

use crate::vocabulary::key::{Annotation, Finalizer, Label, Taint};
use crate::words;

pub mod label {
    use super::Label;

    /// Name of the cluster that an object belongs to.
    pub const CLUSTER_NAME: Label = Label("cluster.x-k8s.io/cluster-name");
    /// Name of the pool that a machine belongs to, or its hash where the name is no label value.
    pub const POOL_NAME: Label = Label("cluster.x-k8s.io/pool-name");
    /// Which of several controllers an object is for.
    pub const WATCH_FILTER: Label = Label("cluster.x-k8s.io/watch-filter");
    /// The object was made from a cluster's topology.
    pub const TOPOLOGY_OWNED: Label = Label("topology.cluster.x-k8s.io/owned");
    /// Name of the pool in the cluster's topology.
    pub const TOPOLOGY_POOL_NAME: Label = Label("topology.cluster.x-k8s.io/pool-name");
    /// On a ClusterRole: its rules are for the controller too.
    pub const AGGREGATE_TO_MANAGER: Label = Label("cluster.x-k8s.io/aggregate-to-manager");
}

pub mod annotation {
    use super::Annotation;

    /// On any object: controllers leave it alone.
    pub const PAUSED: Annotation = Annotation("cluster.x-k8s.io/paused");
    /// On a pool: something else sets its replicas, unless the value is `false`.
    pub const REPLICAS_MANAGED_BY: Annotation = Annotation("cluster.x-k8s.io/replicas-managed-by");
    /// On a pool: the least machines that an autoscaler leaves.
    pub const AUTOSCALER_MIN_SIZE: Annotation =
        Annotation("cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size");
    /// On a pool: the most machines that an autoscaler makes.
    pub const AUTOSCALER_MAX_SIZE: Annotation =
        Annotation("cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size");
    /// On an object in the older version: what only the stored version can say.
    pub const CONVERSION_DATA: Annotation = Annotation("cluster.x-k8s.io/conversion-data");
    /// On a machine: first to go when the pool shrinks.
    pub const DELETE_MACHINE: Annotation = Annotation("cluster.x-k8s.io/delete-machine");

    /// On a node: name of its cluster.
    pub const CLUSTER_NAME: Annotation = Annotation("cluster.x-k8s.io/cluster-name");
    /// On a node: namespace of its cluster.
    pub const CLUSTER_NAMESPACE: Annotation = Annotation("cluster.x-k8s.io/cluster-namespace");
    /// On a node: kind of what it belongs to.
    pub const OWNER_KIND: Annotation = Annotation("cluster.x-k8s.io/owner-kind");
    /// On a node: name of what it belongs to.
    pub const OWNER_NAME: Annotation = Annotation("cluster.x-k8s.io/owner-name");
}

pub mod finalizer {
    use super::Finalizer;

    /// On a pool, until its machines and nodes are gone.
    pub const MACHINE_POOL: Finalizer = Finalizer("machinepool.cluster.x-k8s.io");
}

/// On a node that its owner has not found yet.
pub const UNINITIALIZED: Taint = Taint { key: "node.cluster.x-k8s.io/uninitialized", effect: "NoSchedule" };

/// The domains whose labels, and those of their subdomains, are copied from templates to nodes: a kubelet may not set them.
pub const NODE_LABEL_DOMAINS: [&str; 3] =
    ["node-role.kubernetes.io", "node-restriction.kubernetes.io", "node.cluster.x-k8s.io"];

/// Field manager of the pools' controller, and source of its events.
pub const MACHINE_POOL_MANAGER: &str = "machinepool-controller";

/// Type of the Secret with a cluster's kubeconfig.
pub const SECRET_TYPE: &str = "cluster.x-k8s.io/secret";

words! {
    /// Contract between this group and a provider, newest first; also the name of the label on the provider's definition.
    pub enum Contract {
        /// Readiness under `status.initialization`.
        V1Beta2 = "v1beta2",
        /// Readiness in `status.ready`.
        V1Beta1 = "v1beta1",
        /// As `v1beta1`.
        V1Alpha4 = "v1alpha4",
        /// As `v1beta1`.
        V1Alpha3 = "v1alpha3",
    }
}

impl Contract {
    /// Key of the label that lists the versions of a definition that fulfil the contract, joined by underscores.
    pub const fn label(&self) -> Label {
        Label(match self {
            Self::V1Beta2 => "cluster.x-k8s.io/v1beta2",
            Self::V1Beta1 => "cluster.x-k8s.io/v1beta1",
            Self::V1Alpha4 => "cluster.x-k8s.io/v1alpha4",
            Self::V1Alpha3 => "cluster.x-k8s.io/v1alpha3",
        })
    }
}

words! {
    /// How far a pool is.
    pub enum MachinePoolPhase {
        /// Waits for its bootstrap data.
        Pending = "Pending",
        /// The provider is creating machines.
        Provisioning = "Provisioning",
        /// Nodes appeared, but the provider is not ready.
        Provisioned = "Provisioned",
        /// As many nodes are ready as there should be.
        Running = "Running",
        /// Fewer nodes are ready than there should be.
        ScalingUp = "ScalingUp",
        /// More nodes are ready than there should be.
        ScalingDown = "ScalingDown",
        /// Something else is changing how many machines there are.
        Scaling = "Scaling",
        /// Being deleted.
        Deleting = "Deleting",
        /// Broken for good; only in objects of the older version. Upstream's, never set here.
        Failed = "Failed",
        /// Not known; what a reader makes of an empty or unknown phase.
        Unknown = "Unknown",
    }
}

words! {
    /// How far a machine is.
    pub enum MachinePhase {
        /// Waits for its bootstrap data. Upstream's, never set here.
        Pending = "Pending",
        /// Being made. Upstream's, never set here.
        Provisioning = "Provisioning",
        /// Made, without a node yet. Upstream's, never set here.
        Provisioned = "Provisioned",
        /// Its node is there. Upstream's, never set here.
        Running = "Running",
        /// Being changed in place. Upstream's, never set here.
        Updating = "Updating",
        /// Being deleted. Upstream's, never set here.
        Deleting = "Deleting",
        /// Gone; only the object is left. Upstream's, never set here.
        Deleted = "Deleted",
        /// Broken for good. Upstream's, never set here.
        Failed = "Failed",
        /// Not known. Upstream's, never set here.
        Unknown = "Unknown",
    }
}

words! {
    /// How far a cluster is.
    pub enum ClusterPhase {
        /// Not begun. Upstream's, never set here.
        Pending = "Pending",
        /// Being made. Upstream's, never set here.
        Provisioning = "Provisioning",
        /// Made. Upstream's, never set here.
        Provisioned = "Provisioned",
        /// Being deleted. Upstream's, never set here.
        Deleting = "Deleting",
        /// Broken for good. Upstream's, never set here.
        Failed = "Failed",
        /// Not known. Upstream's, never set here.
        Unknown = "Unknown",
    }
}

words! {
    /// How bad it is that an old condition does not hold.
    pub enum Severity {
        /// Someone has to act.
        Error = "Error",
        /// Someone should look.
        Warning = "Warning",
        /// It will pass.
        Info = "Info",
        /// The condition holds.
        None = "",
    }
}

words! {
    /// Condition types of a pool.
    pub enum MachinePoolCondition {
        /// As many machines are available as there should be.
        Available = "Available",
        /// The object that makes the bootstrap data is ready.
        BootstrapConfigReady = "BootstrapConfigReady",
        /// The provider's object is ready.
        InfrastructureReady = "InfrastructureReady",
        /// All machines are ready. Upstream's, never set here.
        MachinesReady = "MachinesReady",
        /// All machines are as they should be. Upstream's, never set here.
        MachinesUpToDate = "MachinesUpToDate",
        /// Fewer machines are available than there should be.
        ScalingUp = "ScalingUp",
        /// There are more machines than there should be.
        ScalingDown = "ScalingDown",
        /// Machines are being repaired. Upstream's, never set here.
        Remediating = "Remediating",
        /// The pool is being deleted.
        Deleting = "Deleting",
        /// Controllers leave the pool alone.
        Paused = "Paused",
    }
}

words! {
    /// Condition types of a pool in the older form.
    pub enum OldMachinePoolCondition {
        /// The bootstrap data is there.
        BootstrapReady = "BootstrapReady",
        /// The provider's object is ready.
        InfrastructureReady = "InfrastructureReady",
        /// As many nodes are ready as the provider reports machines.
        ReplicasReady = "ReplicasReady",
        /// All of the above.
        Ready = "Ready",
    }
}

words! {
    /// Condition types of a machine that a pool reads or writes.
    pub enum MachineCondition {
        /// The machine is ready.
        Ready = "Ready",
        /// The machine was ready for long enough.
        Available = "Available",
        /// The machine is as it should be.
        UpToDate = "UpToDate",
    }
}

words! {
    /// Condition types of a cluster that a pool depends on.
    pub enum ClusterCondition {
        /// The control plane answers requests.
        ControlPlaneInitialized = "ControlPlaneInitialized",
        /// The cluster's API answers. Upstream's, never set here.
        RemoteConnectionProbe = "RemoteConnectionProbe",
    }
}

words! {
    /// Reasons of conditions.
    pub enum ConditionReason {
        /// Controllers leave the object alone.
        Paused = "Paused",
        /// They do not.
        NotPaused = "NotPaused",
        /// Enough machines are available.
        Available = "Available",
        /// Too few are.
        NotAvailable = "NotAvailable",
        /// The referenced object is ready.
        Ready = "Ready",
        /// It is not.
        NotReady = "NotReady",
        /// There are too few machines.
        ScalingUp = "ScalingUp",
        /// There are enough.
        NotScalingUp = "NotScalingUp",
        /// There are too many machines.
        ScalingDown = "ScalingDown",
        /// There are not.
        NotScalingDown = "NotScalingDown",
        /// The object is being deleted.
        Deleting = "Deleting",
        /// It is not.
        NotDeleting = "NotDeleting",
        /// The machine is as it should be.
        UpToDate = "UpToDate",
        /// It is not.
        NotUpToDate = "NotUpToDate",
        /// The workload cluster does not answer.
        ConnectionDown = "ConnectionDown",
        /// The referenced object does not exist.
        ObjectDoesNotExist = "ObjectDoesNotExist",
        /// The workload cluster's API failed to answer for too long. Upstream's, never set here.
        ProbeFailed = "ProbeFailed",
        /// The bootstrap data is not there yet.
        WaitingForDataSecret = "WaitingForDataSecret",
        /// The provider's object is not ready yet.
        WaitingForInfrastructure = "WaitingForInfrastructure",
        /// A reference names nothing that exists.
        IncorrectExternalRef = "IncorrectExternalRef",
        /// Too few nodes are ready.
        WaitingForReplicasReady = "WaitingForReplicasReady",
        /// No definition has the kind of the referenced object.
        ProviderNotInstalled = "ProviderNotInstalled",
        /// Another object controls the referenced one.
        ControlledByAnother = "ControlledByAnother",
        /// A field of the referenced object has a value that the provider contract does not allow.
        InvalidProviderObject = "InvalidProviderObject",
        /// The referenced object could not be read.
        ReadFailed = "ReadFailed",
    }
}

words! {
    /// Reasons of failures that do not pass.
    pub enum FailureReason {
        /// The pool names something that is gone.
        InvalidConfiguration = "InvalidConfiguration",
    }
}

words! {
    /// Reasons of events about pools.
    pub enum EventReason {
        /// The pool's nodes were found.
        SuccessfulSetNodeRefs = "SuccessfulSetNodeRefs",
        /// The pool's nodes could not be looked up.
        FailedSetNodeRef = "FailedSetNodeRef",
        /// The definition of a provider has no label of a contract; its stored version is read.
        NoContractLabel = "NoContractLabel",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::Word;

    #[test]
    fn a_contract_names_its_label() {
        for contract in Contract::ALL {
            assert_eq!(contract.label().as_str(), format!("cluster.x-k8s.io/{contract}"));
        }
    }

    /// Contracts are tried in this order.
    #[test]
    fn the_newest_contract_comes_first() {
        assert_eq!(Contract::ALL.first(), Some(&Contract::V1Beta2));
    }
}
