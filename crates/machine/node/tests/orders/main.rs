//! The real daemon on machines in memory, on whichever API server the suite is run: from a MachineConfig to the files on
//! every machine, and orders that change while they are carried out.

#![allow(clippy::unwrap_used)]

mod adoption;
mod at_rest;
mod fleet;
mod request_interceptor;
mod under_way;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::PostParams;
use seaworthy_api::machineconfiguration::MachineConfig;
use seaworthy_api::vocabulary::machineconfiguration::node as annotation;
use seaworthy_host::FakeHost;
use seaworthy_machineconfig::operator;
use seaworthy_node::{AgentOptions, Daemon, DaemonIntervals, paths};
use seaworthy_runtime::NAMESPACE;
use seaworthy_testkit::Cluster;
use serde_json::json;

use crate::fleet::{Fleet, WAIT_TIMEOUT, file, is_updated, machine, target};
use crate::request_interceptor::RequestInterceptor;

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_config_reaches_every_machine_with_a_drain_and_a_boot_each() {
    let fleet = Fleet::start(3).await;
    assert_eq!(fleet.boots(), 0);
    fleet.apply("50-random", file("/etc/random", "one")).await;
    fleet.everywhere("/etc/random", "one").await;
    assert_eq!(fleet.boots(), 3);
    for name in fleet.hosts.keys() {
        let node: Node = fleet.api().get(name).await.unwrap();
        let value = |key: seaworthy_api::vocabulary::Annotation| key.of(&node.metadata).unwrap_or_default().to_owned();
        assert_eq!(value(annotation::STATE), "Done");
        assert_eq!(value(annotation::CURRENT_CONFIG), value(annotation::DESIRED_CONFIG));
        assert!(value(annotation::LAST_APPLIED_DRAIN).starts_with("uncordon-"));
        assert_eq!(value(annotation::POST_CONFIG_ACTION), "");
        assert!(!node.spec.and_then(|spec| spec.unschedulable).unwrap_or_default());
    }
    // What needs less gets less.
    fleet.apply("60-quiet", file("/etc/nmstate/openshift/a", "x")).await;
    fleet.everywhere("/etc/nmstate/openshift/a", "x").await;
    assert_eq!(fleet.boots(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_fails_reports_the_cause_and_the_revert_brings_it_back() {
    let fleet = Fleet::start(2).await;
    for host in fleet.hosts.values() {
        host.fail("write /etc/nmstate/openshift/bad", "No space left on device");
    }
    fleet.apply("50-bad", file("/etc/nmstate/openshift/bad", "x")).await;
    let is_degraded = |node: &Node| annotation::STATE.of(&node.metadata) == Some("Degraded");
    let failed: Node = tokio::select! {
        node = fleet.until("w0", is_degraded) => node,
        node = fleet.until("w1", is_degraded) => node,
    };
    let reason = annotation::REASON.of(&failed.metadata).unwrap().to_owned();
    assert!(reason.contains("/etc/nmstate/openshift/bad") && reason.contains("No space left"), "{reason}");
    fleet.api::<MachineConfig>().delete("50-bad", &Default::default()).await.unwrap();
    fleet.pool_is("worker", |pool| is_updated(pool, 2)).await;
    let node: Node = fleet.until(failed.metadata.name.as_deref().unwrap(), |node: &Node| !is_degraded(node)).await;
    assert_eq!(annotation::REASON.of(&node.metadata), Some(""));
    assert_eq!(fleet.boots(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn drift_is_reported_while_nothing_is_ordered_and_ends_when_it_is_reverted() {
    let fleet = Fleet::start(1).await;
    fleet.apply("50-a", file("/etc/nmstate/openshift/a", "right")).await;
    fleet.everywhere("/etc/nmstate/openshift/a", "right").await;
    fleet.hosts["w0"].put("/etc/nmstate/openshift/a", b"wrong", 0o644);
    let node: Node = fleet.until("w0", |node: &Node| annotation::STATE.of(&node.metadata) == Some("Degraded")).await;
    let reason = annotation::REASON.of(&node.metadata).unwrap();
    assert!(reason.contains("/etc/nmstate/openshift/a"), "{reason}");
    fleet.hosts["w0"].put("/etc/nmstate/openshift/a", b"right", 0o644);
    fleet.until("w0", |node: &Node| annotation::STATE.of(&node.metadata) == Some("Done")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_node_sends_no_requests_and_still_sees_the_force_file() {
    let fleet = Fleet::start(0).await;
    let pool = fleet.pool_is("worker", |pool| target(pool).is_some()).await;
    let rendered: MachineConfig = fleet.api().get(target(&pool).unwrap()).await.unwrap();
    let host = machine("w0", &rendered);
    fleet.create::<Node>(seaworthy_testkit::node("w0", "worker", None)).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&asked);
    let intervals = DaemonIntervals { drift_check_interval: Duration::from_millis(1), ..DaemonIntervals::default() };
    let client = RequestInterceptor::client(&fleet.client, move |_| {
        counting.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(true))
    });
    let mut daemon = Daemon::new(client, "w0", host.clone(), AgentOptions::default(), intervals);
    let running = tokio::spawn(async move { daemon.run().await });
    let is_done = |node: &Node| annotation::STATE.of(&node.metadata) == Some("Done");
    fleet.until("w0", is_done).await;
    // After the first orders the machine is checked periodically, and no requests are sent.
    let settle = async {
        let (mut before, mut looks) = (0, 0);
        while before != asked.load(Ordering::SeqCst) || host.read_calls() < looks + 10_000 {
            let now = asked.load(Ordering::SeqCst);
            if now != before {
                (before, looks) = (now, host.read_calls());
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(WAIT_TIMEOUT, settle).await.expect("it asks again and again, or looks no more");
    host.put(paths::FORCE, b"", 0o644);
    let is_draining =
        |node: &Node| annotation::DESIRED_DRAIN.of(&node.metadata).is_some_and(|it| it.starts_with("drain-"));
    fleet.until("w0", is_draining).await;
    running.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_file_of_first_annotations_is_named_on_the_node() {
    let cluster = Cluster::start().await;
    let client = cluster.client();
    operator::install(&client, NAMESPACE).await.unwrap();
    let (nodes, configs): (Api<Node>, Api<MachineConfig>) = (Api::all(client.clone()), Api::all(client.clone()));
    let node: Node = serde_json::from_value(seaworthy_testkit::node("w0", "worker", None)).unwrap();
    nodes.create(&PostParams::default(), &node).await.unwrap();
    let host = FakeHost::new("w0");
    host.put(paths::INITIAL_ANNOTATIONS, b"{\"a\": ", 0o644);
    let mut daemon = Daemon::new(client, "w0", host.clone(), AgentOptions::default(), DaemonIntervals::default());
    let error = daemon.attempt(false).await.unwrap_err().to_string();
    let node = nodes.get("w0").await.unwrap();
    assert_eq!(annotation::STATE.of(&node.metadata), Some("Degraded"));
    assert_eq!(annotation::REASON.of(&node.metadata), Some(error.as_str()));
    assert!(error.contains(paths::INITIAL_ANNOTATIONS), "{error}");

    // Fixed, it is all that was missing.
    let first = json!({"metadata": {"name": "first"}, "spec": {"config": {"ignition": {"version": "3.5.0"}}}});
    let first: MachineConfig = serde_json::from_value(first).unwrap();
    configs.create(&PostParams::default(), &first).await.unwrap();
    let annotations =
        json!({annotation::CURRENT_CONFIG.as_str(): "first", annotation::DESIRED_CONFIG.as_str(): "first"});
    host.put(paths::INITIAL_ANNOTATIONS, annotations.to_string().as_bytes(), 0o644);
    daemon.attempt(false).await.unwrap();
    let node = nodes.get("w0").await.unwrap();
    assert_eq!(annotation::STATE.of(&node.metadata), Some("Done"));
    assert_eq!(annotation::REASON.of(&node.metadata), Some(""));
}
