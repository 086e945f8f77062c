//! Module: a kernel module, with its images and its device plugin, for the nodes that a selector names.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::{Build, DevicePlugin, Dra, Modprobe, Sign, TlsOptions};
use crate::meta::{LocalObjectReference, Toleration};
use crate::optional_spec;
use crate::schema::integer;
use crate::unknown::Unknown;

/// What is loaded, on which nodes.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "kmm.sigs.x-k8s.io",
    version = "v1beta1",
    kind = "Module",
    doc = "A kernel module, with its images and its device plugin, for the nodes that a selector names.",
    namespaced,
    status = "ModuleStatus",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase", remote = "Self")]
#[x_kube(validation = Rule::new("!(has(self.dra) && has(self.devicePlugin))").message("only one of dra and devicePlugin may be given"))]
pub struct ModuleSpec {
    /// Device plugin that runs where the module is loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_plugin: Option<DevicePlugin>,

    /// Driver for dynamic resource allocation that runs where the module is loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dra: Option<Dra>,

    /// Any change of this number makes all images be looked for, built and signed again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "integer")]
    pub image_rebuild_trigger_generation: Option<i64>,

    /// Secret for pulling and pushing images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_repo_secret: Option<LocalObjectReference>,

    /// The kernel module; absent means that only a plugin or driver runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module_loader: Option<ModuleLoader>,

    /// Labels of the nodes; an empty map means all nodes.
    pub selector: BTreeMap<String, String>,

    /// Taints that the pods of this module tolerate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerations: Option<Vec<Toleration>>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

optional_spec!(ModuleSpec);

/// The kernel module and how it gets onto a node.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModuleLoader {
    /// Images of the module and how they are loaded.
    pub container: ModuleLoaderContainer,

    /// Service account of the loading pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Images of the module and how they are loaded.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModuleLoaderContainer {
    /// How images are built, unless a mapping says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build: Option<Build>,

    /// Image of the module, unless a mapping says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_image: Option<String>,

    /// When the image is pulled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<String>,

    /// Deprecated form of `inTreeModulesToRemove` with one module.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_tree_module_to_remove: Option<String>,

    /// Modules of the kernel itself to unload first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_tree_modules_to_remove: Option<Vec<String>>,

    /// Images by kernel version; the first that matches is used.
    #[schemars(length(min = 1))]
    pub kernel_mappings: Vec<KernelMapping>,

    /// What is loaded from the image.
    pub modprobe: Modprobe,

    /// How the image's registry is checked, unless a mapping says otherwise.
    #[serde(rename = "registryTLS", skip_serializing_if = "Option::is_none")]
    pub registry_tls: Option<TlsOptions>,

    /// How images are signed, unless a mapping says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sign: Option<Sign>,

    /// Version of the module, for upgrades in an order that node labels give.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// The image for kernels that match.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KernelMapping {
    /// How the image is built.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build: Option<Build>,

    /// Image for these kernels; empty means the container's image.
    pub container_image: String,

    /// Deprecated form of `inTreeModulesToRemove` with one module.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_tree_module_to_remove: Option<String>,

    /// Modules of the kernel itself to unload first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_tree_modules_to_remove: Option<Vec<String>>,

    /// Kernel version that matches exactly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub literal: Option<String>,

    /// Regular expression that a kernel version must contain a match of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regexp: Option<String>,

    /// How the image's registry is checked.
    #[serde(rename = "registryTLS", skip_serializing_if = "Option::is_none")]
    pub registry_tls: Option<TlsOptions>,

    /// How the image is signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sign: Option<Sign>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// On how many nodes the parts of the module are.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModuleStatus {
    /// Counts of the device plugin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_plugin: Option<DaemonSetStatus>,

    /// Counts of the driver for dynamic resource allocation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dra: Option<DaemonSetStatus>,

    /// The trigger that the images were last looked for with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "integer")]
    pub image_rebuild_trigger_generation: Option<i64>,

    /// Counts of the kernel module.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module_loader: Option<DaemonSetStatus>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// On how many nodes something is.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DaemonSetStatus {
    /// Nodes where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_number: Option<i32>,

    /// Nodes where it should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired_number: Option<i32>,

    /// Nodes that the selector names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes_matching_selector_number: Option<i32>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}
