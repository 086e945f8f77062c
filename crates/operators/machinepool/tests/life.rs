//! The life of a pool: from nothing to Running, up, down, and gone with its Nodes.

use serde_json::{Value, json};

use crate::world::World;

pub const GROUP: &str = "cluster.x-k8s.io/v1beta2";
const BOOTSTRAP: &str = "bootstrap.cluster.x-k8s.io/v1beta2";
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io/v1beta2";

pub fn reference(api_version: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "name": name, "namespace": "default"})
}

pub fn pool_reference(name: &str) -> Value {
    reference(GROUP, "MachinePool", name)
}

pub fn node_reference(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "name": name})
}

impl World {
    /// A Cluster whose control plane has answered, and its kubeconfig.
    pub async fn cluster(&self, name: &str, kubeconfig: &str) {
        self.secret(name, kubeconfig).await;
        let cluster = json!({
            "apiVersion": GROUP, "kind": "Cluster", "metadata": {"name": name, "namespace": "default"},
            "spec": {"controlPlaneEndpoint": {"host": "control.example.com", "port": 6443}},
        });
        self.management.create(&cluster).await.unwrap();
        let initialized = json!({
            "type": "ControlPlaneInitialized", "status": "True", "reason": "Initialized", "message": "",
            "lastTransitionTime": "2024-01-01T00:00:00Z",
        });
        let status = json!({"status": {
            "initialization": {"infrastructureProvisioned": true, "controlPlaneInitialized": true},
            "conditions": [initialized],
        }});
        self.management.patch(&reference(GROUP, "Cluster", name), Some("status"), &status).await.unwrap();
    }

    /// The Secret with the kubeconfig of a Cluster, without any label.
    pub async fn secret(&self, cluster: &str, kubeconfig: &str) {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": format!("{cluster}-kubeconfig"), "namespace": "default"},
            "data": {"value": kubeconfig},
        });
        self.management.create(&secret).await.unwrap();
    }

    /// A pool with its providers' objects, of which the bootstrap one is ready.
    pub async fn pool(&self, name: &str, cluster: &str, replicas: i32) {
        let object = |api_version: &str, kind: &str| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": {"of": "test"}});
        self.management.create(&object(BOOTSTRAP, "GenericBootstrapConfig")).await.unwrap();
        let status =
            json!({"status": {"ready": true, "dataSecretName": "data", "initialization": {"dataSecretCreated": true}}});
        let bootstrap = reference(BOOTSTRAP, "GenericBootstrapConfig", name);
        self.management.patch(&bootstrap, Some("status"), &status).await.unwrap();
        self.management.create(&object(INFRASTRUCTURE, "GenericInfrastructureMachinePool")).await.unwrap();
        let pool = json!({
            "apiVersion": GROUP, "kind": "MachinePool",
            "metadata": {"name": name, "namespace": "default", "labels": {"cluster.x-k8s.io/cluster-name": cluster}},
            "spec": {"clusterName": cluster, "replicas": replicas, "template": {"spec": {
                "clusterName": cluster,
                "bootstrap": {"configRef": {
                    "apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "GenericBootstrapConfig", "name": name,
                }},
                "infrastructureRef": {
                    "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "GenericInfrastructureMachinePool", "name": name,
                },
                "deletion": {"nodeDeletionTimeoutSeconds": 600},
            }}},
        });
        self.management.create(&pool).await.unwrap();
    }

    /// The provider has these machines.
    pub async fn provide(&self, pool: &str, machines: &[&str]) {
        let infrastructure = reference(INFRASTRUCTURE, "GenericInfrastructureMachinePool", pool);
        let ids: Vec<String> = machines.iter().map(|machine| format!("cloud:////{machine}")).collect();
        let list = json!({"spec": {"providerIDList": ids}});
        self.management.patch(&infrastructure, None, &list).await.unwrap();
        let status =
            json!({"status": {"ready": true, "initialization": {"provisioned": true}, "replicas": machines.len()}});
        self.management.patch(&infrastructure, Some("status"), &status).await.unwrap();
    }

    /// A machine registers, and is ready.
    pub async fn register(&self, machine: &str) {
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": machine},
            "spec": {"providerID": format!("cloud:////{machine}")},
        });
        self.workload.create(&node).await.unwrap();
        self.report(machine, "True").await;
    }

    /// The kubelet of a machine reports its condition `Ready`.
    pub async fn report(&self, machine: &str, ready: &str) {
        let condition = json!({
            "type": "Ready", "status": ready, "reason": "Test", "message": "", "lastTransitionTime": "2024-01-01T00:00:00Z",
        });
        let status = json!({"status": {"conditions": [condition]}});
        self.workload.patch(&node_reference(machine), Some("status"), &status).await.unwrap();
    }

    pub async fn scale(&self, pool: &str, replicas: i32) {
        self.management.patch(&pool_reference(pool), None, &json!({"spec": {"replicas": replicas}})).await.unwrap();
    }

    /// Waits until the pool is Running with so many ready Nodes.
    pub async fn is_running(&self, pool: &str, nodes: usize) {
        self.until(&pool_reference(pool), |found| {
            let status = &found.unwrap()["status"];
            let refs = status["nodeRefs"].as_array().map_or(0, Vec::len);
            status["phase"] == "Running" && refs == nodes && status["readyReplicas"].as_u64() == Some(nodes as u64)
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pool_becomes_running_follows_its_replicas_and_takes_its_nodes_along() {
    let mut world = World::start().await;
    world.cluster("c", &world.kubeconfig()).await;
    world.pool("p", "c", 2).await;
    world.until(&pool_reference("p"), |pool| pool.unwrap()["status"]["phase"] == "Provisioning").await;
    world.provide("p", &["a", "b"]).await;
    world.register("a").await;
    world.register("b").await;
    world.is_running("p", 2).await;

    world.scale("p", 3).await;
    world.until(&pool_reference("p"), |pool| pool.unwrap()["status"]["phase"] == "ScalingUp").await;
    world.provide("p", &["a", "b", "c"]).await;
    world.register("c").await;
    world.is_running("p", 3).await;

    world.scale("p", 1).await;
    world.provide("p", &["c"]).await;
    world.is_running("p", 1).await;
    for gone in ["a", "b"] {
        crate::world::until(&world.workload, &node_reference(gone), |node| node.is_none()).await;
    }

    world.restart().await;
    world.report("c", "False").await;
    world.until(&pool_reference("p"), |pool| pool.unwrap()["status"]["phase"] == "ScalingUp").await;
    world.report("c", "True").await;
    world.is_running("p", 1).await;

    // Of another owner: it stays.
    world.register("other").await;
    world.management.delete(&pool_reference("p")).await.unwrap();
    world.until(&pool_reference("p"), |pool| pool.is_none()).await;
    crate::world::until(&world.workload, &node_reference("c"), |node| node.is_none()).await;
    assert!(world.workload.get(&node_reference("other")).await.is_ok());
    let page = world.metrics.encode().unwrap();
    assert!(page.contains("seaworthy_machinepool_retired_nodes_total 3\n"), "{page}");
}

impl World {
    /// Kills the operator again and again, each time a little later: at every write that it has to make.
    async fn is_killed_at_every_write(&mut self) {
        for nth in 0..30 {
            self.restart().await;
            tokio::time::sleep(std::time::Duration::from_millis(3 * nth)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_that_is_killed_at_every_write_goes_on_where_it_was() {
    let mut world = World::start().await;
    world.cluster("c", &world.kubeconfig()).await;
    world.register("other").await;
    world.register("a").await;
    world.register("b").await;
    world.pool("p", "c", 2).await;
    world.provide("p", &["a", "b"]).await;
    world.is_killed_at_every_write().await;
    world.is_running("p", 2).await;

    world.scale("p", 1).await;
    world.provide("p", &["b"]).await;
    world.is_killed_at_every_write().await;
    world.is_running("p", 1).await;
    crate::world::until(&world.workload, &node_reference("a"), |node| node.is_none()).await;

    world.management.delete(&pool_reference("p")).await.unwrap();
    world.is_killed_at_every_write().await;
    world.until(&pool_reference("p"), |pool| pool.is_none()).await;
    crate::world::until(&world.workload, &node_reference("b"), |node| node.is_none()).await;
    assert!(world.workload.get(&node_reference("other")).await.is_ok());
}
