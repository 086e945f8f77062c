//! Manifests that many tests begin with.

use serde_json::{Value, json};

/// The ControllerConfig of a small cluster.
pub fn controller_config() -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "ControllerConfig",
        "metadata": {"name": "machine-config-controller"},
        "spec": {
            "clusterDNSIP": "10.96.0.10",
            "cloudProviderConfig": "",
            "etcdDiscoveryDomain": "",
            "ipFamilies": "IPv4",
            "kubeAPIServerServingCAData": "Y2E=",
            "osImageURL": "",
            "releaseImage": "",
            "rootCAData": "Y2E=",
            "additionalTrustBundle": null,
            "images": {},
            "infra": {"apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": {}, "spec": {"cloudConfig": {"name": ""}}},
            "dns": {"apiVersion": "config.openshift.io/v1", "kind": "DNS", "metadata": {}, "spec": {"baseDomain": "example.com"}},
            "proxy": null,
            "baseOSContainerImage": "quay.io/example/os@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        },
    })
}

/// A MachineConfig that writes one file.
pub fn file(name: &str, role: &str, path: &str, text: &str) -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfig",
        "metadata": {"name": name, "labels": {"machineconfiguration.openshift.io/role": role}},
        "spec": {"config": {
            "ignition": {"version": "3.5.0"},
            "storage": {"files": [{"path": path, "mode": 420, "contents": {"source": format!("data:,{text}")}}]},
        }},
    })
}
