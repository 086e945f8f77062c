//! Properties of a test cluster that hold on either server.
#![allow(clippy::unwrap_used)]

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{DeleteParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, ResourceExt as _};
use seaworthy_testkit::Cluster;
use serde_json::{Value, json};

fn map(metadata: Value) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": metadata })).unwrap()
}

#[tokio::test]
async fn dependents_of_a_deleted_object_are_collected() {
    let cluster = Cluster::start().await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), "default");
    let owner = maps.create(&PostParams::default(), &map(json!({"name": "owner"}))).await.unwrap();
    let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid()});
    let owned = map(json!({"name": "owned", "ownerReferences": [reference]}));
    let owned = maps.create(&PostParams::default(), &owned).await.unwrap();
    maps.delete("owner", &DeleteParams::default()).await.unwrap();
    await_condition(maps, "owned", conditions::is_deleted(&owned.uid().unwrap())).await.unwrap();
}

#[tokio::test]
async fn namespace_ends_with_what_is_in_it() {
    let cluster = Cluster::start().await;
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": "harbour"}})).unwrap();
    let namespace = namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client(), "harbour");
    maps.create(&PostParams::default(), &map(json!({"name": "inside"}))).await.unwrap();
    namespaces.delete("harbour", &DeleteParams::default()).await.unwrap();
    await_condition(namespaces, "harbour", conditions::is_deleted(&namespace.uid().unwrap())).await.unwrap();
    assert!(maps.get_opt("inside").await.unwrap().is_none());
}

#[tokio::test]
async fn client_has_the_rights_of_its_user() {
    let cluster = Cluster::start().await;
    let refused: Api<ConfigMap> = Api::namespaced(cluster.client_as("ann", &["sailors"]), "default");
    let error = refused.create(&PostParams::default(), &map(json!({"name": "a"}))).await.unwrap_err();
    let kube::Error::Api(status) = error else { panic!("{error}") };
    assert_eq!(status.code, 403);
    assert!(status.message.contains(r#"User "ann" cannot create resource "configmaps""#), "{}", status.message);
    let admitted: Api<ConfigMap> = Api::namespaced(cluster.client_as("bob", &["system:masters"]), "default");
    admitted.create(&PostParams::default(), &map(json!({"name": "a"}))).await.unwrap();
}

#[tokio::test]
async fn each_cluster_has_its_own_objects() {
    let (one, other) = (Cluster::start().await, Cluster::start().await);
    let maps = |cluster: &Cluster| Api::<ConfigMap>::namespaced(cluster.client(), "default");
    maps(&one).create(&PostParams::default(), &map(json!({"name": "a"}))).await.unwrap();
    assert!(maps(&other).get_opt("a").await.unwrap().is_none());
}
