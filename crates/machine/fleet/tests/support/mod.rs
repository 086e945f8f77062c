//! A cluster with the controllers and a simulated fleet.

#![allow(dead_code, clippy::unwrap_used, reason = "each suite uses its part")]

mod endpoint;

use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Api, Client, Resource};
use seaworthy_api::machineconfiguration::{ControllerConfig, MachineConfig, MachineConfigPool};
use seaworthy_api::vocabulary::machineconfiguration::node as annotation;
use seaworthy_fleet::{Fleet, FleetOptions, FleetTimings};
use seaworthy_machineconfig::operator::MachineConfigOptions;
use seaworthy_machineconfig::{Context, operator};
use seaworthy_node::DaemonIntervals;
use seaworthy_runtime::NAMESPACE;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

pub use endpoint::{TOKEN, TestEndpoint};

/// How long anything may take before a test gives up. Nothing waits for it to pass.
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(180);
/// The same where the test has stopped time, which then runs ahead of what is done on other threads.
const PAUSED_TIME_WAIT_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

pub struct World {
    pub fleet: Fleet,
    pub client: Client,
    /// Where new machines are given their configuration.
    pub endpoint: Option<TestEndpoint>,
    plane: JoinHandle<()>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.plane.abort();
    }
}

/// Fast, and longer between checks than any test: what is found, is reported by a watch.
pub fn timings() -> FleetTimings {
    let intervals = DaemonIntervals {
        initial_retry_delay: Duration::from_millis(50),
        max_retry_delay: Duration::from_millis(200),
        drift_check_interval: Duration::from_secs(3600),
        ..DaemonIntervals::default()
    };
    FleetTimings {
        boot_delay: Duration::ZERO,
        pod_termination_delay: Duration::ZERO,
        heartbeat_interval: None,
        intervals,
    }
}

impl World {
    /// A world without an endpoint, for time that the test has stopped: it would not wait for a socket.
    pub async fn without_sockets(client: Client, timings: FleetTimings) -> World {
        World::new(client, timings, false).await
    }

    pub async fn start(client: Client, timings: FleetTimings) -> World {
        World::new(client, timings, true).await
    }

    async fn new(client: Client, timings: FleetTimings, has_endpoint: bool) -> World {
        operator::install(&client, NAMESPACE).await.unwrap();
        let context = Context::new(client.clone());
        let plane = tokio::spawn(async move { operator::run(context, MachineConfigOptions::default()).await.unwrap() });
        let object: ControllerConfig = serde_json::from_value(controller_config()).unwrap();
        Api::all(client.clone()).create(&PostParams::default(), &object).await.unwrap();
        let endpoint = if has_endpoint { Some(TestEndpoint::open(&client).await) } else { None };
        let stubs = endpoint.as_ref().map(|endpoint| endpoint.stubs(TOKEN));
        let fleet = Fleet::start(client.clone(), FleetOptions { timings, stubs, ..FleetOptions::new(client.clone()) });
        World { fleet, client, endpoint, plane }
    }

    pub async fn with_workers(client: Client, timings: FleetTimings, workers: usize) -> World {
        World::start(client, timings).await.and_workers(workers).await
    }

    pub async fn and_workers(self, workers: usize) -> World {
        for nth in 1..=workers {
            self.fleet.add(&format!("w{nth}"), "worker").await.unwrap();
        }
        self.settled(workers).await;
        self
    }

    pub fn api<K: Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.client.clone())
    }

    pub async fn until<K>(&self, name: &str, is: impl Fn(&K) -> bool) -> K
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        let found = await_condition(self.api::<K>(), name, |object: Option<&K>| object.is_some_and(&is));
        let limit = if self.endpoint.is_some() { WAIT_TIMEOUT } else { PAUSED_TIME_WAIT_TIMEOUT };
        match tokio::time::timeout(limit, found).await {
            Ok(found) => found.unwrap().unwrap(),
            Err(_) => panic!("{name} does not become as it should: {:#?}", self.api::<K>().get_opt(name).await),
        }
    }

    /// Waits until all workers run what their pool targets.
    pub async fn settled(&self, workers: usize) -> MachineConfigPool {
        self.until("worker", |pool| is_updated(pool, workers)).await
    }

    /// Applies a MachineConfig for workers, and waits until the pool targets it.
    pub async fn apply(&self, name: &str, spec: Value) {
        let object = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "MachineConfig",
            "metadata": {"name": name, "labels": {"machineconfiguration.openshift.io/role": "worker"}},
            "spec": spec,
        });
        let before: MachineConfigPool = self.api().get("worker").await.unwrap();
        let params = PatchParams::apply("test").force();
        self.api::<MachineConfig>().patch(name, &params, &Patch::Apply(&object)).await.unwrap();
        self.until("worker", |pool| target(pool) != target(&before)).await;
    }

    pub async fn node(&self, name: &str) -> Node {
        self.api().get(name).await.unwrap()
    }
}

pub fn value_of(node: &Node, key: seaworthy_api::vocabulary::Annotation) -> &str {
    key.of(&node.metadata).unwrap_or_default()
}

pub fn is_degraded(node: &Node) -> bool {
    value_of(node, annotation::STATE) == "Degraded"
}

pub fn target(pool: &MachineConfigPool) -> Option<&str> {
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

pub fn file(path: &str, text: &str) -> Value {
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
