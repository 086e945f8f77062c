//! Default objects of a new cluster: namespaces, priority classes, roles and bindings.
//!
//! Roles and bindings are restored at every start, as kube-apiserver does it, unless an administrator annotated them
//! with [`AUTO_UPDATE`]` = false`. Additions to them are kept.

use seaworthy_store::{Change, CommitError, Expect, Key};
use serde_json::{Value, json};

use crate::clock;
use crate::object::{self, Metadata, Object};
use crate::server::{Server, decode};

/// The annotation by which an administrator disables the restoration of a role.
const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

const RBAC: &str = "rbac.authorization.k8s.io";

/// Prefix of the label that adds a role to an aggregated role.
const AGGREGATE_LABEL_PREFIX: &str = "rbac.authorization.k8s.io/aggregate-to-";

/// Namespaces that always exist.
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

struct DefaultObject {
    resource: &'static str,
    object: Value,
}

fn cluster_role(name: &str, rules: Value) -> DefaultObject {
    let object = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": metadata(name), "rules": rules,
    });
    DefaultObject { resource: "clusterroles", object }
}

fn cluster_binding(name: &str, role: &str, groups: &[&str]) -> DefaultObject {
    let subjects: Vec<Value> =
        groups.iter().map(|group| json!({"kind": "Group", "apiGroup": RBAC, "name": group})).collect();
    let object = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding", "metadata": metadata(name),
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}, "subjects": subjects,
    });
    DefaultObject { resource: "clusterrolebindings", object }
}

/// The priority classes of system pods.
fn priority_classes() -> [Value; 2] {
    let class = |name: &str, value: i64, description: &str| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name, "generation": 1},
            "value": value, "description": description, "preemptionPolicy": "PreemptLowerPriority",
        })
    };
    let all =
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.";
    let node = "Used for system critical pods that must not be moved from their current node.";
    [class("system-cluster-critical", 2_000_000_000, all), class("system-node-critical", 2_000_001_000, node)]
}

fn metadata(name: &str) -> Value {
    json!({
        "name": name, "annotations": {AUTO_UPDATE: "true"},
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
    })
}

/// An aggregated cluster role: it collects the roles with the label that names it.
fn aggregated_role(name: &str, part_of: Option<&str>) -> DefaultObject {
    let mut object = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": metadata(name), "rules": null,
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {format!("{AGGREGATE_LABEL_PREFIX}{name}"): "true"}}]},
    });
    if let Some(whole) = part_of {
        object["metadata"]["labels"][format!("{AGGREGATE_LABEL_PREFIX}{whole}")] = "true".into();
    }
    DefaultObject { resource: "clusterroles", object }
}

/// A cluster role that is aggregated into another one.
fn part_of(whole: &str, rules: Value) -> DefaultObject {
    let mut part = cluster_role(&format!("system:aggregate-to-{whole}"), rules);
    part.object["metadata"]["labels"][format!("{AGGREGATE_LABEL_PREFIX}{whole}")] = "true".into();
    part
}

/// The rules of `view` for the kinds that are stored here.
fn readable() -> Value {
    let verbs = json!(["get", "list", "watch"]);
    json!([
        {"verbs": verbs, "apiGroups": [""], "resources": ["configmaps", "endpoints", "pods", "serviceaccounts",
            "services", "services/status"]},
        {"verbs": verbs, "apiGroups": [""], "resources": ["bindings", "namespaces/status", "pods/log", "pods/status"]},
        {"verbs": verbs, "apiGroups": [""], "resources": ["namespaces"]},
        {"verbs": verbs, "apiGroups": ["", "events.k8s.io"], "resources": ["events"]},
        {"verbs": verbs, "apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"]},
        {"verbs": verbs, "apiGroups": ["apps"], "resources": ["daemonsets", "daemonsets/status", "deployments",
            "deployments/scale", "deployments/status"]},
        {"verbs": verbs, "apiGroups": ["batch"], "resources": ["jobs", "jobs/status"]},
        {"verbs": verbs, "apiGroups": ["policy"], "resources": ["poddisruptionbudgets", "poddisruptionbudgets/status"]}
    ])
}

/// The rules that `edit` has in addition to `view`.
fn writable() -> Value {
    let changes = json!(["create", "delete", "deletecollection", "patch", "update"]);
    json!([
        {"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["pods/attach", "pods/exec",
            "pods/portforward", "pods/proxy", "secrets", "services/proxy"]},
        {"verbs": ["impersonate"], "apiGroups": [""], "resources": ["serviceaccounts"]},
        {"verbs": changes, "apiGroups": [""], "resources": ["pods", "pods/attach", "pods/exec", "pods/portforward",
            "pods/proxy"]},
        {"verbs": ["create"], "apiGroups": [""], "resources": ["pods/eviction"]},
        {"verbs": changes, "apiGroups": [""], "resources": ["configmaps", "events", "secrets", "serviceaccounts",
            "services", "services/proxy"]},
        {"verbs": ["create"], "apiGroups": [""], "resources": ["serviceaccounts/token"]},
        {"verbs": changes, "apiGroups": ["apps"], "resources": ["daemonsets", "deployments", "deployments/rollback",
            "deployments/scale"]},
        {"verbs": changes, "apiGroups": ["batch"], "resources": ["jobs"]},
        {"verbs": changes, "apiGroups": ["policy"], "resources": ["poddisruptionbudgets"]},
        {"verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
            "apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    ])
}

fn roles() -> Vec<DefaultObject> {
    let verbs = json!(["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]);
    let discovery = json!([
        "/api",
        "/api/*",
        "/apis",
        "/apis/*",
        "/healthz",
        "/livez",
        "/openapi",
        "/openapi/*",
        "/readyz",
        "/version",
        "/version/"
    ]);
    let public = json!(["/healthz", "/livez", "/readyz", "/version", "/version/"]);
    let administration = json!([
        {"apiGroups": [RBAC], "resources": ["rolebindings", "roles"], "verbs": verbs},
        {"apiGroups": ["authorization.k8s.io"], "resources": ["localsubjectaccessreviews"], "verbs": ["create"]}
    ]);
    let node = json!([
        {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
        {"apiGroups": ["authorization.k8s.io"], "resources": ["localsubjectaccessreviews", "subjectaccessreviews"],
            "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["services"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["create", "get", "list", "watch", "patch", "update"]},
        {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch", "update"]},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch", "update"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "create", "delete"]},
        {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch", "update"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
            "verbs": ["create", "get", "update", "patch", "delete"]}
    ]);
    vec![
        cluster_role(
            "cluster-admin",
            json!([
                {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["*"]}
            ]),
        ),
        cluster_role("system:discovery", json!([{"nonResourceURLs": discovery, "verbs": ["get"]}])),
        cluster_role("system:public-info-viewer", json!([{"nonResourceURLs": public, "verbs": ["get"]}])),
        cluster_role(
            "system:basic-user",
            json!([
                {"apiGroups": ["authorization.k8s.io"],
                    "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"], "verbs": ["create"]},
                {"apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"], "verbs": ["create"]}
            ]),
        ),
        aggregated_role("view", Some("edit")),
        aggregated_role("edit", Some("admin")),
        aggregated_role("admin", None),
        part_of("view", readable()),
        part_of("edit", writable()),
        part_of("admin", administration),
        cluster_role("system:node", node),
        cluster_role(
            "system:auth-delegator",
            json!([
                {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
                {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]}
            ]),
        ),
        cluster_binding("cluster-admin", "cluster-admin", &["system:masters"]),
        cluster_binding("system:discovery", "system:discovery", &["system:authenticated"]),
        cluster_binding(
            "system:public-info-viewer",
            "system:public-info-viewer",
            &["system:authenticated", "system:unauthenticated"],
        ),
        cluster_binding("system:basic-user", "system:basic-user", &["system:authenticated"]),
    ]
}

/// Creates all missing default objects.
pub async fn ensure(server: &Server) -> Result<(), CommitError> {
    let mut changes = Vec::new();
    for name in NAMESPACES {
        let object = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
        });
        changes.extend(missing(server, "core/namespaces", &object));
    }
    for DefaultObject { resource, object } in roles() {
        changes.extend(missing(server, &format!("{RBAC}/{resource}"), &object));
    }
    for class in priority_classes() {
        changes.extend(missing(server, "scheduling.k8s.io/priorityclasses", &class));
    }
    match changes.is_empty() {
        true => Ok(()),
        false => server.store().commit(changes).await.map(|_| ()),
    }
}

/// The change that creates a default object, or restores one to its minimum.
fn missing(server: &Server, resource: &str, wanted: &Value) -> Option<Change> {
    // Every default is an object.
    let wanted = wanted.as_object()?;
    let key = Key::new(resource, "", wanted.name());
    let (next, expected) = match server.store().get(&key) {
        None => {
            let mut object = wanted.clone();
            object.set_meta("uid", clock::uid(server.clock()));
            object.set_meta("creationTimestamp", clock::rfc3339(server.clock().now()));
            (object, Expect::Absent)
        }
        Some(record) => (restored(&decode(&record), wanted)?, Expect::Revision(record.revision)),
    };
    Some(Change::Put { key, expected, body: object::encode(&next) })
}

/// A role with its required rules added; none if it has them all.
fn restored(object: &Object, wanted: &Object) -> Option<Object> {
    let is_ours = object.metadata().get("annotations").and_then(|all| all.get(AUTO_UPDATE)) == Some(&json!("true"));
    if !is_ours {
        return None;
    }
    let mut next = object.clone();
    if let Some(rule) = wanted.get("aggregationRule") {
        // Its rules are computed from the aggregated roles.
        next.insert("aggregationRule".to_owned(), rule.clone());
    }
    let labels = wanted.metadata().get("labels").and_then(Value::as_object).cloned().unwrap_or_default();
    if let Some(own) = next.metadata_mut().entry("labels").or_insert_with(|| json!({})).as_object_mut() {
        own.extend(labels);
    }
    for list in ["rules", "subjects"] {
        let Some(wanted) = wanted.get(list).and_then(Value::as_array) else { continue };
        let mut have = object.get(list).and_then(Value::as_array).cloned().unwrap_or_default();
        let lacking: Vec<Value> = wanted.iter().filter(|rule| !have.contains(rule)).cloned().collect();
        have.extend(lacking);
        next.insert(list.to_owned(), have.into());
    }
    (next != *object).then_some(next)
}
