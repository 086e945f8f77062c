//! Changes: what a decision wants done, as data that one applier carries out and `seaworthy plan` prints.

use serde::Serialize;
use serde_json::Value;

/// Something to be done.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Change {
    /// Server-side apply of an object: exactly the fields that the decision owns.
    Apply {
        /// The object.
        object: Value,
    },
    /// The same for its status.
    ApplyStatus {
        /// The object.
        object: Value,
    },
    /// A merge patch, for what cannot be applied because a list is not divided between owners: the taints of a node.
    Patch {
        /// The object.
        object: Reference,
        /// The patch. A null removes.
        patch: Value,
    },
    /// A deletion.
    Delete {
        /// The object. Its version and identity are preconditions.
        object: Reference,
    },
    /// An eviction, which respects PodDisruptionBudgets.
    Evict {
        /// The pod.
        pod: Reference,
    },
    /// An event.
    Emit {
        /// The event.
        event: Event,
    },
}

/// An object, and what must still be true of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reference {
    /// Group and version.
    pub api_version: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Namespace, for what has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
    /// It is still the same object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Nobody has written it since it was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

impl Reference {
    /// A node as it was looked at.
    pub fn node(node: &crate::fleet::NodeView<'_>) -> Self {
        Self {
            api_version: "v1",
            kind: "Node",
            namespace: None,
            name: node.name.to_owned(),
            uid: Some(node.uid).filter(|uid| !uid.is_empty()).map(str::to_owned),
            resource_version: node.resource_version.map(str::to_owned),
        }
    }

    /// A MachineConfigNode as it was looked at, whatever has been written to it since.
    pub fn machine_config_node(object: &seaworthy_api::machineconfiguration::MachineConfigNode) -> Self {
        Self {
            api_version: seaworthy_api::machineconfiguration::API_VERSION,
            kind: "MachineConfigNode",
            name: object.metadata.name.clone().unwrap_or_default(),
            uid: object.metadata.uid.clone(),
            ..Self::default()
        }
    }

    /// A pool, by name.
    pub fn pool(name: &str) -> Self {
        Self {
            api_version: seaworthy_api::machineconfiguration::API_VERSION,
            kind: "MachineConfigPool",
            name: name.to_owned(),
            ..Self::default()
        }
    }
}

/// An event on an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// What it is about.
    pub about: Reference,
    /// Whether something is wrong.
    pub is_warning: bool,
    /// The reason in one word.
    pub reason: &'static str,
    /// The sentence.
    pub message: String,
    /// The rendered MachineConfig that it tells of, where it does: the same of another one is another event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
}
