//! Objects of the tests: kinds of made-up providers, and manifests.

use std::borrow::Cow;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Resource;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The time at which all histories begin.
pub const START: Timestamp = Timestamp::constant(1_800_000_000, 0);

macro_rules! provider_kind {
    ($name:ident, $group:literal, $plural:literal) => {
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        pub struct $name {
            pub metadata: ObjectMeta,
            #[serde(default)]
            pub spec: Value,
            #[serde(default)]
            pub status: Value,
        }

        impl Resource for $name {
            type DynamicType = ();
            type Scope = NamespaceResourceScope;

            fn kind((): &()) -> Cow<'_, str> {
                stringify!($name).into()
            }

            fn group((): &()) -> Cow<'_, str> {
                $group.into()
            }

            fn version((): &()) -> Cow<'_, str> {
                "v1beta2".into()
            }

            fn plural((): &()) -> Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

provider_kind!(GenericBootstrapConfig, "bootstrap.cluster.x-k8s.io", "genericbootstrapconfigs");
provider_kind!(
    GenericInfrastructureMachinePool,
    "infrastructure.cluster.x-k8s.io",
    "genericinfrastructuremachinepools"
);
provider_kind!(GenericInfrastructureMachine, "infrastructure.cluster.x-k8s.io", "genericinfrastructuremachines");

pub fn id(number: i32) -> String {
    format!("cloud:////id-{number}")
}

pub fn cluster(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {"controlPlaneEndpoint": {"host": "control.example.com", "port": 6443}},
        "status": {"conditions": [{
            "type": "ControlPlaneInitialized", "status": "True", "reason": "Initialized", "message": "",
            "lastTransitionTime": "2024-01-01T00:00:00Z",
        }]},
    })
}

pub fn pool(name: &str, replicas: i32) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"cluster.x-k8s.io/cluster-name": "c"}},
        "spec": {
            "clusterName": "c",
            "replicas": replicas,
            "template": {"spec": {
                "clusterName": "c",
                "bootstrap": {"configRef": {
                    "apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "GenericBootstrapConfig", "name": "bc",
                }},
                "infrastructureRef": {
                    "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "GenericInfrastructureMachinePool", "name": "imp",
                },
                "deletion": {"nodeDeletionTimeoutSeconds": 10},
            }},
        },
    })
}

pub fn node(name: &str, provider_id: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {"providerID": provider_id},
        "status": {
            "nodeInfo": {
                "kubeletVersion": "v1.31.1", "architecture": "", "bootID": "", "containerRuntimeVersion": "",
                "kernelVersion": "", "kubeProxyVersion": "", "machineID": "", "operatingSystem": "", "osImage": "",
                "systemUUID": "",
            },
            "conditions": [{
                "type": "Ready", "status": "True", "lastTransitionTime": (START - SignedDuration::from_hours(1)).to_string(),
            }],
        },
    })
}
