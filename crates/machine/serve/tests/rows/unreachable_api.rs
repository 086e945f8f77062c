//! API server outages, at the start and for an hour: the cached answers are served, and nothing else.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, ResourceExt as _};
use rstest::rstest;
use seaworthy_api::machineconfiguration::{ControllerConfig, MachineConfig, MachineConfigPool, definitions};
use seaworthy_serve::access::{Credentials, Tokens};
use seaworthy_serve::answers::PoolAnswers;
use seaworthy_serve::cluster_source::{ClusterOptions, ClusterSource};
use seaworthy_serve::rate_limits::RateLimits;
use seaworthy_serve::servable_config::{KUBECONFIG_FILE, NODE_ANNOTATIONS_FILE};
use seaworthy_serve::{Access, AnswerStore, Endpoint};
use seaworthy_testkit::Embedded;
use serde_json::json;
use tokio::sync::watch;

use crate::support::{Log, Reply, ask, controller_config, machine_config, rendered, written};

const TOKEN: &str = "abcdef.0123456789abcdef";
const OUTAGE_PERIOD: Duration = Duration::from_secs(3600);

/// A client whose connection can be cut: watches end, and all requests fail.
fn with_outage(client: Client, cut: watch::Receiver<bool>) -> Client {
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (client, mut cut) = (client.clone(), cut.clone());
        async move {
            if *cut.borrow() {
                return Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused).into());
            }
            let (head, body) = client.send(request).await?.into_parts();
            let ended = async move {
                let _ = cut.wait_for(|is_cut| *is_cut).await;
            };
            let body = body.into_data_stream().take_until(Box::pin(ended)).map_ok(Frame::data);
            Ok::<_, tower::BoxError>(http::Response::from_parts(head, StreamBody::new(body)))
        }
    });
    Client::new(service, "default")
}

/// A fault of requests whose line contains a text.
#[derive(Clone, Copy, PartialEq)]
enum RequestFault {
    None,
    /// The connection is reset.
    Reset(&'static str),
    /// There is never an answer.
    Hang(&'static str),
}

/// The line of a request is its method and its path, with `$` at the end. A reset also ends requests in flight.
fn with_faults(client: Client, fault: watch::Receiver<RequestFault>) -> Client {
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (client, mut fault) = (client.clone(), fault.clone());
        async move {
            let line = format!("{} {}$", request.method(), request.uri().path());
            let now = *fault.borrow();
            match now {
                RequestFault::Reset(part) if line.contains(part) => {
                    return Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset).into());
                }
                RequestFault::Hang(part) if line.contains(part) => std::future::pending().await,
                _ => {}
            }
            let (head, body) = client.send(request).await?.into_parts();
            let stopped = async move {
                let is_stopped =
                    |fault: &RequestFault| matches!(fault, RequestFault::Reset(part) if line.contains(part));
                if fault.wait_for(is_stopped).await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            let body = body.into_data_stream().take_until(Box::pin(stopped)).map_ok(Frame::data);
            Ok::<_, tower::BoxError>(http::Response::from_parts(head, StreamBody::new(body)))
        }
    });
    Client::new(service, "default")
}

/// An endpoint with a cluster as its source.
struct Following {
    endpoint: Endpoint,
    folder: tempfile::TempDir,
    running: tokio::task::JoinHandle<()>,
}

impl Drop for Following {
    fn drop(&mut self) {
        self.running.abort();
    }
}

fn following(client: Client) -> Following {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("token"), "node-token").unwrap();
    std::fs::write(folder.path().join("ca.crt"), "mounted").unwrap();
    let options = ClusterOptions {
        apiserver_url: "https://api.example:6443".to_owned(),
        token_folder: folder.path().to_owned(),
        namespace: "seaworthy-system".to_owned(),
    };
    let source = ClusterSource::new(options);
    let answers = Arc::new(AnswerStore::default());
    let access = Access::Restricted(Credentials { tokens: Tokens::default(), secrets: Some(source.secrets()) });
    let endpoint =
        Endpoint { answers: Arc::clone(&answers), access, rate_limits: RateLimits::default(), metrics: Arc::default() };
    Following { endpoint, folder, running: tokio::spawn(source.run(client, answers)) }
}

impl Following {
    /// Waits until the pool is given this config.
    async fn serves(&self, config: &str) {
        let text = format!("\"{config}\"");
        let is_it = || {
            let reply = get(&self.endpoint);
            reply.status == 200 && written(&reply.json(), NODE_ANNOTATIONS_FILE).contains(&text)
        };
        self.until(|_| is_it()).await;
    }

    /// Waits until the answers meet a condition.
    async fn until(&self, is_met: impl Fn(&PoolAnswers) -> bool) {
        let waited = tokio::time::timeout(OUTAGE_PERIOD, self.endpoint.answers.wait_until(is_met)).await;
        assert!(waited.is_ok(), "{}", get(&self.endpoint).status);
    }
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn nothing_is_served_while_anything_cannot_be_listed(
    #[values("/machineconfigpools", "/machineconfigs", "/controllerconfigs", "/configmaps", "/secrets")]
    part: &'static str,
) {
    let (_cluster, client) = filled().await;
    let (fault, fault_receiver) = watch::channel(RequestFault::Reset(part));
    let following = following(with_faults(client, fault_receiver));
    tokio::time::sleep(OUTAGE_PERIOD).await;
    assert_eq!(get(&following.endpoint).status, 503, "{part}");
    fault.send_replace(RequestFault::None);
    following.serves("rendered-worker-old").await;
}

#[tokio::test(start_paused = true)]
async fn previous_config_is_served_while_the_next_one_cannot_be_read() {
    let (_cluster, client) = filled().await;
    let (fault, fault_receiver) = watch::channel(RequestFault::None);
    let following = following(with_faults(client.clone(), fault_receiver));
    following.serves("rendered-worker-old").await;
    for request_fault in [
        RequestFault::Reset("GET /apis/machineconfiguration.openshift.io/v1/machineconfigs/"),
        RequestFault::Hang("/machineconfigs/"),
    ] {
        fault.send_replace(request_fault);
        status(&client, json!({"updatedMachineCount": 1})).await;
        tokio::time::sleep(OUTAGE_PERIOD).await;
        following.serves("rendered-worker-old").await;
        fault.send_replace(RequestFault::None);
        following.serves("rendered-worker-new").await;
        status(&client, json!({"updatedMachineCount": 0})).await;
        following.serves("rendered-worker-old").await;
    }
}

#[tokio::test(start_paused = true)]
async fn pool_that_changes_its_config_during_a_read_is_served_as_before() {
    let (_cluster, client) = filled().await;
    let (fault, fault_receiver) = watch::channel(RequestFault::None);
    let following = following(with_faults(client.clone(), fault_receiver));
    following.serves("rendered-worker-old").await;
    fault.send_replace(RequestFault::Hang("/machineconfigs/"));
    status(&client, json!({"updatedMachineCount": 1})).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    status(&client, json!({"configuration": {"name": "rendered-worker-newest"}, "updatedMachineCount": 0})).await;
    tokio::time::sleep(OUTAGE_PERIOD).await;
    following.serves("rendered-worker-old").await;
}

#[tokio::test(start_paused = true)]
async fn config_that_the_watch_has_not_delivered_is_read_and_a_deleted_one_is_refused() {
    let (_cluster, client) = filled().await;
    let (fault, fault_receiver) = watch::channel(RequestFault::None);
    let following = following(with_faults(client.clone(), fault_receiver));
    following.serves("rendered-worker-old").await;
    // The metadata are not followed any more, and a new one comes.
    fault.send_replace(RequestFault::Reset("/machineconfigs$"));
    let configs: Api<MachineConfig> = Api::all(client.clone());
    configs.create(&PostParams::default(), &rendered("rendered-worker-newest")).await.unwrap();
    status(&client, json!({"configuration": {"name": "rendered-worker-newest"}})).await;
    following.serves("rendered-worker-newest").await;
    let pools = || following.endpoint.answers.current().unwrap();
    let made = pools();
    tokio::time::sleep(OUTAGE_PERIOD).await;
    assert!(Arc::ptr_eq(&made["worker"], &pools()["worker"]), "answers with unchanged inputs are not rebuilt");
    configs.delete("rendered-worker-newest", &DeleteParams::default()).await.unwrap();
    let refusal =
        |pools: &PoolAnswers| pools["worker"].refusal() == Some("there is no MachineConfig rendered-worker-newest");
    following.until(refusal).await;
}

#[tokio::test(start_paused = true)]
async fn config_that_cannot_be_read_is_logged_once() {
    let (_cluster, client) = filled().await;
    let (fault, fault_receiver) = watch::channel(RequestFault::None);
    let following = following(with_faults(client.clone(), fault_receiver));
    following.serves("rendered-worker-old").await;
    let log = Log::default();
    let _logging = tracing::subscriber::set_default(log.subscriber());
    fault.send_replace(RequestFault::Reset("/machineconfigs/"));
    status(&client, json!({"updatedMachineCount": 1})).await;
    tokio::time::sleep(OUTAGE_PERIOD).await;
    assert_eq!(log.text().matches("cannot read a MachineConfig; retrying").count(), 1, "{}", log.text());
}

#[tokio::test(start_paused = true)]
async fn last_token_is_served_while_it_cannot_be_read() {
    let (_cluster, client) = filled().await;
    let following = following(client.clone());
    following.serves("rendered-worker-old").await;
    let token = following.folder.path().join("token");
    // A folder cannot be read as a file, not even by root; a file that is being written is empty.
    std::fs::remove_file(&token).unwrap();
    std::fs::create_dir(&token).unwrap();
    status(&client, json!({"updatedMachineCount": 1})).await;
    following.serves("rendered-worker-new").await;
    let kubeconfig = || written(&get(&following.endpoint).json(), KUBECONFIG_FILE);
    assert!(kubeconfig().contains("node-token"), "{}", kubeconfig());
    std::fs::remove_dir(&token).unwrap();
    std::fs::write(&token, " \n").unwrap();
    status(&client, json!({"updatedMachineCount": 0})).await;
    following.serves("rendered-worker-old").await;
    assert!(kubeconfig().contains("node-token"), "{}", kubeconfig());
    std::fs::write(&token, "next-token\n").unwrap();
    following.until(|_| kubeconfig().contains("\"next-token\"")).await;
}

#[tokio::test(start_paused = true)]
async fn missing_token_is_a_failure_that_names_the_file() {
    let (_cluster, client) = filled().await;
    let following = following(client.clone());
    std::fs::write(following.folder.path().join("token"), "").unwrap();
    let is_refused = || {
        let reply = get(&following.endpoint);
        reply.status == 500 && reply.header("seaworthy-reason").contains("/token: it is empty; ")
    };
    following.until(|_| is_refused()).await;
}

#[tokio::test(start_paused = true)]
async fn event_that_is_never_accepted_delays_no_answer() {
    let (_cluster, client) = filled().await;
    let (_fault, fault_receiver) = watch::channel(RequestFault::Hang("POST /apis/events.k8s.io/"));
    let following = following(with_faults(client.clone(), fault_receiver));
    following.serves("rendered-worker-old").await;
    let remote = json!({"config": {"ignition": {"version": "3.5.0"},
        "storage": {"files": [{"path": "/a", "contents": {"source": "https://example.org/a"}}]}}});
    let parameters = PostParams::default();
    let configs: Api<MachineConfig> = Api::all(client.clone());
    configs.create(&parameters, &machine_config("rendered-infra", remote)).await.unwrap();
    let pool: MachineConfigPool = serde_json::from_value(json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfigPool",
        "metadata": {"name": "infra"},
        "spec": {"configuration": {"name": "rendered-infra"}},
    }))
    .unwrap();
    let pools: Api<MachineConfigPool> = Api::all(client.clone());
    pools.create(&parameters, &pool).await.unwrap();
    let patch = json!({"status": {"configuration": {"name": "rendered-infra"}}});
    pools.patch_status("infra", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    let refusal =
        |pools: &PoolAnswers| pools.get("infra").and_then(|infra| infra.refusal()).is_some_and(|it| it.contains("/a"));
    following.until(refusal).await;
    let before = tokio::time::Instant::now();
    status(&client, json!({"updatedMachineCount": 1})).await;
    following.serves("rendered-worker-new").await;
    // Time passes only where something is waited for: an event is given up after many seconds.
    assert!(before.elapsed() < Duration::from_secs(2), "{:?}", before.elapsed());
}

/// A cluster with a pool that runs one config and targets another, and a token.
async fn filled() -> (Embedded, Client) {
    let cluster = Embedded::start().await;
    let client = cluster.client();
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in definitions() {
        crds.create(&PostParams::default(), &definition).await.unwrap();
        let name = definition.name_any();
        await_condition(crds.clone(), &name, conditions::is_crd_established()).await.unwrap();
    }
    let token: Secret = serde_json::from_value(json!({
        "metadata": {"name": "bootstrap-token-abcdef"},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": {"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true"},
    }))
    .unwrap();
    let parameters = PostParams::default();
    Api::namespaced(client.clone(), "kube-system").create(&parameters, &token).await.unwrap();
    Api::<ControllerConfig>::all(client.clone()).create(&parameters, &controller_config()).await.unwrap();
    for name in ["rendered-worker-old", "rendered-worker-new"] {
        Api::<MachineConfig>::all(client.clone()).create(&parameters, &rendered(name)).await.unwrap();
    }
    let pool: MachineConfigPool = serde_json::from_value(json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfigPool",
        "metadata": {"name": "worker"},
        "spec": {"configuration": {"name": "rendered-worker-new"}},
    }))
    .unwrap();
    Api::<MachineConfigPool>::all(client.clone()).create(&parameters, &pool).await.unwrap();
    status(&client, json!({"configuration": {"name": "rendered-worker-old"}, "updatedMachineCount": 0})).await;
    (cluster, client)
}

async fn status(client: &Client, status: serde_json::Value) {
    let pools: Api<MachineConfigPool> = Api::all(client.clone());
    let patch = json!({"status": status});
    pools.patch_status("worker", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
}

fn get(endpoint: &Endpoint) -> Reply {
    ask(endpoint, "GET", "/config/worker", &[("authorization", &format!("Bearer {TOKEN}"))])
}

/// The value of the metric `source_unreachable_seconds`.
fn source_unreachable(endpoint: &Endpoint) -> f64 {
    let page = endpoint.page().unwrap();
    let line = page.lines().find_map(|line| line.strip_prefix("seaworthy_endpoint_source_unreachable_seconds "));
    line.unwrap().parse().unwrap()
}

/// Paused time advances only while no task is ready, so an hour takes a moment.
#[tokio::test(start_paused = true)]
async fn api_server_outage_of_an_hour_changes_nothing_for_machines() {
    let (_cluster, client) = filled().await;
    let (cut, is_cut) = watch::channel(true);
    let following = following(with_outage(client.clone(), is_cut));
    let endpoint = &following.endpoint;

    // From the start: nothing is cached, so no client gets 404 or 401.
    tokio::time::sleep(OUTAGE_PERIOD).await;
    let reply = get(endpoint);
    assert_eq!((reply.status, reply.header("retry-after")), (503, "5"));
    assert!(!endpoint.is_ready() && source_unreachable(endpoint) > 3000.0, "{}", source_unreachable(endpoint));

    cut.send_replace(false);
    following.until(|pools| pools.contains_key("worker")).await;
    let before = get(endpoint);
    assert!(written(&before.json(), NODE_ANNOTATIONS_FILE).contains("\"rendered-worker-old\""));
    assert!(source_unreachable(endpoint) < 1e-9);

    // Later: the cached answers are served, to clients with cached tokens.
    cut.send_replace(true);
    tokio::time::sleep(OUTAGE_PERIOD).await;
    status(&client, json!({"updatedMachineCount": 1})).await;
    let during = get(endpoint);
    assert_eq!((during.status, during.header("etag")), (200, before.header("etag")));
    assert_eq!(ask(endpoint, "GET", "/config/worker", &[]).status, 401);
    assert!(endpoint.is_ready() && source_unreachable(endpoint) > 3000.0, "{}", source_unreachable(endpoint));

    // And changes during the outage are caught up with.
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "kube-system");
    cut.send_replace(false);
    following.serves("rendered-worker-new").await;
    assert!(source_unreachable(endpoint) < 1e-9);
    secrets.delete("bootstrap-token-abcdef", &DeleteParams::default()).await.unwrap();
    for _ in 0..3600 {
        if get(endpoint).status == 401 {
            return;
        }
        // Watches retry after a while, which passes only while no task is ready.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    panic!("a deleted token is still accepted");
}
