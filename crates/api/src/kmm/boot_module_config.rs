//! BootModuleConfig: a kernel module that replaces the kernel's own while a node boots.
//!
//! Only OpenShift's variant of the upstream has this kind.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::optional_spec;
use crate::unknown::Unknown;

/// What is loaded at boot, and on which pool.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "kmm.sigs.x-k8s.io",
    version = "v1beta1",
    kind = "BootModuleConfig",
    doc = "A kernel module that replaces the kernel's own while a node boots.",
    namespaced,
    status = "BootModuleConfigStatus",
    shortname = "bmc",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct BootModuleConfigSpec {
    /// Directory in the image with firmware to copy to the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware_files_path: Option<String>,

    /// Modules of the kernel itself to unload first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_tree_modules_to_remove: Option<Vec<String>>,

    /// Image of the module, without a tag: the running kernel's version is the tag.
    pub kernel_module_image: String,

    /// Kernel module to load.
    pub kernel_module_name: String,

    /// Name of the MachineConfig to write.
    pub machine_config_name: String,

    /// Name of the pool that the MachineConfig is for.
    pub machine_config_pool_name: String,

    /// Image of the program that loads the module; absent means the operator's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_image: Option<String>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

optional_spec!(BootModuleConfigSpec);

/// What became of the object.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BootModuleConfigStatus {
    /// Outcome for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_status: Option<String>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}
