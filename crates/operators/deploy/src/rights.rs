//! What each component may do: what its code does, and nothing beside that.

use std::collections::BTreeMap;

use seaworthy_api::vocabulary::machineconfiguration::{CONTROLLER_CONFIG, MACHINE_CONFIGURATION};
use serde_json::{Value, json};

use crate::component::Component;
use crate::policy::protection;

const MACHINES: &str = "machineconfiguration.openshift.io";
const OPERATOR: &str = "operator.openshift.io";
const READ: &[&str] = &["get", "list", "watch"];

/// The account, roles and bindings of a component.
pub fn of(component: Component, namespace: &str) -> Vec<Value> {
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
        "rules": cluster_rules(component, namespace),
    }));
    objects.push(binding("ClusterRoleBinding", json!({"name": name}), "ClusterRole", name, &subject));
    for (namespace, rules) in namespaced_rules(component, namespace) {
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

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

/// The same, for objects of these names alone.
fn named(group: &str, resources: &[&str], names: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "resourceNames": names, "verbs": verbs})
}

fn cluster_rules(component: Component, namespace: &str) -> Vec<Value> {
    match component {
        Component::Controllers => vec![
            rule(MACHINES, &["machineconfigs"], &["get", "list", "watch", "create", "update", "patch", "delete"]),
            rule(MACHINES, &["machineconfigpools"], &["get", "list", "watch", "create", "patch"]),
            rule(MACHINES, &["machineconfignodes"], &["get", "list", "watch", "create", "patch", "delete"]),
            rule(MACHINES, &["kubeletconfigs", "containerruntimeconfigs"], &["get", "list", "watch", "patch"]),
            rule(MACHINES, &["controllerconfigs"], READ),
            rule(
                MACHINES,
                &[
                    "controllerconfigs/status",
                    "machineconfigpools/status",
                    "machineconfignodes/status",
                    "kubeletconfigs/status",
                    "containerruntimeconfigs/status",
                ],
                &["patch"],
            ),
            // Where blocking owner references are watched over, whoever makes one needs this.
            rule(
                MACHINES,
                &["machineconfigpools/finalizers", "kubeletconfigs/finalizers", "containerruntimeconfigs/finalizers"],
                &["update"],
            ),
            rule(OPERATOR, &["machineconfigurations"], READ),
            rule("", &["nodes"], &["get", "list", "watch", "patch"]),
            rule("", &["pods"], &["get", "list"]),
            rule("", &["pods/eviction"], &["create"]),
            rule("policy", &["poddisruptionbudgets"], READ),
            rule("apiextensions.k8s.io", &["customresourcedefinitions"], &["list"]),
            named("", &["namespaces"], &[namespace], &["get"]),
            // The policy is brought by whoever installs; the controllers keep it as it is, and there.
            named(
                "admissionregistration.k8s.io",
                &["validatingadmissionpolicies", "validatingadmissionpolicybindings"],
                &[protection::NAME],
                &["get", "create", "patch"],
            ),
        ],
        Component::Server => {
            vec![rule(MACHINES, &["machineconfigs", "machineconfigpools", "controllerconfigs"], READ)]
        }
        Component::Daemon => vec![
            // Nodes have these of their own where there is a node authorizer; a policy keeps each to itself.
            rule("", &["nodes"], &["get", "list", "watch", "patch"]),
            // Which rendered one a node needs is in its order, so there is no list.
            rule(MACHINES, &["machineconfigs"], &["get"]),
            // Certificates and the pull secret, which go around configurations.
            named(MACHINES, &["controllerconfigs"], &[CONTROLLER_CONFIG], &["list", "watch"]),
            named(OPERATOR, &["machineconfigurations"], &[MACHINE_CONFIGURATION], &["get"]),
        ],
    }
}

fn namespaced_rules(component: Component, namespace: &str) -> BTreeMap<&str, Vec<Value>> {
    // All that is told is about objects that are in no namespace; events about those are kept in `default`.
    let events = ("default", vec![rule("events.k8s.io", &["events"], &["create", "patch"])]);
    let own = match component {
        Component::Controllers => vec![(
            namespace,
            vec![
                rule("coordination.k8s.io", &["leases"], &["create"]),
                named("coordination.k8s.io", &["leases"], &["seaworthy-controllers"], &["get", "update"]),
                // Snapshots of remote content.
                rule("", &["secrets"], &["get", "list", "create", "delete"]),
            ],
        )],
        Component::Server => vec![
            (namespace, vec![named("", &["configmaps"], &["kubeconfig-data"], READ)]),
            // Bootstrap tokens. Rights cannot be limited to a type of Secret.
            ("kube-system", vec![rule("", &["secrets"], &["list", "watch"])]),
        ],
        Component::Daemon => Vec::new(),
    };
    // Somebody may install into one of these.
    let mut all: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for (namespace, rules) in own.into_iter().chain([events]) {
        all.entry(namespace).or_default().extend(rules);
    }
    all
}
