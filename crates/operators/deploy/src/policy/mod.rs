//! Admission policies: limits on writes that RBAC cannot express.

pub mod own_node;

use serde_json::{Value, json};

/// The binding that enforces a policy for all objects.
pub fn binding(name: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    })
}
