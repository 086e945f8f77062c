//! Cluster: the parts that pools of machines depend on.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::cluster::pattern::DNS_LABEL;
use crate::cluster::{ConditionGate, OldCondition, ReplicaStatus};
use crate::meta::{Condition, ObjectReference};
use crate::optional_spec;
use crate::unknown::Unknown;
use crate::vocabulary::cluster::ClusterPhase;
use crate::words::Open;

/// What the cluster should be.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta1",
    kind = "Cluster",
    doc = "A workload cluster.",
    namespaced,
    status = "ClusterStatus",
    shortname = "cl",
    category = "cluster-api",
    storage = false,
    deprecated,
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "ClusterClass", type_ = "string", json_path = ".spec.topology.class"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.topology.version")
)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct ClusterSpec {
    /// Further conditions for an available cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["conditionType".into()]))]
    #[schemars(length(max = 32))]
    pub availability_gates: Option<Vec<ConditionGate>>,

    /// Networks of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_network: Option<ClusterNetwork>,

    /// Where the cluster's API answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<ClusterEndpoint>,

    /// Object that is the control plane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_ref: Option<ObjectReference>,

    /// Object of the provider that is the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infrastructure_ref: Option<ObjectReference>,

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

optional_spec!(ClusterSpec);

/// Networks of a cluster.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterNetwork {
    /// Port of the cluster's API.
    #[serde(skip_serializing_if = "Option::is_none")]
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
    #[schemars(length(max = 100), inner(length(min = 1, max = 43)))]
    pub cidr_blocks: Vec<String>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Where the cluster's API answers.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterEndpoint {
    /// Name or address.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub host: Option<String>,

    /// Port.
    #[serde(skip_serializing_if = "Option::is_none")]
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
    /// Name of the class.
    #[schemars(length(min = 1, max = 253))]
    pub class: String,

    /// Namespace of the class.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = DNS_LABEL))]
    pub class_namespace: Option<String>,

    /// Kubernetes version of the cluster.
    #[schemars(length(min = 1, max = 256))]
    pub version: String,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// What the cluster is.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// Observed facts about the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<OldCondition>>,

    /// Whether the control plane is ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_ready: Option<bool>,

    /// Failure domains, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_domains: Option<BTreeMap<String, ClusterFailureDomain>>,

    /// Explanation of a failure that does not pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 10240))]
    pub failure_message: Option<String>,

    /// Word for a failure that does not pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,

    /// Whether the provider's object is ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infrastructure_ready: Option<bool>,

    /// Generation of the cluster that was last processed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// How far the cluster is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Open<ClusterPhase>>,

    /// What the newer version says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub v1beta2: Option<ClusterV1Beta2Status>,

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

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// What the newer version says.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterV1Beta2Status {
    /// Observed facts about the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    #[schemars(length(max = 32))]
    pub conditions: Option<Vec<Condition>>,

    /// Machines of the control plane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<ReplicaStatus>,

    /// All other machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<ReplicaStatus>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}
