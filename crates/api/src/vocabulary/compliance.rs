//! Vocabulary of compliance: labels and annotations on scans, results and remediations, their states, reasons of events.

use crate::vocabulary::key::{Annotation, Finalizer, Label};
use crate::words;

/// Namespace that the upstream's objects live in unless installed elsewhere.
pub const DEFAULT_NAMESPACE: &str = "openshift-compliance";

pub mod label {
    use super::Label;

    /// Name of the scan that a result or remediation comes from.
    pub const SCAN_NAME: Label = Label("compliance.openshift.io/scan-name");
    /// Name of the suite that a scan, result or remediation belongs to.
    pub const SUITE: Label = Label("compliance.openshift.io/suite");
    /// Stable id of the profile that was scanned for.
    pub const PROFILE_GUID: Label = Label("compliance.openshift.io/profile-guid");

    /// On a remediation: its payload was superseded by newer content.
    pub const OUTDATED_REMEDIATION: Label = Label("complianceoperator.openshift.io/outdated-remediation");
    /// On a remediation: something it depends on is missing.
    pub const HAS_UNMET_DEPENDENCIES: Label = Label("compliance.openshift.io/has-unmet-dependencies");
    /// On a remediation: a variable in its payload has no value.
    pub const HAS_UNSET_VARIABLE: Label = Label("compliance.openshift.io/has-unset-variable");
    /// On a remediation: its required values were looked at.
    pub const VALUE_REQUIRED_PROCESSED: Label = Label("compliance.openshift.io/value-required-processed");

    /// On a result: its status.
    pub const CHECK_STATUS: Label = Label("compliance.openshift.io/check-status");
    /// On a result: its severity.
    pub const CHECK_SEVERITY: Label = Label("compliance.openshift.io/check-severity");
    /// On a result: it used variables.
    pub const CHECK_HAS_VALUE: Label = Label("compliance.openshift.io/check-has-value");
    /// On a result: its rule has a fix.
    pub const AUTOMATED_REMEDIATION: Label = Label("compliance.openshift.io/automated-remediation");
    /// On a result: nodes disagree.
    pub const INCONSISTENT_CHECK: Label = Label("compliance.openshift.io/inconsistent-check");

    /// On a ConfigMap: it holds the result of one node.
    pub const SCAN_RESULT: Label = Label("complianceoperator.openshift.io/scan-result");
}

pub mod annotation {
    use super::Annotation;

    /// On an object that a remediation created: it may be deleted when the remediation is un-applied.
    pub const REMEDIATION: Annotation = Annotation("compliance.openshift.io/remediation");
    /// On an object that remediations changed: which of them set which fields, and what was there before.
    pub const APPLIED_REMEDIATIONS: Annotation = Annotation("compliance.openshift.io/applied-remediations");

    /// Ids of the rules that must pass first, separated by commas.
    pub const DEPENDS_ON: Annotation = Annotation("compliance.openshift.io/depends-on");
    /// Objects that must exist first, as a JSON list.
    pub const DEPENDS_ON_OBJ: Annotation = Annotation("compliance.openshift.io/depends-on-obj");
    /// All dependencies were found.
    pub const DEPENDENCIES_MET: Annotation = Annotation("compliance.openshift.io/dependencies-met");
    /// A missing kind is no error.
    pub const OPTIONAL: Annotation = Annotation("compliance.openshift.io/optional");
    /// Policy engine that an enforcement remediation is for.
    pub const ENFORCEMENT_TYPE: Annotation = Annotation("compliance.openshift.io/enforcement-type");
    /// Role of the nodes that the payload is for; read by older versions only.
    pub const NODE_ROLE: Annotation = Annotation("compliance.openshift.io/node-role");
    /// Variables that a user must set, separated by commas.
    pub const VALUE_REQUIRED: Annotation = Annotation("compliance.openshift.io/value-required");
    /// Variables without a value, separated by commas.
    pub const UNSET_VALUE: Annotation = Annotation("compliance.openshift.io/unset-value");
    /// Variables that the payload was rendered with, separated by commas.
    pub const VALUE_USED: Annotation = Annotation("compliance.openshift.io/xccdf-value-used");
    /// Range of OpenShift versions that the payload is for.
    pub const OCP_VERSION: Annotation = Annotation("compliance.openshift.io/ocp-version");
    /// Range of Kubernetes versions that the payload is for.
    pub const K8S_VERSION: Annotation = Annotation("compliance.openshift.io/k8s-version");

    /// On a scan: run again.
    pub const RESCAN: Annotation = Annotation("compliance.openshift.io/rescan");
    /// On a suite: apply all remediations once.
    pub const APPLY_REMEDIATIONS: Annotation = Annotation("compliance.openshift.io/apply-remediations");
    /// On a suite: drop all outdated payloads once.
    pub const REMOVE_OUTDATED: Annotation = Annotation("compliance.openshift.io/remove-outdated");
    /// On a pool: the suite that paused it, as namespace and name.
    pub const PAUSED_BY: Annotation = Annotation("compliance.openshift.io/paused-by");

    /// On a result: name of the rule.
    pub const RULE: Annotation = Annotation("compliance.openshift.io/rule");
    /// On a result: when the scan that wrote it began.
    pub const LAST_SCANNED_TIMESTAMP: Annotation = Annotation("compliance.openshift.io/last-scanned-timestamp");
    /// On a result: the nodes that disagree, each with its status.
    pub const INCONSISTENT_SOURCE: Annotation = Annotation("compliance.openshift.io/inconsistent-source");
    /// On a result: the status of most nodes.
    pub const MOST_COMMON_STATUS: Annotation = Annotation("compliance.openshift.io/most-common-status");
    /// On a result: why the check could not be made.
    pub const ERROR_MSG: Annotation = Annotation("compliance.openshift.io/error-msg");

    /// On a ConfigMap with a result: the node it is from.
    pub const SCAN_RESULT_NODE: Annotation = Annotation("openscap-scan-result/node");
    /// On a ConfigMap with a result: its data is compressed.
    pub const SCAN_RESULT_COMPRESSED: Annotation = Annotation("openscap-scan-result/compressed");
}

/// Annotations that content puts on a payload; they are taken off and become annotations of the remediation.
pub mod content {
    use super::Annotation;

    /// Becomes [`DEPENDS_ON`](super::annotation::DEPENDS_ON).
    pub const DEPENDS_ON: Annotation = Annotation("complianceascode.io/depends-on");
    /// Becomes [`DEPENDS_ON_OBJ`](super::annotation::DEPENDS_ON_OBJ).
    pub const DEPENDS_ON_OBJ: Annotation = Annotation("complianceascode.io/depends-on-obj");
    /// Becomes [`NODE_ROLE`](super::annotation::NODE_ROLE).
    pub const NODE_ROLE: Annotation = Annotation("complianceascode.io/node-role");
    /// Becomes [`OPTIONAL`](super::annotation::OPTIONAL).
    pub const OPTIONAL: Annotation = Annotation("complianceascode.io/optional");
    /// Becomes [`OCP_VERSION`](super::annotation::OCP_VERSION).
    pub const OCP_VERSION: Annotation = Annotation("complianceascode.io/ocp-version");
    /// Becomes [`K8S_VERSION`](super::annotation::K8S_VERSION).
    pub const K8S_VERSION: Annotation = Annotation("complianceascode.io/k8s-version");
    /// Becomes [`ENFORCEMENT_TYPE`](super::annotation::ENFORCEMENT_TYPE).
    pub const ENFORCEMENT_TYPE: Annotation = Annotation("complianceascode.io/enforcement-type");
    /// Becomes [`VALUE_REQUIRED`](super::annotation::VALUE_REQUIRED).
    pub const VALUE_INPUT_REQUIRED: Annotation = Annotation("complianceascode.io/value-input-required");
    /// Becomes the remediation's `spec.type`.
    pub const REMEDIATION_TYPE: Annotation = Annotation("complianceascode.io/remediation-type");
}

pub mod finalizer {
    use super::Finalizer;

    /// On a scan, until its pods and results are gone.
    pub const SCAN: Finalizer = Finalizer("scan.finalizers.compliance.openshift.io");
    /// On a suite, until its schedule is gone.
    pub const SUITE: Finalizer = Finalizer("suite.finalizers.compliance.openshift.io");
}

words! {
    /// State of a remediation.
    pub enum RemediationState {
        /// Not looked at yet.
        Pending = "Pending",
        /// Not in effect.
        NotApplied = "NotApplied",
        /// In effect.
        Applied = "Applied",
        /// In effect with a payload that newer content replaces.
        Outdated = "Outdated",
        /// Could not be put into effect; a person has to look.
        Error = "Error",
        /// Waits for something it depends on.
        MissingDependencies = "MissingDependencies",
        /// Waits for values of variables.
        NeedsReview = "NeedsReview",
    }
}

words! {
    /// How far a scan or suite is, in this order.
    pub enum ScanPhase {
        /// Waits to begin.
        Pending = "PENDING",
        /// Being started.
        Launching = "LAUNCHING",
        /// Being evaluated.
        Running = "RUNNING",
        /// Results are being put together.
        Aggregating = "AGGREGATING",
        /// Ended.
        Done = "DONE",
    }
}

words! {
    /// What a scan or suite found, worst first.
    pub enum ScanResult {
        /// Nothing yet.
        NotAvailable = "NOT-AVAILABLE",
        /// It could not be found out.
        Error = "ERROR",
        /// Nodes disagree.
        Inconsistent = "INCONSISTENT",
        /// At least one check failed.
        NonCompliant = "NON-COMPLIANT",
        /// No check applies.
        NotApplicable = "NOT-APPLICABLE",
        /// No check failed.
        Compliant = "COMPLIANT",
    }
}

words! {
    /// What one check found.
    pub enum CheckStatus {
        /// As it should be.
        Pass = "PASS",
        /// Not as it should be.
        Fail = "FAIL",
        /// Nothing to judge, for information.
        Info = "INFO",
        /// A person has to look.
        Manual = "MANUAL",
        /// It could not be found out.
        Error = "ERROR",
        /// The check does not apply.
        NotApplicable = "NOT-APPLICABLE",
        /// Nodes disagree.
        Inconsistent = "INCONSISTENT",
        /// Not known.
        NoResult = "",
    }
}

words! {
    /// How much a failed check matters, least first.
    pub enum CheckSeverity {
        /// Not known.
        Unknown = "unknown",
        /// Not at all.
        Info = "info",
        /// A little.
        Low = "low",
        /// Clearly.
        Medium = "medium",
        /// Very much.
        High = "high",
    }
}

words! {
    /// How far a binding of profiles and settings is.
    pub enum BindingPhase {
        /// Not looked at yet.
        Pending = "PENDING",
        /// Its suite exists.
        Ready = "READY",
        /// It names something that does not exist or does not fit.
        Invalid = "INVALID",
        /// Its settings are suspended.
        Suspended = "SUSPENDED",
    }
}

words! {
    /// Whether a user's rule can be used.
    pub enum CustomRulePhase {
        /// It can.
        Ready = "Ready",
        /// It cannot; the message says why.
        Error = "Error",
    }
}

words! {
    /// Reasons of events about compliance.
    pub enum EventReason {
        /// A remediation depends on something that is not there or did not pass.
        RemediationDependencyCannotBeMet = "RemediationDependencyCannotBeMet",
        /// A remediation was left out because the kind of its payload is not installed.
        OptionalDependencyNotApplied = "OptionalDependencyNotApplied",
        /// A remediation was not created because its version range does not match.
        SkippingRemediation = "SkippingRemediation",
        /// A check cannot be fixed automatically.
        CannotRemediate = "CannotRemediate",
        /// Some remediations are outdated.
        HaveOutdatedRemediations = "HaveOutdatedRemediations",
        /// A scan or suite has a result.
        ResultAvailable = "ResultAvailable",
        /// Settings name no role, so no node is scanned.
        EmptyRoles = "EmptyRoles",
        /// A field that a remediation had set was changed by someone else and is left alone.
        RemediationDrift = "RemediationDrift",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::Word;

    /// A suite is as far as its least advanced scan and as good as its worst one.
    #[test]
    fn phases_and_results_are_in_the_order_that_suites_need() {
        assert!(ScanPhase::ALL.is_sorted());
        assert_eq!(ScanPhase::ALL.first(), Some(&ScanPhase::Pending));
        assert_eq!(ScanPhase::ALL.last(), Some(&ScanPhase::Done));
        assert!(ScanResult::Error < ScanResult::NonCompliant);
        assert!(ScanResult::NonCompliant < ScanResult::NotApplicable);
        assert!(ScanResult::NotApplicable < ScanResult::Compliant);
        assert_eq!(ScanResult::ALL.iter().min(), Some(&ScanResult::NotAvailable));
    }
}
