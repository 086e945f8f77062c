//! Rule: one check of the shipped content; its definition is shared with CustomRule.

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schema::embedded_resource;
use crate::unknown::{RootUnknown, Unknown};
use crate::vocabulary::compliance::CheckSeverity;
use crate::words;
use crate::words::Open;

/// One check of the shipped content.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "compliance.openshift.io",
    version = "v1alpha1",
    kind = "Rule",
    doc = "One check of the shipped content.",
    namespaced,
    no_spec,
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct RuleFields {
    /// The check.
    #[serde(flatten)]
    pub definition: RuleDefinition,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: RootUnknown,
}

/// A check: what it verifies, how, and its fix.
// Flattened into the struct that uses it, which also keeps the unknown keys.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleDefinition {
    /// Objects that would put a failure right.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    #[schemars(extend("nullable" = true))]
    pub available_fixes: Option<Vec<Fix>>,

    /// What is looked at: `Node` or `Platform`; empty for a rule that nothing evaluates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check_type: Option<String>,

    /// What the rule checks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,

    /// CEL expression over the inputs; false is a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expression: Option<String>,

    /// Message for a failed check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,

    /// Id of the rule.
    pub id: String,

    /// What the expression looks at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Vec<Input>>,

    /// How to check the same by hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,

    /// Why the rule matters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rationale: Option<String>,

    /// Which engine evaluates the rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scanner_type: Option<Open<ScannerType>>,

    /// How much a failure matters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub severity: Option<Open<CheckSeverity>>,

    /// Name of the rule for people.
    pub title: String,

    /// What to be careful about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// One object that would put a failure right.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fix {
    /// How much applying it disturbs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disruption: Option<String>,

    /// The object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "embedded_resource")]
    pub fix_object: Option<Value>,

    /// Platform that the fix is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// A name in the expression, and the object that it refers to.
// Differs: `kubernetesInputSpec` is one of three sources, because rules here may also look at machine configuration and
// kubelet configuration; the upstream knows that one only and requires it. What it accepts is accepted here.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("(has(self.kubernetesInputSpec) ? 1 : 0) + (has(self.machineConfigInputSpec) ? 1 : 0) + (has(self.kubeletConfigInputSpec) ? 1 : 0) == 1").message("exactly one of kubernetesInputSpec, machineConfigInputSpec and kubeletConfigInputSpec must be given"))]
pub struct Input {
    /// Kubelet configuration to look at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubelet_config_input_spec: Option<KubeletConfigInput>,

    /// Objects of the API to look at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes_input_spec: Option<KubernetesInput>,

    /// Rendered machine configuration to look at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_config_input_spec: Option<MachineConfigInput>,

    /// Name in the expression.
    #[schemars(length(min = 1))]
    pub name: String,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Names one object of the API, or all objects of a resource.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KubernetesInput {
    /// Version of the resource, without its group.
    #[schemars(length(min = 1))]
    pub api_version: String,

    /// Group of the resource; empty for the core group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,

    /// Plural name of the resource.
    #[schemars(length(min = 1))]
    pub resource: String,

    /// Name of the object; absent means all objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_name: Option<String>,

    /// Namespace to look in; absent means all namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_namespace: Option<String>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Names the rendered machine configuration of a pool.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineConfigInput {
    /// Which of the pool's configurations is looked at.
    pub from: Open<MachineConfigSource>,

    /// Name of the pool.
    #[schemars(length(min = 1))]
    pub pool: String,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Names the kubelet configuration of each scanned node.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KubeletConfigInput {
    /// Where the configuration is read.
    pub from: Open<KubeletConfigSource>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

words! {
    /// Which engine evaluates a rule.
    pub enum ScannerType {
        /// The OpenSCAP scanner, in a pod.
        OpenScap = "OpenSCAP",
        /// CEL expressions, in the controller.
        Cel = "CEL",
    }
}

words! {
    /// Which configuration of a pool a rule looks at.
    pub enum MachineConfigSource {
        /// The one that the pool's machines should have.
        Spec = "spec",
        /// The one that all of the pool's machines last had.
        Status = "status",
    }
}

words! {
    /// Where a rule reads a kubelet configuration.
    pub enum KubeletConfigSource {
        /// From the running kubelet.
        Node = "node",
        /// From the pool's rendered machine configuration.
        Rendered = "rendered",
    }
}
