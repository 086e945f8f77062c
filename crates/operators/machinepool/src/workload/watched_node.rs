//! Watched Node: a Node as it comes from a watch, of which only what pools look at is read. The rest, mostly images and managed
//! fields, is skipped without being stored.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Resource;
use seaworthy_plan::machinepool::WorkloadNode;
use serde::{Deserialize, Deserializer};

#[derive(Clone, Debug)]
pub struct WatchedNode {
    /// Name and resource version, which a watch needs.
    metadata: ObjectMeta,
    pub node: WorkloadNode,
}

#[derive(Deserialize)]
struct Read {
    metadata: ReadMetadata,
    #[serde(default)]
    spec: ReadSpec,
    #[serde(default)]
    status: ReadStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadMetadata {
    name: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    annotations: Option<BTreeMap<String, String>>,
    labels: Option<BTreeMap<String, String>>,
}

#[derive(Default, Deserialize)]
struct ReadSpec {
    #[serde(rename = "providerID")]
    provider_id: Option<String>,
    taints: Option<Vec<Taint>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadStatus {
    #[serde(default)]
    conditions: Vec<ReadCondition>,
    #[serde(default)]
    node_info: ReadNodeInfo,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadCondition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    last_transition_time: Option<Time>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadNodeInfo {
    #[serde(default)]
    kubelet_version: String,
}

impl<'de> Deserialize<'de> for WatchedNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Read { metadata, spec, status } = Read::deserialize(deserializer)?;
        let conditions = status.conditions.into_iter().map(|condition| NodeCondition {
            type_: condition.type_,
            status: condition.status,
            last_transition_time: condition.last_transition_time,
            ..NodeCondition::default()
        });
        let node = Node {
            metadata: ObjectMeta {
                name: metadata.name.clone(),
                uid: metadata.uid,
                resource_version: metadata.resource_version.clone(),
                creation_timestamp: metadata.creation_timestamp,
                deletion_timestamp: metadata.deletion_timestamp,
                annotations: metadata.annotations,
                labels: metadata.labels,
                ..ObjectMeta::default()
            },
            spec: Some(NodeSpec { provider_id: spec.provider_id, taints: spec.taints, ..NodeSpec::default() }),
            status: Some(NodeStatus {
                conditions: Some(conditions.collect()),
                node_info: Some(NodeSystemInfo {
                    kubelet_version: status.node_info.kubelet_version,
                    ..NodeSystemInfo::default()
                }),
                ..NodeStatus::default()
            }),
        };
        let metadata =
            ObjectMeta { name: metadata.name, resource_version: metadata.resource_version, ..ObjectMeta::default() };
        Ok(WatchedNode { metadata, node: WorkloadNode::of(&node) })
    }
}

impl Resource for WatchedNode {
    type DynamicType = ();
    type Scope = <Node as Resource>::Scope;

    fn kind(type_: &()) -> Cow<'_, str> {
        Node::kind(type_)
    }

    fn group(type_: &()) -> Cow<'_, str> {
        Node::group(type_)
    }

    fn version(type_: &()) -> Cow<'_, str> {
        Node::version(type_)
    }

    fn plural(type_: &()) -> Cow<'_, str> {
        Node::plural(type_)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What is read here has to be all that pools look at.
    #[test]
    fn node_is_read_as_if_all_of_it_was() {
        let value = json!({
            "metadata": {
                "name": "n", "uid": "u", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z",
                "deletionTimestamp": "2026-01-02T00:00:00Z",
                "annotations": {"cluster.x-k8s.io/owner-name": "p", "other": "x"},
                "labels": {"node-role.kubernetes.io/infra": "", "team": "x"},
                "managedFields": [{"manager": "kubelet"}],
            },
            "spec": {
                "providerID": "x", "podCIDR": "10.0.0.0/24",
                "taints": [{"key": "node.cluster.x-k8s.io/uninitialized", "effect": "NoSchedule"}, {"key": "k", "effect": "NoExecute"}],
            },
            "status": {
                "conditions": [
                    {"type": "MemoryPressure", "status": "False"},
                    {"type": "Ready", "status": "True", "reason": "r", "lastTransitionTime": "2026-01-01T01:00:00Z"},
                ],
                "nodeInfo": {
                    "kubeletVersion": "v1.37.0", "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "",
                    "kernelVersion": "", "kubeProxyVersion": "", "machineID": "", "operatingSystem": "", "osImage": "",
                    "systemUUID": "",
                },
                "images": [{"names": ["a"], "sizeBytes": 1}],
            },
        });
        let whole: Node = serde_json::from_value(value.clone()).unwrap();
        let watched: WatchedNode = serde_json::from_value(value).unwrap();
        assert_eq!(watched.node, WorkloadNode::of(&whole));
        assert_eq!(watched.meta().resource_version.as_deref(), Some("7"));
        assert!(watched.node.is_ready && watched.node.is_deleting);
    }

    #[test]
    fn node_that_has_just_registered_is_readable() {
        let watched: WatchedNode = serde_json::from_value(json!({"metadata": {"name": "n"}, "spec": {}})).unwrap();
        assert_eq!((watched.node.name.as_str(), watched.node.is_ready), ("n", false));
    }
}
