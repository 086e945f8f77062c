//! MachineConfigPool: which MachineConfigs make up the configuration of which nodes, and how far those nodes are.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::rules::dns_subdomain;
use super::status_condition::StatusCondition;
use crate::meta::{IntOrString, LabelSelector, ObjectReference};
use crate::unknown::Unknown;
use crate::words;
use crate::words::Open;

/// Which configuration goes to which nodes, and how fast.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "MachineConfigPool",
    doc = "A set of nodes that share one rendered configuration.",
    shortname = "mcp",
    status = "MachineConfigPoolStatus",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Config", type_ = "string", json_path = ".status.configuration.name"),
    printcolumn(
        name = "Updated",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Updated")].status"#,
        description = "Whether every node runs the target configuration."
    ),
    printcolumn(
        name = "Updating",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Updating")].status"#,
        description = "Whether nodes are moving to the target configuration."
    ),
    printcolumn(
        name = "Degraded",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Degraded")].status"#,
        description = "Whether rendering or a node has failed."
    ),
    printcolumn(
        name = "MachineCount",
        type_ = "number",
        json_path = ".status.machineCount",
        description = "Nodes in the pool."
    ),
    printcolumn(
        name = "ReadyMachineCount",
        type_ = "number",
        json_path = ".status.readyMachineCount",
        description = "Updated nodes that are ready."
    ),
    printcolumn(
        name = "UpdatedMachineCount",
        type_ = "number",
        json_path = ".status.updatedMachineCount",
        description = "Nodes that run the target configuration."
    ),
    printcolumn(
        name = "DegradedMachineCount",
        type_ = "number",
        json_path = ".status.degradedMachineCount",
        description = "Nodes that have failed."
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfigPoolSpec {
    /// The rendered configuration that nodes should reach; written by the render controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration: Option<PoolConfiguration>,

    /// Labels of the MachineConfigs that are merged for this pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_config_selector: Option<LabelSelector>,

    /// How many nodes, or which share of them (`10%`), may be unavailable at once; absent means 1.
    // Differs: a negative number or a text that is not a percentage is refused, because nothing would ever move and only
    // the log would say so.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self == string(self) ? string(self).matches('^[0-9]+%$') : self >= 0")
        .message("must be a whole number that is not negative, without quotes, or a percentage such as '20%'"))]
    pub max_unavailable: Option<IntOrString>,

    /// Labels of the nodes that belong to this pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<LabelSelector>,

    /// Operating system stream that the pool follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os_image_stream: Option<OsImageStreamReference>,

    /// Whether nodes stay at the configuration they have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,

    /// Sets of images that every node of the pool keeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    #[schemars(length(max = 100))]
    pub pinned_image_sets: Option<Vec<PinnedImageSetReference>>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// A rendered MachineConfig and what it was merged from.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct PoolConfiguration {
    /// Group and version of the MachineConfig.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,

    /// Part of the MachineConfig that is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_path: Option<String>,

    /// Kind of the object, MachineConfig.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,

    /// Name of the rendered MachineConfig.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,

    /// Namespace of the object; MachineConfigs have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,

    /// Version of the MachineConfig that is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,

    /// The MachineConfigs that were merged, in merge order.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub source: Option<Vec<ObjectReference>>,

    /// Unique id of the MachineConfig.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Names an operating system stream.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OsImageStreamReference {
    /// Name of the stream.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = dns_subdomain())]
    pub name: String,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Names a PinnedImageSet.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PinnedImageSetReference {
    /// Name of the PinnedImageSet.
    #[schemars(
        length(min = 1, max = 253),
        regex(
            pattern = r"^([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9\-]{0,61}[a-zA-Z0-9])(\.([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9\-]{0,61}[a-zA-Z0-9]))*$"
        )
    )]
    pub name: String,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// How far the nodes of a pool are.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfigPoolStatus {
    /// When the certificates that nodes trust run out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub cert_expirys: Option<Vec<CertExpiry>>,

    /// What holds for the pool as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub conditions: Option<Vec<StatusCondition>>,

    /// The configuration that the whole pool last reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration: Option<PoolConfiguration>,

    /// Nodes that have failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degraded_machine_count: Option<i32>,

    /// Nodes in the pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_count: Option<i32>,

    /// Generation of the pool that this status was computed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Operating system stream that the whole pool last reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os_image_stream: Option<OsImageStreamReference>,

    /// Progress of work beside configuration, such as pinning images.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["poolSynchronizerType".into()]))]
    pub pool_synchronizers_status: Option<Vec<PoolSynchronizerStatus>>,

    /// Updated nodes that are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_machine_count: Option<i32>,

    /// Nodes that cannot take work, or are busy with an update.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unavailable_machine_count: Option<i32>,

    /// Nodes that run the target configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_machine_count: Option<i32>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// When one certificate runs out.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CertExpiry {
    /// Bundle that the certificate is in.
    pub bundle: String,

    /// When the certificate stops being valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expiry: Option<Time>,

    /// Subject of the certificate.
    pub subject: String,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// How many nodes have finished one kind of work.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.machineCount >= self.updatedMachineCount")
        .message("machineCount must be at least updatedMachineCount"),
    validation = Rule::new("self.machineCount >= self.availableMachineCount")
        .message("machineCount must be at least availableMachineCount"),
    validation = Rule::new("self.machineCount >= self.unavailableMachineCount")
        .message("machineCount must be at least unavailableMachineCount"),
    validation = Rule::new("self.machineCount >= self.readyMachineCount")
        .message("machineCount must be at least readyMachineCount"),
    validation = Rule::new("self.availableMachineCount >= self.readyMachineCount")
        .message("availableMachineCount must be at least readyMachineCount")
)]
pub struct PoolSynchronizerStatus {
    /// Nodes that can take work.
    #[schemars(range(min = 0))]
    pub available_machine_count: i64,

    /// Nodes in the pool.
    #[schemars(range(min = 0))]
    pub machine_count: i64,

    /// Generation of the pool that this entry was computed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    #[x_kube(validation = Rule::new("self >= oldSelf || (self == 0 && oldSelf > 0)")
        .message("must not decrease, except to zero"))]
    pub observed_generation: Option<i64>,

    /// Kind of work.
    #[schemars(length(max = 256))]
    pub pool_synchronizer_type: Open<PoolSynchronizerType>,

    /// Finished nodes that are ready.
    #[schemars(range(min = 0))]
    pub ready_machine_count: i64,

    /// Nodes that cannot take work.
    #[schemars(range(min = 0))]
    pub unavailable_machine_count: i64,

    /// Nodes that have finished.
    #[schemars(range(min = 0))]
    pub updated_machine_count: i64,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

words! {
    /// Kind of work that a pool does beside configuration.
    pub enum PoolSynchronizerType {
        /// Pulling and pinning images.
        PinnedImageSets = "PinnedImageSets",
    }
}
