//! Rights of each component: what its code does, and nothing else. Most are the sum of what the operators need.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::component::Component;
use crate::operator_manifest::OperatorManifest;
use crate::rule::{READ, named_rule, rule};

/// The account, roles and bindings of a component.
pub fn of(component: Component, namespace: &str, operators: &[OperatorManifest]) -> Vec<Value> {
    let name = component.name();
    let mut objects = Vec::new();
    let subject = match component.user(namespace) {
        None => json!({"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:nodes"}),
        Some(_) => json!({"kind": "ServiceAccount", "namespace": namespace, "name": name}),
    };
    // The daemon's pods have an account too, which may do nothing: without one they would get the namespace's own.
    objects.push(json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": namespace},
        "automountServiceAccountToken": component != Component::Daemon,
    }));
    objects.push(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": cluster_rules(component, namespace, operators),
    }));
    objects.push(binding("ClusterRoleBinding", json!({"name": name}), "ClusterRole", name, &subject));
    for (namespace, rules) in namespaced_rules(component, namespace, operators) {
        let metadata = json!({"name": name, "namespace": namespace});
        objects.push(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": metadata,
            "rules": rules,
        }));
        objects.push(binding("RoleBinding", metadata, "Role", name, &subject));
    }
    objects
}

fn binding(kind: &str, metadata: Value, role: &str, name: &str, subject: &Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name},
        "subjects": [subject],
    })
}

fn cluster_rules(component: Component, namespace: &str, operators: &[OperatorManifest]) -> Vec<Value> {
    let of_operators = |rules: fn(&OperatorManifest) -> &Vec<Value>| operators.iter().flat_map(rules).cloned();
    match component {
        Component::Controllers => {
            let common = [
                // To find out which operators can run.
                rule("apiextensions.k8s.io", &["customresourcedefinitions"], &["list", "watch"]),
                named_rule("", &["namespaces"], &[namespace], &["get"]),
            ];
            common.into_iter().chain(of_operators(|operator| &operator.cluster_rules)).collect()
        }
        Component::Server => of_operators(|operator| &operator.server_rules).collect(),
        Component::Daemon => {
            // Nodes have these of their own where there is a node authorizer; a policy limits each to its own Node.
            let common = [rule("", &["nodes"], &["get", "list", "watch", "patch"])];
            common.into_iter().chain(of_operators(|operator| &operator.daemon_rules)).collect()
        }
    }
}

fn namespaced_rules<'a>(
    component: Component,
    namespace: &'a str,
    operators: &[OperatorManifest],
) -> BTreeMap<&'a str, Vec<Value>> {
    // Every Event is about an object without a namespace, and the API keeps those in `default`.
    let events = ("default", vec![rule("events.k8s.io", &["events"], &["create", "patch"])]);
    let own = match component {
        Component::Controllers => {
            let common = [rule("coordination.k8s.io", &["leases"], &["create"])];
            let own = operators.iter().flat_map(|operator| operator.namespace_rules.clone());
            vec![(namespace, common.into_iter().chain(own).collect())]
        }
        Component::Server => vec![
            (namespace, vec![named_rule("", &["configmaps"], &["kubeconfig-data"], READ)]),
            // Bootstrap tokens. Rights cannot be limited to a type of Secret.
            ("kube-system", vec![rule("", &["secrets"], &["list", "watch"])]),
        ],
        Component::Daemon => Vec::new(),
    };
    // Seaworthy may be installed into one of these.
    let mut all: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for (namespace, rules) in own.into_iter().chain([events]) {
        all.entry(namespace).or_default().extend(rules);
    }
    all
}
