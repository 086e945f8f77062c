//! ComplianceRemediation: an object that fixes one failed check, and whether it is to be applied.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schema::embedded_resource;
use crate::unknown::Unknown;
use crate::vocabulary::compliance::RemediationState;
use crate::words::Open;
use crate::{optional_spec, words};

/// What the remediation would change, and whether it shall.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "compliance.openshift.io",
    version = "v1alpha1",
    kind = "ComplianceRemediation",
    doc = "An object that puts a failed check right once it is applied.",
    namespaced,
    status = "ComplianceRemediationStatus",
    shortname = "cr",
    shortname = "remediations",
    shortname = "remediation",
    shortname = "rems",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "State", type_ = "string", json_path = ".status.applicationState")
)]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct ComplianceRemediationSpec {
    /// Whether the payload shall be in effect.
    pub apply: bool,

    /// Payload of the newest content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<Payload>,

    /// Payload applied earlier, which the newest content replaces; while present, this one is in effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outdated: Option<Payload>,

    /// Whether the payload changes a setting or makes others enforce it.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Configuration"))]
    pub type_: Option<Open<RemediationType>>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

optional_spec!(ComplianceRemediationSpec);

/// An object to create or to merge into an existing one.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Payload {
    /// The object; it needs `apiVersion` and `kind`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "embedded_resource")]
    pub object: Option<Value>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// How far the remediation is.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ComplianceRemediationStatus {
    /// Whether the payload is in effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("default" = "NotApplied"))]
    pub application_state: Option<Open<RemediationState>>,

    /// Why the state is `Error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

words! {
    /// What kind of change a remediation makes.
    pub enum RemediationType {
        /// Sets a value.
        Configuration = "Configuration",
        /// Makes a policy engine enforce a value.
        Enforcement = "Enforcement",
    }
}

impl ComplianceRemediationSpec {
    /// The payload that applying and un-applying are about: the outdated one while there is one.
    pub fn effective_payload(&self) -> Option<&Value> {
        [&self.outdated, &self.current].into_iter().flatten().find_map(|payload| payload.object.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn remediation(spec: Value) -> ComplianceRemediation {
        serde_json::from_value(json!({
            "apiVersion": "compliance.openshift.io/v1alpha1",
            "kind": "ComplianceRemediation",
            "metadata": { "name": "worker-kubelet-max-pods", "namespace": "openshift-compliance" },
            "spec": spec,
        }))
        .unwrap()
    }

    #[test]
    fn an_outdated_payload_stays_in_effect() {
        let current = json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "a": "new" } });
        let outdated = json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "a": "old" } });
        let mut spec = remediation(json!({
            "apply": true,
            "current": { "object": current },
            "outdated": { "object": outdated },
        }))
        .spec;
        assert_eq!(spec.effective_payload(), Some(&outdated));
        spec.outdated = Some(Payload::default());
        assert_eq!(spec.effective_payload(), Some(&current));
        spec.current = None;
        assert_eq!(spec.effective_payload(), None);
    }

    #[test]
    fn a_state_of_a_newer_version_is_kept() {
        let read: ComplianceRemediationStatus =
            serde_json::from_value(json!({ "applicationState": "Postponed" })).unwrap();
        let state = read.application_state.as_ref().unwrap();
        assert_eq!(state.known(), None);
        assert_eq!(state.as_str(), "Postponed");
        assert_eq!(serde_json::to_value(&read).unwrap(), json!({ "applicationState": "Postponed" }));
    }
}
