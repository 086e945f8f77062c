//! `compliance.openshift.io/v1alpha1`: profiles, scans, their results, and remediations.
//!
//! A ScanSettingBinding joins profiles with a ScanSetting and becomes a ComplianceSuite; a suite owns ComplianceScans, a
//! scan owns ComplianceCheckResults, and a result owns the ComplianceRemediations that fix it.

// optional_spec: the copy of the struct that the schema derive makes is never read.
#[allow(dead_code)]
pub mod compliance_remediation;
#[allow(dead_code)]
pub mod compliance_scan;
#[allow(dead_code)]
pub mod compliance_suite;
#[allow(dead_code)]
pub mod custom_rule;
#[allow(dead_code)]
pub mod tailored_profile;

pub mod compliance_check_result;
pub mod condition;
pub mod profile;
pub mod rule;
pub mod scan_setting;
pub mod scan_setting_binding;
pub mod scan_settings;
pub mod variable;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

pub use compliance_check_result::{CheckResultFields, ComplianceCheckResult};
pub use compliance_remediation::{
    ComplianceRemediation, ComplianceRemediationSpec, ComplianceRemediationStatus, Payload, RemediationType,
};
pub use compliance_scan::{
    ComplianceScan, ComplianceScanSpec, ComplianceScanStatus, ScanTarget, ScanType, StorageReference,
    TailoringConfigMap,
};
pub use compliance_suite::{ComplianceSuite, ComplianceSuiteSpec, ComplianceSuiteStatus, SuiteScan, SuiteScanStatus};
pub use condition::ComplianceCondition;
pub use custom_rule::{CustomRule, CustomRuleSpec, CustomRuleStatus};
pub use profile::{Profile, ProfileFields};
pub use rule::{
    Fix, Input, KubeletConfigInput, KubeletConfigSource, KubernetesInput, MachineConfigInput, MachineConfigSource,
    Rule, RuleDefinition, RuleFields, ScannerType,
};
pub use scan_setting::{ScanSetting, ScanSettingFields};
pub use scan_setting_binding::{
    BindingReference, BindingSpec, OutputReference, ScanSettingBinding, ScanSettingBindingFields,
    ScanSettingBindingStatus,
};
pub use scan_settings::{RawResultStorage, ScanSettings, SuiteSettings};
pub use tailored_profile::{
    RuleReference, TailoredProfile, TailoredProfileOutput, TailoredProfileSpec, TailoredProfileStatus, ValueSetting,
};
pub use variable::{Variable, VariableFields, VariableSelection, VariableType};

use crate::crds::{self, generated::Definition};

pub fn definitions() -> Vec<CustomResourceDefinition> {
    crds::for_group("compliance.openshift.io")
}

/// The definitions of this group, generated from its types.
pub(crate) fn generated() -> Vec<CustomResourceDefinition> {
    [
        Definition::of::<ComplianceCheckResult>(),
        Definition::of::<ComplianceRemediation>().spec_optional(),
        Definition::of::<ComplianceScan>().spec_optional(),
        Definition::of::<ComplianceSuite>().spec_optional(),
        Definition::of::<CustomRule>().spec_optional(),
        Definition::of::<Profile>(),
        Definition::of::<Rule>(),
        Definition::of::<ScanSettingBinding>(),
        // The upstream has a status subresource here although the kind has no status.
        Definition::of::<ScanSetting>().status_subresource(),
        Definition::of::<TailoredProfile>().spec_optional(),
        Definition::of::<Variable>(),
    ]
    .into_iter()
    .map(Definition::build)
    .collect()
}
