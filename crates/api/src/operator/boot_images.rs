//! Boot images: which machine sets get new ones, and whether old ones hold back an upgrade.
//!
//! Seaworthy does not act on these settings; they are described in full so that the object keeps its meaning.

use kube::KubeSchema;
use kube::core::Rule;
use serde::{Deserialize, Serialize};

use crate::meta::LabelSelector;
use crate::unknown::Unknown;
use crate::words;
use crate::words::Open;

/// Which machine sets get new boot images.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ManagedBootImages {
    /// One entry for each kind of machine set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["resource".into(), "apiGroup".into()]))]
    #[schemars(length(max = 5))]
    pub machine_managers: Option<Vec<MachineManager>>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Which machine sets of one kind get new boot images.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new(
    "self.resource != 'controlplanemachinesets' || self.selection.mode == 'All' || self.selection.mode == 'None'"
)
.message("controlplanemachinesets are selected all or not at all"))]
pub struct MachineManager {
    /// API group of the machine sets.
    pub api_group: Open<MachineApiGroup>,

    /// Resource name of the machine sets.
    pub resource: Open<MachineSetResource>,

    /// Which of them.
    pub selection: MachineManagerSelection,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Which machine sets are meant.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.mode) && self.mode == 'Partial' ?  has(self.partial) : !has(self.partial)")
    .message("'partial' goes with the mode Partial and with no other"))]
pub struct MachineManagerSelection {
    /// All, some or none.
    pub mode: Open<SelectionMode>,

    /// Which ones, for the mode `Partial`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<PartialSelection>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Some machine sets, by label.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartialSelection {
    /// Labels of the machine sets.
    pub machine_resource_selector: LabelSelector,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Whether an upgrade is held back while boot images are too old.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.mode) && (self.mode =='Manual') ?  has(self.manual) : !has(self.manual)")
    .message("'manual' goes with the mode Manual and with no other"))]
pub struct BootImageSkewEnforcement {
    /// The boot image that the user says is in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manual: Option<ManualBootImage>,

    /// Who says how old the boot image is.
    pub mode: Open<SkewEnforcementMode>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// The boot image that the user says is in use.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(
        "has(self.mode) && (self.mode =='OCPVersion') ?  has(self.ocpVersion) : !has(self.ocpVersion)"
    )
    .message("'ocpVersion' goes with the mode OCPVersion and with no other"),
    validation = Rule::new(
        "has(self.mode) && (self.mode =='RHCOSVersion') ?  has(self.rhcosVersion) : !has(self.rhcosVersion)"
    )
    .message("'rhcosVersion' goes with the mode RHCOSVersion and with no other")
)]
pub struct ManualBootImage {
    /// Which of the two versions is given.
    pub mode: Open<BootImageVersionMode>,

    /// Version of the platform release that the boot image is from.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 5, max = 10))]
    #[x_kube(validation = platform_version())]
    pub ocp_version: Option<String>,

    /// Version of the operating system in the boot image.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 14, max = 21))]
    #[x_kube(validation = operating_system_version())]
    pub rhcos_version: Option<String>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// What is in force about old boot images.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.mode) && (self.mode == 'Automatic') ?  has(self.automatic) : !has(self.automatic)")
        .message("'automatic' goes with the mode Automatic and with no other"),
    validation = Rule::new("has(self.mode) && (self.mode == 'Manual') ?  has(self.manual) : !has(self.manual)")
        .message("'manual' goes with the mode Manual and with no other")
)]
pub struct BootImageSkewEnforcementStatus {
    /// The boot image that was found to be in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minProperties" = 1))]
    pub automatic: Option<AutomaticBootImage>,

    /// The boot image that the user says is in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manual: Option<ManualBootImage>,

    /// Who says how old the boot image is.
    pub mode: Open<SkewEnforcementStatusMode>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// The boot image that was found to be in use.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.ocpVersion) || has(self.rhcosVersion)")
    .message("at least one of the two versions is needed"))]
pub struct AutomaticBootImage {
    /// Version of the platform release that the boot image is from.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 5, max = 10))]
    #[x_kube(validation = platform_version())]
    pub ocp_version: Option<String>,

    /// Version of the operating system in the boot image.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 14, max = 21))]
    #[x_kube(validation = operating_system_version())]
    pub rhcos_version: Option<String>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

words! {
    /// API groups with machine sets.
    pub enum MachineApiGroup {
        /// The Machine API.
        MachineApi = "machine.openshift.io",
    }
}

words! {
    /// Resources that make machines.
    pub enum MachineSetResource {
        /// Machine sets.
        MachineSets = "machinesets",
        /// The machine set of the control plane.
        ControlPlaneMachineSets = "controlplanemachinesets",
    }
}

words! {
    /// How many of a kind are meant.
    pub enum SelectionMode {
        /// All.
        All = "All",
        /// Some.
        Partial = "Partial",
        /// None.
        None = "None",
    }
}

words! {
    /// Who says how old the boot image is, as the user may choose.
    pub enum SkewEnforcementMode {
        /// The user.
        Manual = "Manual",
        /// None: upgrades are not blocked.
        None = "None",
    }
}

words! {
    /// Who says how old the boot image is.
    pub enum SkewEnforcementStatusMode {
        /// The operator, which keeps boot images new.
        Automatic = "Automatic",
        /// The user.
        Manual = "Manual",
        /// None: upgrades are not blocked.
        None = "None",
    }
}

words! {
    /// By what a boot image is identified.
    pub enum BootImageVersionMode {
        /// By the platform release.
        OcpVersion = "OCPVersion",
        /// By the operating system.
        RhcosVersion = "RHCOSVersion",
    }
}

fn platform_version() -> Rule {
    Rule::new(r"self.matches('^[0-9]+\\.[0-9]+\\.[0-9]+$')").message("must have the form x.y.z")
}

fn operating_system_version() -> Rule {
    Rule::new(r"self.matches('^[0-9]+\\.[0-9]+\\.([0-9]{8}|[0-9]{12})-[0-9]+$')")
        .message("must have the form major.minor.date-build, the date with or without hours and minutes")
}

/// Rules about the whole object while old boot images are found automatically.
macro_rules! automatic_mode {
    ($rule:literal) => {
        Rule::new(concat!(r#"self.?status.bootImageSkewEnforcementStatus.mode.orValue("") == 'Automatic' ? "#, $rule))
    };
}

pub(super) fn automatic_mode_needs_boot_images() -> Rule {
    automatic_mode!("self.?spec.managedBootImages.hasValue() || self.?status.managedBootImagesStatus.hasValue() : true")
        .message("while skew enforcement is Automatic, boot images must be managed")
}

pub(super) fn automatic_mode_needs_managers() -> Rule {
    automatic_mode!(
        "!(self.?spec.managedBootImages.machineManagers.hasValue()) || size(self.spec.managedBootImages.machineManagers) > 0 : true"
    )
    .message("while skew enforcement is Automatic, managedBootImages.machineManagers must not be empty")
}

pub(super) fn automatic_mode_needs_every_machine_set() -> Rule {
    automatic_mode!(
        "!(self.?spec.managedBootImages.machineManagers.hasValue()) || !self.spec.managedBootImages.machineManagers.exists(m, m.resource == 'machinesets' && m.apiGroup == 'machine.openshift.io') || self.spec.managedBootImages.machineManagers.exists(m, m.resource == 'machinesets' && m.apiGroup == 'machine.openshift.io' && m.selection.mode == 'All') : true"
    )
    .message("while skew enforcement is Automatic, managedBootImages must select all machinesets")
}

pub(super) fn automatic_mode_reports_every_machine_set() -> Rule {
    automatic_mode!(
        "!(self.?status.managedBootImagesStatus.machineManagers.hasValue()) || self.status.managedBootImagesStatus.machineManagers.exists(m, m.selection.mode == 'All' && m.resource == 'machinesets' && m.apiGroup == 'machine.openshift.io'): true"
    )
    .message("while skew enforcement is Automatic, managedBootImagesStatus must contain all machinesets")
}
