//! ScanSetting: how and when scans run, kept apart from what is scanned.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::{ScanSettings, SuiteSettings};
use crate::unknown::RootUnknown;

/// How and when scans run, and on which roles of nodes.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "compliance.openshift.io",
    version = "v1alpha1",
    kind = "ScanSetting",
    doc = "How and when scans run, kept apart from what is scanned.",
    namespaced,
    no_spec,
    shortname = "ss",
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
pub struct ScanSettingFields {
    /// When the scans run.
    #[serde(flatten)]
    pub suite: SuiteSettings,

    /// How a scan runs.
    #[serde(flatten)]
    pub scan: ScanSettings,

    /// Node roles to scan, one scan each; `@all` alone means all nodes in one scan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub roles: Option<Vec<String>>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: RootUnknown,
}
