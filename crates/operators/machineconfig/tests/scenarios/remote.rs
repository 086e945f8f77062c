//! Remote content of MachineConfigs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigPool};
use seaworthy_fetch::Policy;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::fleet::{Fleet, condition, has_reached, is_true, target};

/// A server that counts requests, and responds with the count.
struct Web {
    address: String,
    asked: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Web {
    async fn start() -> Web {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut read = [0; 4096];
                let _ = stream.read(&mut read).await;
                let body = format!("answer-{}", count.fetch_add(1, Ordering::SeqCst));
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
                let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
            }
        });
        Web { address, asked, task }
    }
}

fn referring(name: &str, url: &str, more: Value) -> Value {
    let mut contents = json!({"source": url});
    contents.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": {"name": name, "labels": {"machineconfiguration.openshift.io/role": "worker"}},
        "spec": {"config": {
            "ignition": {"version": "3.5.0"},
            "storage": {"files": [{"path": "/etc/remote", "mode": 420, "contents": contents}]},
        }},
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn remote_content_is_fetched_once_and_survives_its_server_and_a_restart_of_the_controllers() {
    let web = Web::start().await;
    let mut fleet = Fleet::fetching(Policy::allowing([web.address.parse().unwrap()])).await.grown(1).await;
    let before = target(&fleet.get::<MachineConfigPool>("worker").await).unwrap().to_owned();
    let url = format!("http://{}/motd", web.address);
    fleet.create::<MachineConfig>(referring("50-remote", &url, json!({}))).await;
    let pool = fleet.pool_is("worker", |pool| target(pool).is_some_and(|target| target != before)).await;
    let first = target(&pool).unwrap().to_owned();
    let rendered: MachineConfig = fleet.get(&first).await;
    assert!(serde_json::to_string(&rendered.spec).unwrap().contains("data:,answer-0"));
    fleet.pool_is("worker", |pool| has_reached(pool, &first)).await;

    // Restarted controllers, and another render, have the same content without fetching it again.
    fleet.restart().await;
    let motd = crate::fleet::file("60-more", "worker", "/etc/more", "a");
    fleet.create::<MachineConfig>(motd).await;
    fleet.pool_is("worker", |pool| target(pool).is_some_and(|target| target != first)).await;
    fleet.api::<MachineConfig>().delete("60-more", &Default::default()).await.unwrap();
    fleet.pool_is("worker", |pool| has_reached(pool, &first)).await;
    assert_eq!(web.asked.load(Ordering::SeqCst), 1);

    // The refresh annotation fetches the present content.
    fleet
        .patch::<MachineConfig>("50-remote", json!({"metadata": {"annotations": {"seaworthy.dev/refresh": "1"}}}))
        .await;
    let pool = fleet.pool_is("worker", |pool| target(pool).is_some_and(|target| target != first)).await;
    let second = target(&pool).unwrap().to_owned();
    assert_eq!(web.asked.load(Ordering::SeqCst), 2);

    // Content with another hash is refused, with the name of its MachineConfig.
    let hash = format!("sha512-{}", "ab".repeat(64));
    let wrong =
        referring("70-wrong", &format!("http://{}/wrong", web.address), json!({"verification": {"hash": hash}}));
    fleet.create::<MachineConfig>(wrong).await;
    let degraded = |reason: &'static str| {
        move |pool: &MachineConfigPool| {
            condition(pool, "RenderDegraded").is_some_and(|found| found.reason.as_deref() == Some(reason))
        }
    };
    let pool = fleet.pool_is("worker", degraded("RemoteVerificationFailed")).await;
    assert!(condition(&pool, "RenderDegraded").unwrap().message.as_deref().unwrap().contains("70-wrong"));
    assert_eq!(target(&pool), Some(second.as_str()), "the last good one stays");
    fleet.api::<MachineConfig>().delete("70-wrong", &Default::default()).await.unwrap();
    fleet.pool_is("worker", |pool| !is_true(pool, "RenderDegraded")).await;

    // Without the server, fetched content is still used, and other content is refused, with the name of its MachineConfig.
    web.task.abort();
    let _ = web.task.await;
    fleet.create::<MachineConfig>(referring("80-late", &format!("http://{}/late", web.address), json!({}))).await;
    let pool = fleet.pool_is("worker", degraded("RemoteFetchFailed")).await;
    let message = condition(&pool, "RenderDegraded").unwrap().message.clone().unwrap();
    assert!(message.contains("80-late") && !message.contains("50-remote"), "{message}");
    fleet.restart().await;
    fleet.api::<MachineConfig>().delete("80-late", &Default::default()).await.unwrap();
    fleet.pool_is("worker", |pool| has_reached(pool, &second) && !is_true(pool, "RenderDegraded")).await;
}
