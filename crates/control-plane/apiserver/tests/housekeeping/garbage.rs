//! Owners and dependents.

use http::Method;
use serde_json::{Value, json};

use crate::housekeeping::cluster::{CONFIG_MAPS, Cluster, SECRETS, blocked, boats, config_map, owner};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const BOATS: &str = "/apis/example.com/v1/namespaces/default/boats";

fn path(name: &str) -> String {
    format!("{CONFIG_MAPS}/{name}")
}

fn missing_owner(kind: &str, api_version: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "name": "missing", "uid": "99999999-9999-4999-9999-999999999999"})
}

#[tokio::test]
async fn dependent_of_a_missing_owner_is_deleted_and_one_of_an_owner_with_another_uid_too() {
    let cluster = Cluster::start().await;
    let real = cluster.create(CONFIG_MAPS, config_map("real", &[])).await;
    let mut other = owner(&real);
    other["uid"] = "88888888-8888-4888-8888-888888888888".into();
    cluster.create(CONFIG_MAPS, config_map("lost", &[missing_owner("ConfigMap", "v1")])).await;
    cluster.create(CONFIG_MAPS, config_map("mistaken", &[other])).await;
    cluster.create(CONFIG_MAPS, config_map("kept", &[owner(&real)])).await;
    cluster.server.settle().await;
    let mut left = Vec::new();
    for name in ["lost", "mistaken", "kept", "real"] {
        left.push(cluster.get(&path(name)).await.is_some());
    }
    assert_eq!(left, [false, false, true, true]);
}

#[tokio::test]
async fn deletion_in_the_background_takes_dependents_along_but_not_shared_ones() {
    let cluster = Cluster::start().await;
    let first = cluster.create(CONFIG_MAPS, config_map("first", &[])).await;
    let second = cluster.create(CONFIG_MAPS, config_map("second", &[])).await;
    let child = cluster.create(CONFIG_MAPS, config_map("child", &[owner(&first)])).await;
    let mut grandchild = config_map("grandchild", &[owner(&child)]);
    grandchild["kind"] = "Secret".into();
    cluster.create(SECRETS, grandchild).await;
    cluster.create(CONFIG_MAPS, config_map("shared", &[owner(&first), owner(&second)])).await;
    cluster.delete(&path("first"), Some("Background")).await;
    assert_eq!(cluster.get(&path("first")).await, None);
    assert!(cluster.get(&path("child")).await.is_some());
    cluster.server.settle().await;
    assert_eq!(cluster.get(&path("child")).await, None);
    assert_eq!(cluster.get(&format!("{SECRETS}/grandchild")).await, None);
    let shared = cluster.get(&path("shared")).await.unwrap();
    assert_eq!(shared["metadata"]["ownerReferences"], json!([owner(&second)]));
    assert_eq!(shared["metadata"].get("deletionTimestamp"), None);
}

#[tokio::test]
async fn deletion_in_the_foreground_waits_for_the_dependents_that_block_it() {
    let cluster = Cluster::start().await;
    let parent = cluster.create(CONFIG_MAPS, config_map("parent", &[])).await;
    let mut held = config_map("held", &[blocked(&parent)]);
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let held = cluster.create(CONFIG_MAPS, held).await;
    cluster.create(CONFIG_MAPS, config_map("below", &[blocked(&held)])).await;
    let mut loose = config_map("loose", &[owner(&parent)]);
    loose["metadata"]["finalizers"] = json!(["example.com/hold"]);
    cluster.create(CONFIG_MAPS, loose).await;
    let marked = cluster.delete(&path("parent"), Some("Foreground")).await;
    assert_eq!(marked["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    cluster.server.settle().await;
    // The dependent has one of its own, so it goes in the foreground too: below first.
    assert_eq!(cluster.get(&path("below")).await, None);
    let asked = cluster.get(&path("held")).await.unwrap();
    assert!(asked["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(asked["metadata"]["finalizers"], json!(["example.com/hold"]));
    assert!(cluster.get(&path("parent")).await.is_some());
    cluster.patch(&path("held"), json!({"metadata": {"finalizers": null}})).await;
    cluster.server.settle().await;
    assert_eq!(cluster.get(&path("parent")).await, None);
    // The owner does not wait for a dependent that does not block, but deletes it all the same.
    let loose = cluster.get(&path("loose")).await.unwrap();
    assert!(loose["metadata"]["deletionTimestamp"].is_string());
}

#[tokio::test]
async fn dependent_that_stops_blocking_lets_its_owner_go() {
    let cluster = Cluster::start().await;
    let parent = cluster.create(CONFIG_MAPS, config_map("parent", &[])).await;
    let mut held = config_map("held", &[blocked(&parent)]);
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    cluster.create(CONFIG_MAPS, held).await;
    cluster.delete(&path("parent"), Some("Foreground")).await;
    cluster.server.settle().await;
    assert!(cluster.get(&path("parent")).await.is_some());
    cluster.patch(&path("held"), json!({"metadata": {"ownerReferences": [owner(&parent)]}})).await;
    cluster.server.settle().await;
    assert_eq!(cluster.get(&path("parent")).await, None);
}

#[tokio::test]
async fn orphans_stay_without_their_owner() {
    let cluster = Cluster::start().await;
    for (name, options) in [("new", json!({"propagationPolicy": "Orphan"})), ("old", json!({"orphanDependents": true}))]
    {
        let parent = cluster.create(CONFIG_MAPS, config_map(name, &[])).await;
        let child = format!("{name}-child");
        cluster.create(CONFIG_MAPS, config_map(&child, &[owner(&parent)])).await;
        let (code, marked) = cluster.send(Method::DELETE, &path(name), options).await;
        assert_eq!((code, &marked["metadata"]["finalizers"]), (200, &json!(["orphan"])));
        cluster.server.settle().await;
        assert_eq!(cluster.get(&path(name)).await, None);
        let child = cluster.get(&path(&child)).await.unwrap();
        assert_eq!(child["metadata"].get("ownerReferences"), None);
        assert_eq!(child["metadata"].get("deletionTimestamp"), None);
    }
}

#[tokio::test]
async fn custom_objects_own_others_even_when_their_kind_goes_with_them() {
    let cluster = Cluster::start().await;
    cluster.create(DEFINITIONS, boats()).await;
    let boat = |name: &str| json!({"kind": "Boat", "apiVersion": "example.com/v1", "metadata": {"name": name}});
    let first = cluster.create(BOATS, boat("first")).await;
    let second = cluster.create(BOATS, boat("second")).await;
    cluster.create(CONFIG_MAPS, config_map("of-first", &[owner(&first)])).await;
    cluster.create(CONFIG_MAPS, config_map("of-second", &[owner(&second)])).await;
    cluster.delete(&format!("{BOATS}/first"), None).await;
    cluster.server.settle().await;
    assert_eq!(cluster.get(&path("of-first")).await, None);
    assert!(cluster.get(&path("of-second")).await.is_some());
    cluster.delete(&format!("{DEFINITIONS}/boats.example.com"), None).await;
    cluster.server.settle().await;
    assert_eq!(cluster.get(&path("of-second")).await, None);
}

#[tokio::test]
async fn owner_of_an_unknown_kind_is_believed_until_the_kind_is_there() {
    let cluster = Cluster::start().await;
    cluster.create(CONFIG_MAPS, config_map("crew", &[missing_owner("Boat", "example.com/v1")])).await;
    cluster.server.settle().await;
    assert!(cluster.get(&path("crew")).await.is_some());
    cluster.create(DEFINITIONS, boats()).await;
    cluster.server.settle().await;
    assert_eq!(cluster.get(&path("crew")).await, None);
}

#[tokio::test]
async fn owner_is_looked_for_in_the_namespace_of_the_dependent() {
    let cluster = Cluster::start().await;
    let far = "/api/v1/namespaces/kube-public/configmaps";
    let parent = cluster.create(CONFIG_MAPS, config_map("parent", &[])).await;
    cluster.create(far, config_map("far", &[owner(&parent)])).await;
    cluster.create(CONFIG_MAPS, config_map("near", &[owner(&parent)])).await;
    cluster.server.settle().await;
    assert_eq!(cluster.get(&format!("{far}/far")).await, None);
    assert!(cluster.get(&path("near")).await.is_some());
    assert!(cluster.get(&path("parent")).await.is_some());
}

#[tokio::test]
async fn owner_without_a_namespace_may_own_what_has_one_but_not_the_other_way_round() {
    let cluster = Cluster::start().await;
    let namespaces = "/api/v1/namespaces";
    let namespace = |name: &str, owners: Vec<Value>| json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name, "ownerReferences": owners}});
    let room = cluster.create(namespaces, namespace("room", vec![])).await;
    cluster.create(CONFIG_MAPS, config_map("of-room", &[owner(&room)])).await;
    cluster.create(namespaces, namespace("stuck", vec![missing_owner("ConfigMap", "v1")])).await;
    cluster.delete(&format!("{namespaces}/room"), None).await;
    cluster.server.settle().await;
    assert_eq!(cluster.get(&path("of-room")).await, None);
    let stuck = cluster.get(&format!("{namespaces}/stuck")).await.unwrap();
    assert_eq!(stuck["metadata"].get("deletionTimestamp"), None);
    assert_eq!(stuck["metadata"]["ownerReferences"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn objects_that_wait_for_each_other_all_go() {
    let cluster = Cluster::start().await;
    let names = ["a", "b", "c"];
    let mut made = Vec::new();
    for name in names {
        made.push(cluster.create(CONFIG_MAPS, config_map(name, &[])).await);
    }
    for (at, name) in names.iter().enumerate() {
        let before = &made[(at + 2) % 3];
        cluster.patch(&path(name), json!({"metadata": {"ownerReferences": [blocked(before)]}})).await;
    }
    for name in names {
        cluster.delete(&path(name), Some("Foreground")).await;
    }
    cluster.server.settle().await;
    for name in names {
        assert_eq!(cluster.get(&path(name)).await, None, "{name}");
    }
}

#[tokio::test]
async fn what_was_not_done_before_the_end_is_done_after_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::in_folder(folder.path(), 1).await;
    let first = cluster.create(CONFIG_MAPS, config_map("first", &[])).await;
    let second = cluster.create(CONFIG_MAPS, config_map("second", &[])).await;
    let third = cluster.create(CONFIG_MAPS, config_map("third", &[])).await;
    cluster.create(CONFIG_MAPS, config_map("of-first", &[owner(&first)])).await;
    cluster.create(CONFIG_MAPS, config_map("of-second", &[blocked(&second)])).await;
    cluster.create(CONFIG_MAPS, config_map("of-third", &[owner(&third)])).await;
    cluster.delete(&path("first"), Some("Background")).await;
    cluster.delete(&path("second"), Some("Foreground")).await;
    cluster.delete(&path("third"), Some("Orphan")).await;
    cluster.server.store().close().await;
    drop(cluster);
    let cluster = Cluster::in_folder(folder.path(), 2).await;
    cluster.server.settle().await;
    for name in ["of-first", "second", "of-second", "third"] {
        assert_eq!(cluster.get(&path(name)).await, None, "{name}");
    }
    assert_eq!(cluster.get(&path("of-third")).await.unwrap()["metadata"].get("ownerReferences"), None);
}

#[tokio::test]
async fn roles_lose_owners_and_finalizers_like_everything_else() {
    let cluster = Cluster::start().await;
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    let role = |name: &str, owners: &[Value]| {
        let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
        json!({
            "kind": "Role", "apiVersion": "rbac.authorization.k8s.io/v1",
            "metadata": {"name": name, "ownerReferences": owners}, "rules": rules,
        })
    };
    let parent = cluster.create(roles, role("parent", &[])).await;
    cluster.create(roles, role("child", &[owner(&parent)])).await;
    cluster.delete(&format!("{roles}/parent"), Some("Orphan")).await;
    cluster.server.settle().await;
    assert_eq!(cluster.get(&format!("{roles}/parent")).await, None);
    let child = cluster.get(&format!("{roles}/child")).await.unwrap();
    assert_eq!(child["metadata"].get("ownerReferences"), None);
}
