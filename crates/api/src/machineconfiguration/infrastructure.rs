//! Infrastructure: the cluster's Infrastructure object as a ControllerConfig embeds it, in the part that Seaworthy needs.
//!
//! What each platform adds (endpoints, tags, load balancers) is kept but not described: it is written by the cluster's
//! own operators, and no configuration that Seaworthy generates depends on it.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schema::plain_object;
use crate::unknown::Unknown;
use crate::words;
use crate::words::Open;

/// The cluster's Infrastructure object.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-embedded-resource" = true))]
pub struct Infrastructure {
    /// Group and version of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,

    /// Kind of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,

    /// Name, labels and the like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "plain_object")]
    pub metadata: Option<Value>,

    /// What was asked of the infrastructure.
    pub spec: InfrastructureSpec,

    /// What the infrastructure is like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<InfrastructureStatus>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// What was asked of the infrastructure.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InfrastructureSpec {
    /// Where the configuration file of the cloud provider is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_config: Option<ConfigMapKey>,

    /// Settings of the platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform_spec: Option<PlatformDetails>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Names a key of a ConfigMap.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapKey {
    /// The key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,

    /// Name of the ConfigMap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// The platform and, under its name, details that are kept as they are.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct PlatformDetails {
    /// The platform.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<Open<PlatformType>>,

    /// Details of the platform.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// What the infrastructure is like.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InfrastructureStatus {
    /// Address of the API server for nodes.
    #[serde(rename = "apiServerInternalURI", skip_serializing_if = "Option::is_none")]
    pub api_server_internal_uri: Option<String>,

    /// External address of the API server.
    #[serde(rename = "apiServerURL", skip_serializing_if = "Option::is_none")]
    pub api_server_url: Option<String>,

    /// How many control-plane nodes there should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "HighlyAvailable"))]
    pub control_plane_topology: Option<Open<ControlPlaneTopology>>,

    /// Whether processors are divided between the platform and workloads.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "None"))]
    pub cpu_partitioning: Option<Open<CpuPartitioning>>,

    /// Deprecated: domain in which etcd members find each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd_discovery_domain: Option<String>,

    /// Name that identifies the cluster in its infrastructure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infrastructure_name: Option<String>,

    /// How many nodes there should be for services of the platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "HighlyAvailable"))]
    pub infrastructure_topology: Option<Open<InfrastructureTopology>>,

    /// Deprecated: the platform; see `platformStatus`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<Open<PlatformType>>,

    /// What the platform is like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform_status: Option<PlatformDetails>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

words! {
    /// Platforms that a cluster may run on.
    pub enum PlatformType {
        /// Not set.
        Unset = "",
        /// Amazon Web Services.
        Aws = "AWS",
        /// Microsoft Azure.
        Azure = "Azure",
        /// Machines that the cluster itself manages.
        BareMetal = "BareMetal",
        /// Google Cloud.
        Gcp = "GCP",
        /// libvirt.
        Libvirt = "Libvirt",
        /// OpenStack.
        OpenStack = "OpenStack",
        /// None that matters.
        None = "None",
        /// VMware vSphere.
        VSphere = "VSphere",
        /// oVirt.
        OVirt = "oVirt",
        /// IBM Cloud.
        IbmCloud = "IBMCloud",
        /// KubeVirt.
        KubeVirt = "KubeVirt",
        /// Equinix Metal.
        EquinixMetal = "EquinixMetal",
        /// IBM Power Virtual Server.
        PowerVs = "PowerVS",
        /// Alibaba Cloud.
        AlibabaCloud = "AlibabaCloud",
        /// Nutanix.
        Nutanix = "Nutanix",
        /// One that others integrate.
        External = "External",
    }
}

words! {
    /// How many control-plane nodes a cluster should have.
    pub enum ControlPlaneTopology {
        /// Three or more.
        HighlyAvailable = "HighlyAvailable",
        /// Two and an arbiter.
        HighlyAvailableArbiter = "HighlyAvailableArbiter",
        /// One.
        SingleReplica = "SingleReplica",
        /// Two.
        DualReplica = "DualReplica",
        /// None: the control plane is elsewhere.
        External = "External",
    }
}

words! {
    /// How many nodes a cluster should have for services of the platform.
    pub enum InfrastructureTopology {
        /// Several.
        HighlyAvailable = "HighlyAvailable",
        /// One.
        SingleReplica = "SingleReplica",
    }
}

words! {
    /// On which nodes processors are divided.
    pub enum CpuPartitioning {
        /// On none.
        None = "None",
        /// On all.
        AllNodes = "AllNodes",
    }
}
