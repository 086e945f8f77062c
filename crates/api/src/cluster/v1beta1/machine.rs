//! Machine, and the machine spec that templates share.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::cluster::{ConditionGate, MachineAddress, MachineDeletionStatus, MachineTaint, NodeInfo, OldCondition};
use crate::meta::{Condition, ObjectReference};
use crate::optional_spec;
use crate::unknown::Unknown;
use crate::vocabulary::cluster::MachinePhase;
use crate::words::Open;

/// What the machine should be.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta1",
    kind = "Machine",
    doc = "One machine of a cluster.",
    namespaced,
    status = "MachineStatus",
    shortname = "ma",
    category = "cluster-api",
    storage = false,
    deprecated,
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.clusterName"),
    printcolumn(name = "NodeName", type_ = "string", json_path = ".status.nodeRef.name"),
    printcolumn(name = "ProviderID", type_ = "string", json_path = ".spec.providerID"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.version")
)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct MachineSpec {
    /// How the machine learns what to do at first boot.
    pub bootstrap: Bootstrap,

    /// Name of the cluster that the machine belongs to.
    #[schemars(length(min = 1, max = 63))]
    pub cluster_name: String,

    /// Failure domain that the machine should be in.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub failure_domain: Option<String>,

    /// Object of the provider that is the machine.
    pub infrastructure_ref: ObjectReference,

    /// How long deleting the node is tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_deletion_timeout: Option<String>,

    /// How long draining the node may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_drain_timeout: Option<String>,

    /// How long detaching the node's volumes may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_volume_detach_timeout: Option<String>,

    /// The provider's name for the machine.
    #[serde(rename = "providerID", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub provider_id: Option<String>,

    /// Further conditions for a ready machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["conditionType".into()]))]
    #[schemars(length(max = 32))]
    pub readiness_gates: Option<Vec<ConditionGate>>,

    /// Taints for the machine's node.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["key".into(), "effect".into()]))]
    #[schemars(length(min = 1, max = 64))]
    pub taints: Option<Vec<MachineTaint>>,

    /// Kubernetes version of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub version: Option<String>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

optional_spec!(MachineSpec);

/// How a machine learns what to do at first boot.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bootstrap {
    /// Object that makes the bootstrap data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_ref: Option<ObjectReference>,

    /// Secret with the bootstrap data.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 0, max = 253))]
    pub data_secret_name: Option<String>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// What the machine is.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineStatus {
    /// Addresses of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub addresses: Option<Vec<MachineAddress>>,

    /// Whether the bootstrap data is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootstrap_ready: Option<bool>,

    /// When the control plane's certificates expire.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificates_expiry_date: Option<Time>,

    /// Observed facts about the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<OldCondition>>,

    /// How far deletion is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion: Option<MachineDeletionStatus>,

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

    /// When the phase last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<Time>,

    /// What the node reports about its software.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_info: Option<NodeInfo>,

    /// The machine's node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_ref: Option<ObjectReference>,

    /// Generation of the machine that was last processed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// How far the machine is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Pending", "Provisioning", "Provisioned", "Running", "Deleting", "Deleted", "Failed", "Unknown"]))]
    pub phase: Option<Open<MachinePhase>>,

    /// What the newer version says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub v1beta2: Option<MachineV1Beta2Status>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// What the newer version says.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineV1Beta2Status {
    /// Observed facts about the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    #[schemars(length(max = 32))]
    pub conditions: Option<Vec<Condition>>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}
