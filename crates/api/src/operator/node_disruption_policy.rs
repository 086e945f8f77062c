//! NodeDisruptionPolicy: what a node does after a file, unit or key has changed, where that is less than a reboot.

use kube::KubeSchema;
use kube::core::Rule;
use serde::{Deserialize, Serialize};

use crate::unknown::Unknown;
use crate::words;
use crate::words::Open;

/// Generates the structs of the user's policy and of the policy in force: they differ in their limits and in one action.
macro_rules! policy {
    (
        $(#[$policy_doc:meta])* policy: $policy:ident,
        file: $file:ident, unit: $unit:ident, ssh_key: $ssh_key:ident, action: $action:ident,
        action_type: $action_type:ident, entries: $entries:literal $(,)?
    ) => {
        $(#[$policy_doc])*
        #[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $policy {
            /// Policies for files.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[x_kube(merge_strategy = ListMerge::Map(vec!["path".into()]))]
            #[schemars(length(max = $entries))]
            pub files: Option<Vec<$file>>,

            /// Policy for the SSH keys of the user `core`.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub sshkey: Option<$ssh_key>,

            /// Policies for systemd units.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
            #[schemars(length(max = $entries))]
            pub units: Option<Vec<$unit>>,

            /// Keys that this version does not know.
            #[serde(flatten)]
            pub unknown: Unknown,
        }

        /// What to do after a file has changed.
        #[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $file {
            /// What to do, in this order.
            #[x_kube(
                merge_strategy = ListMerge::Atomic,
                validation = only_alone("Reboot"),
                validation = only_alone("None")
            )]
            #[schemars(length(max = 10))]
            pub actions: Vec<$action>,

            /// The file, or a folder with everything below it.
            pub path: String,

            /// Keys that this version does not know.
            #[serde(flatten)]
            pub unknown: Unknown,
        }

        /// What to do after a unit has changed.
        #[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $unit {
            /// What to do, in this order.
            #[x_kube(
                merge_strategy = ListMerge::Atomic,
                validation = only_alone("Reboot"),
                validation = only_alone("None")
            )]
            #[schemars(length(max = 10))]
            pub actions: Vec<$action>,

            /// Name of the unit.
            #[schemars(length(max = 255))]
            #[x_kube(validation = unit_suffix(), validation = unit_name())]
            pub name: String,

            /// Keys that this version does not know.
            #[serde(flatten)]
            pub unknown: Unknown,
        }

        /// What to do after SSH keys have changed.
        #[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $ssh_key {
            /// What to do, in this order.
            #[x_kube(
                merge_strategy = ListMerge::Atomic,
                validation = only_alone("Reboot"),
                validation = only_alone("None")
            )]
            #[schemars(length(max = 10))]
            pub actions: Vec<$action>,

            /// Keys that this version does not know.
            #[serde(flatten)]
            pub unknown: Unknown,
        }

        /// One thing to do.
        #[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase")]
        #[x_kube(
            validation = Rule::new("has(self.type) && self.type == 'Reload' ? has(self.reload) : !has(self.reload)")
                .message("the type Reload needs 'reload' with a serviceName, and no other type has it"),
            validation = Rule::new("has(self.type) && self.type == 'Restart' ? has(self.restart) : !has(self.restart)")
                .message("the type Restart needs 'restart' with a serviceName, and no other type has it")
        )]
        pub struct $action {
            /// The service to reload.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub reload: Option<Service>,

            /// The service to restart.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub restart: Option<Service>,

            /// What to do.
            #[serde(rename = "type")]
            pub type_: Open<$action_type>,

            /// Keys that this version does not know.
            #[serde(flatten)]
            pub unknown: Unknown,
        }
    };
}

policy! {
    /// What nodes do after a change, as the user wants it.
    policy: NodeDisruptionPolicy,
    file: FilePolicy,
    unit: UnitPolicy,
    ssh_key: SshKeyPolicy,
    action: PolicyAction,
    action_type: PolicyActionType,
    entries: 50,
}

policy! {
    /// What nodes do after a change: the built-in policy with the user's entries over it.
    policy: NodeDisruptionPolicyClusterStatus,
    file: FilePolicyStatus,
    unit: UnitPolicyStatus,
    ssh_key: SshKeyPolicyStatus,
    action: PolicyActionStatus,
    action_type: PolicyActionStatusType,
    entries: 100,
}

/// The policy in force.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeDisruptionPolicyStatus {
    /// The built-in policy with the user's entries over it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_policies: Option<NodeDisruptionPolicyClusterStatus>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Names a systemd service.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Service {
    /// Name of the unit.
    #[schemars(length(max = 255))]
    #[x_kube(validation = unit_suffix(), validation = unit_name())]
    pub service_name: String,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

words! {
    /// What a node may be asked to do after a change.
    pub enum PolicyActionType {
        /// Drain and reboot; replaces all other actions.
        Reboot = "Reboot",
        /// Evict the pods first.
        Drain = "Drain",
        /// Reload a service.
        Reload = "Reload",
        /// Restart a service.
        Restart = "Restart",
        /// Let systemd read its units again.
        DaemonReload = "DaemonReload",
        /// Nothing.
        None = "None",
    }
}

words! {
    /// What a node does after a change.
    pub enum PolicyActionStatusType {
        /// Drain and reboot; replaces all other actions.
        Reboot = "Reboot",
        /// Evict the pods first.
        Drain = "Drain",
        /// Reload a service.
        Reload = "Reload",
        /// Restart a service.
        Restart = "Restart",
        /// Let systemd read its units again.
        DaemonReload = "DaemonReload",
        /// Nothing.
        None = "None",
        /// Reload the container runtime, after a drain if the change of registries is unsafe; built-in policy only.
        Special = "Special",
    }
}

impl From<PolicyActionType> for PolicyActionStatusType {
    fn from(action: PolicyActionType) -> Self {
        match action {
            PolicyActionType::Reboot => Self::Reboot,
            PolicyActionType::Drain => Self::Drain,
            PolicyActionType::Reload => Self::Reload,
            PolicyActionType::Restart => Self::Restart,
            PolicyActionType::DaemonReload => Self::DaemonReload,
            PolicyActionType::None => Self::None,
        }
    }
}

/// An action that makes all others pointless must be the only one.
fn only_alone(action: &str) -> Rule {
    Rule::new(format!("self.exists(x, x.type=='{action}') ? size(self) == 1 : true"))
        .message(format!("{action} can only be the sole action").as_str())
}

fn unit_suffix() -> Rule {
    Rule::new(
        r"self.matches('\\.(service|socket|device|mount|automount|swap|target|path|timer|snapshot|slice|scope)$')",
    )
    .message("must end with a unit type such as '.service'")
}

fn unit_name() -> Rule {
    Rule::new(r"self.matches('^[a-zA-Z0-9:._\\\\-]+\\..')")
        .message(r"must have a name of letters, digits, ':', '-', '_', '.' and '\' before the unit type")
}
