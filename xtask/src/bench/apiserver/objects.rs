//! Bench objects: nodes as a kubelet reports them, custom objects, and changes to both.

use serde_json::{Value, json};

/// Where nodes are.
pub const NODES: &str = "/api/v1/nodes";
/// Where definitions of kinds are.
pub const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Where objects of our own kind are.
pub const BERTHS: &str = "/apis/bench.seaworthy.dev/v1/berths";

pub fn node_name(index: usize) -> String {
    format!("worker-{index:05}.fleet.example.com")
}

/// A node of about 1.5 KB.
pub fn node(index: usize) -> Value {
    let name = node_name(index);
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let amounts = json!({"cpu": "16", "memory": "65844140Ki", "ephemeral-storage": "209702892Ki", "pods": "250"});
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "linux",
                "kubernetes.io/hostname": name,
                "node-role.kubernetes.io/worker": "",
                "topology.kubernetes.io/zone": format!("zone-{}", index % 3),
            },
            "annotations": {"seaworthy.dev/current-config": format!("rendered-worker-{:08x}", index % 7)},
        },
        "spec": {"podCIDR": format!("10.{}.{}.0/24", index / 256 % 256, index % 256)},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "addresses": [{"type": "Hostname", "address": name}],
            "conditions": [
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has memory to spare"),
                condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
            ],
            "nodeInfo": {
                "machineID": format!("{index:032x}"), "systemUUID": format!("{index:032x}"),
                "bootID": format!("{index:032x}"), "kernelVersion": "6.12.0", "osImage": "Fedora CoreOS 44",
                "containerRuntimeVersion": "cri-o://1.37.0", "kubeletVersion": "v1.37.1", "kubeProxyVersion": "",
                "operatingSystem": "linux", "architecture": "amd64",
            },
        },
    })
}

/// A kubelet's heartbeat. Two with different `count` differ.
pub fn heartbeat(count: usize) -> Value {
    let (minutes, seconds) = (count / 60, count % 60);
    let time = format!("2026-01-{:02}T{:02}:{:02}:{seconds:02}Z", 2 + minutes / 1440, minutes / 60 % 24, minutes % 60);
    json!({"status": {"conditions": [{"type": "Ready", "lastHeartbeatTime": time}]}})
}

/// What a controller applies to a node: a label and an annotation of its own.
pub fn applied(index: usize, count: usize) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node_name(index),
            "labels": {"seaworthy.dev/pool": "worker"},
            "annotations": {"seaworthy.dev/desired-config": format!("rendered-worker-{count:08x}")},
        },
    })
}

/// A kind of our own with a schema.
pub fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "berths.bench.seaworthy.dev"},
        "spec": {
            "group": "bench.seaworthy.dev",
            "scope": "Cluster",
            "names": {"kind": "Berth", "listKind": "BerthList", "plural": "berths", "singular": "berth"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {
                            "type": "object",
                            "required": ["pool"],
                            "properties": {
                                "pool": {"type": "string", "maxLength": 63},
                                "draught": {"type": "integer", "minimum": 0, "maximum": 100, "default": 10},
                                "files": {
                                    "type": "array",
                                    "maxItems": 64,
                                    "x-kubernetes-list-type": "map",
                                    "x-kubernetes-list-map-keys": ["path"],
                                    "items": {
                                        "type": "object",
                                        "required": ["path"],
                                        "properties": {
                                            "path": {"type": "string"},
                                            "mode": {"type": "integer"},
                                            "contents": {"type": "string"},
                                        },
                                    },
                                },
                            },
                        },
                        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    },
                }},
            }],
        },
    })
}

/// An object of that kind, about as large as a node.
pub fn berth(index: usize) -> Value {
    let files: Vec<Value> = (0..4)
        .map(|file| {
            json!({"path": format!("/etc/fleet/{file}.conf"), "mode": 420, "contents": format!("{index:08}").repeat(16)})
        })
        .collect();
    json!({
        "apiVersion": "bench.seaworthy.dev/v1",
        "kind": "Berth",
        "metadata": {"name": format!("berth-{index:05}"), "labels": {"seaworthy.dev/pool": "worker"}},
        "spec": {"pool": "worker", "files": files},
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{heartbeat, node};

    #[test]
    fn node_is_about_as_large_as_promised() {
        let length = node(4999).to_string().len();
        assert!((1_400..=1_800).contains(&length), "{length}");
    }

    #[test]
    fn every_heartbeat_is_a_change() {
        let different: BTreeSet<String> = (0..20_000).map(|count| heartbeat(count).to_string()).collect();
        assert_eq!(different.len(), 20_000);
    }
}
