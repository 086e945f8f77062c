//! MachineConfigNode: where one node is on the way to its configuration, step by step.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use super::rules::{dns_subdomain, image_digest, image_name, image_name_or_localhost, never_decreases};
use crate::meta::Condition;
use crate::unknown::Unknown;

/// Which node this is about and what it should run.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "MachineConfigNode",
    doc = "Where one node is on the way to its configuration.",
    status = "MachineConfigNodeStatus",
    derive = "PartialEq",
    derive = "Default",
    validation = Rule::new("self.metadata.name == self.spec.node.name").message("the object is named after its node"),
    printcolumn(name = "PoolName", type_ = "string", json_path = ".spec.pool.name"),
    printcolumn(name = "DesiredConfig", type_ = "string", json_path = ".spec.configVersion.desired"),
    printcolumn(name = "CurrentConfig", type_ = "string", json_path = ".status.configVersion.current"),
    printcolumn(
        name = "Updated",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Updated")].status"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "UpdatePrepared",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="UpdatePrepared")].status"#,
        priority = 1
    ),
    printcolumn(
        name = "UpdateExecuted",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="UpdateExecuted")].status"#,
        priority = 1
    ),
    printcolumn(
        name = "UpdatePostActionComplete",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="UpdatePostActionComplete")].status"#,
        priority = 1
    ),
    printcolumn(
        name = "UpdateComplete",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="UpdateComplete")].status"#,
        priority = 1
    ),
    printcolumn(
        name = "Resumed",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Resumed")].status"#,
        priority = 1
    ),
    printcolumn(
        name = "UpdatedFilesAndOS",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="AppliedFilesAndOS")].status"#,
        priority = 1
    ),
    printcolumn(
        name = "CordonedNode",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Cordoned")].status"#,
        priority = 1
    ),
    printcolumn(
        name = "DrainedNode",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Drained")].status"#,
        priority = 1
    ),
    printcolumn(
        name = "RebootedNode",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="RebootedNode")].status"#,
        priority = 1
    ),
    printcolumn(
        name = "UncordonedNode",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Uncordoned")].status"#,
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfigNodeSpec {
    /// The operating system image that the node should run, where images are built for the pool.
    // Differs: upstream has this field behind a feature gate only; an object that carries it must not lose it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_image: Option<NodeConfigImageSpec>,

    /// The configuration that the node should run.
    pub config_version: NodeConfigVersionSpec,

    /// The node.
    pub node: NodeReference,

    /// The pool that the node belongs to.
    pub pool: NodeReference,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Names a cluster-wide object.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeReference {
    /// Name of the object.
    #[schemars(length(max = 253))]
    #[x_kube(validation = dns_subdomain())]
    pub name: String,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// The configuration that a node should run.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeConfigVersionSpec {
    /// Name of the rendered MachineConfig.
    #[schemars(length(max = 253))]
    #[x_kube(validation = dns_subdomain())]
    pub desired: String,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// The image that a node should run.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeConfigImageSpec {
    /// The image, named by digest.
    #[schemars(length(min = 1, max = 447))]
    #[x_kube(validation = image_digest(), validation = image_name())]
    pub desired_image: String,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// How far the node is.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfigNodeStatus {
    /// One condition for each step of an update.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    #[schemars(length(max = 20))]
    pub conditions: Option<Vec<Condition>>,

    /// The image that the node runs and the one it is moving to.
    // Differs: behind a feature gate upstream, as in the spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_image: Option<NodeConfigImageStatus>,

    /// The configuration that the node runs and the one it is moving to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_version: Option<NodeConfigVersionStatus>,

    /// Release images that the node holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub internal_release_image: Option<InternalReleaseImageStatus>,

    /// Parts of the configuration that apply to new nodes only, and what this node has instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["fieldPath".into()]))]
    #[schemars(length(min = 1, max = 32))]
    pub irreconcilable_changes: Option<Vec<IrreconcilableChange>>,

    /// Generation of the object that this status was computed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    #[x_kube(validation = never_decreases())]
    pub observed_generation: Option<i64>,

    /// How far the node is with pulling and pinning images.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    #[schemars(length(max = 100))]
    pub pinned_image_sets: Option<Vec<NodePinnedImageSet>>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// The configuration that a node runs and the one it is moving to.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeConfigVersionStatus {
    /// Name of the rendered MachineConfig that the node runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[x_kube(validation = dns_subdomain())]
    pub current: Option<String>,

    /// Name of the rendered MachineConfig that the node is moving to.
    #[schemars(length(max = 253))]
    #[x_kube(validation = dns_subdomain())]
    pub desired: String,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// The image that a node runs and the one it is moving to.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeConfigImageStatus {
    /// The image that the node runs, named by digest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 447))]
    #[x_kube(validation = image_digest(), validation = image_name())]
    pub current_image: Option<String>,

    /// The image that the node is moving to, named by digest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 447))]
    #[x_kube(validation = image_digest(), validation = image_name())]
    pub desired_image: Option<String>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Release images that a node holds.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InternalReleaseImageStatus {
    /// The releases.
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    #[schemars(length(min = 1, max = 32))]
    pub releases: Vec<ReleaseBundleStatus>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// One release that a node holds.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseBundleStatus {
    /// What holds for this release on this node.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    #[schemars(length(min = 1, max = 5))]
    pub conditions: Option<Vec<Condition>>,

    /// The release image, named by digest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 447))]
    #[x_kube(validation = image_digest(), validation = image_name_or_localhost())]
    pub image: Option<String>,

    /// Name of the bundle.
    #[schemars(length(min = 1, max = 64))]
    #[x_kube(validation = Rule::new(r"self.matches('^ocp-release-bundle-[0-9]+\\.[0-9]+\\.[0-9]+-[A-Za-z0-9._-]+$')")
        .message("must be 'ocp-release-bundle-', a version, '-' and an architecture or stream"))]
    pub name: String,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// A part of the configuration that this node cannot adopt without being rebuilt.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IrreconcilableChange {
    /// How the node differs.
    #[schemars(length(min = 1, max = 4096))]
    pub diff: String,

    /// Where in the MachineConfig.
    #[schemars(length(min = 1, max = 70))]
    #[x_kube(
        validation = Rule::new("self.startsWith('spec.')").message("must start with 'spec.'"),
        validation = Rule::new(r"self.matches('^[\\da-zA-Z\\.\\[\\]]+$')")
            .message("must consist of letters, digits, dots and brackets")
    )]
    pub field_path: String,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// How far a node is with one PinnedImageSet.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(
        "has(self.desiredGeneration) && has(self.currentGeneration) ? self.desiredGeneration >= self.currentGeneration : true"
    )
    .message("desiredGeneration must be at least currentGeneration"),
    validation = Rule::new(
        "has(self.lastFailedGeneration) && has(self.desiredGeneration) ? self.desiredGeneration >= self.lastFailedGeneration : true"
    )
    .message("desiredGeneration must be at least lastFailedGeneration"),
    validation = Rule::new("has(self.lastFailedGeneration) ? has(self.lastFailedGenerationError) : true")
        .message("a failed generation needs its error")
)]
pub struct NodePinnedImageSet {
    /// Generation of the set that the node has.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    #[x_kube(validation = never_decreases())]
    pub current_generation: Option<i32>,

    /// Generation of the set that the node should have.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    #[x_kube(validation = never_decreases())]
    pub desired_generation: Option<i32>,

    /// Generation of the set that the node last failed to get.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    #[x_kube(validation = never_decreases())]
    pub last_failed_generation: Option<i32>,

    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32768))]
    pub last_failed_generation_error: Option<String>,

    /// Name of the PinnedImageSet.
    #[schemars(length(max = 253))]
    #[x_kube(validation = dns_subdomain())]
    pub name: String,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}
