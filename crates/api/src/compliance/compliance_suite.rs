//! ComplianceSuite: scans that run, count and are remediated together.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::{ComplianceCondition, ComplianceScanStatus, ScanSettings, ScanTarget, SuiteSettings};
use crate::optional_spec;
use crate::unknown::Unknown;
use crate::vocabulary::compliance::{ScanPhase, ScanResult};
use crate::words::Open;

/// Which scans there are, and when they run.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "compliance.openshift.io",
    version = "v1alpha1",
    kind = "ComplianceSuite",
    doc = "Scans that run, count and are remediated together.",
    namespaced,
    status = "ComplianceSuiteStatus",
    shortname = "suites",
    shortname = "suite",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Result", type_ = "string", json_path = ".status.result")
)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct ComplianceSuiteSpec {
    /// When the scans run.
    #[serde(flatten)]
    pub settings: SuiteSettings,

    /// The scans.
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub scans: Vec<SuiteScan>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

optional_spec!(ComplianceSuiteSpec);

/// One scan of the suite.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SuiteScan {
    /// Name of the scan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,

    /// What is scanned.
    #[serde(flatten)]
    pub target: ScanTarget,

    /// How it is scanned.
    #[serde(flatten)]
    pub settings: ScanSettings,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// How far the suite is, and what its scans found.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ComplianceSuiteStatus {
    /// Observed facts about the suite.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<ComplianceCondition>>,

    /// Why the result is `ERROR`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,

    /// The least advanced phase of all scans.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub phase: Option<Open<ScanPhase>>,

    /// The worst result of all scans.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub result: Option<Open<ScanResult>>,

    /// Status of each scan.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub scan_statuses: Option<Vec<SuiteScanStatus>>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Status of one scan of the suite.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SuiteScanStatus {
    /// Name of the scan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,

    // Keeps the unknown keys as well.
    /// What the scan itself reports.
    #[serde(flatten)]
    pub status: ComplianceScanStatus,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::compliance::{ScanType, ScannerType};

    #[test]
    fn settings_and_targets_lie_beside_the_name_of_a_scan() {
        let written = json!({
            "autoApplyRemediations": true,
            "schedule": "0 1 * * *",
            "scans": [{
                "name": "ocp4-cis-node-worker",
                "scanType": "Node",
                "scannerType": "OpenSCAP",
                "nodeSelector": { "node-role.kubernetes.io/worker": "" },
                "scanLimits": { "memory": "1024Mi", "cpu": 1 },
                "maxRetryOnTimeout": 3,
                "somethingNew": { "a": 1 },
            }],
            "alsoNew": [],
        });
        let spec: ComplianceSuiteSpec = serde_json::from_value(written.clone()).unwrap();
        let scan = &spec.scans[0];
        assert_eq!(scan.name.as_deref(), Some("ocp4-cis-node-worker"));
        assert_eq!(scan.target.scan_type, Some(ScanType::Node.into()));
        assert_eq!(scan.target.scanner_type, Some(ScannerType::OpenScap.into()));
        assert_eq!(scan.settings.max_retry_on_timeout, Some(3));
        // Once, and not again in the settings' neighbours.
        assert_eq!(scan.unknown.0.keys().collect::<Vec<_>>(), ["somethingNew"]);
        assert_eq!(spec.unknown.0.keys().collect::<Vec<_>>(), ["alsoNew"]);
        assert_eq!(serde_json::to_value(&spec).unwrap(), written);
    }

    #[test]
    fn the_status_of_a_scan_lies_beside_its_name() {
        let written = json!({ "name": "a", "phase": "DONE", "result": "NON-COMPLIANT", "new": 1 });
        let status: SuiteScanStatus = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(status.status.phase, Some(ScanPhase::Done.into()));
        assert_eq!(status.status.result, Some(ScanResult::NonCompliant.into()));
        assert_eq!(serde_json::to_value(&status).unwrap(), written);
    }
}
