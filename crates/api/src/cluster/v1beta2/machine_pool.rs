//! MachinePool: machines that the provider makes and scales as one.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::{MachineInitialization, MachineSpec};
use crate::cluster::{Deprecated, OldCondition, TemplateMetadata, VersionCount};
use crate::meta::{Condition, ObjectReference};
use crate::unknown::Unknown;
use crate::vocabulary::cluster::MachinePoolPhase;
use crate::words::Open;

/// What the machines should be, and how many.
// Differs: negative `replicas` are refused, because no provider can make them; the upstream stores them.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "cluster.x-k8s.io",
    version = "v1beta2",
    kind = "MachinePool",
    doc = "Machines that the provider makes and scales as one.",
    namespaced,
    status = "MachinePoolStatus",
    shortname = "mp",
    category = "cluster-api",
    derive = "PartialEq",
    derive = "Default",
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.replicas"),
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.clusterName"),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Current", type_ = "integer", json_path = ".status.replicas"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyReplicas"),
    printcolumn(name = "Available", type_ = "integer", json_path = ".status.availableReplicas"),
    printcolumn(name = "Up-to-date", type_ = "integer", json_path = ".status.upToDateReplicas"),
    printcolumn(
        name = "Paused",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Paused\")].status",
        priority = 10
    ),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.template.spec.version")
)]
#[serde(rename_all = "camelCase")]
pub struct MachinePoolSpec {
    /// Name of the cluster that the pool belongs to.
    #[schemars(length(min = 1, max = 63))]
    pub cluster_name: String,

    /// Failure domains to spread over.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    #[schemars(length(max = 100), inner(length(min = 1, max = 256)))]
    pub failure_domains: Option<Vec<String>>,

    /// The provider's names for the machines; written by the controller.
    #[serde(rename = "providerIDList", skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    #[schemars(length(max = 10000), inner(length(min = 1, max = 512)))]
    pub provider_id_list: Option<Vec<String>>,

    /// How many machines there should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,

    /// What each machine should be.
    pub template: MachineTemplate,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// What each machine of the pool should be.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineTemplate {
    /// Labels and annotations of the machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minProperties" = 1))]
    pub metadata: Option<TemplateMetadata>,

    /// Spec of the machines.
    pub spec: MachineSpec,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// What the machines are, and how many.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct MachinePoolStatus {
    /// Machines that were ready for long enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_replicas: Option<i32>,

    /// Observed facts about the pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    #[schemars(length(max = 32))]
    pub conditions: Option<Vec<Condition>>,

    /// The status in the form of older versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecated: Option<Deprecated<MachinePoolDeprecatedV1Beta1>>,

    /// Which steps of the first start are done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initialization: Option<MachineInitialization>,

    /// Nodes of the machines, in the order of the provider's names.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    #[schemars(length(max = 10000))]
    pub node_refs: Option<Vec<ObjectReference>>,

    /// Generation of the pool that was last processed without error.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub observed_generation: Option<i64>,

    /// How far the pool is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Open<MachinePoolPhase>>,

    /// Machines that are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,

    /// Machines that the provider reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,

    /// Machines that are as they should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up_to_date_replicas: Option<i32>,

    /// Machines by version.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["version".into()]))]
    #[schemars(length(min = 1, max = 100))]
    pub versions: Option<Vec<VersionCount>>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// The status in the form of v1beta1.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachinePoolDeprecatedV1Beta1 {
    /// Nodes that were ready for long enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_replicas: Option<i32>,

    /// Observed facts about the pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<OldCondition>>,

    /// Explanation of a failure that does not pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 10240))]
    pub failure_message: Option<String>,

    /// Word for a failure that does not pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,

    /// Nodes that are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,

    /// Machines without an available node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unavailable_replicas: Option<i32>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl MachinePoolStatus {
    /// How far the pool is; an absent, empty or unknown phase reads as [`MachinePoolPhase::Unknown`].
    pub fn known_phase(&self) -> MachinePoolPhase {
        self.phase.as_ref().and_then(Open::known).unwrap_or(MachinePoolPhase::Unknown)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_phase_that_is_not_known_reads_as_unknown() {
        for (status, phase) in [
            (json!({}), MachinePoolPhase::Unknown),
            (json!({ "phase": "" }), MachinePoolPhase::Unknown),
            (json!({ "phase": "Foo" }), MachinePoolPhase::Unknown),
            (json!({ "phase": "ScalingUp" }), MachinePoolPhase::ScalingUp),
        ] {
            let read: MachinePoolStatus = serde_json::from_value(status.clone()).unwrap();
            assert_eq!(read.known_phase(), phase, "{status}");
        }
    }

    fn pool(spec: Value) -> MachinePoolSpec {
        serde_json::from_value(spec).unwrap()
    }

    #[test]
    fn absent_zero_and_empty_are_different() {
        let template = |bootstrap: Value| {
            json!({ "spec": {
                "clusterName": "c",
                "bootstrap": bootstrap,
                "infrastructureRef": { "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachinePool", "name": "p" },
            } })
        };
        let unset = pool(json!({ "clusterName": "c", "template": template(json!({})) }));
        assert_eq!(unset.replicas, None);
        assert_eq!(unset.template.spec.bootstrap.data_secret_name, None);
        let set = json!({
            "clusterName": "c",
            "replicas": 0,
            "providerIDList": [],
            "template": template(json!({ "dataSecretName": "" })),
        });
        let read = pool(set.clone());
        assert_eq!(read.replicas, Some(0));
        assert_eq!(read.template.spec.bootstrap.data_secret_name.as_deref(), Some(""));
        assert_eq!(read.provider_id_list.as_deref(), Some(&[][..]));
        assert_eq!(serde_json::to_value(&read).unwrap(), set);
    }
}
