//! A controller written with kube runs on the embedded server as it does on the real one: watch, finalizer, apply,
//! status, owned object, lease.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::controller::Action;
use kube::runtime::finalizer::{Event, finalizer};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::{Controller, watcher};
use kube::{Api, Client, CustomResource, CustomResourceExt as _, Resource as _, ResourceExt as _};
use schemars::JsonSchema;
use seaworthy_testkit::Cluster;
use serde::{Deserialize, Serialize};
use serde_json::json;

const MANAGER: &str = "boatman";

#[derive(CustomResource, Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Boat", namespaced, status = "BoatStatus")]
struct BoatSpec {
    length: i64,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
struct BoatStatus {
    moored: bool,
}

async fn reconcile(
    boat: Arc<Boat>,
    client: Arc<Client>,
) -> Result<Action, kube::runtime::finalizer::Error<kube::Error>> {
    let namespace = boat.namespace().unwrap();
    let boats: Api<Boat> = Api::namespaced((*client).clone(), &namespace);
    let maps: Api<ConfigMap> = Api::namespaced((*client).clone(), &namespace);
    finalizer(&boats, "example.com/mooring", boat, |event| async {
        match event {
            Event::Apply(boat) => {
                let name = boat.name_any();
                let map = ConfigMap {
                    metadata: kube::core::ObjectMeta {
                        name: Some(name.clone()),
                        owner_references: boat.controller_owner_ref(&()).map(|owner| vec![owner]),
                        ..Default::default()
                    },
                    data: Some(BTreeMap::from([("length".to_owned(), boat.spec.length.to_string())])),
                    ..Default::default()
                };
                maps.patch(&name, &PatchParams::apply(MANAGER), &Patch::Apply(&map)).await?;
                let status =
                    json!({"apiVersion": Boat::api_version(&()), "kind": Boat::kind(&()), "status": {"moored": true}});
                boats.patch_status(&name, &PatchParams::apply(MANAGER), &Patch::Apply(&status)).await?;
            }
            Event::Cleanup(boat) => {
                maps.delete(&boat.name_any(), &DeleteParams::default()).await?;
            }
        }
        Ok(Action::await_change())
    })
    .await
}

async fn install(client: &Client) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.create(&PostParams::default(), &Boat::crd()).await.unwrap();
    let established = conditions::is_crd_established();
    await_condition(definitions, "boats.example.com", established).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controller_reconciles_reports_and_cleans_up() {
    let cluster = Cluster::start().await;
    let client = cluster.client();
    install(&client).await;
    let boats: Api<Boat> = Api::namespaced(client.clone(), "default");
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let controller = Controller::new(boats.clone(), watcher::Config::default().streaming_lists())
        .owns(maps.clone(), watcher::Config::default())
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(50)), Arc::new(client.clone()))
        .for_each(|_| async {});
    let controller = tokio::spawn(controller);

    boats.create(&PostParams::default(), &Boat::new("b", BoatSpec { length: 12 })).await.unwrap();
    let is_moored =
        |boat: Option<&Boat>| boat.and_then(|boat| boat.status.as_ref()).is_some_and(|status| status.moored);
    await_condition(boats.clone(), "b", is_moored).await.unwrap();
    assert_eq!(maps.get("b").await.unwrap().data.unwrap()["length"], "12");

    let longer = json!({"spec": {"length": 13}});
    boats.patch("b", &PatchParams::default(), &Patch::Merge(&longer)).await.unwrap();
    let is_longer = |map: Option<&ConfigMap>| {
        map.and_then(|map| map.data.as_ref())
            .is_some_and(|data| data.get("length").is_some_and(|length| length == "13"))
    };
    await_condition(maps.clone(), "b", is_longer).await.unwrap();

    let uid = boats.get("b").await.unwrap().uid().unwrap();
    boats.delete("b", &DeleteParams::default()).await.unwrap();
    await_condition(boats.clone(), "b", conditions::is_deleted(&uid)).await.unwrap();
    assert!(maps.get_opt("b").await.unwrap().is_none());
    controller.abort();
}

#[tokio::test]
async fn lease_is_taken_by_one_and_refused_to_who_read_too_early() {
    let cluster = Cluster::start().await;
    let leases: Api<Lease> = Api::namespaced(cluster.client(), "default");
    let lease: Lease =
        serde_json::from_value(json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}})).unwrap();
    let mut first = leases.create(&PostParams::default(), &lease).await.unwrap();
    let mut second = first.clone();
    first.spec.as_mut().unwrap().holder_identity = Some("b".to_owned());
    leases.replace("l", &PostParams::default(), &first).await.unwrap();
    second.spec.as_mut().unwrap().holder_identity = Some("c".to_owned());
    let error = leases.replace("l", &PostParams::default(), &second).await.unwrap_err();
    assert!(matches!(error, kube::Error::Api(status) if status.is_conflict()));
}
