//! DevicePlugin and Dra: what offers a module's devices to pods.

use k8s_openapi::api::core::v1::{EnvVar, ResourceRequirements, Volume, VolumeMount};
use kube::KubeSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::meta::Embedded;
use crate::schema::preserved_object;
use crate::unknown::Unknown;

/// A device plugin that runs on the module's nodes.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DevicePlugin {
    /// Whether the pods get a token of their service account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub automount_service_account_token: Option<bool>,

    /// The plugin's container.
    pub container: Container,

    /// Container that runs before the plugin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init_container: Option<Container>,

    /// Service account of the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,

    /// Volumes of the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volumes: Option<Vec<Embedded<Volume>>>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// A driver for dynamic resource allocation that runs on the module's nodes.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Dra {
    /// Whether the pods get a token of their service account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub automount_service_account_token: Option<bool>,

    /// The driver's container.
    pub container: Container,

    /// Device classes to create.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_classes: Option<Vec<DeviceClass>>,

    /// Name that the driver registers under.
    pub driver_name: String,

    /// Container that runs before the driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init_container: Option<Container>,

    /// Service account of the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,

    /// Volumes of the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volumes: Option<Vec<Embedded<Volume>>>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// What runs in a container.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Container {
    /// Arguments of the command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,

    /// Command to run instead of the image's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,

    /// Environment variables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<Vec<Embedded<EnvVar>>>,

    /// Image to run.
    pub image: String,

    /// When the image is pulled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<String>,

    /// Resources that the container needs and may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Embedded<ResourceRequirements>>,

    /// Volumes that the container sees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_mounts: Option<Vec<Embedded<VolumeMount>>>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// A class of devices that pods may ask for.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceClass {
    /// Settings for every device of the class.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub config: Option<Vec<DeviceClassConfiguration>>,

    /// Name of the class.
    #[schemars(regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"))]
    pub name: String,

    /// What a device must fulfil; all must hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub selectors: Option<Vec<DeviceSelector>>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Settings for devices, in the form of one driver.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceClassConfiguration {
    /// Settings that only the driver understands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opaque: Option<OpaqueDeviceConfiguration>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Settings that only the driver understands.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpaqueDeviceConfiguration {
    /// Driver that understands them.
    pub driver: String,

    /// The settings.
    #[schemars(schema_with = "preserved_object")]
    pub parameters: Value,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// What a device must fulfil.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceSelector {
    /// A CEL expression about the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cel: Option<CelDeviceSelector>,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// A CEL expression about a device.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CelDeviceSelector {
    /// The expression; true means that the device is meant.
    pub expression: String,

    /// Keys that this version does not know.
    #[serde(flatten)]
    pub unknown: Unknown,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn volumes_are_kept_and_can_be_looked_into() {
        let written = json!({
            "container": {
                "image": "registry.example.com/org/plugin:1",
                "env": [{ "name": "NODE", "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } }],
                "resources": { "limits": { "memory": 1048576, "cpu": "500m" } },
                "volumeMounts": [{ "name": "dev", "mountPath": "/dev", "newer": "x" }],
            },
            "volumes": [{ "name": "dev", "hostPath": { "path": "/dev" }, "newer": {} }],
        });
        let plugin: DevicePlugin = serde_json::from_value(written.clone()).unwrap();
        let volume = plugin.volumes.as_ref().unwrap()[0].typed().unwrap();
        assert_eq!(volume.host_path.unwrap().path, "/dev");
        assert_eq!(serde_json::to_value(&plugin).unwrap(), written);
    }
}
