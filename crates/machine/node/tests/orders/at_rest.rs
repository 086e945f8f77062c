//! What a daemon does, and whom it asks, while no order is new.

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
use seaworthy_node::clock::Moment;
use seaworthy_node::{Daemon, Rhythm, Settings, paths};
use seaworthy_testkit::Cluster;
use serde_json::json;

use crate::between::Between;
use crate::fleet::{PATIENCE, controller_config};
use crate::under_way::{Berth, LOUD, QUIET};

/// Nothing is done by the clock while a test runs.
const NEVER: Duration = Duration::from_secs(3600);

fn rhythm() -> Rhythm {
    let soon = Duration::from_millis(1);
    Rhythm { first_retry: NEVER, last_retry: NEVER, check: NEVER, settle: soon, boot: soon }
}

/// Touches a file again and again, until the daemon has looked at it many times without asking anybody.
async fn is_looked_at_only(berth: &Berth, asked: &AtomicUsize, text: &str) {
    let touch = async {
        let (mut before, mut looks) = (usize::MAX, 0);
        while before != asked.load(Ordering::SeqCst) || berth.host.looks() < looks + 1000 {
            let now = asked.load(Ordering::SeqCst);
            if now != before {
                (before, looks) = (now, berth.host.looks());
            }
            berth.host.put(QUIET, text.as_bytes(), 0o644);
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, touch).await.expect("whoever touches a file makes the daemon ask");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_touched_is_looked_at_and_nobody_is_asked() {
    let cluster = Cluster::start().await;
    let berth = Berth::new(cluster.client(), QUIET).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&asked);
    let client = Between::client(&berth.client, move |_| {
        counting.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(true))
    });
    let mut daemon = Daemon::new(client, "w0", berth.host.clone(), Settings::default(), rhythm());
    let running = tokio::spawn(async move { daemon.run().await });
    berth.order("new").await;
    berth.until(annotation::CURRENT_CONFIG, "new").await;
    is_looked_at_only(&berth, &asked, "x").await;
    // Nor on a node on which something is wrong already, as long as it is the same.
    berth.host.put(QUIET, b"wrong", 0o644);
    berth.until(annotation::STATE, "Degraded").await;
    is_looked_at_only(&berth, &asked, "wrong").await;
    berth.host.put(QUIET, b"x", 0o644);
    berth.until(annotation::STATE, "Done").await;
    running.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_fails_still_gets_its_certificates() {
    let cluster = Cluster::start().await;
    let berth = Berth::new(cluster.client(), QUIET).await;
    let mut daemon = Daemon::new(berth.client.clone(), "w0", berth.host.clone(), Settings::default(), rhythm());
    let running = tokio::spawn(async move { daemon.run().await });
    berth.order("nobody-has-this").await;
    berth.until(annotation::STATE, "Degraded").await;
    let config: ControllerConfig = serde_json::from_value(controller_config()).unwrap();
    let configs: Api<ControllerConfig> = Api::all(berth.client.clone());
    let version = configs.create(&PostParams::default(), &config).await.unwrap().metadata.resource_version.unwrap();
    berth.until(annotation::LAST_SYNCED_CONTROLLER_CONFIG, &version).await;
    assert_eq!(berth.host.text(paths::KUBELET_CA).as_deref(), Some("ca"));
    assert_eq!(berth.said(annotation::STATE).await, "Degraded");
    assert!(berth.said(annotation::REASON).await.contains("nobody-has-this"));
    // And what cannot be written is said beside what was wrong before.
    berth.host.fail("write /etc/kubernetes/kubelet-ca.crt", "Read-only file system");
    let renewed = json!({"spec": {"kubeAPIServerServingCAData": "Y2Ey"}});
    configs.patch("machine-config-controller", &PatchParams::default(), &Patch::Merge(&renewed)).await.unwrap();
    let is_said = |node: Option<&Node>| {
        let reason = node.and_then(|node| annotation::REASON.of(&node.metadata)).unwrap_or_default();
        reason.contains("nobody-has-this") && reason.contains("kubelet-ca.crt") && reason.contains("Read-only")
    };
    let nodes: Api<Node> = Api::all(berth.client.clone());
    let waited = kube::runtime::wait::await_condition(nodes, "w0", is_said);
    tokio::time::timeout(PATIENCE, waited).await.unwrap().unwrap();
    running.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_does_not_boot_says_so_and_is_followed_until_it_does() {
    let cluster = Cluster::start().await;
    let berth = Berth::new(cluster.client(), LOUD).await;
    // The drain controller.
    let grant = async |wish: &str| {
        berth.until(annotation::DESIRED_DRAIN, wish).await;
        let reason = berth.said(annotation::REASON).await;
        assert!(reason.starts_with("waits for ") && reason.contains(wish), "{reason}");
        berth.grant(wish).await;
    };
    let minutes = Arc::new(AtomicU64::new(0));
    let turned = Arc::clone(&minutes);
    let clock = move || Moment::new(Duration::from_secs(60 * turned.load(Ordering::SeqCst)), 0);
    let rhythm = Rhythm { check: Duration::from_millis(1), ..rhythm() };
    let daemon = Daemon::new(berth.client.clone(), "w0", berth.host.clone(), Settings::default(), rhythm);
    let mut daemon = daemon.with_clock(Arc::new(clock));
    let running = tokio::spawn(async move { daemon.follow().await });
    berth.order("new").await;
    grant("drain-new").await;
    berth.until(annotation::POST_CONFIG_ACTION, "Rebooting").await;
    assert_eq!(berth.said(annotation::REASON).await, "boots into new");
    minutes.fetch_add(6, Ordering::SeqCst);
    berth.until(annotation::STATE, "Degraded").await;
    let reason = berth.said(annotation::REASON).await;
    assert!(reason.starts_with("asked for a reboot at "), "{reason}");
    let asked = berth.host.calls().iter().filter(|call| call.starts_with("reboot ")).count();
    assert_eq!(asked, 2);
    berth.host.boot_orderly();
    grant("uncordon-new").await;
    berth.until(annotation::CURRENT_CONFIG, "new").await;
    assert_eq!(berth.said(annotation::STATE).await, "Done");
    assert_eq!(berth.said(annotation::REASON).await, "");
    assert!(!berth.host.exists(paths::JOURNAL).unwrap());
    running.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_failed_says_at_what_until_it_is_where_it_should_be() {
    let cluster = Cluster::start().await;
    let berth = Berth::new(cluster.client(), LOUD).await;
    let failed =
        json!({annotation::STATE.as_str(): "Degraded", annotation::REASON.as_str(): "unit broken.service failed"});
    berth.say(failed).await;
    berth.order("new").await;
    let mut daemon = Daemon::new(berth.client.clone(), "w0", berth.host.clone(), Settings::default(), rhythm());
    let running = tokio::spawn(async move { daemon.follow().await });
    let stands = async || (berth.said(annotation::STATE).await, berth.said(annotation::REASON).await);
    let is_failing = ("Degraded".to_owned(), "unit broken.service failed".to_owned());
    berth.until(annotation::DESIRED_DRAIN, "drain-new").await;
    assert_eq!(stands().await, is_failing, "its pods leave");
    berth.grant("drain-new").await;
    berth.until(annotation::POST_CONFIG_ACTION, "Rebooting").await;
    assert_eq!(stands().await, is_failing, "it boots");
    berth.host.boot_orderly();
    berth.until(annotation::DESIRED_DRAIN, "uncordon-new").await;
    let (state, reason) = stands().await;
    assert!(state == "Working" && reason.starts_with("waits for pods to be let in again"), "{state}: {reason}");
    berth.grant("uncordon-new").await;
    berth.until(annotation::CURRENT_CONFIG, "new").await;
    assert_eq!(stands().await, ("Done".to_owned(), String::new()));
    running.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_whose_node_was_made_anew_says_what_it_has_although_it_fails() {
    let cluster = Cluster::start().await;
    let berth = Berth::new(cluster.client(), QUIET).await;
    berth.say(json!({annotation::CURRENT_CONFIG.as_str(): null, annotation::STATE.as_str(): null})).await;
    berth.order("nobody-has-this").await;
    let mut daemon = Daemon::new(berth.client.clone(), "w0", berth.host.clone(), Settings::default(), rhythm());
    let running = tokio::spawn(async move { daemon.follow().await });
    berth.until(annotation::STATE, "Degraded").await;
    assert_eq!(berth.said(annotation::CURRENT_CONFIG).await, "old", "it would be given nothing otherwise");
    assert!(berth.said(annotation::REASON).await.contains("nobody-has-this"));
    running.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_else_says_in_a_nodes_name_is_put_right() {
    let cluster = Cluster::start().await;
    let berth = Berth::new(cluster.client(), QUIET).await;
    let mut daemon = Daemon::new(berth.client.clone(), "w0", berth.host.clone(), Settings::default(), rhythm());
    let running = tokio::spawn(async move { daemon.follow().await });
    berth.order("new").await;
    berth.until(annotation::CURRENT_CONFIG, "new").await;
    berth.say(json!({annotation::STATE.as_str(): "Degraded", annotation::REASON.as_str(): "joke"})).await;
    berth.until(annotation::STATE, "Done").await;
    berth.until(annotation::REASON, "").await;
    running.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn events_say_what_they_are_about_although_something_like_it_was_told_before() {
    let cluster = Cluster::start().await;
    let berth = Berth::new(cluster.client(), QUIET).await;
    let mut daemon = Daemon::new(berth.client.clone(), "w0", berth.host.clone(), Settings::default(), rhythm());
    let running = tokio::spawn(async move { daemon.follow().await });
    for config in ["nobody-has-this", "nor-this"] {
        berth.order(config).await;
        let is_said = |event: &Event| event.note.as_deref().is_some_and(|note| note.contains(config));
        let events: Api<Event> = Api::all(berth.client.clone());
        let told = async {
            while !events.list(&ListParams::default()).await.unwrap().items.iter().any(is_said) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, told).await.expect(config);
    }
    running.abort();
}
