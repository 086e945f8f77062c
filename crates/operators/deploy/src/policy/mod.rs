//! Admission policies: who may write what, beyond what rights can say.

pub mod own_node;

use serde_json::{Value, json};

/// What puts a policy into force everywhere.
pub fn binding(name: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    })
}
