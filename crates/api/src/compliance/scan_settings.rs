//! ScanSettings and SuiteSettings: how scans run and when, shared by ScanSetting, ComplianceSuite and ComplianceScan.
//!
//! Both are flattened into the structs that use them. Those keep the unknown keys; a catch-all in here would take the
//! neighbours' keys as well.

use std::collections::BTreeMap;

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::meta::{Quantity, Toleration};
use crate::schema::integer;
use crate::unknown::Unknown;

/// How a scan runs.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScanSettings {
    /// Whether the pods of the scan stay for inspection and log more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub debug: Option<bool>,

    /// Proxy for fetching what the checks need.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub https_proxy: Option<String>,

    /// How many times a timed-out scan is repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "integer", extend("default" = 3))]
    pub max_retry_on_timeout: Option<i64>,

    /// Whether the scanner must not fetch anything from outside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_external_resources: Option<bool>,

    /// Priority class of the scan's pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class: Option<String>,

    /// Where raw results are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_result_storage: Option<RawResultStorage>,

    /// Which enforcement remediations are created: `off`, `all` or the name of an engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remediation_enforcement: Option<String>,

    /// Resource limits of the scanner container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scan_limits: Option<BTreeMap<String, Quantity>>,

    /// Taints that the scan's pods tolerate.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = [{"operator": "Exists"}]))]
    pub scan_tolerations: Option<Vec<Toleration>>,

    /// Whether checks that do not apply get a result object.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false))]
    pub show_not_applicable: Option<bool>,

    /// Whether every selected node must be scanned for the scan to succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = true))]
    pub strict_node_scan: Option<bool>,

    /// How long the scan may take before it is repeated; `0s` means no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "30m"))]
    pub timeout: Option<String>,
}

/// When a suite runs, and what happens to its remediations.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SuiteSettings {
    /// Whether remediations are applied as soon as all scans are done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_apply_remediations: Option<bool>,

    /// Whether outdated payloads are dropped without asking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_update_remediations: Option<bool>,

    /// When the scans run again, in cron form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,

    /// Whether the schedule is halted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false))]
    pub suspend: Option<bool>,
}

/// Where raw results are kept, and how many of them.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RawResultStorage {
    /// Whether raw results are kept at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = true))]
    pub enabled: Option<bool>,

    /// Labels of the nodes that may run the storing pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<BTreeMap<String, String>>,

    /// Access modes of the volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = ["ReadWriteOnce"]))]
    pub pv_access_modes: Option<Vec<String>>,

    /// How many scans' results are kept; zero means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "integer", extend("default" = 3))]
    pub rotation: Option<i64>,

    /// Size of the volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "1Gi"))]
    pub size: Option<String>,

    /// Storage class of the volume; absent means the cluster's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("nullable" = true))]
    pub storage_class_name: Option<String>,

    /// Taints that the storing pod tolerates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerations: Option<Vec<Toleration>>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}
