//! The real daemon on machines in memory, under the real plane: from a MachineConfig to a byte on every machine.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::runtime::wait::await_condition;
use kube::{Api, Client, Resource};
use seaworthy_api::machineconfiguration::{ControllerConfig, MachineConfig, MachineConfigPool};
use seaworthy_api::vocabulary::machineconfiguration::node as annotation;
use seaworthy_controllers::plane::{NAMESPACE, Options};
use seaworthy_controllers::{Context as Shared, install, plane};
use seaworthy_host::FakeHost;
use seaworthy_node::target::Wanted;
use seaworthy_node::{Daemon, Rhythm, Settings, Target, places};
use seaworthy_testkit::Cluster;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// How long anything may take before a test gives up. Nothing waits for it to pass.
const PATIENCE: Duration = Duration::from_secs(120);

struct Fleet {
    client: Client,
    hosts: BTreeMap<String, FakeHost>,
    boots: Arc<Mutex<BTreeMap<String, usize>>>,
    tasks: Vec<JoinHandle<()>>,
    _cluster: Cluster,
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Fleet {
    async fn start(workers: usize) -> Fleet {
        let cluster = Cluster::start().await;
        let client = cluster.client();
        install::install(&client, NAMESPACE).await.unwrap();
        let context = Shared::new(client.clone());
        let plane = tokio::spawn(async move { plane::run(context, Options::default()).await.unwrap() });
        let mut fleet =
            Fleet { client, hosts: BTreeMap::new(), boots: Arc::default(), tasks: vec![plane], _cluster: cluster };
        fleet.create::<ControllerConfig>(controller_config()).await;
        let pool = fleet.pool_is("worker", |pool| target(pool).is_some()).await;
        let rendered: MachineConfig = fleet.api().get(target(&pool).unwrap()).await.unwrap();
        for nth in 0..workers {
            fleet.join(&format!("w{nth}"), &rendered).await;
        }
        fleet.pool_is("worker", |pool| is_updated(pool, workers)).await;
        fleet
    }

    fn api<K: Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.client.clone())
    }

    async fn create<K>(&self, object: Value)
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + serde::Serialize,
    {
        let object: K = serde_json::from_value(object).unwrap();
        self.api::<K>().create(&PostParams::default(), &object).await.unwrap();
    }

    async fn until<K>(&self, name: &str, is: impl Fn(&K) -> bool) -> K
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        let found = await_condition(self.api::<K>(), name, |object: Option<&K>| object.is_some_and(&is));
        match tokio::time::timeout(PATIENCE, found).await {
            Ok(found) => found.unwrap().unwrap(),
            Err(_) => {
                let found = self.api::<K>().get_opt(name).await;
                panic!("{} {name} does not become as it should: {found:#?}", K::kind(&()));
            }
        }
    }

    async fn pool_is(&self, name: &str, is: impl Fn(&MachineConfigPool) -> bool) -> MachineConfigPool {
        self.until(name, is).await
    }

    /// A machine that Ignition has written, with its daemon, which starts anew after every boot.
    async fn join(&mut self, name: &str, rendered: &MachineConfig) {
        let host = machine(name, rendered);
        self.create::<Node>(seaworthy_testkit::node(name, "worker", None)).await;
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let nodes: Api<Node> = self.api();
        nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(&ready)).await.unwrap();
        self.hosts.insert(name.to_owned(), host.clone());
        let (client, name, boots) = (self.client.clone(), name.to_owned(), Arc::clone(&self.boots));
        self.tasks.push(tokio::spawn(async move {
            let rhythm = Rhythm {
                first_retry: Duration::from_millis(50),
                last_retry: Duration::from_millis(200),
                // Longer than any test: what is found, is heard of.
                check: Duration::from_secs(3600),
            };
            loop {
                Daemon::new(client.clone(), &name, host.clone(), Settings::default(), rhythm).run().await;
                host.boot_orderly();
                *boots.lock().unwrap().entry(name.clone()).or_default() += 1;
            }
        }));
    }

    async fn apply(&self, name: &str, spec: Value) {
        let object = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "MachineConfig",
            "metadata": {"name": name, "labels": {"machineconfiguration.openshift.io/role": "worker"}},
            "spec": spec,
        });
        let params = PatchParams::apply("test").force();
        let pool: MachineConfigPool = self.api().get("worker").await.unwrap();
        self.api::<MachineConfig>().patch(name, &params, &Patch::Apply(&object)).await.unwrap();
        self.pool_is("worker", |now| target(now) != target(&pool)).await;
    }

    /// Waits until every worker is up to date, and looks for a file.
    async fn everywhere(&self, path: &str, text: &str) {
        self.pool_is("worker", |pool| is_updated(pool, self.hosts.len())).await;
        for (name, host) in &self.hosts {
            assert_eq!(host.text(path).as_deref(), Some(text), "{name}");
        }
    }

    fn boots(&self) -> usize {
        self.boots.lock().unwrap().values().sum()
    }
}

/// A machine that Ignition has written.
fn machine(name: &str, rendered: &MachineConfig) -> FakeHost {
    let config = rendered.metadata.name.clone().unwrap();
    let host = FakeHost::new(name);
    let target = Target::parse(&config, &rendered.spec, None).unwrap();
    for (path, wanted) in &target.paths {
        if let Wanted::File { bytes, mode, .. } = wanted {
            host.put(path, bytes, *mode);
        }
    }
    for (unit, wanted) in &target.units {
        use seaworthy_host::Host as _;
        if wanted.is_enabled == Some(true) && wanted.has_contents {
            host.enable(&[unit]).unwrap();
            host.sync().unwrap();
        }
    }
    let annotations = json!({
        annotation::CURRENT_CONFIG.as_str(): config,
        annotation::DESIRED_CONFIG.as_str(): config,
        annotation::STATE.as_str(): "Done",
    });
    host.put(places::INITIAL_ANNOTATIONS, annotations.to_string().as_bytes(), 0o644);
    host.boot_orderly();
    host
}

fn target(pool: &MachineConfigPool) -> Option<&str> {
    pool.spec.configuration.as_ref()?.name.as_deref().filter(|name| !name.is_empty())
}

fn is_updated(pool: &MachineConfigPool, nodes: usize) -> bool {
    let value = serde_json::to_value(pool).unwrap();
    let status = &value["status"];
    let is_true = status["conditions"]
        .as_array()
        .is_some_and(|all| all.iter().any(|it| it["type"] == "Updated" && it["status"] == "True"));
    let is_reached = status["configuration"]["name"] == value["spec"]["configuration"]["name"];
    is_reached && status["updatedMachineCount"] == nodes && status["machineCount"] == nodes && is_true
}

fn file(path: &str, text: &str) -> Value {
    let source = seaworthy_ignition::data_url::encode(text.as_bytes());
    json!({"config": {"ignition": {"version": "3.5.0"}, "storage": {"files": [
        {"path": path, "mode": 0o644, "contents": {"source": source}},
    ]}}})
}

fn controller_config() -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "ControllerConfig",
        "metadata": {"name": "machine-config-controller"},
        "spec": {
            "clusterDNSIP": "10.96.0.10", "cloudProviderConfig": "", "etcdDiscoveryDomain": "", "ipFamilies": "IPv4",
            "baseOSContainerImage": "", "kubeAPIServerServingCAData": "Y2E=", "osImageURL": "", "releaseImage": "", "rootCAData": "Y2E=",
            "additionalTrustBundle": null, "images": {},
            "infra": {"apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": {},
                      "spec": {"cloudConfig": {"name": ""}}},
            "dns": {"apiVersion": "config.openshift.io/v1", "kind": "DNS", "metadata": {},
                    "spec": {"baseDomain": "example.com"}},
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_config_reaches_every_machine_with_a_drain_and_a_boot_each() {
    let fleet = Fleet::start(3).await;
    assert_eq!(fleet.boots(), 0);
    fleet.apply("50-random", file("/etc/random", "one")).await;
    fleet.everywhere("/etc/random", "one").await;
    assert_eq!(fleet.boots(), 3);
    for name in fleet.hosts.keys() {
        let node: Node = fleet.api().get(name).await.unwrap();
        let said = |key: seaworthy_api::vocabulary::Annotation| key.of(&node.metadata).unwrap_or_default().to_owned();
        assert_eq!(said(annotation::STATE), "Done");
        assert_eq!(said(annotation::CURRENT_CONFIG), said(annotation::DESIRED_CONFIG));
        assert!(said(annotation::LAST_APPLIED_DRAIN).starts_with("uncordon-"));
        assert_eq!(said(annotation::POST_CONFIG_ACTION), "");
        assert!(!node.spec.and_then(|spec| spec.unschedulable).unwrap_or_default());
    }
    // What needs less gets less.
    fleet.apply("60-quiet", file("/etc/nmstate/openshift/a", "x")).await;
    fleet.everywhere("/etc/nmstate/openshift/a", "x").await;
    assert_eq!(fleet.boots(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_fails_says_why_and_the_revert_brings_it_back() {
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
async fn drift_is_reported_while_nothing_is_ordered_and_ends_when_it_is_put_right() {
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

/// A client that counts what is asked.
#[derive(Clone)]
struct Counting {
    client: Client,
    asked: Arc<AtomicUsize>,
}

impl tower_service::Service<http::Request<Body>> for Counting {
    type Response = http::Response<Body>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let client = self.client.clone();
        Box::pin(async move { client.send(request).await })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_on_which_all_is_well_asks_nobody_and_still_sees_the_force_file() {
    let fleet = Fleet::start(0).await;
    let pool = fleet.pool_is("worker", |pool| target(pool).is_some()).await;
    let rendered: MachineConfig = fleet.api().get(target(&pool).unwrap()).await.unwrap();
    let host = machine("w0", &rendered);
    fleet.create::<Node>(seaworthy_testkit::node("w0", "worker", None)).await;
    let counting = Counting { client: fleet.client.clone(), asked: Arc::default() };
    let rhythm = Rhythm { check: Duration::from_millis(1), ..Rhythm::default() };
    let client = Client::new(counting.clone(), "default");
    let mut daemon = Daemon::new(client, "w0", host.clone(), Settings::default(), rhythm);
    let running = tokio::spawn(async move { daemon.run().await });
    let is_done = |node: &Node| annotation::STATE.of(&node.metadata) == Some("Done");
    fleet.until("w0", is_done).await;
    // What the first orders have stirred up, settles: then the machine is looked at again and again, and nobody is asked.
    let settle = async {
        let (mut asked, mut looks) = (0, 0);
        while asked != counting.asked.load(Ordering::SeqCst) || host.looks() < looks + 10_000 {
            let now = counting.asked.load(Ordering::SeqCst);
            if now != asked {
                (asked, looks) = (now, host.looks());
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, settle).await.expect("it asks again and again, or looks no more");
    host.put(places::FORCE, b"", 0o644);
    let is_draining =
        |node: &Node| annotation::DESIRED_DRAIN.of(&node.metadata).is_some_and(|it| it.starts_with("drain-"));
    fleet.until("w0", is_draining).await;
    running.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_file_of_first_annotations_is_named_on_the_node() {
    let cluster = Cluster::start().await;
    let client = cluster.client();
    install::install(&client, NAMESPACE).await.unwrap();
    let nodes: Api<Node> = Api::all(client.clone());
    let node: Node = serde_json::from_value(seaworthy_testkit::node("w0", "worker", None)).unwrap();
    nodes.create(&PostParams::default(), &node).await.unwrap();
    let host = FakeHost::new("w0");
    host.put(places::INITIAL_ANNOTATIONS, b"{\"a\": ", 0o644);
    let mut daemon = Daemon::new(client, "w0", host, Settings::default(), Rhythm::default());
    let error = daemon.attempt(false).await.unwrap_err().to_string();
    let node = nodes.get("w0").await.unwrap();
    assert_eq!(annotation::STATE.of(&node.metadata), Some("Degraded"));
    assert_eq!(annotation::REASON.of(&node.metadata), Some(error.as_str()));
    assert!(error.contains(places::INITIAL_ANNOTATIONS), "{error}");
}
