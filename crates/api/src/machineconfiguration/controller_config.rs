//! ControllerConfig: what the cluster is like, as far as generating configuration depends on it.
//!
//! Required fields are read as optional: offline rendering works with a ControllerConfig that names little more than the
//! operating system image, and an older one lacks what was added since. The definition still requires them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::cluster_dns::ClusterDns;
use super::infrastructure::Infrastructure;
use crate::meta::{Base64, ObjectReference};
use crate::unknown::Unknown;

/// What generated configuration depends on.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "ControllerConfig",
    doc = "What the cluster is like, as far as generating configuration depends on it.",
    status = "ControllerConfigStatus",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct ControllerConfigSpec {
    /// Certificates that nodes trust in addition, in PEM form.
    #[schemars(required, extend("nullable" = true))]
    pub additional_trust_bundle: Option<Base64>,

    /// Operating system image for nodes whose MachineConfigs name none.
    #[serde(rename = "baseOSContainerImage", skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub base_os_container_image: Option<String>,

    /// Image with operating system extensions that fits the operating system image.
    #[serde(rename = "baseOSExtensionsContainerImage", skip_serializing_if = "Option::is_none")]
    pub base_os_extensions_container_image: Option<String>,

    /// Certificates of the cloud provider, in PEM form.
    #[serde(rename = "cloudProviderCAData")]
    #[schemars(required, extend("nullable" = true))]
    pub cloud_provider_ca_data: Option<Base64>,

    /// Configuration file of the cloud provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub cloud_provider_config: Option<String>,

    /// Address of the cluster's name server.
    #[serde(rename = "clusterDNSIP", skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub cluster_dns_ip: Option<String>,

    /// The cluster's DNS object.
    #[schemars(required, extend("nullable" = true))]
    pub dns: Option<ClusterDns>,

    /// Deprecated: domain in which etcd members find each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd_discovery_domain: Option<String>,

    /// Registry certificates that the platform provides.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub image_registry_bundle_data: Option<Vec<ImageRegistryBundle>>,

    /// Registry certificates that the user provides.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub image_registry_bundle_user_data: Option<Vec<ImageRegistryBundle>>,

    /// Container images that generated configuration refers to, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub images: Option<BTreeMap<String, String>>,

    /// The cluster's Infrastructure object.
    #[schemars(required, extend("nullable" = true))]
    pub infra: Option<Infrastructure>,

    /// Pull secret for the registry inside the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub internal_registry_pull_secret: Option<Base64>,

    /// Address families of the cluster: `IPv4`, `IPv6`, `DualStack` or `DualStackIPv6Primary`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub ip_families: Option<String>,

    /// Certificates by which nodes trust the API server, in PEM form.
    #[serde(rename = "kubeAPIServerServingCAData", skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub kube_api_server_serving_ca_data: Option<Base64>,

    /// Network settings that concern nodes.
    #[schemars(required, extend("nullable" = true))]
    pub network: Option<NetworkInfo>,

    /// Network plugin of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_type: Option<String>,

    /// Operating system image in the format of old releases.
    #[serde(rename = "osImageURL", skip_serializing_if = "Option::is_none")]
    pub os_image_url: Option<String>,

    /// Deprecated: platform of the cluster; see `infra`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,

    /// Proxy that nodes use.
    #[schemars(required, extend("nullable" = true))]
    pub proxy: Option<ProxyStatus>,

    /// Secret with the registry credentials of nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull_secret: Option<ObjectReference>,

    /// Image of the release.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub release_image: Option<String>,

    /// Root certificates of the cluster, in PEM form.
    #[serde(rename = "rootCAData", skip_serializing_if = "Option::is_none")]
    #[schemars(required)]
    pub root_ca_data: Option<Base64>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Certificates for one image registry.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageRegistryBundle {
    /// The certificates, in PEM form.
    pub data: Base64,

    /// Registry host, as a file name.
    pub file: String,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Network settings that concern nodes.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkInfo {
    /// A change of packet sizes that is under way.
    #[schemars(required, extend("nullable" = true))]
    pub mtu_migration: Option<MtuMigration>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// A change of packet sizes.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MtuMigration {
    /// Of the nodes' own interfaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<MtuChange>,

    /// Of the pod network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<MtuChange>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Packet sizes before and after.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MtuChange {
    /// Size before.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub from: Option<i32>,

    /// Size after.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub to: Option<i32>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Proxy addresses.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxyStatus {
    /// Proxy for http.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_proxy: Option<String>,

    /// Proxy for https.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub https_proxy: Option<String>,

    /// Hosts and networks that are reached without a proxy, separated by commas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_proxy: Option<String>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// How far the controllers are with this object.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllerConfigStatus {
    /// What holds for generating configuration from this object.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Option<Vec<ControllerConfigCondition>>,

    /// The certificates in this object, taken apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub controller_certificates: Option<Vec<ControllerCertificate>>,

    /// Generation that was last processed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// One observed fact about generating configuration.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllerConfigCondition {
    /// When the status last changed.
    #[schemars(required, extend("nullable" = true))]
    pub last_transition_time: Option<Time>,

    /// Explanation for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,

    /// Word for programs that says why the status is what it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,

    /// `True`, `False` or `Unknown`.
    pub status: String,

    /// Which fact this is.
    #[serde(rename = "type")]
    pub type_: String,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// One certificate of this object.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllerCertificate {
    /// Field of this object, or file, that the certificate is in.
    pub bundle_file: String,

    /// When the certificate stops being valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_after: Option<Time>,

    /// When the certificate starts being valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Time>,

    /// Who signed the certificate.
    pub signer: String,

    /// Subject of the certificate.
    pub subject: String,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}
