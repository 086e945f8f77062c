//! Orders that change, disappear or cannot be read while they are carried out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use http::Method;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Api, Client};
use rstest::rstest;
use seaworthy_api::machineconfiguration::MachineConfig;
use seaworthy_api::vocabulary::Annotation;
use seaworthy_api::vocabulary::machineconfiguration::node as annotation;
use seaworthy_host::FakeHost;
use seaworthy_machineconfig::operator;
use seaworthy_node::order::NextAttempt;
use seaworthy_node::{AgentOptions, Daemon, DaemonIntervals, paths};
use seaworthy_runtime::NAMESPACE;
use seaworthy_testkit::{Cluster, Embedded};
use serde_json::{Value, json};

use crate::fleet::{WAIT_TIMEOUT, file, machine};
use crate::request_interceptor::RequestInterceptor;

/// A file that needs neither a drain nor a boot, and one that needs both.
pub const QUIET: &str = "/etc/nmstate/openshift/a";
pub const LOUD: &str = "/etc/random";

/// One node that runs `old`, in a cluster that has `old` and `new`, and in which only the test gives orders.
pub struct TestNode {
    pub client: Client,
    pub host: FakeHost,
}

impl TestNode {
    pub async fn new(client: Client, path: &str) -> TestNode {
        operator::install(&client, NAMESPACE).await.unwrap();
        let node: Node = serde_json::from_value(seaworthy_testkit::node("w0", "worker", Some("old"))).unwrap();
        Api::all(client.clone()).create(&PostParams::default(), &node).await.unwrap();
        let old = config("old", json!({"config": {"ignition": {"version": "3.5.0"}}}));
        let test_node = TestNode { client, host: machine("w0", &old) };
        test_node.configs().create(&PostParams::default(), &old).await.unwrap();
        test_node.configs().create(&PostParams::default(), &config("new", file(path, "x"))).await.unwrap();
        let report = test_node.daemon(test_node.client.clone()).attempt(false).await.unwrap();
        assert_eq!(report.reason, "");
        test_node
    }

    fn configs(&self) -> Api<MachineConfig> {
        Api::all(self.client.clone())
    }

    fn daemon(&self, client: Client) -> Daemon<FakeHost> {
        Daemon::new(client, "w0", self.host.clone(), AgentOptions::default(), DaemonIntervals::default())
    }

    pub async fn order(&self, config: &str) {
        order(&self.client, config).await;
    }

    /// Writes annotations of the Node, as another client than the daemon.
    pub async fn annotate(&self, annotations: Value) {
        annotate(&self.client, annotations).await;
    }

    /// Grants a request, as the drain controller does.
    pub async fn grant(&self, request: &str) {
        self.until(annotation::DESIRED_DRAIN, request).await;
        self.annotate(json!({annotation::LAST_APPLIED_DRAIN.as_str(): request})).await;
    }

    pub async fn annotation(&self, key: Annotation) -> String {
        let node: Node = Api::all(self.client.clone()).get("w0").await.unwrap();
        key.of(&node.metadata).unwrap_or_default().to_owned()
    }

    pub async fn until(&self, key: Annotation, value: &str) {
        let is_so = |node: Option<&Node>| node.is_some_and(|node| key.of(&node.metadata) == Some(value));
        let waited = await_condition(Api::<Node>::all(self.client.clone()), "w0", is_so);
        if tokio::time::timeout(WAIT_TIMEOUT, waited).await.is_err() {
            panic!("{} is {:?}, and not {value:?}", key.as_str(), self.annotation(key).await);
        }
    }
}

async fn order(client: &Client, config: &str) {
    annotate(client, json!({annotation::DESIRED_CONFIG.as_str(): config})).await;
}

async fn annotate(client: &Client, annotations: Value) {
    let patch = json!({"metadata": {"annotations": annotations}});
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.patch("w0", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
}

fn config(name: &str, spec: Value) -> MachineConfig {
    let object = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfig",
        "metadata": {"name": name},
        "spec": spec,
    });
    serde_json::from_value(object).unwrap()
}

#[rstest]
#[case::without_a_drain(QUIET)]
#[case::with_a_drain(LOUD)]
#[tokio::test(flavor = "multi_thread")]
async fn order_that_is_taken_back_before_it_is_begun_is_not_carried_out(#[case] path: &str) {
    let cluster = Cluster::start().await;
    let test_node = TestNode::new(cluster.client(), path).await;
    test_node.order("new").await;
    // Taken back as soon as the daemon has read it: what it asks for next is what is in the configuration.
    let (client, is_taken_back) = (test_node.client.clone(), Arc::new(AtomicBool::new(false)));
    let intercepted = RequestInterceptor::client(&test_node.client, move |request| {
        let is_it = request.uri().path().ends_with("/machineconfigs/new");
        let (client, is_first) = (client.clone(), is_it && !is_taken_back.swap(true, Ordering::SeqCst));
        Box::pin(async move {
            if is_first {
                order(&client, "old").await;
            }
            true
        })
    });
    let mut daemon = test_node.daemon(intercepted);
    let report = daemon.attempt(false).await.unwrap();
    assert_eq!(report.next_attempt, NextAttempt::Now, "{report:?}");
    assert_eq!(test_node.annotation(annotation::STATE).await, "Done");
    assert_eq!(test_node.annotation(annotation::DESIRED_DRAIN).await, "");
    let report = daemon.attempt(false).await.unwrap();
    assert_eq!((report.next_attempt, report.reason.as_str()), (NextAttempt::OnChange, ""));
    assert_eq!(test_node.annotation(annotation::STATE).await, "Done");
    assert_eq!(test_node.host.text(path), None);

    // Given again, it is carried out, and reported before that.
    test_node.order("new").await;
    daemon.attempt(false).await.unwrap();
    assert_eq!(test_node.annotation(annotation::STATE).await, "Working");
    assert_eq!(test_node.annotation(annotation::DESIRED_DRAIN).await, if path == LOUD { "drain-new" } else { "" });
}

#[tokio::test(flavor = "multi_thread")]
async fn record_of_the_disk_that_disappears_while_the_order_is_read_is_restored_without_a_failure() {
    let cluster = Cluster::start().await;
    let test_node = TestNode::new(cluster.client(), QUIET).await;
    test_node.order("old").await;
    let host = test_node.host.clone();
    let intercepted = RequestInterceptor::client(&test_node.client, move |request| {
        if request.uri().path().ends_with("/machineconfigs/old") {
            host.delete_file(paths::CURRENT_CONFIG);
        }
        Box::pin(std::future::ready(true))
    });
    let mut daemon = test_node.daemon(intercepted);
    let report = daemon.attempt(false).await.unwrap();
    assert_eq!((report.next_attempt, report.reason.as_str()), (NextAttempt::Now, ""));
    assert_eq!(test_node.annotation(annotation::STATE).await, "Done");
    let report = daemon.attempt(false).await.unwrap();
    assert_eq!((report.next_attempt, report.reason.as_str()), (NextAttempt::OnChange, ""));
    assert!(test_node.host.text(paths::CURRENT_CONFIG).is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_of_others_do_not_keep_an_order_from_being_begun() {
    let cluster = Cluster::start().await;
    let test_node = TestNode::new(cluster.client(), QUIET).await;
    test_node.order("new").await;
    // A kubelet that writes between each reading and the writing that follows it, five times.
    let (client, written) = (test_node.client.clone(), Arc::new(AtomicUsize::new(0)));
    let intercepted = RequestInterceptor::client(&test_node.client, move |request| {
        let is_write = request.method() == Method::PATCH;
        let (client, nth) =
            (client.clone(), if is_write { written.fetch_add(1, Ordering::SeqCst) } else { usize::MAX });
        Box::pin(async move {
            if nth < 5 {
                let patch = json!({"metadata": {"labels": {"beat": nth.to_string()}}});
                let nodes: Api<Node> = Api::all(client);
                nodes.patch("w0", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
            }
            true
        })
    });
    let mut daemon = test_node.daemon(intercepted);
    let running = tokio::spawn(async move { daemon.run().await });
    test_node.until(annotation::CURRENT_CONFIG, "new").await;
    assert_eq!(test_node.host.text(QUIET).as_deref(), Some("x"));
    running.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn order_is_not_begun_while_it_cannot_be_reported() {
    let cluster = Cluster::start().await;
    let test_node = TestNode::new(cluster.client(), QUIET).await;
    test_node.order("new").await;
    let is_away = Arc::new(AtomicBool::new(true));
    let away = Arc::clone(&is_away);
    let intercepted = RequestInterceptor::client(&test_node.client, move |request| {
        let arrives = request.method() == Method::GET || !away.load(Ordering::SeqCst);
        Box::pin(std::future::ready(arrives))
    });
    let mut daemon = test_node.daemon(intercepted);
    let error = daemon.attempt(false).await.unwrap_err().to_string();
    assert!(error.starts_with("write the node's annotations: "), "{error}");
    assert_eq!(test_node.host.text(QUIET), None);
    is_away.store(false, Ordering::SeqCst);
    daemon.attempt(false).await.unwrap();
    assert_eq!(test_node.host.text(QUIET).as_deref(), Some("x"));
}

/// Time is the test's: an hour passes in no time.
#[tokio::test(start_paused = true)]
async fn hour_without_the_api_changes_nothing_and_ends_by_itself() {
    let cluster = Embedded::start().await;
    let test_node = TestNode::new(cluster.client(), QUIET).await;
    let (is_away, refused) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (away, count) = (Arc::clone(&is_away), Arc::clone(&refused));
    let intercepted = RequestInterceptor::client(&test_node.client, move |request| {
        let is_refused = away.load(Ordering::SeqCst);
        let is_attempt = request.uri().path().ends_with("/nodes/w0");
        count.fetch_add(usize::from(is_refused && is_attempt), Ordering::SeqCst);
        Box::pin(std::future::ready(!is_refused))
    });
    let mut daemon = test_node.daemon(intercepted);
    let running = tokio::spawn(async move { daemon.run().await });
    test_node.order("new").await;
    test_node.until(annotation::CURRENT_CONFIG, "new").await;

    is_away.store(true, Ordering::SeqCst);
    test_node.order("old").await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(test_node.host.text(QUIET).as_deref(), Some("x"));
    assert_eq!(test_node.annotation(annotation::CURRENT_CONFIG).await, "new");
    // It has tried all the time, once a minute in the end.
    let tried = refused.load(Ordering::SeqCst);
    assert!((55..75).contains(&tried), "{tried} times");

    let back = tokio::time::Instant::now();
    is_away.store(false, Ordering::SeqCst);
    test_node.until(annotation::CURRENT_CONFIG, "old").await;
    assert!(back.elapsed() <= DaemonIntervals::default().max_retry_delay, "{:?}", back.elapsed());
    assert_eq!(test_node.host.text(QUIET), None);
    running.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn configuration_that_is_deleted_while_it_is_applied_is_applied() {
    let cluster = Cluster::start().await;
    let test_node = TestNode::new(cluster.client(), QUIET).await;
    test_node.order("new").await;
    // Deleted in the moment in which the daemon says that it begins.
    let (client, is_deleted) = (test_node.client.clone(), Arc::new(AtomicBool::new(false)));
    let intercepted = RequestInterceptor::client(&test_node.client, move |request| {
        let is_first = request.method() == Method::PATCH && !is_deleted.swap(true, Ordering::SeqCst);
        let configs: Api<MachineConfig> = Api::all(client.clone());
        Box::pin(async move {
            if is_first {
                configs.delete("new", &DeleteParams::default()).await.unwrap();
            }
            true
        })
    });
    let mut daemon = test_node.daemon(intercepted);
    daemon.attempt(false).await.unwrap();
    assert_eq!(test_node.host.text(QUIET).as_deref(), Some("x"));
    daemon.attempt(false).await.unwrap();
    assert_eq!(test_node.annotation(annotation::CURRENT_CONFIG).await, "new");
    // One that starts now has only the disk to look at, which is enough.
    let report = test_node.daemon(test_node.client.clone()).attempt(true).await.unwrap();
    assert_eq!((report.next_attempt, report.reason.as_str()), (NextAttempt::OnChange, ""));
    assert_eq!(test_node.annotation(annotation::STATE).await, "Done");
    test_node.order("old").await;
    let mut daemon = test_node.daemon(test_node.client.clone());
    daemon.attempt(false).await.unwrap();
    assert_eq!(test_node.host.text(QUIET), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn configuration_that_is_deleted_before_it_is_applied_is_named_and_waited_for() {
    let cluster = Cluster::start().await;
    let test_node = TestNode::new(cluster.client(), QUIET).await;
    let new = test_node.configs().get("new").await.unwrap();
    test_node.configs().delete("new", &DeleteParams::default()).await.unwrap();
    test_node.order("new").await;
    let intervals = DaemonIntervals {
        initial_retry_delay: Duration::from_millis(20),
        max_retry_delay: Duration::from_millis(100),
        ..DaemonIntervals::default()
    };
    let mut daemon =
        Daemon::new(test_node.client.clone(), "w0", test_node.host.clone(), AgentOptions::default(), intervals);
    let running = tokio::spawn(async move { daemon.run().await });
    test_node.until(annotation::STATE, "Degraded").await;
    assert!(test_node.annotation(annotation::REASON).await.contains("MachineConfig new not found"));
    assert_eq!(test_node.host.text(QUIET), None);
    test_node.configs().create(&PostParams::default(), &config("new", json!(new.spec))).await.unwrap();
    test_node.until(annotation::CURRENT_CONFIG, "new").await;
    assert_eq!(test_node.annotation(annotation::REASON).await, "");
    assert_eq!(test_node.host.text(QUIET).as_deref(), Some("x"));
    running.abort();
}
