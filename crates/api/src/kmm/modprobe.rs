//! Modprobe: which kernel modules are loaded, from where and with what.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::unknown::Unknown;

/// Which kernel modules are loaded, from where and with what.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Modprobe {
    /// Arguments before the module's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<ModprobeArgs>,

    /// Directory in the image above `lib/modules`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "/opt"))]
    pub dir_name: Option<String>,

    /// Directory in the image with firmware to copy to the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware_path: Option<String>,

    /// Kernel module to load; absent when raw arguments are given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module_name: Option<String>,

    /// Modules that each need the next one loaded first; the first is the module itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modules_loading_order: Option<Vec<String>>,

    /// Parameters of the module.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Vec<String>>,

    /// Complete arguments, instead of all other settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_args: Option<ModprobeArgs>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Arguments of `modprobe`.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModprobeArgs {
    /// Arguments for loading.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub load: Option<Vec<String>>,

    /// Arguments for unloading.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub unload: Option<Vec<String>>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}
