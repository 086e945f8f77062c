//! Cluster: the parts that pools of machines depend on.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::cluster::pattern::{DNS_LABEL, DNS_SUBDOMAIN};
use crate::cluster::{ConditionGate, ContractReference, Deprecated, OldCondition, ReplicaStatus};
use crate::meta::Condition;
use crate::unknown::Unknown;
use crate::vocabulary::cluster::ClusterPhase;
use crate::words::Open;

/// What the cluster should be.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta2",
    kind = "Cluster",
    doc = "A workload cluster.",
    namespaced,
    status = "ClusterStatus",
    shortname = "cl",
    category = "cluster-api",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "ClusterClass", type_ = "string", json_path = ".spec.topology.classRef.name"),
    printcolumn(
        name = "Available",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Available\")].status"
    ),
    printcolumn(name = "CP Desired", type_ = "integer", json_path = ".status.controlPlane.desiredReplicas"),
    printcolumn(name = "CP Current", type_ = "integer", json_path = ".status.controlPlane.replicas", priority = 10),
    printcolumn(name = "CP Ready", type_ = "integer", json_path = ".status.controlPlane.readyReplicas", priority = 10),
    printcolumn(name = "CP Available", type_ = "integer", json_path = ".status.controlPlane.availableReplicas"),
    printcolumn(name = "CP Up-to-date", type_ = "integer", json_path = ".status.controlPlane.upToDateReplicas"),
    printcolumn(name = "W Desired", type_ = "integer", json_path = ".status.workers.desiredReplicas"),
    printcolumn(name = "W Current", type_ = "integer", json_path = ".status.workers.replicas", priority = 10),
    printcolumn(name = "W Ready", type_ = "integer", json_path = ".status.workers.readyReplicas", priority = 10),
    printcolumn(name = "W Available", type_ = "integer", json_path = ".status.workers.availableReplicas"),
    printcolumn(name = "W Up-to-date", type_ = "integer", json_path = ".status.workers.upToDateReplicas"),
    printcolumn(
        name = "Paused",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Paused\")].status",
        priority = 10
    ),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.topology.version")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ClusterSpec {
    /// Further conditions for an available cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["conditionType".into()]))]
    #[schemars(length(min = 1, max = 32))]
    pub availability_gates: Option<Vec<ConditionGate>>,

    /// Networks of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_network: Option<ClusterNetwork>,

    /// Where the cluster's API answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<ClusterEndpoint>,

    /// Object that is the control plane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_ref: Option<ContractReference>,

    /// Object of the provider that is the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infrastructure_ref: Option<ContractReference>,

    /// Whether controllers leave the cluster and all it owns alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,

    /// Class that the cluster is made from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<ClusterTopology>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Networks of a cluster.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ClusterNetwork {
    /// Port of the cluster's API.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub api_server_port: Option<i32>,

    /// Addresses of pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<NetworkRanges>,

    /// Domain of services.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub service_domain: Option<String>,

    /// Addresses of services.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub services: Option<NetworkRanges>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Ranges of addresses.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkRanges {
    /// The ranges.
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 43)))]
    pub cidr_blocks: Vec<String>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Where the cluster's API answers.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ClusterEndpoint {
    /// Name or address.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub host: Option<String>,

    /// Port.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Class that the cluster is made from, and what is set on it.
// Differs: only the class and the version are described, the rest is kept as it is, because no controller of ours reads it.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct ClusterTopology {
    /// The class.
    pub class_ref: ClassReference,

    /// Kubernetes version of the cluster.
    #[schemars(length(min = 1, max = 256))]
    pub version: String,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Names a class of clusters.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClassReference {
    /// Name of the class.
    #[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]
    pub name: String,

    /// Namespace of the class.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub namespace: Option<String>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// What the cluster is.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ClusterStatus {
    /// Observed facts about the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    #[schemars(length(max = 32))]
    pub conditions: Option<Vec<Condition>>,

    /// Machines of the control plane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<ReplicaStatus>,

    /// The status in the form of older versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<Deprecated<ClusterDeprecatedV1Beta1>>,

    /// Failure domains.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    #[schemars(length(min = 1, max = 100))]
    pub failure_domains: Option<Vec<ClusterFailureDomain>>,

    /// Which steps of the first start are done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initialization: Option<ClusterInitialization>,

    /// Generation of the cluster that was last processed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub observed_generation: Option<i64>,

    /// How far the cluster is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Open<ClusterPhase>>,

    /// All other machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<ReplicaStatus>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// A part of the infrastructure that fails by itself.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterFailureDomain {
    /// What the provider says about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attributes: Option<BTreeMap<String, String>>,

    /// Whether the control plane may use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<bool>,

    /// Name of the failure domain.
    #[schemars(length(min = 1, max = 256))]
    pub name: String,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Which steps of the first start are done.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct ClusterInitialization {
    /// Whether the control plane answers requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_initialized: Option<bool>,

    /// Whether the provider's object is ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infrastructure_provisioned: Option<bool>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// The status in the form of v1beta1.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterDeprecatedV1Beta1 {
    /// Observed facts about the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<OldCondition>>,

    /// Explanation of a failure that does not pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 10240))]
    pub failure_message: Option<String>,

    /// Word for a failure that does not pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}
