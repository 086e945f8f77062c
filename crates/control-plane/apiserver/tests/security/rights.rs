//! Authorisation: what no rule allows is forbidden, and no user grants rights that they do not have.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use rstest::rstest;
use serde_json::{Value, json};

use crate::security::harness::{ADMIN, ANN, Ask, CONFIG_MAPS, Cluster, config_map};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

#[rstest]
#[case("GET", "/api/v1/namespaces")]
#[case("GET", CONFIG_MAPS)]
#[case("POST", CONFIG_MAPS)]
#[case("DELETE", CONFIG_MAPS)]
#[case("PATCH", "/api/v1/namespaces/default/configmaps/a")]
#[case("PUT", "/api/v1/nodes/n/status")]
#[case("GET", "/api/v1/namespaces/default/secrets/s")]
#[case("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles")]
#[case("POST", "/api/v1/namespaces/kube-system/serviceaccounts/x/token")]
#[case("GET", "/api/v1/watch/secrets")]
#[case("GET", "/logs/x")]
#[tokio::test]
async fn user_without_rules_may_nothing(#[case] method: &str, #[case] path: &str) {
    let cluster = Cluster::open().await;
    let reply = cluster.send(ANN, method, path, Value::Null).await.is(403);
    assert!(reply.message().contains("User \"ann\" cannot "), "{}", reply.text);
}

#[tokio::test]
async fn rule_for_one_verb_one_resource_and_one_name_allows_just_that() {
    let cluster = Cluster::open().await;
    cluster.create(CONFIG_MAPS, config_map("one")).await;
    cluster.create(CONFIG_MAPS, config_map("two")).await;
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["one"], "verbs": ["get"]}]);
    cluster.allow("reader", "ann", rules).await;
    cluster.get(ANN, &format!("{CONFIG_MAPS}/one")).await.is(200);
    cluster.get(ANN, &format!("{CONFIG_MAPS}/two")).await.is(403);
    cluster.get(ANN, CONFIG_MAPS).await.is(403);
    cluster.get(ANN, &format!("{CONFIG_MAPS}/one/status")).await.is(403);
    cluster.get(ANN, "/api/v1/namespaces/default/secrets/one").await.is(403);
    cluster.send(ANN, "DELETE", &format!("{CONFIG_MAPS}/one"), Value::Null).await.is(403);
}

#[tokio::test]
async fn right_that_is_taken_away_is_gone_with_the_answer() {
    let cluster = Cluster::open().await;
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]);
    cluster.allow("reader", "ann", rules).await;
    cluster.get(ANN, CONFIG_MAPS).await.is(200);
    cluster.send(ADMIN, "DELETE", &format!("{RBAC}/clusterrolebindings/reader"), Value::Null).await.is(200);
    cluster.get(ANN, CONFIG_MAPS).await.is(403);
}

#[tokio::test]
async fn revoked_right_is_gone_even_if_the_client_disconnects() {
    let cluster = Cluster::open().await;
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]);
    cluster.allow("reader", "ann", rules).await;
    let request = Request::delete(format!("{RBAC}/clusterrolebindings/reader"))
        .header("authorization", format!("Bearer {ADMIN}"))
        .body(Full::new(Bytes::new()))
        .unwrap();
    {
        let mut answer = pin!(cluster.server.answer(request));
        assert!(answer.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    let gone = async {
        while cluster.get(ANN, CONFIG_MAPS).await.code != 403 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), gone).await.unwrap();
}

#[tokio::test]
async fn right_to_change_is_no_right_to_create() {
    let cluster = Cluster::open().await;
    let rules = json!([{"apiGroups": ["", "coordination.k8s.io"], "resources": ["configmaps", "leases"],
        "verbs": ["patch", "update", "get"]}]);
    cluster.allow("changer", "ann", rules).await;
    let apply = Ask {
        method: "PATCH",
        path: &format!("{CONFIG_MAPS}/new?fieldManager=me"),
        token: ANN,
        headers: &[],
        kind: "application/apply-patch+yaml",
        body: config_map("new").to_string().into(),
    };
    let reply = cluster.ask(apply).await.is(403);
    assert!(reply.message().contains("cannot create resource \"configmaps\""), "{}", reply.text);
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "new"}});
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases/new";
    let reply = cluster.send(ANN, "PUT", leases, lease).await.is(403);
    assert!(reply.message().contains("cannot create resource \"leases\""), "{}", reply.text);
    cluster.get(ADMIN, &format!("{CONFIG_MAPS}/new")).await.is(404);
}

#[tokio::test]
async fn role_with_rights_that_the_author_lacks_is_refused() {
    let cluster = Cluster::open().await;
    let group = "rbac.authorization.k8s.io";
    let rules = json!([
        {"apiGroups": [group], "resources": ["*"], "verbs": ["create", "update", "patch", "get"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
    ]);
    cluster.allow("clerk", "ann", rules).await;
    let role = |rules: Value| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"},
            "rules": rules})
    };
    let roles = format!("{RBAC}/namespaces/default/roles");
    let more = role(json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]));
    let reply = cluster.send(ANN, "POST", &roles, more.clone()).await.is(403);
    assert!(reply.message().contains("attempting to grant RBAC permissions not currently held"), "{}", reply.text);
    let own = role(json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]));
    cluster.send(ANN, "POST", &roles, own).await.is(201);
    cluster.patch(ANN, &format!("{roles}/r"), json!({"rules": more["rules"]})).await.is(403);
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "b"}, "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "ann"}]});
    cluster.send(ANN, "POST", &format!("{RBAC}/clusterrolebindings"), binding).await.is(403);
}

#[rstest]
#[case("default")]
#[case("kube-system")]
#[case("kube-public")]
#[tokio::test]
async fn namespace_that_the_server_needs_stays(#[case] name: &str) {
    let cluster = Cluster::open().await;
    let path = format!("/api/v1/namespaces/{name}");
    let reply = cluster.send(ADMIN, "DELETE", &path, Value::Null).await.is(403);
    assert_eq!(reply.message(), format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted"));
    assert_eq!(cluster.get(ADMIN, &path).await.is(200).body["metadata"].get("deletionTimestamp"), None);
}

#[rstest]
#[case("fieldSelector=metadata.name%3Done", 200)]
#[case("fieldSelector=metadata.name%3D%3Done,metadata.namespace%3Ddefault", 200)]
#[case("fieldSelector=metadata.name%3Done&watch=1", 200)]
#[case("fieldSelector=metadata.name%3Dtwo", 403)]
#[case("fieldSelector=metadata.name%21%3Done", 403)]
#[case("labelSelector=metadata.name%3Done", 403)]
#[tokio::test]
async fn right_to_one_name_is_a_right_to_list_and_watch_that_one(#[case] query: &str, #[case] code: u16) {
    let cluster = Cluster::open().await;
    let verbs = json!(["list", "watch", "deletecollection"]);
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["one"], "verbs": verbs}]);
    cluster.allow("reader", "ann", rules).await;
    let request = Request::get(format!("{CONFIG_MAPS}?{query}")).header("authorization", format!("Bearer {ANN}"));
    // Only the head of the answer: a watch goes on.
    let answer = cluster.server.answer(request.body(Full::new(Bytes::new())).unwrap()).await;
    assert_eq!(answer.status(), code);
    cluster.send(ANN, "DELETE", &format!("{CONFIG_MAPS}?{query}"), Value::Null).await.is(403);
}

#[tokio::test]
async fn nothing_is_written_on_the_old_way_to_watch() {
    let cluster = Cluster::open().await;
    let path = "/api/v1/watch/namespaces/default/configmaps";
    cluster.send(ADMIN, "POST", path, config_map("x")).await.is(405);
    let refused = cluster.send(ANN, "POST", path, config_map("x")).await.is(403);
    assert!(refused.message().contains("cannot watch resource"), "{}", refused.text);
    cluster.get(ADMIN, &format!("{CONFIG_MAPS}/x")).await.is(404);
}

#[tokio::test]
async fn who_may_escalate_one_role_may_not_make_it() {
    let cluster = Cluster::open().await;
    let of = |names: Value, verbs: Value| {
        let groups = json!(["rbac.authorization.k8s.io"]);
        json!({"apiGroups": groups, "resources": ["clusterroles"], "resourceNames": names, "verbs": verbs})
    };
    let rules = json!([of(json!([]), json!(["create", "update"])), of(json!(["x"]), json!(["escalate"]))]);
    cluster.allow("escalator", "ann", rules).await;
    let roles = format!("{RBAC}/clusterroles");
    let everything = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    let role = |rules: Value| json!({"metadata": {"name": "x"}, "rules": rules});
    cluster.send(ANN, "POST", &roles, role(everything.clone())).await.is(403);
    cluster.create(&roles, role(json!([]))).await;
    cluster.send(ANN, "PUT", &format!("{roles}/x"), role(everything)).await.is(200);
}

#[rstest]
#[case::merge("application/merge-patch+json")]
#[case::strategic("application/strategic-merge-patch+json")]
#[case::apply("application/apply-patch+yaml")]
#[tokio::test]
async fn label_that_makes_a_role_part_of_another_needs_the_rights_of_that_role(#[case] patch: &str) {
    let cluster = Cluster::open().await;
    let groups = json!(["rbac.authorization.k8s.io"]);
    let verbs = json!(["get", "list", "patch", "update"]);
    cluster
        .allow("labeller", "ann", json!([{"apiGroups": groups, "resources": ["clusterroles"], "verbs": verbs}]))
        .await;
    let path = format!("{RBAC}/clusterroles/cluster-admin");
    let label = json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"});
    let body = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "cluster-admin", "labels": label},
    });
    let query = if patch.contains("apply") { "?fieldManager=ann&force=true" } else { "" };
    let target = format!("{path}{query}");
    let body = body.to_string().into();
    let ask = Ask { method: "PATCH", path: &target, token: ANN, headers: &[], kind: patch, body };
    let refused = cluster.ask(ask).await.is(403);
    let why = "is attempting to grant RBAC permissions not currently held";
    assert!(refused.message().contains(why), "{}", refused.text);
    let labels = cluster.get(ADMIN, &path).await.is(200).body["metadata"]["labels"].clone();
    assert_eq!(labels["rbac.authorization.k8s.io/aggregate-to-view"], Value::Null);
}

#[tokio::test]
async fn finalizer_of_a_stronger_role_needs_no_right_to_its_rules() {
    let cluster = Cluster::open().await;
    let groups = json!(["rbac.authorization.k8s.io"]);
    let patch = json!([{"apiGroups": groups, "resources": ["clusterroles"], "verbs": ["patch"]}]);
    cluster.allow("collector", "ann", patch).await;
    let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
    cluster.create(&format!("{RBAC}/clusterroles"), json!({"metadata": {"name": "strong"}, "rules": rules})).await;
    let path = format!("{RBAC}/clusterroles/strong");
    cluster.patch(ANN, &path, json!({"metadata": {"finalizers": ["example.com/hold"]}})).await.is(200);
    cluster.patch(ANN, &path, json!({"metadata": {"finalizers": [], "annotations": {"a": "b"}}})).await.is(403);
}

#[tokio::test]
async fn right_that_did_not_change_is_not_read_again() {
    let cluster = Cluster::open().await;
    let rules = || cluster.server.policy().role(true, "", "cluster-admin").unwrap().rules().as_ptr();
    let before = rules();
    cluster.allow("other", "ann", json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}])).await;
    assert_eq!(rules(), before);
    cluster.patch(ADMIN, &format!("{RBAC}/clusterroles/cluster-admin"), json!({"rules": []})).await.is(200);
    assert!(cluster.server.policy().role(true, "", "cluster-admin").unwrap().rules().is_empty());
}
