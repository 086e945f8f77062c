//! Answers from a cluster, on whichever API server the suite is run; the other rows of the page are in `tests/rows`.

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
use seaworthy_serve::access::{Keys, Tokens};
use seaworthy_serve::answers::Pools;
use seaworthy_serve::cluster::{self, Settings};
use seaworthy_serve::content::{ENCAPSULATED, KUBECONFIG, KUBELET_AUTHORITY, NODE_ANNOTATIONS};
use seaworthy_serve::rate::Rates;
use seaworthy_serve::{Access, Endpoint, Shelf};
use seaworthy_testkit::Cluster;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::support::{Reply, accepts, ask, controller_config, machine_config, rendered, written};

/// How long anything may take before a test gives up. Nothing waits for it to pass.
const PATIENCE: Duration = Duration::from_secs(60);
const NAMESPACE: &str = "seaworthy-system";
const TOKEN: &str = "abcdef.0123456789abcdef";

/// A cluster with an endpoint beside it.
struct Harbour {
    client: Client,
    endpoint: Endpoint,
    token_folder: tempfile::TempDir,
    running: JoinHandle<()>,
    _cluster: Cluster,
}

impl Drop for Harbour {
    fn drop(&mut self) {
        self.running.abort();
    }
}

impl Harbour {
    /// A cluster with a ControllerConfig, two rendered configs, and a pool that is moving from one to the other.
    async fn new() -> Harbour {
        let cluster = Cluster::start().await;
        let client = cluster.client();
        let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
        for definition in definitions() {
            crds.create(&PostParams::default(), &definition).await.unwrap();
            let name = definition.name_any();
            let established = await_condition(crds.clone(), &name, conditions::is_crd_established());
            tokio::time::timeout(PATIENCE, established).await.unwrap().unwrap();
        }
        let token_folder = tempfile::tempdir().unwrap();
        std::fs::write(token_folder.path().join("token"), "node-token").unwrap();
        std::fs::write(token_folder.path().join("ca.crt"), "mounted").unwrap();
        let settings = Settings {
            apiserver_url: "https://api.example:6443".to_owned(),
            token_folder: token_folder.path().to_owned(),
            namespace: NAMESPACE.to_owned(),
        };
        let known = cluster::Cluster::new(settings);
        let shelf = Arc::new(Shelf::default());
        let access = Access::Asked(Keys { tokens: Tokens::default(), secrets: Some(known.secrets()) });
        let endpoint = Endpoint { shelf: Arc::clone(&shelf), access, rates: Rates::default(), metrics: Arc::default() };
        let harbour = Harbour {
            running: tokio::spawn(known.run(client.clone(), shelf)),
            client,
            endpoint,
            token_folder,
            _cluster: cluster,
        };
        let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}})).unwrap();
        harbour.create(&harbour.everywhere(), &namespace).await;
        harbour.create(&Api::namespaced(harbour.client.clone(), "kube-system"), &token()).await;
        harbour.create(&harbour.everywhere(), &controller_config()).await;
        harbour.create(&harbour.everywhere(), &rendered("rendered-worker-old")).await;
        harbour.create(&harbour.everywhere(), &rendered("rendered-worker-new")).await;
        harbour.pool("worker", "rendered-worker-new", "rendered-worker-old").await;
        harbour
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

    /// Waits until a pool is answered as it should be.
    async fn until(&self, pool: &str, is_right: impl Fn(&Reply) -> bool) -> Reply {
        let waited = self.endpoint.shelf.until(|_: &Pools| is_right(&self.get(pool)));
        if tokio::time::timeout(PATIENCE, waited).await.is_err() {
            let reply = self.get(pool);
            panic!("{pool} is answered with {} {}", reply.status, reply.header("seaworthy-reason"));
        }
        self.get(pool)
    }

    /// Waits until a pool is given this config.
    async fn serves(&self, pool: &str, config: &str) -> Value {
        let text = format!("\"{config}\"");
        let is_it = |reply: &Reply| reply.status == 200 && written(&reply.json(), NODE_ANNOTATIONS).contains(&text);
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
    let harbour = Harbour::new().await;
    let config = harbour.serves("worker", "rendered-worker-old").await;
    assert_eq!(written(&config, KUBELET_AUTHORITY), "ca");
    assert!(written(&config, KUBECONFIG).contains("bW91bnRlZA=="), "{}", written(&config, KUBECONFIG));
    let encapsulated: Value = serde_json::from_str(&written(&config, ENCAPSULATED)).unwrap();
    assert_eq!(encapsulated["metadata"]["name"], "rendered-worker-old");
    harbour.status("worker", json!({"updatedMachineCount": 1})).await;
    harbour.serves("worker", "rendered-worker-new").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s_26_pool_that_is_not_there_is_not_found() {
    let harbour = Harbour::new().await;
    harbour.serves("worker", "rendered-worker-old").await;
    assert_eq!(harbour.get("nowhere").status, 404);
    harbour.pools().delete("worker", &DeleteParams::default()).await.unwrap();
    harbour.until("worker", |reply| reply.status == 404).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pool_without_a_configuration_fails_until_it_has_one() {
    let harbour = Harbour::new().await;
    let pool: MachineConfigPool = serde_json::from_value(json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfigPool",
        "metadata": {"name": "infra"},
        "spec": {},
    }))
    .unwrap();
    harbour.create(&harbour.pools(), &pool).await;
    let reply = harbour.until("infra", |reply| reply.status == 500).await;
    assert_eq!(reply.header("seaworthy-reason"), "the pool has no configuration yet");
    harbour.status("infra", json!({"configuration": {"name": "rendered-infra"}})).await;
    let missing = |reply: &Reply| reply.header("seaworthy-reason") == "there is no MachineConfig rendered-infra";
    harbour.until("infra", missing).await;
    harbour.create(&harbour.everywhere(), &rendered("rendered-infra")).await;
    harbour.serves("infra", "rendered-infra").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_made_anew_only_when_something_in_them_changes() {
    let harbour = Harbour::new().await;
    harbour.serves("worker", "rendered-worker-old").await;
    let first = Arc::clone(&harbour.endpoint.shelf.take().unwrap()["worker"]);
    // Progress that changes nothing for new machines; a second pool shows when it was seen.
    harbour.status("worker", json!({"machineCount": 7, "degradedMachineCount": 1})).await;
    harbour.pool("infra", "rendered-worker-new", "rendered-worker-old").await;
    harbour.serves("infra", "rendered-worker-old").await;
    assert!(Arc::ptr_eq(&first, &harbour.endpoint.shelf.take().unwrap()["worker"]));
    // The authority changes: "next".
    let patch = json!({"spec": {"kubeAPIServerServingCAData": "bmV4dA=="}});
    let controllers: Api<ControllerConfig> = harbour.everywhere();
    controllers.patch("machine-config-controller", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    let is_next = |reply: &Reply| reply.status == 200 && written(&reply.json(), KUBELET_AUTHORITY) == "next";
    let reply = harbour.until("worker", is_next).await;
    assert_ne!(reply.header("etag"), first.get(seaworthy_ignition::Version::V3_4).unwrap().plain().tag);
    // So does the one that vouches for the API server.
    let map = json!({"metadata": {"name": "kubeconfig-data"}, "binaryData": {"ca-bundle.crt": "bmV3ZXI="}});
    let map: ConfigMap = serde_json::from_value(map).unwrap();
    harbour.create(&Api::namespaced(harbour.client.clone(), NAMESPACE), &map).await;
    let is_newer = |reply: &Reply| reply.status == 200 && written(&reply.json(), KUBECONFIG).contains("bmV3ZXI=");
    harbour.until("worker", is_newer).await;
    assert!(written(&harbour.get("worker").json(), KUBECONFIG).contains("node-token"));
    assert!(harbour.token_folder.path().exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn config_with_anything_remote_is_refused_with_an_event() {
    let harbour = Harbour::new().await;
    let config = json!({"ignition": {"version": "3.5.0"},
        "storage": {"files": [{"path": "/a", "contents": {"source": "https://example.org/a"}}]}});
    let object: MachineConfig = machine_config("rendered-infra-1", json!({"config": config}));
    harbour.create(&harbour.everywhere(), &object).await;
    harbour.pool("infra", "rendered-infra-1", "rendered-infra-1").await;
    let is_refused = |reply: &Reply| reply.header("seaworthy-reason").contains("storage.files[0].contents.source");
    assert_eq!(harbour.until("infra", is_refused).await.status, 500);
    let events: Api<Event> = Api::all(harbour.client.clone());
    let told = async {
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
    let event = tokio::time::timeout(PATIENCE, told).await.unwrap();
    assert_eq!(event.regarding.and_then(|pool| pool.name).as_deref(), Some("infra"));
    assert_eq!(harbour.serves("worker", "rendered-worker-old").await["ignition"]["version"], "3.4.0");
}

#[tokio::test(flavor = "multi_thread")]
async fn bootstrap_token_that_is_taken_back_opens_nothing_any_more() {
    let harbour = Harbour::new().await;
    harbour.serves("worker", "rendered-worker-old").await;
    let secrets: Api<Secret> = Api::namespaced(harbour.client.clone(), "kube-system");
    secrets.delete("bootstrap-token-abcdef", &DeleteParams::default()).await.unwrap();
    let closed = async {
        while harbour.get("worker").status != 401 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, closed).await.unwrap();
}
