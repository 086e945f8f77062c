//! Own-node policy: a node may write its own Node and no other.

use serde_json::{Value, json};

use super::binding;

/// The name of the policy and of its binding.
pub const NAME: &str = "seaworthy-own-node";

/// The policy and its binding. Kubernetes has the admission plugin NodeRestriction for that, which not every cluster runs.
pub fn objects() -> [Value; 2] {
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": NAME},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE", "UPDATE", "DELETE"],
                "resources": ["nodes", "nodes/status"],
            }]},
            "matchConditions": [{"name": "nodes", "expression": "'system:nodes' in request.userInfo.groups"}],
            "validations": [{
                "expression": "request.userInfo.username == 'system:node:' + request.name",
                "messageExpression":
                    "request.userInfo.username + ' may write no Node but its own, and this is ' + request.name",
                "reason": "Forbidden",
            }],
        },
    });
    [policy, binding(NAME)]
}
