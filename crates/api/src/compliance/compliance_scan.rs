//! ComplianceScan: one run of one profile over one set of nodes, or over the API.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::{ComplianceCondition, ScanSettings, ScannerType};
use crate::schema::integer;
use crate::unknown::Unknown;
use crate::vocabulary::compliance::{ScanPhase, ScanResult};
use crate::words::Open;
use crate::{optional_spec, words};

/// What is scanned, and how.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "compliance.openshift.io",
    version = "v1alpha1",
    kind = "ComplianceScan",
    doc = "One run of one profile over one set of nodes, or over the API.",
    namespaced,
    status = "ComplianceScanStatus",
    shortname = "scans",
    shortname = "scan",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Result", type_ = "string", json_path = ".status.result")
)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct ComplianceScanSpec {
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

optional_spec!(ComplianceScanSpec);

/// What is scanned, with which content.
// Flattened into what uses it, which also keeps the unknown keys.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScanTarget {
    /// File inside the content image that holds the checks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,

    /// Container image that holds the checks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_image: Option<String>,

    /// Labels of the nodes to scan; for a node scan only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<BTreeMap<String, String>>,

    /// Id of the profile to scan for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,

    /// Id of the only rule to check; absent means all rules of the profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,

    /// Whether nodes or the API are scanned.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("default" = "Node"))]
    pub scan_type: Option<Open<ScanType>>,

    /// Which engine evaluates the rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "OpenSCAP"))]
    pub scanner_type: Option<Open<ScannerType>>,

    /// ConfigMap that changes the profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tailoring_config_map: Option<TailoringConfigMap>,
}

/// Names a ConfigMap with a tailoring file under the key `tailoring.xml`.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TailoringConfigMap {
    /// Name of the ConfigMap.
    pub name: String,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// How far the scan is, and what it found.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ComplianceScanStatus {
    /// Observed facts about the scan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<ComplianceCondition>>,

    /// How many times the scan was run again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_index: Option<i64>,

    /// When the scan ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_timestamp: Option<Time>,

    /// Why the result is `ERROR`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errormsg: Option<String>,

    /// How far the scan is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub phase: Option<Open<ScanPhase>>,

    /// How many times a timed-out scan is still repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "integer")]
    pub remaining_retries: Option<i64>,

    /// What the scan found, all checks together.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub result: Option<Open<ScanResult>>,

    /// Where the raw results are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub results_storage: Option<StorageReference>,

    /// When the scan began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_timestamp: Option<Time>,

    /// What the scanner complained about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warnings: Option<String>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Names the object that holds raw results.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StorageReference {
    /// Group and version of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,

    /// Kind of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,

    /// Name of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,

    /// Namespace of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

words! {
    /// What a scan looks at.
    pub enum ScanType {
        /// Every selected node by itself.
        Node = "Node",
        /// The objects of the API.
        Platform = "Platform",
    }
}
