//! The daemon without a new order: its checks and its requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use seaworthy_api::machineconfiguration::ControllerConfig;
use seaworthy_api::vocabulary::machineconfiguration::node as annotation;
use seaworthy_host::Host as _;
use seaworthy_node::clock::ClockReading;
use seaworthy_node::{AgentOptions, Daemon, DaemonIntervals, paths};
use seaworthy_testkit::Cluster;
use serde_json::json;

use crate::fleet::{WAIT_TIMEOUT, controller_config};
use crate::request_interceptor::RequestInterceptor;
use crate::under_way::{LOUD, QUIET, TestNode};

/// Longer than any test: nothing is done by the clock while one runs.
const UNREACHED_INTERVAL: Duration = Duration::from_secs(3600);

fn intervals() -> DaemonIntervals {
    let soon = Duration::from_millis(1);
    DaemonIntervals {
        initial_retry_delay: UNREACHED_INTERVAL,
        max_retry_delay: UNREACHED_INTERVAL,
        drift_check_interval: UNREACHED_INTERVAL,
        debounce_delay: soon,
        reboot_check_interval: soon,
    }
}

/// Touches a file again and again, until the daemon has looked at it many times without any request.
async fn is_looked_at_only(test_node: &TestNode, asked: &AtomicUsize, text: &str) {
    let touch = async {
        let (mut before, mut looks) = (usize::MAX, 0);
        while before != asked.load(Ordering::SeqCst) || test_node.host.read_calls() < looks + 1000 {
            let now = asked.load(Ordering::SeqCst);
            if now != before {
                (before, looks) = (now, test_node.host.read_calls());
            }
            test_node.host.put(QUIET, text.as_bytes(), 0o644);
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(WAIT_TIMEOUT, touch).await.expect("a changed file makes the daemon send requests");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_touched_file_is_checked_without_a_request() {
    let cluster = Cluster::start().await;
    let test_node = TestNode::new(cluster.client(), QUIET).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&asked);
    let client = RequestInterceptor::client(&test_node.client, move |_| {
        counting.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(true))
    });
    let mut daemon = Daemon::new(client, "w0", test_node.host.clone(), AgentOptions::default(), intervals());
    let running = tokio::spawn(async move { daemon.run().await });
    test_node.order("new").await;
    test_node.until(annotation::CURRENT_CONFIG, "new").await;
    is_looked_at_only(&test_node, &asked, "x").await;
    // Nor on a node on which something is wrong already, as long as it is the same.
    test_node.host.put(QUIET, b"wrong", 0o644);
    test_node.until(annotation::STATE, "Degraded").await;
    is_looked_at_only(&test_node, &asked, "wrong").await;
    test_node.host.put(QUIET, b"x", 0o644);
    test_node.until(annotation::STATE, "Done").await;
    running.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_fails_still_gets_its_certificates() {
    let cluster = Cluster::start().await;
    let test_node = TestNode::new(cluster.client(), QUIET).await;
    let mut daemon =
        Daemon::new(test_node.client.clone(), "w0", test_node.host.clone(), AgentOptions::default(), intervals());
    let running = tokio::spawn(async move { daemon.run().await });
    test_node.order("missing-config").await;
    test_node.until(annotation::STATE, "Degraded").await;
    let config: ControllerConfig = serde_json::from_value(controller_config()).unwrap();
    let configs: Api<ControllerConfig> = Api::all(test_node.client.clone());
    let version = configs.create(&PostParams::default(), &config).await.unwrap().metadata.resource_version.unwrap();
    test_node.until(annotation::LAST_SYNCED_CONTROLLER_CONFIG, &version).await;
    assert_eq!(test_node.host.text(paths::KUBELET_CA).as_deref(), Some("ca"));
    assert_eq!(test_node.annotation(annotation::STATE).await, "Degraded");
    assert!(test_node.annotation(annotation::REASON).await.contains("missing-config"));
    // And a file that cannot be written is reported beside the earlier error.
    test_node.host.fail("write /etc/kubernetes/kubelet-ca.crt", "Read-only file system");
    let renewed = json!({"spec": {"kubeAPIServerServingCAData": "Y2Ey"}});
    configs.patch("machine-config-controller", &PatchParams::default(), &Patch::Merge(&renewed)).await.unwrap();
    let is_reported = |node: Option<&Node>| {
        let reason = node.and_then(|node| annotation::REASON.of(&node.metadata)).unwrap_or_default();
        reason.contains("missing-config") && reason.contains("kubelet-ca.crt") && reason.contains("Read-only")
    };
    let nodes: Api<Node> = Api::all(test_node.client.clone());
    let waited = kube::runtime::wait::await_condition(nodes, "w0", is_reported);
    tokio::time::timeout(WAIT_TIMEOUT, waited).await.unwrap().unwrap();
    running.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_does_not_boot_reports_it_and_is_followed_until_it_does() {
    let cluster = Cluster::start().await;
    let test_node = TestNode::new(cluster.client(), LOUD).await;
    // The drain controller.
    let grant = async |request: &str| {
        test_node.until(annotation::DESIRED_DRAIN, request).await;
        let reason = test_node.annotation(annotation::REASON).await;
        assert!(reason.starts_with("waiting for ") && reason.contains(request), "{reason}");
        test_node.grant(request).await;
    };
    let minutes = Arc::new(AtomicU64::new(0));
    let turned = Arc::clone(&minutes);
    let clock = move || ClockReading::new(Duration::from_secs(60 * turned.load(Ordering::SeqCst)), 0);
    let intervals = DaemonIntervals { drift_check_interval: Duration::from_millis(1), ..intervals() };
    let daemon =
        Daemon::new(test_node.client.clone(), "w0", test_node.host.clone(), AgentOptions::default(), intervals);
    let mut daemon = daemon.with_clock(Arc::new(clock));
    let running = tokio::spawn(async move { daemon.follow().await });
    test_node.order("new").await;
    grant("drain-new").await;
    test_node.until(annotation::POST_CONFIG_ACTION, "Rebooting").await;
    assert_eq!(test_node.annotation(annotation::REASON).await, "boots into new");
    minutes.fetch_add(6, Ordering::SeqCst);
    test_node.until(annotation::STATE, "Degraded").await;
    let reason = test_node.annotation(annotation::REASON).await;
    assert!(reason.starts_with("reboot requested at "), "{reason}");
    let asked = test_node.host.calls().iter().filter(|call| call.starts_with("reboot ")).count();
    assert_eq!(asked, 2);
    test_node.host.boot_orderly();
    grant("uncordon-new").await;
    test_node.until(annotation::CURRENT_CONFIG, "new").await;
    assert_eq!(test_node.annotation(annotation::STATE).await, "Done");
    assert_eq!(test_node.annotation(annotation::REASON).await, "");
    assert!(!test_node.host.exists(paths::JOURNAL).unwrap());
    running.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_failed_reports_the_cause_until_its_order_is_carried_out() {
    let cluster = Cluster::start().await;
    let test_node = TestNode::new(cluster.client(), LOUD).await;
    let failed =
        json!({annotation::STATE.as_str(): "Degraded", annotation::REASON.as_str(): "unit broken.service failed"});
    test_node.annotate(failed).await;
    test_node.order("new").await;
    let mut daemon =
        Daemon::new(test_node.client.clone(), "w0", test_node.host.clone(), AgentOptions::default(), intervals());
    let running = tokio::spawn(async move { daemon.follow().await });
    let state_and_reason =
        async || (test_node.annotation(annotation::STATE).await, test_node.annotation(annotation::REASON).await);
    let is_failing = ("Degraded".to_owned(), "unit broken.service failed".to_owned());
    test_node.until(annotation::DESIRED_DRAIN, "drain-new").await;
    assert_eq!(state_and_reason().await, is_failing, "its pods leave");
    test_node.grant("drain-new").await;
    test_node.until(annotation::POST_CONFIG_ACTION, "Rebooting").await;
    assert_eq!(state_and_reason().await, is_failing, "it boots");
    test_node.host.boot_orderly();
    test_node.until(annotation::DESIRED_DRAIN, "uncordon-new").await;
    let (state, reason) = state_and_reason().await;
    assert!(
        state == "Working" && reason.starts_with("waiting for the node to be uncordoned since "),
        "{state}: {reason}"
    );
    test_node.grant("uncordon-new").await;
    test_node.until(annotation::CURRENT_CONFIG, "new").await;
    assert_eq!(state_and_reason().await, ("Done".to_owned(), String::new()));
    running.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_whose_node_is_recreated_reports_what_it_has_although_it_fails() {
    let cluster = Cluster::start().await;
    let test_node = TestNode::new(cluster.client(), QUIET).await;
    test_node.annotate(json!({annotation::CURRENT_CONFIG.as_str(): null, annotation::STATE.as_str(): null})).await;
    test_node.order("missing-config").await;
    let mut daemon =
        Daemon::new(test_node.client.clone(), "w0", test_node.host.clone(), AgentOptions::default(), intervals());
    let running = tokio::spawn(async move { daemon.follow().await });
    test_node.until(annotation::STATE, "Degraded").await;
    assert_eq!(test_node.annotation(annotation::CURRENT_CONFIG).await, "old", "it would be given nothing otherwise");
    assert!(test_node.annotation(annotation::REASON).await.contains("missing-config"));
    running.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn state_that_another_client_writes_on_a_node_is_corrected() {
    let cluster = Cluster::start().await;
    let test_node = TestNode::new(cluster.client(), QUIET).await;
    let mut daemon =
        Daemon::new(test_node.client.clone(), "w0", test_node.host.clone(), AgentOptions::default(), intervals());
    let running = tokio::spawn(async move { daemon.follow().await });
    test_node.order("new").await;
    test_node.until(annotation::CURRENT_CONFIG, "new").await;
    test_node.annotate(json!({annotation::STATE.as_str(): "Degraded", annotation::REASON.as_str(): "joke"})).await;
    test_node.until(annotation::STATE, "Done").await;
    test_node.until(annotation::REASON, "").await;
    running.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn events_name_their_cause_although_a_similar_one_was_sent_before() {
    let cluster = Cluster::start().await;
    let test_node = TestNode::new(cluster.client(), QUIET).await;
    let mut daemon =
        Daemon::new(test_node.client.clone(), "w0", test_node.host.clone(), AgentOptions::default(), intervals());
    let running = tokio::spawn(async move { daemon.follow().await });
    for config in ["missing-config", "nor-this"] {
        test_node.order(config).await;
        let is_about = |event: &Event| event.note.as_deref().is_some_and(|note| note.contains(config));
        let events: Api<Event> = Api::all(test_node.client.clone());
        let is_published = async {
            while !events.list(&ListParams::default()).await.unwrap().items.iter().any(is_about) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(WAIT_TIMEOUT, is_published).await.expect(config);
    }
    running.abort();
}
