//! What a decision asks for, as data: the shell carries the writes out in their order and stops at the first that fails.

use std::collections::BTreeMap;

use seaworthy_api::machineconfiguration::{ControllerConfigStatus, MachineConfig, MachineConfigPool, SettingsStatus};
use serde::Serialize;
use serde_json::{Value, json};

/// One write.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::large_enum_variant)] // A handful of them exist at a time.
pub enum Write {
    /// Patch the metadata of the object that the decision is about.
    Patch(MetadataPatch),
    /// Create a MachineConfig.
    Create(MachineConfig),
    /// Replace a MachineConfig; it carries the resource version that it was read with.
    Update(MachineConfig),
    /// Delete a MachineConfig.
    Delete(Deletion),
    /// Create a pool.
    CreatePool(MachineConfigPool),
    /// Patch labels of a pool; a merge patch.
    LabelPool {
        /// The pool.
        name: String,
        /// The labels.
        labels: BTreeMap<String, String>,
    },
    /// Put the finalizer of built-in pools on a pool, beside those that it has then.
    HoldPool {
        /// The pool.
        name: String,
    },
    /// Replace the status of the object that the decision is about.
    Status(SettingsStatus),
    /// Replace the status of the ControllerConfig.
    ControllerConfigStatus(ControllerConfigStatus),
}

/// Which MachineConfig to delete. That it is gone already is no failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Deletion {
    /// Its name.
    pub name: String,
    /// Its uid, as a precondition: what was made anew under the name stays.
    pub uid: Option<String>,
}

/// A change of an object's metadata. Keys that it does not name stay as they are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MetadataPatch {
    /// Annotations to set.
    pub annotations: BTreeMap<String, String>,
    /// All finalizers, if they change.
    pub finalizers: Option<Vec<String>>,
    /// The version that the finalizers were read from: a list cannot be patched safely without.
    pub resource_version: Option<String>,
}

impl MetadataPatch {
    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.annotations.is_empty() && self.finalizers.is_none()
    }

    /// It as a JSON merge patch.
    pub fn merge_patch(&self) -> Value {
        let mut metadata = json!({});
        if !self.annotations.is_empty() {
            metadata["annotations"] = json!(self.annotations);
        }
        if let Some(finalizers) = &self.finalizers {
            metadata["finalizers"] = json!(finalizers);
            if let Some(version) = &self.resource_version {
                metadata["resourceVersion"] = json!(version);
            }
        }
        json!({"metadata": metadata})
    }
}
