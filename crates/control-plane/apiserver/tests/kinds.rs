//! Built-in kinds over whole requests: who may grant, evict, act for whom, and what two groups show of one object.
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use seaworthy_apiserver::{FixedClock, Identity, Server, ServerOptions};
use serde_json::{Value, json};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const PODS: &str = "/api/v1/namespaces/default/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

async fn server() -> Server {
    let clock = Arc::new(FixedClock::at("2026-01-02T03:04:05Z".parse().unwrap()));
    let server = Server::open(ServerOptions::in_memory(clock).unwrap()).unwrap();
    server.prepare().await.unwrap();
    server
}

fn admin() -> Identity {
    Identity::authenticated("admin", ["system:masters".to_owned()])
}

fn ann() -> Identity {
    Identity::authenticated("ann", [])
}

async fn send(server: &Server, who: Identity, method: Method, path: &str, body: Value) -> (u16, Value) {
    let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let bytes = if body.is_null() { Bytes::new() } else { body.to_string().into() };
    let mut request = Request::builder().method(method).uri(path).header("content-type", kind);
    request = request.header("user-agent", "test/1");
    let mut request = request.body(Full::new(bytes)).unwrap();
    request.extensions_mut().insert(who);
    let response = server.answer(request).await;
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

async fn make(server: &Server, path: &str, body: Value) -> Value {
    let (code, answer) = send(server, admin(), Method::POST, path, body).await;
    assert_eq!(code, 201, "{answer}");
    answer
}

async fn grant(server: &Server, rules: Value) {
    make(server, &format!("{RBAC}/clusterroles"), json!({"metadata": {"name": "granted"}, "rules": rules})).await;
    let binding = json!({"metadata": {"name": "granted"}, "roleRef": {"kind": "ClusterRole", "name": "granted"},
        "subjects": [{"kind": "User", "name": "ann"}]});
    make(server, &format!("{RBAC}/clusterrolebindings"), binding).await;
}

async fn running_pod(server: &Server, name: &str) {
    let pod = json!({"metadata": {"name": name, "labels": {"app": "db"}},
        "spec": {"nodeName": "n", "containers": [{"name": "a", "image": "i:1"}]}});
    make(server, PODS, pod).await;
    let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    let (code, answer) = send(server, admin(), Method::PATCH, &format!("{PODS}/{name}/status"), status).await;
    assert_eq!(code, 200, "{answer}");
}

#[tokio::test]
async fn author_of_roles_grants_what_they_hold_and_no_more() {
    let server = server().await;
    let write = json!({"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"],
        "verbs": ["create", "update", "patch", "get"]});
    grant(&server, json!([write, {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}])).await;
    let role = |name: &str, resource: &str| {
        let rules = json!([{"apiGroups": [""], "resources": [resource], "verbs": ["get"]}]);
        json!({"metadata": {"name": name}, "rules": rules})
    };
    let path = format!("{RBAC}/clusterroles");
    assert_eq!(send(&server, ann(), Method::POST, &path, role("same", "pods")).await.0, 201);
    assert_eq!(send(&server, ann(), Method::POST, &path, role("more", "secrets")).await.0, 403);
    let update = send(&server, ann(), Method::PUT, &format!("{path}/same"), role("same", "secrets")).await;
    assert_eq!(update.0, 403, "{}", update.1);
    let annotated = json!({"metadata": {"annotations": {"a": "b"}}});
    assert_eq!(send(&server, ann(), Method::PATCH, &format!("{path}/same"), annotated).await.0, 200);
    let gathering = json!({"metadata": {"name": "all"},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}});
    assert_eq!(send(&server, ann(), Method::POST, &path, gathering).await.0, 403);
}

#[tokio::test]
async fn escalate_and_bind_allow_to_grant_all_the_same() {
    let server = server().await;
    grant(
        &server,
        json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles", "clusterrolebindings"],
            "verbs": ["create", "escalate", "bind"]}]),
    )
    .await;
    let role = json!({"metadata": {"name": "strong"},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]});
    assert_eq!(send(&server, ann(), Method::POST, &format!("{RBAC}/clusterroles"), role).await.0, 201);
    let binding = json!({"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "User", "name": "bob"}]});
    assert_eq!(send(&server, ann(), Method::POST, &format!("{RBAC}/clusterrolebindings"), binding).await.0, 201);
}

#[tokio::test]
async fn role_made_of_others_gives_their_rights_as_they_come() {
    let server = server().await;
    let gathering = json!({"metadata": {"name": "granted"}, "rules": [],
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"to": "granted"}}]}});
    make(&server, &format!("{RBAC}/clusterroles"), gathering).await;
    let binding = json!({"metadata": {"name": "granted"}, "roleRef": {"kind": "ClusterRole", "name": "granted"},
        "subjects": [{"kind": "User", "name": "ann"}]});
    make(&server, &format!("{RBAC}/clusterrolebindings"), binding).await;
    assert_eq!(send(&server, ann(), Method::GET, PODS, Value::Null).await.0, 403);
    let part = json!({"metadata": {"name": "part", "labels": {"to": "granted"}},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]});
    make(&server, &format!("{RBAC}/clusterroles"), part).await;
    assert_eq!(send(&server, ann(), Method::GET, PODS, Value::Null).await.0, 200);
    let (code, _) = send(&server, admin(), Method::DELETE, &format!("{RBAC}/clusterroles/part"), Value::Null).await;
    assert_eq!(code, 200);
    assert_eq!(send(&server, ann(), Method::GET, PODS, Value::Null).await.0, 403);
}

#[tokio::test]
async fn one_disruption_is_granted_once_however_many_ask() {
    let server = server().await;
    for name in ["p0", "p1", "p2", "p3"] {
        running_pod(&server, name).await;
    }
    let budget = json!({"metadata": {"name": "db"}, "spec": {"maxUnavailable": 1,
        "selector": {"matchLabels": {"app": "db"}}}});
    make(&server, BUDGETS, budget).await;
    let status = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 4,
        "desiredHealthy": 3, "expectedPods": 4}});
    assert_eq!(send(&server, admin(), Method::PATCH, &format!("{BUDGETS}/db/status"), status).await.0, 200);
    let mut asked = Vec::new();
    for name in ["p0", "p1", "p2", "p3"] {
        let server = server.clone();
        asked.push(tokio::spawn(async move {
            let eviction = json!({"kind": "Eviction", "apiVersion": "policy/v1", "metadata": {"name": name}});
            send(&server, admin(), Method::POST, &format!("{PODS}/{name}/eviction"), eviction).await.0
        }));
    }
    let mut codes = Vec::new();
    for answer in asked {
        codes.push(answer.await.unwrap());
    }
    codes.sort_unstable();
    assert_eq!(codes, [201, 429, 429, 429]);
    let (_, budget) = send(&server, admin(), Method::GET, &format!("{BUDGETS}/db"), Value::Null).await;
    assert_eq!(budget["status"]["disruptionsAllowed"], 0);
    assert_eq!(budget["status"]["disruptedPods"].as_object().unwrap().len(), 1);
}

#[tokio::test]
async fn pod_that_does_not_work_may_go_while_enough_others_do() {
    let server = server().await;
    running_pod(&server, "p").await;
    let sick = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    assert_eq!(send(&server, admin(), Method::PATCH, &format!("{PODS}/p/status"), sick).await.0, 200);
    let budget = json!({"metadata": {"name": "db"}, "spec": {"minAvailable": 1,
        "selector": {"matchLabels": {"app": "db"}}}});
    make(&server, BUDGETS, budget).await;
    let eviction = json!({"kind": "Eviction", "apiVersion": "policy/v1", "metadata": {"name": "p"}});
    let evict = async |server: &Server| {
        send(server, admin(), Method::POST, &format!("{PODS}/p/eviction"), eviction.clone()).await.0
    };
    let status = |healthy: i64| {
        json!({"status": {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": healthy,
            "desiredHealthy": 1, "expectedPods": 2}})
    };
    send(&server, admin(), Method::PATCH, &format!("{BUDGETS}/db/status"), status(0)).await;
    assert_eq!(evict(&server).await, 429);
    send(&server, admin(), Method::PATCH, &format!("{BUDGETS}/db/status"), status(1)).await;
    assert_eq!(evict(&server).await, 201);
}

#[tokio::test]
async fn event_is_one_object_in_two_groups() {
    let server = server().await;
    let (core, new) = ("/api/v1/namespaces/default/events", "/apis/events.k8s.io/v1/namespaces/default/events");
    let event = json!({"metadata": {"name": "e"}, "eventTime": "2026-01-02T03:04:05.000000Z", "note": "noted",
        "reportingController": "example.com/c", "reportingInstance": "i", "action": "Act", "reason": "R",
        "type": "Normal", "regarding": {"kind": "Pod", "name": "p", "namespace": "default"}});
    make(&server, new, event).await;
    let (_, list) =
        send(&server, admin(), Method::GET, &format!("{core}?fieldSelector=involvedObject.name=p"), Value::Null).await;
    assert_eq!(list["items"][0]["message"], "noted");
    assert_eq!(list["items"][0]["reportingComponent"], "example.com/c");
    let (code, _) = send(&server, admin(), Method::PATCH, &format!("{core}/e"), json!({"count": 2})).await;
    assert_eq!(code, 200);
    let (_, list) =
        send(&server, admin(), Method::GET, &format!("{new}?fieldSelector=regarding.name=p"), Value::Null).await;
    assert_eq!((&list["items"][0]["deprecatedCount"], &list["items"][0]["note"]), (&json!(2), &json!("noted")));
    assert_eq!(list["apiVersion"], "events.k8s.io/v1");
    assert_eq!(send(&server, admin(), Method::DELETE, &format!("{new}/e"), Value::Null).await.0, 200);
    assert_eq!(send(&server, admin(), Method::GET, &format!("{core}/e"), Value::Null).await.0, 404);
}

#[tokio::test]
async fn who_may_not_impersonate_stays_who_they_are() {
    let server = server().await;
    let mut request = Request::builder().uri(PODS).header("impersonate-user", "admin");
    request = request.header("impersonate-group", "system:masters");
    let mut request = request.body(Full::new(Bytes::new())).unwrap();
    request.extensions_mut().insert(ann());
    assert_eq!(server.answer(request).await.status(), 403);
}

#[tokio::test]
async fn namespaces_that_everything_relies_on_stay() {
    let server = server().await;
    for (name, code) in [("default", 403), ("kube-system", 403), ("kube-public", 403), ("kube-node-lease", 200)] {
        let path = format!("/api/v1/namespaces/{name}");
        assert_eq!(send(&server, admin(), Method::DELETE, &path, Value::Null).await.0, code, "{name}");
    }
}

#[tokio::test]
async fn zero_is_absent_where_the_real_server_does_not_distinguish_them() {
    let server = server().await;
    let node = json!({"metadata": {"name": "n"}, "spec": {"unschedulable": false}});
    let made = make(&server, "/api/v1/nodes", node).await;
    assert_eq!(made["spec"].get("unschedulable"), None);
    let change = json!({"spec": {"unschedulable": false}});
    let (_, same) = send(&server, admin(), Method::PATCH, "/api/v1/nodes/n", change).await;
    assert_eq!(same["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
}

async fn placed_pod(server: &Server, name: &str) {
    let spec =
        json!({"nodeName": "n", "terminationGracePeriodSeconds": 30, "containers": [{"name": "c", "image": "i"}]});
    make(server, PODS, json!({"metadata": {"name": name}, "spec": spec})).await;
}

async fn deadline(server: &Server, name: &str, grace: Option<i64>) -> (Value, Value) {
    let body = grace.map(|seconds| json!({"gracePeriodSeconds": seconds})).unwrap_or_default();
    let (code, pod) = send(server, admin(), Method::DELETE, &format!("{PODS}/{name}"), body).await;
    assert_eq!(code, 200, "{pod}");
    (pod["metadata"]["deletionTimestamp"].clone(), pod["metadata"]["deletionGracePeriodSeconds"].clone())
}

#[tokio::test]
async fn pod_is_given_any_time_that_is_asked_for() {
    let server = server().await;
    for (name, asked, end) in [
        ("long", i64::MAX, "9999-12-30T22:00:00Z"),
        ("year", 365 * 86_400, "2027-01-02T03:04:05Z"),
        ("less", -5, "2026-01-02T03:04:06Z"),
    ] {
        placed_pod(&server, name).await;
        assert_eq!(deadline(&server, name, Some(asked)).await, (json!(end), json!(if asked < 0 { 1 } else { asked })));
    }
    assert_eq!(deadline(&server, "long", Some(60)).await, (json!("2026-01-02T03:05:05Z"), json!(60)));
}

#[tokio::test]
async fn time_of_a_pod_is_only_shortened_by_who_says_to_what() {
    let server = server().await;
    placed_pod(&server, "p").await;
    assert_eq!(deadline(&server, "p", Some(60)).await, (json!("2026-01-02T03:05:05Z"), json!(60)));
    assert_eq!(deadline(&server, "p", None).await, (json!("2026-01-02T03:05:05Z"), json!(60)));
    assert_eq!(deadline(&server, "p", Some(90)).await, (json!("2026-01-02T03:05:05Z"), json!(60)));
    assert_eq!(deadline(&server, "p", Some(10)).await, (json!("2026-01-02T03:04:15Z"), json!(10)));
}
