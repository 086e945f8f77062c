//! ContainerRuntimeConfig: container runtime settings for the nodes of some pools.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::settings_status::SettingsStatus;
use crate::meta::{LabelSelector, Quantity};
use crate::unknown::Unknown;
use crate::words;
use crate::words::Open;

/// Container runtime settings and the pools that get them.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "ContainerRuntimeConfig",
    doc = "Container runtime settings for the nodes of some pools.",
    shortname = "ctrcfg",
    status = "SettingsStatus",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRuntimeConfigSpec {
    /// The settings.
    pub container_runtime_config: ContainerRuntimeConfiguration,

    /// Labels of the pools that get these settings; absent or empty selects none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_config_pool_selector: Option<LabelSelector>,

    /// The runtime that the settings are for.
    // Differs: upstream has dropped this part of the source document; it is kept so that manifests written by the
    // document are accepted. What it may say is checked by the controller, which reports on the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<ContainerRuntime>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Names a container runtime.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRuntime {
    /// Socket of the runtime, as an absolute path or a `unix://` URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,

    /// Name of the runtime; empty means `cri-o`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Settings of the container runtime; what is absent stays as it is on the node.
// Differs: the bounds of pidsLimit, logLevel, logSizeMax and overlaySize are enforced when the object is written, not
// only reported by the controller afterwards.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRuntimeConfiguration {
    /// Folders with further OCI artifacts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(
        merge_strategy = ListMerge::Atomic,
        validation = Rule::new("self.all(x, self.exists_one(y, x.path == y.path))").message("paths must be unique")
    )]
    #[schemars(length(min = 1, max = 10))]
    pub additional_artifact_stores: Option<Vec<Store>>,

    /// Folders with further container images.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(
        merge_strategy = ListMerge::Atomic,
        validation = Rule::new("self.all(x, self.exists_one(y, x.path == y.path))").message("paths must be unique")
    )]
    #[schemars(length(min = 1, max = 10))]
    pub additional_image_stores: Option<Vec<Store>>,

    /// Folders with further image layers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(
        merge_strategy = ListMerge::Atomic,
        validation = Rule::new("self.all(x, self.exists_one(y, x.path == y.path))").message("paths must be unique")
    )]
    #[schemars(length(min = 1, max = 5))]
    pub additional_layer_stores: Option<Vec<Store>>,

    /// Program that runs containers unless a pod asks for another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_runtime: Option<Open<DefaultRuntime>>,

    /// Verbosity of the runtime's log; empty leaves it as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_level: Option<Open<RuntimeLogLevel>>,

    /// Size at which a container's log is cut; zero leaves it as it is, negative means never.
    // Differs: exactly 8192 is accepted, as the field's own documentation promises.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new(
        "!quantity(string(self)).isGreaterThan(quantity('0')) || !quantity(string(self)).isLessThan(quantity('8192'))"
    ).message("must be at least 8192 bytes, or zero, or negative"))]
    pub log_size_max: Option<Quantity>,

    /// Largest size of a container's writable layer; zero leaves it as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("!quantity(string(self)).isLessThan(quantity('0'))")
        .message("must not be negative"))]
    pub overlay_size: Option<Quantity>,

    /// Most processes that a container may have; zero leaves it as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self == 0 || self >= 20").message("must be zero or at least 20"))]
    pub pids_limit: Option<i64>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// A folder on the node.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Store {
    /// Absolute path of the folder.
    #[schemars(length(min = 1, max = 256))]
    #[x_kube(
        validation = Rule::new("self.matches('^/[a-zA-Z0-9/._-]+$')")
            .message("must be an absolute path of letters, digits, '/', '.', '_' and '-'"),
        validation = Rule::new("!self.contains('//')").message("must not contain '//'")
    )]
    pub path: String,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

words! {
    /// Programs that run containers.
    pub enum DefaultRuntime {
        /// crun.
        Crun = "crun",
        /// runc.
        Runc = "runc",
    }
}

words! {
    /// Verbosity of the container runtime's log.
    pub enum RuntimeLogLevel {
        /// Not set.
        Unset = "",
        /// Errors.
        Error = "error",
        /// Errors that end the program.
        Fatal = "fatal",
        /// Errors that crash the program.
        Panic = "panic",
        /// Warnings.
        Warn = "warn",
        /// What happens.
        Info = "info",
        /// What happens inside.
        Debug = "debug",
        /// Everything.
        Trace = "trace",
    }
}
