//! ComplianceCheckResult: what one rule found in one scan.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::unknown::RootUnknown;
use crate::vocabulary::compliance::{CheckSeverity, CheckStatus};
use crate::words::Open;

/// What one rule found in one scan.
#[derive(CustomResource, KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "compliance.openshift.io",
    version = "v1alpha1",
    kind = "ComplianceCheckResult",
    doc = "What one rule found in one scan.",
    namespaced,
    no_spec,
    shortname = "ccr",
    shortname = "checkresults",
    shortname = "checkresult",
    derive = "PartialEq",
    printcolumn(name = "Status", type_ = "string", json_path = ".status"),
    printcolumn(name = "Severity", type_ = "string", json_path = ".severity")
)]
#[serde(rename_all = "camelCase")]
pub struct CheckResultFields {
    /// What the rule checks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,

    /// Id of the rule.
    pub id: String,

    /// How to check the same by hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,

    /// Why the rule matters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rationale: Option<String>,

    /// How much a failure matters.
    #[schemars(with = "String")]
    pub severity: Open<CheckSeverity>,

    /// What the check found.
    #[serde(rename = "status")]
    #[schemars(with = "String")]
    pub check_status: Open<CheckStatus>,

    /// Variables that the check used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values_used: Option<Vec<String>>,

    /// What to be careful about, or why the check could not be made.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub warnings: Option<Vec<String>>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: RootUnknown,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_status_of_a_check_is_a_word_at_the_root() {
        let written = json!({
            "apiVersion": "compliance.openshift.io/v1alpha1",
            "kind": "ComplianceCheckResult",
            "metadata": { "name": "ocp4-cis-audit", "namespace": "openshift-compliance" },
            "id": "xccdf_org.ssgproject.content_rule_audit",
            "severity": "medium",
            "status": "NOT-APPLICABLE",
            "new": true,
        });
        let result: ComplianceCheckResult = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(result.spec.check_status, CheckStatus::NotApplicable);
        assert_eq!(result.spec.severity, CheckSeverity::Medium);
        assert_eq!(serde_json::to_value(&result).unwrap(), written);
    }

    #[test]
    fn no_status_yet_is_an_empty_word() {
        let result: CheckResultFields =
            serde_json::from_value(json!({ "id": "a", "severity": "unknown", "status": "" })).unwrap();
        assert_eq!(result.check_status, CheckStatus::NoResult);
    }
}
