//! MachineConfig: one piece of what should be on a machine, or the rendered sum of all pieces of a pool.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::optional_spec;
use crate::schema::preserved_object;
use crate::unknown::Unknown;

/// What a machine should be given: Ignition config, kernel, operating system image.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "MachineConfig",
    doc = "A piece of machine configuration, or the rendered sum of all pieces of a pool.",
    shortname = "mc",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(
        name = "GeneratedByController",
        type_ = "string",
        json_path = ".metadata.annotations.machineconfiguration\\.openshift\\.io/generated-by-controller-version",
        description = "Build of the controller that generated this object."
    ),
    printcolumn(
        name = "IgnitionVersion",
        type_ = "string",
        json_path = ".spec.config.ignition.version",
        description = "Specification version of the Ignition config."
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct MachineConfigSpec {
    /// Container image from which operating system extensions are installed.
    #[serde(rename = "baseOSExtensionsContainerImage", skip_serializing_if = "Option::is_none")]
    pub base_os_extensions_container_image: Option<String>,

    /// Ignition config, as an object; absent means that this piece has no Ignition part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "preserved_object")]
    pub config: Option<Value>,

    /// Names of additional operating system features to install.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub extensions: Option<Vec<String>>,

    /// Whether the machine runs with FIPS cryptography.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fips: Option<bool>,

    /// Kernel arguments to add; an entry may hold several, separated by spaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    #[schemars(extend("nullable" = true))]
    pub kernel_arguments: Option<Vec<String>>,

    /// Kernel flavour: `default`, `realtime` or `64k-pages`; empty means `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_type: Option<String>,

    /// Operating system image to run.
    #[serde(rename = "osImageURL", skip_serializing_if = "Option::is_none")]
    pub os_image_url: Option<String>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

optional_spec!(MachineConfigSpec);
