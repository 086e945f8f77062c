//! Initial objects of a cluster of `seaworthy up`: ControllerConfig, rights, policy.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use seaworthy_api::vocabulary::machineconfiguration::CONTROLLER_CONFIG;
use seaworthy_controllers::operators;
use seaworthy_deploy::policy::own_node;
use seaworthy_deploy::{Component, rights};
use seaworthy_runtime::NAMESPACE;
use serde_json::{Value, json};

/// The role of a simulated node's kubelet.
const KUBELET: &str = "seaworthy-simulated-kubelet";

/// All objects; existing ones stay as they are.
pub fn all(authority: &str) -> Vec<Value> {
    let mut all = vec![controller_config(authority), kubelet(), binding()];
    // Daemons have here what they have in every cluster, and no node writes another's.
    all.extend(rights::of(Component::Daemon, NAMESPACE, &operators::manifests(NAMESPACE)));
    all.extend(own_node::objects());
    all
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

/// The rights that a kubelet needs beside those of its node's daemon: it creates its Node and writes its status.
fn kubelet() -> Value {
    let rule = |resource: &str, verbs: &[&str]| json!({"apiGroups": [""], "resources": [resource], "verbs": verbs});
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": KUBELET},
        "rules": [rule("nodes", &["create"]), rule("nodes/status", &["patch"])],
    })
}

fn binding() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": KUBELET},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": KUBELET},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}],
    })
}
