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
use seaworthy_api::machineconfiguration::{ControllerConfig, MachineConfig, MachineConfigPool, definitions};
use seaworthy_serve::access::Keys;
use seaworthy_serve::cluster::{Cluster, Settings};
use seaworthy_serve::content::NODE_ANNOTATIONS;
use seaworthy_serve::rate::Rates;
use seaworthy_serve::{Access, Endpoint, Shelf};
use seaworthy_testkit::Embedded;
use serde_json::json;
use tokio::sync::watch;

use crate::support::{Reply, ask, controller_config, rendered, written};

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
    let access = Access::Asked(Keys { tokens: Vec::new(), secrets: Some(known.secrets()) });
    let endpoint = Endpoint { shelf: Arc::clone(&shelf), access, rates: Rates::default(), metrics: Arc::default() };
    let running = tokio::spawn(known.run(cable(client.clone(), is_cut), Arc::clone(&shelf)));

    // From the start: nothing is known, so nobody is told that there is no such pool, or that a token is wrong.
    tokio::time::sleep(HOUR).await;
    let reply = get(&endpoint);
    assert_eq!((reply.status, reply.header("retry-after")), (503, "5"));
    assert!(!endpoint.is_ready() && away(&endpoint) > 3000.0, "{}", away(&endpoint));

    cut.send_replace(false);
    shelf.until(|pools| pools.contains_key("worker")).await;
    let before = get(&endpoint);
    assert!(written(&before.json(), NODE_ANNOTATIONS).contains("\"rendered-worker-old\""));
    assert!(away(&endpoint) < 1e-9);

    // In the middle: what was known is served, to whoever was known.
    cut.send_replace(true);
    tokio::time::sleep(HOUR).await;
    status(&client, json!({"updatedMachineCount": 1})).await;
    let during = get(&endpoint);
    assert_eq!((during.status, during.header("etag")), (200, before.header("etag")));
    assert_eq!(ask(&endpoint, "GET", "/config/worker", &[]).status, 401);
    assert!(endpoint.is_ready() && away(&endpoint) > 3000.0, "{}", away(&endpoint));

    // And what has happened meanwhile is made up for.
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "kube-system");
    cut.send_replace(false);
    shelf.until(|_| written(&get(&endpoint).json(), NODE_ANNOTATIONS).contains("\"rendered-worker-new\"")).await;
    assert!(away(&endpoint) < 1e-9);
    secrets.delete("bootstrap-token-abcdef", &DeleteParams::default()).await.unwrap();
    while get(&endpoint).status != 401 {
        // Whoever tries again does so after a while, which passes only if nobody is busy.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    running.abort();
}
