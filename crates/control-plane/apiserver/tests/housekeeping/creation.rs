//! Writes that create a missing object, with concurrent creation by another client.

use http::Method;
use rstest::rstest;
use serde_json::{Value, json};

use crate::housekeeping::cluster::{CONFIG_MAPS, CallPoint, Cluster, config_map};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";

fn lease(holder: &str, metadata: Value) -> Value {
    let mut lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata});
    lease["spec"] = json!({"holderIdentity": holder});
    lease
}

fn applied(metadata: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": "applied"}})
}

#[rstest]
#[case::without_preconditions(json!({"name": "a"}), 201)]
#[case::of_a_revision(json!({"name": "a", "resourceVersion": "5"}), 201)]
#[case::of_an_identity(json!({"name": "a", "uid": "x"}), 409)]
#[tokio::test]
async fn what_is_not_there_is_created_unless_one_of_an_identity_is_meant(#[case] metadata: Value, #[case] code: u16) {
    let cluster = Cluster::start().await;
    let (put, answer) = cluster.send(Method::PUT, &format!("{LEASES}/a"), lease("me", metadata.clone())).await;
    assert_eq!(put, code, "{answer}");
    let path = format!("{CONFIG_MAPS}/a?fieldManager=me");
    let (patch, answer) = cluster.send(Method::PATCH, &path, applied(metadata)).await;
    assert_eq!(patch, code, "{answer}");
}

#[tokio::test]
async fn apply_that_was_not_the_first_to_create_applies_to_what_is_there() {
    let cluster = Cluster::start().await;
    let mut other = config_map("a", &[]);
    other["data"] = json!({"other": "v"});
    cluster.send_amid(CallPoint::Entropy, Method::POST, CONFIG_MAPS, other);
    let path = format!("{CONFIG_MAPS}/a?fieldManager=me");
    let (code, answer) = cluster.send(Method::PATCH, &path, applied(json!({"name": "a"}))).await;
    assert_eq!((code, &answer["data"]), (200, &json!({"k": "applied", "other": "v"})));
}

#[tokio::test]
async fn update_that_was_not_the_first_to_create_updates_what_is_there() {
    let cluster = Cluster::start().await;
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    let role = |verb: &str| {
        let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}]);
        json!({"metadata": {"name": "a"}, "rules": rules})
    };
    cluster.send_amid(CallPoint::Entropy, Method::POST, roles, role("get"));
    let (code, answer) = cluster.send(Method::PUT, &format!("{roles}/a"), role("list")).await;
    assert_eq!((code, &answer["rules"][0]["verbs"]), (200, &json!(["list"])), "{answer}");
}

#[tokio::test]
async fn deletion_of_a_part_of_a_collection_leaves_the_rest() {
    let cluster = Cluster::start().await;
    for name in ["a", "b", "c"] {
        cluster.create(CONFIG_MAPS, config_map(name, &[])).await;
    }
    let (code, list) = cluster.send(Method::DELETE, &format!("{CONFIG_MAPS}?limit=2"), Value::Null).await;
    assert_eq!((code, list["items"].as_array().unwrap().len()), (200, 2));
    assert_eq!(list["metadata"]["remainingItemCount"], 1);
    for (name, is_left) in [("a", false), ("b", false), ("c", true)] {
        assert_eq!(cluster.get(&format!("{CONFIG_MAPS}/{name}")).await.is_some(), is_left, "{name}");
    }
}
