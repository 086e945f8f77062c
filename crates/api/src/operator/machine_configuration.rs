//! MachineConfiguration: cluster-wide settings of machine configuration; the one object is named `cluster`.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::boot_images::{
    BootImageSkewEnforcement, BootImageSkewEnforcementStatus, ManagedBootImages, automatic_mode_needs_boot_images,
    automatic_mode_needs_every_machine_set, automatic_mode_needs_managers, automatic_mode_reports_every_machine_set,
};
use super::node_disruption_policy::{NodeDisruptionPolicy, NodeDisruptionPolicyStatus};
use crate::meta::Condition;
use crate::schema::preserved_object;
use crate::unknown::Unknown;
use crate::words;
use crate::words::Open;

/// Cluster-wide settings of machine configuration.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "operator.openshift.io",
    version = "v1",
    kind = "MachineConfiguration",
    doc = "Cluster-wide settings of machine configuration.",
    status = "MachineConfigurationStatus",
    derive = "PartialEq",
    derive = "Default",
    validation = automatic_mode_needs_boot_images(),
    validation = automatic_mode_needs_managers(),
    validation = automatic_mode_needs_every_machine_set(),
    validation = automatic_mode_reports_every_machine_set()
)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfigurationSpec {
    /// Whether an upgrade is held back while boot images are too old.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_image_skew_enforcement: Option<BootImageSkewEnforcement>,

    /// How many failed revisions of static pods are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_revision_limit: Option<i32>,

    /// Any new text here redeploys the operand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force_redeployment_reason: Option<String>,

    /// Sections of a MachineConfig that may change although running nodes cannot take the change over.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minProperties" = 1))]
    pub irreconcilable_validation_overrides: Option<IrreconcilableValidationOverrides>,

    /// Verbosity of the operand's log.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Normal"))]
    pub log_level: Option<Open<LogLevel>>,

    /// Which machine sets get new boot images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_boot_images: Option<ManagedBootImages>,

    /// Whether the operator acts: `Managed`, `Unmanaged`, `Force` or `Removed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^(Managed|Unmanaged|Force|Removed)$"))]
    pub management_state: Option<String>,

    /// What nodes do after a change, where that is less than a reboot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_disruption_policy: Option<NodeDisruptionPolicy>,

    /// Settings that the operator has found by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "preserved_object", extend("nullable" = true))]
    pub observed_config: Option<Value>,

    /// Verbosity of the operator's log.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Normal"))]
    pub operator_log_level: Option<Open<LogLevel>>,

    /// How many successful revisions of static pods are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub succeeded_revision_limit: Option<i32>,

    /// Settings that override all others, at one's own risk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "preserved_object", extend("nullable" = true))]
    pub unsupported_config_overrides: Option<Value>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Sections of a MachineConfig that may change although running nodes cannot take the change over.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IrreconcilableValidationOverrides {
    /// Sections of Ignition's `storage`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Set)]
    #[schemars(length(min = 1, max = 3))]
    pub storage: Option<Vec<Open<StorageSection>>>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// What the settings have come to.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfigurationStatus {
    /// What is in force about old boot images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_image_skew_enforcement_status: Option<BootImageSkewEnforcementStatus>,

    /// What holds for machine configuration as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Option<Vec<Condition>>,

    /// Which machine sets really get new boot images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_boot_images_status: Option<ManagedBootImages>,

    /// The policy that nodes follow: the built-in one with the user's entries over it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_disruption_policy_status: Option<NodeDisruptionPolicyStatus>,

    /// Generation that was last processed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

words! {
    /// Verbosity of a log.
    pub enum LogLevel {
        /// Not set.
        Unset = "",
        /// What an administrator needs.
        Normal = "Normal",
        /// What helps when something is wrong.
        Debug = "Debug",
        /// What happens inside.
        Trace = "Trace",
        /// Everything, bodies of requests included.
        TraceAll = "TraceAll",
    }
}

words! {
    /// Sections of Ignition's `storage` that running nodes cannot take over.
    pub enum StorageSection {
        /// Disks and partitions.
        Disks = "Disks",
        /// Filesystems.
        FileSystems = "FileSystems",
        /// RAID arrays.
        Raid = "Raid",
    }
}
