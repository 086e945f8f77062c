//! Providers that are installed late, removed, or have an object for each machine.

use serde_json::{Value, json};

use crate::life::{GROUP, pool_reference, reference};
use crate::world::{World, until};

const LATE: &str = "infrastructure.cluster.x-k8s.io/v1alpha3";
const DEFINITION: &str = "latemachinepools.infrastructure.cluster.x-k8s.io";

/// A provider of the first contract: no label, one version.
fn definition() -> Value {
    let preserved = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": DEFINITION},
        "spec": {
            "group": "infrastructure.cluster.x-k8s.io", "scope": "Namespaced",
            "names": {"kind": "LateMachinePool", "plural": "latemachinepools", "singular": "latemachinepool"},
            "versions": [{
                "name": "v1alpha3", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": preserved, "status": preserved}}},
            }],
        },
    })
}

fn definition_reference() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "name": DEFINITION})
}

fn late(name: &str) -> Value {
    reference(LATE, "LateMachinePool", name)
}

/// Whether the condition `InfrastructureReady` of a pool has this reason.
fn infrastructure_is(pool: Option<&Value>, reason: &str) -> bool {
    let conditions = pool.and_then(|pool| pool["status"]["conditions"].as_array()).into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == "InfrastructureReady" && condition["reason"] == reason)
}

impl World {
    async fn install_late_provider(&self) {
        self.management.create(&definition()).await.unwrap();
        let is_established = |found: Option<&Value>| {
            let conditions = found.and_then(|found| found["status"]["conditions"].as_array()).into_iter().flatten();
            conditions.into_iter().any(|condition| condition["type"] == "Established" && condition["status"] == "True")
        };
        self.until(&definition_reference(), is_established).await;
        let object =
            json!({"apiVersion": LATE, "kind": "LateMachinePool", "metadata": {"name": "p", "namespace": "default"}});
        // The kind may take a moment to be served.
        while self.management.create(&object).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn provider_of_the_first_contract_is_followed_when_it_is_installed_and_let_go_when_it_is_removed() {
    let world = World::start().await;
    world.cluster("c", &world.kubeconfig()).await;
    let pool = json!({
        "apiVersion": GROUP, "kind": "MachinePool", "metadata": {"name": "p", "namespace": "default"},
        "spec": {"clusterName": "c", "replicas": 2, "template": {"spec": {
            "clusterName": "c", "bootstrap": {"dataSecretName": "data"},
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "LateMachinePool", "name": "p"},
        }}},
    });
    world.management.create(&pool).await.unwrap();
    world.until(&pool_reference("p"), |pool| infrastructure_is(pool, "ProviderNotInstalled")).await;

    world.install_late_provider().await;
    let is_owned =
        |found: Option<&Value>| found.is_some_and(|found| found["metadata"]["ownerReferences"][0]["name"] == "p");
    world.until(&late("p"), is_owned).await;
    // As the seed's example: no count, `status.ready`.
    let list =
        json!({"spec": {"providerIDList": ["cloud:////my-cloud-provider-id-0", "cloud:////my-cloud-provider-id-1"]}});
    world.management.patch(&late("p"), None, &list).await.unwrap();
    world.management.patch(&late("p"), Some("status"), &json!({"status": {"ready": true}})).await.unwrap();
    for nth in 0..2 {
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("n{nth}")},
            "spec": {"providerID": format!("cloud:////my-cloud-provider-id-{nth}")},
        });
        world.workload.create(&node).await.unwrap();
        world.report(&format!("n{nth}"), "True").await;
    }
    world.is_running("p", 2).await;

    // The pool's own finalizers are not the definition's: its objects go with it.
    world.management.delete(&definition_reference()).await.unwrap();
    world.until(&definition_reference(), |found| found.is_none()).await;
    world.until(&pool_reference("p"), |pool| infrastructure_is(pool, "ProviderNotInstalled")).await;
    world.management.delete(&pool_reference("p")).await.unwrap();
    world.until(&pool_reference("p"), |pool| pool.is_none()).await;
    for nth in 0..2 {
        let node = json!({"apiVersion": "v1", "kind": "Node", "name": format!("n{nth}")});
        until(&world.workload, &node, |node| node.is_none()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pool_whose_cluster_is_deleted_is_released() {
    let world = World::start().await;
    world.cluster("c", &world.kubeconfig()).await;
    world.pool("p", "c", 1).await;
    world.provide("p", &["a"]).await;
    world.register("a").await;
    world.is_running("p", 1).await;
    let cluster = reference(GROUP, "Cluster", "c");
    world.management.delete(&cluster).await.unwrap();
    world.until(&cluster, |cluster| cluster.is_none()).await;
    world.management.delete(&pool_reference("p")).await.unwrap();
    world.until(&pool_reference("p"), |pool| pool.is_none()).await;
}
