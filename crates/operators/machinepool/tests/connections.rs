//! Connections to workload clusters that fail: each ends in a condition that names the cause, holds up no other, and recovers.

use std::net::Ipv4Addr;
use std::time::Duration;

use seaworthy_testkit::Cluster;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::api::text;
use crate::life::{node_reference, pool_reference, reference};
use crate::paths::find;
use crate::world::{World, encoded};

const TOKEN: &str = "top-secret-token";

/// The condition `Available` of a pool.
fn available(pool: &Value) -> Option<&Value> {
    let conditions = pool["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == "Available")
}

fn is_down(pool: Option<&Value>, why: &str) -> bool {
    pool.and_then(available)
        .is_some_and(|found| found["reason"] == "ConnectionDown" && text(found, "message").contains(why))
}

/// A kubeconfig with a token for a server without TLS.
fn kubeconfig(port: u16) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": format!("http://127.0.0.1:{port}")}}],
        "users": [{"name": "u", "user": {"token": TOKEN}}],
    })
}

/// A server that answers everything with this status, and repeats the request, or never answers.
async fn server(answer: Option<&'static str>) -> (u16, JoinHandle<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve = async move {
        let mut held = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let Some(answer) = answer else {
                held.push(stream);
                continue;
            };
            if let Ok(length) = stream.read(&mut request).await {
                let body = String::from_utf8_lossy(&request[..length]).into_owned();
                let head = format!("HTTP/1.1 {answer}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
                let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
            }
        }
    };
    (port, tokio::spawn(serve))
}

impl World {
    async fn rotate(&self, cluster: &str, kubeconfig: &Value) {
        let secret = reference("v1", "Secret", &format!("{cluster}-kubeconfig"));
        let patch = json!({"data": {"value": encoded(kubeconfig)}});
        self.management.patch(&secret, None, &patch).await.unwrap();
    }

    fn reconciles(&self) -> u64 {
        let page = self.metrics.encode().unwrap();
        let counts = page.lines().filter(|line| {
            line.starts_with("seaworthy_reconciles_total{controller=\"machinepool-controller\"")
                || line.starts_with("seaworthy_writes_total{controller=\"machinepool-controller\"")
        });
        counts.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }

    /// Waits until nothing was reconciled or written for a while. Returns how often it was until then.
    async fn is_at_rest(&self) -> u64 {
        loop {
            let before = self.reconciles();
            tokio::time::sleep(Duration::from_millis(500)).await;
            if self.reconciles() == before {
                return before;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_that_cannot_be_reached_is_a_condition_and_holds_up_no_other() {
    let world = World::start().await;
    let (silent, _silent) = server(None).await;
    let (refusing, _refusing) = server(Some("401 Unauthorized")).await;
    let (broken, _broken) = server(Some("500 Internal Server Error")).await;
    for (name, port) in [("silent", silent), ("refusing", refusing), ("broken", broken)] {
        world.cluster(name, &encoded(&kubeconfig(port))).await;
        world.pool(name, name, 1).await;
        world.provide(name, &[name]).await;
    }
    world.cluster("up", &world.kubeconfig()).await;
    world.pool("up", "up", 1).await;
    world.provide("up", &["a"]).await;
    world.register("a").await;
    let started = std::time::Instant::now();
    world.is_running("up", 1).await;
    assert!(started.elapsed() < Duration::from_secs(5), "it waited for others");

    for (name, why) in [("silent", "no answer within"), ("refusing", "credentials"), ("broken", "it answers 500")] {
        let pool = world.until(&pool_reference(name), |pool| is_down(pool, why)).await.unwrap();
        let message = text(available(&pool).unwrap(), "message").to_owned();
        assert!(message.contains("since") && message.contains("next try at"), "{message}");
        assert!(message.contains("http://127.0.0.1:"), "{message}");
        let ids = format!("cloud:////{name}");
        assert_eq!(pool["spec"]["providerIDList"], json!([ids]), "the provider is followed all the same");
        assert!(!pool.to_string().contains(TOKEN), "{pool:#}");
    }
    let events = world.management.list(&json!({"apiVersion": "events.k8s.io/v1", "kind": "Event"})).await.unwrap();
    assert!(!events.is_empty() && !json!(events).to_string().contains(TOKEN));
    let page = world.metrics.encode().unwrap();
    for (name, value) in [("silent", 0), ("up", 1)] {
        let line =
            format!("seaworthy_machinepool_cluster_connected{{namespace=\"default\",cluster=\"{name}\"}} {value}");
        assert!(page.contains(&line), "{page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kubeconfig_is_taken_up_when_it_is_corrected_and_when_it_is_rotated() {
    let world = World::start().await;
    let other = Cluster::start_listening().await;
    world.cluster("c", &encoded(&json!("no kubeconfig"))).await;
    world.pool("p", "c", 1).await;
    world.provide("p", &["a"]).await;
    world.register("a").await;
    world.until(&pool_reference("p"), |pool| is_down(pool, "has no kubeconfig")).await;
    world.rotate("c", world.workload_cluster.kubeconfig()).await;
    world.is_running("p", 1).await;

    // Another server, with a Node of the same name.
    let api = crate::api::Api::new(other.client());
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}, "spec": {"providerID": "cloud:////a"},
    });
    let created = api.create(&node).await.unwrap();
    world.rotate("c", other.kubeconfig()).await;
    world
        .until(&pool_reference("p"), |pool| {
            find(pool.unwrap(), "status/nodeRefs/0/uid") == Some(&created["metadata"]["uid"])
        })
        .await;
    assert!(world.workload.get(&node_reference("a")).await.is_ok(), "a Node of the former server was deleted");
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_may_be_its_own_workload_cluster() {
    let world = World::start().await;
    world.cluster("c", &encoded(world.management_cluster.kubeconfig())).await;
    world.pool("p", "c", 1).await;
    world.provide("p", &["a"]).await;
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}, "spec": {"providerID": "cloud:////a"},
    });
    world.management.create(&node).await.unwrap();
    world.until(&pool_reference("p"), |pool| find(pool.unwrap(), "status/nodeRefs/0/name") == Some(&json!("a"))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heartbeat_of_a_node_and_a_node_of_no_pool_cost_no_reconcile() {
    let world = World::start().await;
    world.cluster("c", &world.kubeconfig()).await;
    world.pool("p", "c", 1).await;
    world.provide("p", &["a"]).await;
    world.register("a").await;
    world.is_running("p", 1).await;
    let before = world.is_at_rest().await;
    for second in 10..30 {
        let beat = json!({"status": {"conditions": [{
            "type": "Ready", "status": "True", "reason": "Test", "message": "", "lastTransitionTime": "2024-01-01T00:00:00Z",
            "lastHeartbeatTime": format!("2026-01-01T00:00:{second}Z"),
        }]}});
        world.workload.patch(&node_reference("a"), Some("status"), &beat).await.unwrap();
    }
    world.register("stranger").await;
    assert_eq!(world.is_at_rest().await, before);
    world.report("a", "False").await;
    world.until(&pool_reference("p"), |pool| pool.unwrap()["status"]["phase"] == "ScalingUp").await;
}
