//! What a new cluster of `seaworthy up` begins with.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use seaworthy_api::vocabulary::machineconfiguration::CONTROLLER_CONFIG;
use serde_json::{Value, json};

/// The role of a simulated node's kubelet and daemon.
const ROLE: &str = "seaworthy-simulated-node";

/// All of it; what is there already stays as it is.
pub fn all(authority: &str) -> [Value; 3] {
    [controller_config(authority), role(), binding()]
}

/// The platform that the base is made for: none in particular.
fn controller_config(authority: &str) -> Value {
    let authority = STANDARD.encode(authority);
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "ControllerConfig",
        "metadata": {"name": CONTROLLER_CONFIG},
        "spec": {
            "clusterDNSIP": "10.96.0.10", "cloudProviderConfig": "", "etcdDiscoveryDomain": "", "ipFamilies": "IPv4",
            "baseOSContainerImage": "", "osImageURL": "", "releaseImage": "",
            "kubeAPIServerServingCAData": authority, "rootCAData": authority,
            "additionalTrustBundle": null, "cloudProviderCAData": null, "images": {}, "network": null, "proxy": null,
            "infra": {
                "apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": {},
                "spec": {"cloudConfig": {"name": ""}},
            },
            "dns": {
                "apiVersion": "config.openshift.io/v1", "kind": "DNS", "metadata": {},
                "spec": {"baseDomain": "example.com"},
            },
        },
    })
}

/// What a kubelet and a node daemon need, and no more.
fn role() -> Value {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": ROLE},
        "rules": [
            rule("", &["nodes"], &["create", "get", "list", "patch", "watch"]),
            rule("", &["nodes/status"], &["patch"]),
            rule("", &["events"], &["create", "patch"]),
            rule("events.k8s.io", &["events"], &["create", "patch"]),
            rule("machineconfiguration.openshift.io", &["machineconfigs"], &["get"]),
            rule("machineconfiguration.openshift.io", &["controllerconfigs"], &["get", "list", "watch"]),
            rule("operator.openshift.io", &["machineconfigurations"], &["get"]),
        ],
    })
}

fn binding() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": ROLE},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ROLE},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}],
    })
}
