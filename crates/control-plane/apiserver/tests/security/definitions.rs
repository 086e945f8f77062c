//! CustomResourceDefinitions: none gets hold of the objects of a built-in kind.

use rstest::rstest;
use seaworthy_store::{Body, Change, Expect, Key};
use serde_json::{Value, json};

use crate::security::harness::{ADMIN, ANN, Cluster, Reply};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const GROUP: &str = "rbac.authorization.k8s.io";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const SNEAK: &str = "clusterroles.rbac.authorization.k8s.io";

/// A definition that names itself like the ClusterRoles.
fn sneak(version: &str) -> Value {
    json!({
        "kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": {"name": SNEAK, "annotations": {"api-approved.kubernetes.io": "unapproved"}},
        "spec": {
            "group": GROUP, "scope": "Cluster",
            "names": {"plural": "clusterroles", "singular": "sneak", "kind": "Sneak", "listKind": "SneakList"},
            "versions": [{"name": version, "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    })
}

fn condition<'d>(definition: &'d Value, kind: &str) -> &'d Value {
    let conditions = definition["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|condition| condition["type"] == kind).unwrap()
}

/// Ann may define kinds and write cluster roles, but not give more rights than she has.
async fn cluster() -> Cluster {
    let cluster = Cluster::open().await;
    let rules = json!([
        {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": ["*"]},
        {"apiGroups": [GROUP], "resources": ["clusterroles"],
            "verbs": ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]},
    ]);
    cluster.allow("definer", "ann", rules).await;
    cluster
}

/// Stores a definition that is established, as a data folder may have it.
async fn store_established(cluster: &Cluster) {
    let established = json!({"type": "Established", "status": "True", "reason": "InitialNamesAccepted",
        "message": "the initial names have been accepted", "lastTransitionTime": "2026-01-02T03:04:05Z"});
    let mut definition = sneak("v9");
    definition["metadata"]["uid"] = "3f1f3a3e-0000-4000-8000-000000000000".into();
    definition["metadata"]["creationTimestamp"] = "2026-01-02T03:04:05Z".into();
    definition["metadata"]["resourceVersion"] = "".into();
    definition["metadata"]["generation"] = 1.into();
    definition["status"] = json!({
        "acceptedNames": definition["spec"]["names"], "storedVersions": ["v9"], "conditions": [established],
    });
    let text = definition.to_string();
    let hole = text.find("\"resourceVersion\":\"").unwrap() + "\"resourceVersion\":\"".len();
    let key = Key::new("apiextensions.k8s.io/customresourcedefinitions", "", SNEAK);
    let change = Change::Put { key, expected: Expect::Absent, body: Body::new(text, hole) };
    cluster.server.store().commit(vec![change]).await.unwrap();
}

/// A role that allows everything, written in the name of the definition.
async fn write_through(cluster: &Cluster) -> Reply {
    let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    let role = json!({"apiVersion": format!("{GROUP}/v9"), "kind": "Sneak", "metadata": {"name": "root"},
        "rules": rules});
    cluster.send(ANN, "POST", &format!("/apis/{GROUP}/v9/clusterroles"), role).await
}

async fn role_names(cluster: &Cluster) -> Vec<String> {
    let list = cluster.get(ADMIN, ROLES).await.is(200).body;
    let names = list["items"].as_array().unwrap().iter().map(|role| role["metadata"]["name"].as_str().unwrap());
    names.map(str::to_owned).collect()
}

#[rstest]
#[case("v1")]
#[case("v9")]
#[tokio::test]
async fn definition_with_the_name_of_a_built_in_kind_is_not_established(#[case] version: &str) {
    let cluster = cluster().await;
    cluster.send(ANN, "POST", DEFINITIONS, sneak(version)).await.is(201);
    let definition = cluster.get(ADMIN, &format!("{DEFINITIONS}/{SNEAK}")).await.is(200).body;
    let names = condition(&definition, "NamesAccepted");
    assert_eq!((&names["status"], &names["reason"]), (&"False".into(), &"PluralConflict".into()));
    assert_eq!(names["message"], "\"clusterroles\" is already in use");
    let established = condition(&definition, "Established");
    assert_eq!((&established["status"], &established["reason"]), (&"False".into(), &"NotAccepted".into()));
}

#[tokio::test]
async fn nothing_is_written_to_a_built_in_kind_through_a_definition() {
    let cluster = cluster().await;
    cluster.send(ANN, "POST", DEFINITIONS, sneak("v9")).await.is(201);
    write_through(&cluster).await.is(404);
    cluster.get(ADMIN, &format!("{ROLES}/root")).await.is(404);
    cluster.get(ADMIN, &format!("/apis/{GROUP}/v9")).await.is(404);
    let group = cluster.get(ADMIN, &format!("/apis/{GROUP}")).await.is(200).body;
    assert_eq!(group["versions"].as_array().unwrap().len(), 1, "{group}");
}

#[tokio::test]
async fn definition_that_is_established_by_its_status_is_not_served() {
    let cluster = cluster().await;
    cluster.send(ANN, "POST", DEFINITIONS, sneak("v9")).await.is(201);
    let status = json!({"status": {"conditions": [{"type": "Established", "status": "True", "reason": "Mine",
        "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}]}});
    let rules = json!([{"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions/status"],
        "verbs": ["*"]}]);
    cluster.allow("status", "ann", rules).await;
    cluster.patch(ANN, &format!("{DEFINITIONS}/{SNEAK}/status"), status).await.is(200);
    write_through(&cluster).await.is(404);
}

#[tokio::test]
async fn deleting_a_definition_with_the_name_of_a_built_in_kind_leaves_its_objects() {
    let cluster = cluster().await;
    let before = role_names(&cluster).await;
    cluster.send(ANN, "POST", DEFINITIONS, sneak("v9")).await.is(201);
    cluster.send(ANN, "DELETE", &format!("{DEFINITIONS}/{SNEAK}"), Value::Null).await.is(200);
    cluster.get(ADMIN, &format!("{DEFINITIONS}/{SNEAK}")).await.is(404);
    assert_eq!(role_names(&cluster).await, before);
}

#[tokio::test]
async fn stored_definition_with_the_name_of_a_built_in_kind_is_not_served() {
    let cluster = cluster().await;
    store_established(&cluster).await;
    cluster.server.refresh_registry();
    write_through(&cluster).await.is(404);
    // At the next start, its status states that.
    cluster.server.prepare().await.unwrap();
    write_through(&cluster).await.is(404);
    let definition = cluster.get(ADMIN, &format!("{DEFINITIONS}/{SNEAK}")).await.is(200).body;
    assert_eq!(condition(&definition, "Established")["status"], "False");
    assert_eq!(condition(&definition, "NamesAccepted")["reason"], "PluralConflict");
    cluster.get(ADMIN, &format!("{ROLES}/root")).await.is(404);
}

#[tokio::test]
async fn deleting_a_stored_definition_with_the_name_of_a_built_in_kind_leaves_its_objects() {
    let cluster = cluster().await;
    let before = role_names(&cluster).await;
    store_established(&cluster).await;
    cluster.server.refresh_registry();
    cluster.send(ANN, "DELETE", &format!("{DEFINITIONS}/{SNEAK}"), Value::Null).await.is(200);
    cluster.get(ADMIN, &format!("{DEFINITIONS}/{SNEAK}")).await.is(404);
    assert_eq!(role_names(&cluster).await, before);
}
