//! Rules with more combinations than a server has memory for: the check of what their author may grant has an end.

use rstest::rstest;
use seaworthy_store::{Body, Change, Expect, Key};
use serde_json::{Value, json};

use crate::security::harness::{ADMIN, ANN, Cluster};

const GROUP: &str = "rbac.authorization.k8s.io";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";

/// Less than six kilobytes that amount to over fifteen million combinations.
fn wide_rule() -> Value {
    let words = || (0..250).map(|number| format!("w{number}")).collect::<Vec<_>>();
    json!({"apiGroups": words(), "resources": words(), "verbs": words()})
}

fn role(kind: &str, rules: Value) -> Value {
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": {"name": "wide"}, "rules": rules})
}

fn binding(to: &str) -> Value {
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": "RoleBinding", "metadata": {"name": "b"},
        "roleRef": {"apiGroup": GROUP, "kind": to, "name": "wide"},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": "ann"}]})
}

/// Ann writes roles and bindings.
async fn cluster(more: Value) -> Cluster {
    let cluster = Cluster::open().await;
    let write = json!({"apiGroups": [GROUP], "resources": ["*"], "verbs": ["create", "update", "patch"]});
    cluster.allow("author", "ann", json!([write, more])).await;
    cluster
}

fn few() -> Value {
    json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]})
}

/// Stores a role without a check, as an older version of the server did.
async fn store(cluster: &Cluster, namespace: &str, mut role: Value) {
    role["metadata"]["resourceVersion"] = "".into();
    if !namespace.is_empty() {
        role["metadata"]["namespace"] = namespace.into();
    }
    let text = role.to_string();
    let hole = text.find("\"resourceVersion\":\"").unwrap() + "\"resourceVersion\":\"".len();
    let plural = if namespace.is_empty() { "clusterroles" } else { "roles" };
    let key = Key::new(format!("{GROUP}/{plural}"), namespace, "wide");
    let change = Change::Put { key, expected: Expect::Absent, body: Body::new(text, hole) };
    cluster.server.store().commit(vec![change]).await.unwrap();
    cluster.server.refresh_policy();
}

#[rstest]
#[case::author_has_few_rights(ANN, few())]
#[case::author_has_the_rights_as_a_whole(ANN, json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}))]
#[case::author_is_not_checked(ADMIN, few())]
#[tokio::test]
async fn role_with_too_many_combinations_is_refused_at_its_rule(#[case] author: &str, #[case] held: Value) {
    let cluster = cluster(held).await;
    let reply = cluster.send(author, "POST", ROLES, role("Role", json!([few(), wide_rule()]))).await.is(422);
    assert_eq!(reply.body["reason"], "Invalid");
    assert_eq!(reply.body["details"]["causes"][0]["field"], "rules[1]");
    assert_eq!(reply.body["details"]["causes"].as_array().unwrap().len(), 1, "{}", reply.text);
    assert_eq!(
        reply.message(),
        "Role.rbac.authorization.k8s.io \"wide\" is invalid: rules[1]: Invalid value: the rules up to this one have \
         15625001 combinations of verbs, API groups, resources and names, and at most 100000 are accepted: use * for \
         long lists, or several roles"
    );
    cluster.get(ADMIN, &format!("{ROLES}/wide")).await.is(404);
}

#[rstest]
#[case("Role", "default")]
#[case("ClusterRole", "")]
#[tokio::test]
async fn stored_role_with_too_many_combinations_is_not_granted_by_who_lacks_them(
    #[case] kind: &str,
    #[case] namespace: &str,
) {
    let cluster = cluster(few()).await;
    store(&cluster, namespace, role(kind, json!([wide_rule()]))).await;
    let reply = cluster.send(ANN, "POST", BINDINGS, binding(kind)).await.is(403);
    let text = reply.message();
    assert!(text.contains("not currently held:\n{APIGroups:[\"w0\"], Resources:[\"w0\"], Verbs:[\"w0\"]}\n"), "{text}");
    assert!(text.ends_with("as a user with the verb escalate on roles and bind on the bound role"), "{text}");
    assert!(text.len() < 300_000, "{}", text.len());
}

#[tokio::test]
async fn stored_role_with_too_many_combinations_is_granted_by_who_has_them() {
    let cluster = cluster(json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["w*", "*"]})).await;
    store(&cluster, "", role("ClusterRole", json!([wide_rule()]))).await;
    cluster.send(ANN, "POST", BINDINGS, binding("ClusterRole")).await.is(201);
    // Its rules did not change.
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    cluster.patch(ANN, &format!("{RBAC}/clusterroles/wide"), labels).await.is(200);
}

#[tokio::test]
async fn aggregated_role_collects_rules_with_many_combinations_and_grants_them_to_none_who_lacks_them() {
    let cluster = cluster(few()).await;
    let mut part = role("ClusterRole", json!([wide_rule()]));
    part["metadata"]["labels"] = json!({"to": "whole"});
    store(&cluster, "", part).await;
    let mut whole = role("ClusterRole", json!([]));
    whole["metadata"]["name"] = "whole".into();
    whole["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"to": "whole"}}]});
    cluster.create(&format!("{RBAC}/clusterroles"), whole).await;
    let path = format!("{RBAC}/clusterroles/whole");
    assert_eq!(cluster.get(ADMIN, &path).await.is(200).body["rules"], json!([wide_rule()]));
    let mut binding = binding("ClusterRole");
    binding["roleRef"]["name"] = "whole".into();
    cluster.send(ANN, "POST", BINDINGS, binding).await.is(403);
    // Rules that the controller collected are no reason to refuse other changes.
    cluster.patch(ADMIN, &path, json!({"metadata": {"labels": {"a": "b"}}})).await.is(200);
}
