//! Machine status: what a machine reports about itself, equal in every version.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::unknown::Unknown;
use crate::words;
use crate::words::Open;

/// One address of a machine.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineAddress {
    /// The address.
    #[schemars(length(min = 1, max = 256))]
    pub address: String,

    /// What kind of address it is.
    #[serde(rename = "type")]
    pub type_: Open<MachineAddressType>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

words! {
    /// What kind of address a machine has.
    pub enum MachineAddressType {
        /// Name of the host.
        Hostname = "Hostname",
        /// Address that others reach.
        ExternalIp = "ExternalIP",
        /// Address that the cluster reaches.
        InternalIp = "InternalIP",
        /// Name that others resolve.
        ExternalDns = "ExternalDNS",
        /// Name that the cluster resolves.
        InternalDns = "InternalDNS",
    }
}

/// Since when a deleted machine waits for what.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineDeletionStatus {
    /// When draining the node began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_drain_start_time: Option<Time>,

    /// When waiting for the node's volumes began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_for_node_volume_detach_start_time: Option<Time>,

    /// When waiting for hooks before draining began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_for_pre_drain_hook_start_time: Option<Time>,

    /// When waiting for hooks before terminating began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_for_pre_terminate_hook_start_time: Option<Time>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// What the machine's node reports about its software.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeInfo {
    /// Architecture of the node.
    pub architecture: String,

    /// Id of the node's current boot.
    #[serde(rename = "bootID")]
    pub boot_id: String,

    /// Container runtime and its version.
    pub container_runtime_version: String,

    /// Version of the kernel.
    pub kernel_version: String,

    /// Version of the service proxy.
    pub kube_proxy_version: String,

    /// Version of the kubelet.
    pub kubelet_version: String,

    /// Id of the installation.
    #[serde(rename = "machineID")]
    pub machine_id: String,

    /// Operating system.
    pub operating_system: String,

    /// Name of the operating system's release.
    pub os_image: String,

    /// Swap space of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap: Option<NodeSwap>,

    /// Id of the hardware.
    #[serde(rename = "systemUUID")]
    pub system_uuid: String,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Swap space of a node.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSwap {
    /// Size in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<i64>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}
