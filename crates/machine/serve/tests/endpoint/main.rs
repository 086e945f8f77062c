//! Answers from a cluster, on the API server that the suite runs against; what needs no cluster is in `tests/rows`.

#![allow(clippy::unwrap_used)] // A test that finds nothing to unwrap has failed.

#[allow(dead_code, reason = "each suite uses its part")]
#[path = "../rows/support.rs"]
mod support;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, Resource, ResourceExt as _};
use seaworthy_api::machineconfiguration::{ControllerConfig, MachineConfig, MachineConfigPool, definitions};
use seaworthy_serve::access::{Credentials, Tokens};
use seaworthy_serve::answers::PoolAnswers;
use seaworthy_serve::cluster_source::{ClusterOptions, ClusterSource};
use seaworthy_serve::rate_limits::RateLimits;
use seaworthy_serve::servable_config::{ENCAPSULATED_FILE, KUBECONFIG_FILE, KUBELET_CA_FILE, NODE_ANNOTATIONS_FILE};
use seaworthy_serve::{Access, AnswerStore, Endpoint};
use seaworthy_testkit::Cluster;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::support::{Reply, accepts, ask, controller_config, machine_config, rendered, written};

/// How long anything may take before a test fails. No passing test waits for it.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);
const NAMESPACE: &str = "seaworthy-system";
const TOKEN: &str = "abcdef.0123456789abcdef";

/// A cluster with an endpoint.
struct EndpointCluster {
    client: Client,
    endpoint: Endpoint,
    token_folder: tempfile::TempDir,
    running: JoinHandle<()>,
    _cluster: Cluster,
}

impl Drop for EndpointCluster {
    fn drop(&mut self) {
        self.running.abort();
    }
}

impl EndpointCluster {
    /// A cluster with a ControllerConfig, two rendered configs, and a pool that is moving from one to the other.
    async fn new() -> EndpointCluster {
        let cluster = Cluster::start().await;
        let client = cluster.client();
        let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
        for definition in definitions() {
            crds.create(&PostParams::default(), &definition).await.unwrap();
            let name = definition.name_any();
            let established = await_condition(crds.clone(), &name, conditions::is_crd_established());
            tokio::time::timeout(WAIT_TIMEOUT, established).await.unwrap().unwrap();
        }
        let token_folder = tempfile::tempdir().unwrap();
        std::fs::write(token_folder.path().join("token"), "node-token").unwrap();
        std::fs::write(token_folder.path().join("ca.crt"), "mounted").unwrap();
        let options = ClusterOptions {
            apiserver_url: "https://api.example:6443".to_owned(),
            token_folder: token_folder.path().to_owned(),
            namespace: NAMESPACE.to_owned(),
        };
        let source = ClusterSource::new(options);
        let answers = Arc::new(AnswerStore::default());
        let access = Access::Restricted(Credentials { tokens: Tokens::default(), secrets: Some(source.secrets()) });
        let endpoint = Endpoint {
            answers: Arc::clone(&answers),
            access,
            rate_limits: RateLimits::default(),
            metrics: Arc::default(),
        };
        let fixture = EndpointCluster {
            running: tokio::spawn(source.run(client.clone(), answers)),
            client,
            endpoint,
            token_folder,
            _cluster: cluster,
        };
        let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}})).unwrap();
        fixture.create(&fixture.everywhere(), &namespace).await;
        fixture.create(&Api::namespaced(fixture.client.clone(), "kube-system"), &token()).await;
        fixture.create(&fixture.everywhere(), &controller_config()).await;
        fixture.create(&fixture.everywhere(), &rendered("rendered-worker-old")).await;
        fixture.create(&fixture.everywhere(), &rendered("rendered-worker-new")).await;
        fixture.pool("worker", "rendered-worker-new", "rendered-worker-old").await;
        fixture
    }

    fn everywhere<K: Resource<DynamicType = (), Scope = k8s_openapi::ClusterResourceScope>>(&self) -> Api<K> {
        Api::all(self.client.clone())
    }

    async fn create<K>(&self, api: &Api<K>, object: &K)
    where
        K: Clone + Debug + DeserializeOwned + Serialize,
    {
        api.create(&PostParams::default(), object).await.unwrap();
    }

    fn pools(&self) -> Api<MachineConfigPool> {
        Api::all(self.client.clone())
    }

    async fn pool(&self, name: &str, target: &str, reached: &str) {
        let pool: MachineConfigPool = serde_json::from_value(json!({
            "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "MachineConfigPool",
            "metadata": {"name": name},
            "spec": {"configuration": {"name": target}},
        }))
        .unwrap();
        self.pools().create(&PostParams::default(), &pool).await.unwrap();
        self.status(name, json!({"configuration": {"name": reached}, "updatedMachineCount": 0})).await;
    }

    async fn status(&self, pool: &str, status: Value) {
        let patch = json!({"status": status});
        self.pools().patch_status(pool, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }

    fn get(&self, pool: &str) -> Reply {
        let headers = [("accept", accepts("3.4.0")), ("authorization", format!("Bearer {TOKEN}"))];
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        ask(&self.endpoint, "GET", &format!("/config/{pool}"), &headers)
    }

    /// Waits until the reply for a pool meets a condition.
    async fn until(&self, pool: &str, is_met: impl Fn(&Reply) -> bool) -> Reply {
        let waited = self.endpoint.answers.wait_until(|_: &PoolAnswers| is_met(&self.get(pool)));
        if tokio::time::timeout(WAIT_TIMEOUT, waited).await.is_err() {
            let reply = self.get(pool);
            panic!("{pool} is answered with {} {}", reply.status, reply.header("seaworthy-reason"));
        }
        self.get(pool)
    }

    /// Waits until a pool is given this config.
    async fn serves(&self, pool: &str, config: &str) -> Value {
        let text = format!("\"{config}\"");
        let is_it =
            |reply: &Reply| reply.status == 200 && written(&reply.json(), NODE_ANNOTATIONS_FILE).contains(&text);
        self.until(pool, is_it).await.json()
    }
}

fn token() -> Secret {
    let object = json!({
        "metadata": {"name": "bootstrap-token-abcdef"},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": {"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true"},
    });
    serde_json::from_value(object).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn s_21_new_machines_get_the_newest_config_once_one_has_proven_it() {
    let cluster = EndpointCluster::new().await;
    let config = cluster.serves("worker", "rendered-worker-old").await;
    assert_eq!(written(&config, KUBELET_CA_FILE), "ca");
    assert!(written(&config, KUBECONFIG_FILE).contains("bW91bnRlZA=="), "{}", written(&config, KUBECONFIG_FILE));
    let encapsulated: Value = serde_json::from_str(&written(&config, ENCAPSULATED_FILE)).unwrap();
    assert_eq!(encapsulated["metadata"]["name"], "rendered-worker-old");
    cluster.status("worker", json!({"updatedMachineCount": 1})).await;
    cluster.serves("worker", "rendered-worker-new").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s_26_pool_that_is_not_there_is_not_found() {
    let cluster = EndpointCluster::new().await;
    cluster.serves("worker", "rendered-worker-old").await;
    assert_eq!(cluster.get("nowhere").status, 404);
    cluster.pools().delete("worker", &DeleteParams::default()).await.unwrap();
    cluster.until("worker", |reply| reply.status == 404).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pool_without_a_configuration_fails_until_it_has_one() {
    let cluster = EndpointCluster::new().await;
    let pool: MachineConfigPool = serde_json::from_value(json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfigPool",
        "metadata": {"name": "infra"},
        "spec": {},
    }))
    .unwrap();
    cluster.create(&cluster.pools(), &pool).await;
    let reply = cluster.until("infra", |reply| reply.status == 500).await;
    assert_eq!(reply.header("seaworthy-reason"), "the pool has no configuration yet");
    cluster.status("infra", json!({"configuration": {"name": "rendered-infra"}})).await;
    let missing = |reply: &Reply| reply.header("seaworthy-reason") == "there is no MachineConfig rendered-infra";
    cluster.until("infra", missing).await;
    cluster.create(&cluster.everywhere(), &rendered("rendered-infra")).await;
    cluster.serves("infra", "rendered-infra").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_rebuilt_only_when_their_inputs_change() {
    let cluster = EndpointCluster::new().await;
    cluster.serves("worker", "rendered-worker-old").await;
    let first = Arc::clone(&cluster.endpoint.answers.current().unwrap()["worker"]);
    // Progress that changes nothing for new machines; a second pool shows when it was seen.
    cluster.status("worker", json!({"machineCount": 7, "degradedMachineCount": 1})).await;
    cluster.pool("infra", "rendered-worker-new", "rendered-worker-old").await;
    cluster.serves("infra", "rendered-worker-old").await;
    assert!(Arc::ptr_eq(&first, &cluster.endpoint.answers.current().unwrap()["worker"]));
    // The authority changes: "next".
    let patch = json!({"spec": {"kubeAPIServerServingCAData": "bmV4dA=="}});
    let controllers: Api<ControllerConfig> = cluster.everywhere();
    controllers.patch("machine-config-controller", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    let is_next = |reply: &Reply| reply.status == 200 && written(&reply.json(), KUBELET_CA_FILE) == "next";
    let reply = cluster.until("worker", is_next).await;
    assert_ne!(reply.header("etag"), first.get(seaworthy_ignition::Version::V3_4).unwrap().plain().tag);
    // So does the one that vouches for the API server.
    let map = json!({"metadata": {"name": "kubeconfig-data"}, "binaryData": {"ca-bundle.crt": "bmV3ZXI="}});
    let map: ConfigMap = serde_json::from_value(map).unwrap();
    cluster.create(&Api::namespaced(cluster.client.clone(), NAMESPACE), &map).await;
    let is_newer = |reply: &Reply| reply.status == 200 && written(&reply.json(), KUBECONFIG_FILE).contains("bmV3ZXI=");
    cluster.until("worker", is_newer).await;
    assert!(written(&cluster.get("worker").json(), KUBECONFIG_FILE).contains("node-token"));
    assert!(cluster.token_folder.path().exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn config_with_anything_remote_is_refused_with_an_event() {
    let cluster = EndpointCluster::new().await;
    let config = json!({"ignition": {"version": "3.5.0"},
        "storage": {"files": [{"path": "/a", "contents": {"source": "https://example.org/a"}}]}});
    let object: MachineConfig = machine_config("rendered-infra-1", json!({"config": config}));
    cluster.create(&cluster.everywhere(), &object).await;
    cluster.pool("infra", "rendered-infra-1", "rendered-infra-1").await;
    let is_refused = |reply: &Reply| reply.header("seaworthy-reason").contains("storage.files[0].contents.source");
    assert_eq!(cluster.until("infra", is_refused).await.status, 500);
    let events: Api<Event> = Api::all(cluster.client.clone());
    let emitted = async {
        loop {
            let list = events.list(&ListParams::default()).await.unwrap();
            if let Some(event) = list.into_iter().find(|event| {
                event.reason.as_deref() == Some("ConfigNotServed")
                    && event.note.as_deref().is_some_and(|note| note.contains("contents.source"))
            }) {
                return event;
            }
            tokio::task::yield_now().await;
        }
    };
    let event = tokio::time::timeout(WAIT_TIMEOUT, emitted).await.unwrap();
    assert_eq!(event.regarding.and_then(|pool| pool.name).as_deref(), Some("infra"));
    assert_eq!(cluster.serves("worker", "rendered-worker-old").await["ignition"]["version"], "3.4.0");
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_bootstrap_token_is_not_accepted_any_more() {
    let cluster = EndpointCluster::new().await;
    cluster.serves("worker", "rendered-worker-old").await;
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), "kube-system");
    secrets.delete("bootstrap-token-abcdef", &DeleteParams::default()).await.unwrap();
    let closed = async {
        while cluster.get("worker").status != 401 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(WAIT_TIMEOUT, closed).await.unwrap();
}
