//! Namespace deletion.

use http::Method;
use rstest::rstest;
use serde_json::{Value, json};

use crate::housekeeping::cluster::{CallPoint, Cluster, config_map};

const ROOM: &str = "/api/v1/namespaces/room";

async fn with_room() -> Cluster {
    let cluster = Cluster::start().await;
    let room = json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "room"}});
    cluster.create("/api/v1/namespaces", room).await;
    cluster
}

fn condition(namespace: &Value, kind: &str) -> Value {
    let conditions = namespace["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|condition| condition["type"] == kind).unwrap().clone()
}

#[tokio::test]
async fn namespace_goes_with_everything_in_it_and_reports_what_it_waits_for() {
    let cluster = with_room().await;
    let mut held = config_map("held", &[]);
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    cluster.create(&format!("{ROOM}/configmaps"), held).await;
    let secret = json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "s"}});
    cluster.create(&format!("{ROOM}/secrets"), secret).await;
    let marked = cluster.delete(ROOM, None).await;
    assert_eq!(
        (&marked["status"]["phase"], &marked["spec"]["finalizers"]),
        (&json!("Terminating"), &json!(["kubernetes"]))
    );
    cluster.server.settle().await;
    assert_eq!(cluster.get(&format!("{ROOM}/secrets/s")).await, None);
    let held = cluster.get(&format!("{ROOM}/configmaps/held")).await.unwrap();
    assert!(held["metadata"]["deletionTimestamp"].is_string());
    let room = cluster.get(ROOM).await.unwrap();
    let remaining = condition(&room, "NamespaceContentRemaining");
    assert_eq!((&remaining["status"], &remaining["reason"]), (&json!("True"), &json!("SomeResourcesRemain")));
    assert_eq!(remaining["message"], "Some resources are remaining: configmaps. has 1 resource instances");
    let finalizers = condition(&room, "NamespaceFinalizersRemaining");
    assert_eq!(
        finalizers["message"],
        "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
    );
    for kind in [
        "NamespaceDeletionDiscoveryFailure",
        "NamespaceDeletionGroupVersionParsingFailure",
        "NamespaceDeletionContentFailure",
    ] {
        assert_eq!(condition(&room, kind)["status"], "False", "{kind}");
    }
    let (code, refused) = cluster.send(Method::POST, &format!("{ROOM}/configmaps"), config_map("late", &[])).await;
    assert_eq!((code, &refused["details"]["causes"][0]["reason"]), (403, &json!("NamespaceTerminating")));
    cluster.patch(&format!("{ROOM}/configmaps/held"), json!({"metadata": {"finalizers": null}})).await;
    cluster.server.settle().await;
    assert_eq!(cluster.get(ROOM).await, None);
    let again = json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "room"}});
    assert_eq!(cluster.create("/api/v1/namespaces", again).await["status"]["phase"], "Active");
}

#[tokio::test]
async fn empty_namespace_goes_at_once_and_one_that_is_held_elsewhere_stays() {
    let cluster = with_room().await;
    cluster.patch(ROOM, json!({"metadata": {"finalizers": ["example.com/hold"]}})).await;
    cluster.delete(ROOM, None).await;
    cluster.server.settle().await;
    let room = cluster.get(ROOM).await.unwrap();
    assert_eq!(room["spec"].get("finalizers").and_then(Value::as_array).map_or(0, Vec::len), 0);
    assert_eq!(condition(&room, "NamespaceContentRemaining")["reason"], "ContentRemoved");
    cluster.patch(ROOM, json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(cluster.get(ROOM).await, None);
}

#[tokio::test]
async fn pods_go_before_what_they_use() {
    let cluster = with_room().await;
    let pod = json!({
        "kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p", "finalizers": ["example.com/hold"]},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    cluster.create(&format!("{ROOM}/pods"), pod).await;
    cluster.create(&format!("{ROOM}/configmaps"), config_map("used", &[])).await;
    cluster.delete(ROOM, None).await;
    cluster.server.settle().await;
    let used = cluster.get(&format!("{ROOM}/configmaps/used")).await.unwrap();
    assert_eq!(used["metadata"].get("deletionTimestamp"), None);
    cluster.patch(&format!("{ROOM}/pods/p"), json!({"metadata": {"finalizers": null}})).await;
    cluster.server.settle().await;
    assert_eq!(cluster.get(ROOM).await, None);
}

#[rstest]
#[case::default("default")]
#[case::system("kube-system")]
#[case::public("kube-public")]
#[tokio::test]
async fn namespace_without_which_nothing_works_stays(#[case] name: &str) {
    let cluster = Cluster::start().await;
    let (code, refused) = cluster.send(Method::DELETE, &format!("/api/v1/namespaces/{name}"), Value::Null).await;
    assert_eq!(code, 403);
    assert_eq!(refused["message"], format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted"));
    let missing = json!([{"apiVersion": "v1", "kind": "Node", "name": "missing", "uid": "missing"}]);
    cluster.patch(&format!("/api/v1/namespaces/{name}"), json!({"metadata": {"ownerReferences": missing}})).await;
    cluster.server.settle().await;
    let kept = cluster.get(&format!("/api/v1/namespaces/{name}")).await.unwrap();
    assert_eq!((kept["metadata"].get("deletionTimestamp"), &kept["status"]["phase"]), (None, &json!("Active")));
}

#[tokio::test]
async fn object_whose_namespace_goes_while_it_is_created_goes_too() {
    let cluster = Cluster::start().await;
    let namespace = json!({"metadata": {"name": "brief"}});
    cluster.create("/api/v1/namespaces", namespace.clone()).await;
    cluster.send_amid(CallPoint::Entropy, Method::DELETE, "/api/v1/namespaces/brief", Value::Null);
    let path = "/api/v1/namespaces/brief/configmaps";
    let (code, _) = cluster.send(Method::POST, path, config_map("late", &[])).await;
    assert_eq!(code, 404);
    cluster.create("/api/v1/namespaces", namespace).await;
    assert_eq!(cluster.get(&format!("{path}/late")).await, None);
}
