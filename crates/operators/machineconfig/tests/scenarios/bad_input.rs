//! Malformed objects, which the definitions would refuse: written under laxer ones, or before there were any.

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::{Api, Resource, ResourceExt as _};
use seaworthy_api::machineconfiguration::{KubeletConfig, MachineConfig, MachineConfigNode, MachineConfigPool};
use serde_json::{Value, json};

use crate::fleet::{Fleet, WAIT_TIMEOUT, condition, file, has_reached, is_true, progress, target};

/// Makes the definitions accept anything.
async fn loosen(fleet: &Fleet) {
    for name in ["machineconfigpools", "machineconfigs", "kubeletconfigs"] {
        let name = format!("{name}.machineconfiguration.openshift.io");
        let mut versions =
            serde_json::to_value(fleet.get::<CustomResourceDefinition>(&name).await.spec.versions).unwrap();
        for version in versions.as_array_mut().unwrap() {
            version["schema"] =
                json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        }
        fleet.patch::<CustomResourceDefinition>(&name, json!({"spec": {"versions": versions}})).await;
    }
}

async fn write<K: Resource<DynamicType = ()>>(fleet: &Fleet, object: Value) {
    let api: Api<DynamicObject> = Api::all_with(fleet.client.clone(), &ApiResource::erase::<K>(&()));
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    // A definition takes effect a moment after it was written.
    let written = async {
        loop {
            match api.create(&PostParams::default(), &object).await {
                Ok(_) => return,
                Err(kube::Error::Api(status)) if status.code == 422 => tokio::task::yield_now().await,
                Err(error) => panic!("{error}"),
            }
        }
    };
    tokio::time::timeout(WAIT_TIMEOUT, written).await.expect("the definition did not take effect");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_objects_are_reported_and_do_not_affect_others() {
    let fleet = Fleet::with_workers(2).await;
    let before = target(&fleet.get::<MachineConfigPool>("worker").await).unwrap().to_owned();
    loosen(&fleet).await;
    let head = |kind: &str, name: &str, spec: Value| json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    // Pools: an unknown operator, an invalid budget, a selector of the wrong type.
    let unknown = json!({"matchExpressions": [{"key": "a", "operator": "Resembles", "values": ["b"]}]});
    let roles = json!({"matchLabels": {"machineconfiguration.openshift.io/role": "worker"}});
    let edge = json!({"matchLabels": {"node-role.kubernetes.io/edge": ""}});
    write::<MachineConfigPool>(
        &fleet,
        head("MachineConfigPool", "odd-sources", json!({"machineConfigSelector": unknown, "nodeSelector": edge})),
    )
    .await;
    write::<MachineConfigPool>(
        &fleet,
        head("MachineConfigPool", "odd-nodes", json!({"machineConfigSelector": roles, "nodeSelector": unknown})),
    )
    .await;
    write::<MachineConfigPool>(
        &fleet,
        head("MachineConfigPool", "odd-budget", json!({"machineConfigSelector": roles, "maxUnavailable": {"a": 1}})),
    )
    .await;
    write::<MachineConfigPool>(&fleet, head("MachineConfigPool", "odd-kind", json!("nothing"))).await;
    // MachineConfigs and KubeletConfigs that are something else.
    write::<MachineConfig>(&fleet, head("MachineConfig", "70-text", json!("text"))).await;
    write::<KubeletConfig>(
        &fleet,
        head(
            "KubeletConfig",
            "odd-settings",
            json!({
                "machineConfigPoolSelector": roles, "kubeletConfig": {"maxPods": "many", "evictionHard": 5},
            }),
        ),
    )
    .await;
    write::<KubeletConfig>(&fleet, head("KubeletConfig", "odd-list", json!(["a"]))).await;
    // A node without any field, and one with invalid annotations.
    fleet.create::<Node>(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "bare"}})).await;
    fleet
        .create::<Node>(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "odd", "annotations": {
            "machineconfiguration.openshift.io/state": "Confused",
            "machineconfiguration.openshift.io/currentConfig": "",
            "machineconfiguration.openshift.io/desiredDrain": "invalid-request",
        }}}))
        .await;
    let worker = json!({"metadata": {"annotations": {"seaworthy.dev/reserved-nodes": "{no JSON"}}, "spec": {"maxUnavailable": -3}});
    fleet.patch::<MachineConfigPool>("worker", worker).await;

    // The mistake is reported where there is a condition for it.
    let pool = fleet.pool_is("odd-sources", |pool| is_true(pool, "RenderDegraded")).await;
    let message = condition(&pool, "RenderDegraded").unwrap().message.clone().unwrap();
    assert!(message.contains("Resembles"), "{message}");
    for node in ["bare", "odd"] {
        let is_outside = |found: Option<&MachineConfigNode>| {
            progress(found, "Updated").is_some_and(|condition| condition.reason == "NotInPool")
        };
        fleet.until(node, is_outside).await;
    }

    // All other objects are handled.
    fleet.create::<MachineConfig>(file("50-motd", "worker", "/etc/motd", "a")).await;
    let pool = fleet.pool_is("worker", |pool| target(pool).is_some_and(|target| target != before)).await;
    let after = target(&pool).unwrap().to_owned();
    let waits = |found: Option<&MachineConfigNode>| {
        progress(found, "Updated").is_some_and(|condition| condition.reason == "Budget")
    };
    fleet.until("w0", waits).await;
    let unreadable = |found: Option<&MachineConfigNode>| {
        progress(found, "Updated").is_some_and(|condition| {
            condition.reason == "InvalidMaxUnavailable" && condition.message.contains("50 percent")
        })
    };
    fleet.patch::<MachineConfigPool>("worker", json!({"spec": {"maxUnavailable": "50 percent"}})).await;
    fleet.until("w0", unreadable).await;
    fleet.patch::<MachineConfigPool>("worker", json!({"spec": {"maxUnavailable": 1}})).await;
    fleet.pool_is("worker", |pool| has_reached(pool, &after)).await;
    assert_eq!(fleet.get::<Node>("bare").await.name_any(), "bare");
}
