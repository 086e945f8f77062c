//! The API server goes away, at the start or for an hour: what is known is served, and nothing else.

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
use seaworthy_serve::access::{Keys, Tokens};
use seaworthy_serve::answers::Pools;
use seaworthy_serve::cluster::{Cluster, Settings};
use seaworthy_serve::content::{KUBECONFIG, NODE_ANNOTATIONS};
use seaworthy_serve::rate::Rates;
use seaworthy_serve::{Access, Endpoint, Shelf};
use seaworthy_testkit::Embedded;
use serde_json::json;
use tokio::sync::watch;

use crate::support::{Log, Reply, ask, controller_config, machine_config, rendered, written};

const TOKEN: &str = "abcdef.0123456789abcdef";
const HOUR: Duration = Duration::from_secs(3600);

/// The way to an API server, which can be cut: watches end, and nothing is answered any more.
fn cable(client: Client, cut: watch::Receiver<bool>) -> Client {
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

/// What becomes of requests whose line has a certain text in it.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// They are answered.
    Free,
    /// The server says that it cannot.
    Refused(&'static str),
    /// There is never an answer.
    Lost(&'static str),
}

/// The line of a request is its method and its path, with `$` at the end. What is under way when it is stopped breaks off.
fn sieve(client: Client, way: watch::Receiver<Way>) -> Client {
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (client, mut way) = (client.clone(), way.clone());
        async move {
            let line = format!("{} {}$", request.method(), request.uri().path());
            let now = *way.borrow();
            match now {
                Way::Refused(part) if line.contains(part) => {
                    return Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset).into());
                }
                Way::Lost(part) if line.contains(part) => std::future::pending().await,
                _ => {}
            }
            let (head, body) = client.send(request).await?.into_parts();
            let stopped = async move {
                let is_stopped = |way: &Way| matches!(way, Way::Refused(part) if line.contains(part));
                if way.wait_for(is_stopped).await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            let body = body.into_data_stream().take_until(Box::pin(stopped)).map_ok(Frame::data);
            Ok::<_, tower::BoxError>(http::Response::from_parts(head, StreamBody::new(body)))
        }
    });
    Client::new(service, "default")
}

/// An endpoint that follows a cluster.
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
    let settings = Settings {
        apiserver_url: "https://api.example:6443".to_owned(),
        token_folder: folder.path().to_owned(),
        namespace: "seaworthy-system".to_owned(),
    };
    let known = Cluster::new(settings);
    let shelf = Arc::new(Shelf::default());
    let access = Access::Asked(Keys { tokens: Tokens::default(), secrets: Some(known.secrets()) });
    let endpoint = Endpoint { shelf: Arc::clone(&shelf), access, rates: Rates::default(), metrics: Arc::default() };
    Following { endpoint, folder, running: tokio::spawn(known.run(client, shelf)) }
}

impl Following {
    /// Waits until the pool is given this config.
    async fn serves(&self, config: &str) {
        let text = format!("\"{config}\"");
        let is_it = || {
            let reply = get(&self.endpoint);
            reply.status == 200 && written(&reply.json(), NODE_ANNOTATIONS).contains(&text)
        };
        self.until(|_| is_it()).await;
    }

    /// Waits until the shelf is like this, and not for ever.
    async fn until(&self, is_it: impl Fn(&Pools) -> bool) {
        let waited = tokio::time::timeout(HOUR, self.endpoint.shelf.until(is_it)).await;
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
    let (way, is_way) = watch::channel(Way::Refused(part));
    let following = following(sieve(client, is_way));
    tokio::time::sleep(HOUR).await;
    assert_eq!(get(&following.endpoint).status, 503, "{part}");
    way.send_replace(Way::Free);
    following.serves("rendered-worker-old").await;
}

#[tokio::test(start_paused = true)]
async fn config_that_cannot_be_read_at_the_moment_is_no_reason_to_send_machines_away() {
    let (_cluster, client) = filled().await;
    let (way, is_way) = watch::channel(Way::Free);
    let following = following(sieve(client.clone(), is_way));
    following.serves("rendered-worker-old").await;
    for fault in
        [Way::Refused("GET /apis/machineconfiguration.openshift.io/v1/machineconfigs/"), Way::Lost("/machineconfigs/")]
    {
        way.send_replace(fault);
        status(&client, json!({"updatedMachineCount": 1})).await;
        tokio::time::sleep(HOUR).await;
        following.serves("rendered-worker-old").await;
        way.send_replace(Way::Free);
        following.serves("rendered-worker-new").await;
        status(&client, json!({"updatedMachineCount": 0})).await;
        following.serves("rendered-worker-old").await;
    }
}

#[tokio::test(start_paused = true)]
async fn pool_that_asks_for_another_config_while_one_is_waited_for_is_served_as_before() {
    let (_cluster, client) = filled().await;
    let (way, is_way) = watch::channel(Way::Free);
    let following = following(sieve(client.clone(), is_way));
    following.serves("rendered-worker-old").await;
    way.send_replace(Way::Lost("/machineconfigs/"));
    status(&client, json!({"updatedMachineCount": 1})).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    status(&client, json!({"configuration": {"name": "rendered-worker-newest"}, "updatedMachineCount": 0})).await;
    tokio::time::sleep(HOUR).await;
    following.serves("rendered-worker-old").await;
}

#[tokio::test(start_paused = true)]
async fn config_that_the_watch_has_not_told_of_is_read_and_one_that_is_gone_is_refused() {
    let (_cluster, client) = filled().await;
    let (way, is_way) = watch::channel(Way::Free);
    let following = following(sieve(client.clone(), is_way));
    following.serves("rendered-worker-old").await;
    // The metadata are not followed any more, and a new one comes.
    way.send_replace(Way::Refused("/machineconfigs$"));
    let configs: Api<MachineConfig> = Api::all(client.clone());
    configs.create(&PostParams::default(), &rendered("rendered-worker-newest")).await.unwrap();
    status(&client, json!({"configuration": {"name": "rendered-worker-newest"}})).await;
    following.serves("rendered-worker-newest").await;
    let pools = || following.endpoint.shelf.take().unwrap();
    let made = pools();
    tokio::time::sleep(HOUR).await;
    assert!(Arc::ptr_eq(&made["worker"], &pools()["worker"]), "nothing is made anew where nothing has changed");
    configs.delete("rendered-worker-newest", &DeleteParams::default()).await.unwrap();
    let refusal = |pools: &Pools| pools["worker"].refusal() == Some("there is no MachineConfig rendered-worker-newest");
    following.until(refusal).await;
}

#[tokio::test(start_paused = true)]
async fn config_that_cannot_be_read_is_said_once() {
    let (_cluster, client) = filled().await;
    let (way, is_way) = watch::channel(Way::Free);
    let following = following(sieve(client.clone(), is_way));
    following.serves("rendered-worker-old").await;
    let log = Log::default();
    let _logging = tracing::subscriber::set_default(log.subscriber());
    way.send_replace(Way::Refused("/machineconfigs/"));
    status(&client, json!({"updatedMachineCount": 1})).await;
    tokio::time::sleep(HOUR).await;
    assert_eq!(log.text().matches("cannot be read, and is tried again").count(), 1, "{}", log.text());
}

#[tokio::test(start_paused = true)]
async fn token_that_cannot_be_read_any_more_is_given_as_it_was() {
    let (_cluster, client) = filled().await;
    let following = following(client.clone());
    following.serves("rendered-worker-old").await;
    let token = following.folder.path().join("token");
    // A folder is no file, whoever reads it; a file that is being written is empty.
    std::fs::remove_file(&token).unwrap();
    std::fs::create_dir(&token).unwrap();
    status(&client, json!({"updatedMachineCount": 1})).await;
    following.serves("rendered-worker-new").await;
    let kubeconfig = || written(&get(&following.endpoint).json(), KUBECONFIG);
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
async fn token_that_was_never_there_is_a_failure_that_names_it() {
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
async fn event_that_nobody_takes_holds_up_no_answer() {
    let (_cluster, client) = filled().await;
    let (_way, is_way) = watch::channel(Way::Lost("POST /apis/events.k8s.io/"));
    let following = following(sieve(client.clone(), is_way));
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
        |pools: &Pools| pools.get("infra").and_then(|infra| infra.refusal()).is_some_and(|it| it.contains("/a"));
    following.until(refusal).await;
    let before = tokio::time::Instant::now();
    status(&client, json!({"updatedMachineCount": 1})).await;
    following.serves("rendered-worker-new").await;
    // Time passes only where something is waited for: an event is given up after many seconds.
    assert!(before.elapsed() < Duration::from_secs(2), "{:?}", before.elapsed());
}

/// A cluster with a pool that has one config and is ordered another, and a token.
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

/// The seconds for which the numbers say that the cluster is out of reach.
fn away(endpoint: &Endpoint) -> f64 {
    let page = endpoint.page().unwrap();
    let line = page.lines().find_map(|line| line.strip_prefix("seaworthy_endpoint_source_away_seconds "));
    line.unwrap().parse().unwrap()
}

/// Time passes only while nobody has anything to do, so an hour takes a moment.
#[tokio::test(start_paused = true)]
async fn api_that_is_away_for_an_hour_changes_nothing_for_machines() {
    let (_cluster, client) = filled().await;
    let (cut, is_cut) = watch::channel(true);
    let following = following(cable(client.clone(), is_cut));
    let endpoint = &following.endpoint;

    // From the start: nothing is known, so nobody is told that there is no such pool, or that a token is wrong.
    tokio::time::sleep(HOUR).await;
    let reply = get(endpoint);
    assert_eq!((reply.status, reply.header("retry-after")), (503, "5"));
    assert!(!endpoint.is_ready() && away(endpoint) > 3000.0, "{}", away(endpoint));

    cut.send_replace(false);
    following.until(|pools| pools.contains_key("worker")).await;
    let before = get(endpoint);
    assert!(written(&before.json(), NODE_ANNOTATIONS).contains("\"rendered-worker-old\""));
    assert!(away(endpoint) < 1e-9);

    // In the middle: what was known is served, to whoever was known.
    cut.send_replace(true);
    tokio::time::sleep(HOUR).await;
    status(&client, json!({"updatedMachineCount": 1})).await;
    let during = get(endpoint);
    assert_eq!((during.status, during.header("etag")), (200, before.header("etag")));
    assert_eq!(ask(endpoint, "GET", "/config/worker", &[]).status, 401);
    assert!(endpoint.is_ready() && away(endpoint) > 3000.0, "{}", away(endpoint));

    // And what has happened meanwhile is made up for.
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "kube-system");
    cut.send_replace(false);
    following.serves("rendered-worker-new").await;
    assert!(away(endpoint) < 1e-9);
    secrets.delete("bootstrap-token-abcdef", &DeleteParams::default()).await.unwrap();
    for _ in 0..3600 {
        if get(endpoint).status == 401 {
            return;
        }
        // Whoever tries again does so after a while, which passes only if nobody is busy.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    panic!("a token that was taken back still opens the door");
}
