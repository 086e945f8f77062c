//! Impersonation requires rights, and gives the other identity's rights only.

use serde_json::json;

use crate::security::harness::{ADMIN, ANN, Ask, CONFIG_MAPS, Cluster, Reply};

async fn list(cluster: &Cluster, token: &str, headers: &[(&str, &str)]) -> Reply {
    cluster.ask(Ask { method: "GET", path: CONFIG_MAPS, token, headers, kind: "", body: "".into() }).await
}

#[tokio::test]
async fn impersonation_without_the_right_is_refused() {
    let cluster = Cluster::open().await;
    for headers in [
        &[("impersonate-user", "admin"), ("impersonate-group", "system:masters")][..],
        &[("Impersonate-User", "ann")],
        &[("impersonate-user", "system:serviceaccount:default:mate")],
        &[("impersonate-user", "system:anonymous")],
    ] {
        for token in [ANN, ""] {
            let reply = list(&cluster, token, headers).await.is(403);
            assert!(reply.message().contains("cannot impersonate-on:"), "{}", reply.text);
        }
    }
}

#[tokio::test]
async fn impersonating_user_has_the_other_users_rights_and_not_their_own() {
    let cluster = Cluster::open().await;
    let reply = list(&cluster, ADMIN, &[("impersonate-user", "ann")]).await.is(403);
    assert!(reply.message().contains("User \"ann\" cannot list"), "{}", reply.text);
    list(&cluster, ADMIN, &[("impersonate-user", "ann"), ("impersonate-group", "system:masters")]).await.is(200);
}

#[tokio::test]
async fn right_to_be_one_user_is_not_the_right_to_be_in_a_group() {
    let cluster = Cluster::open().await;
    let rules = json!([{"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"]}]);
    cluster.allow("actor", "ann", rules).await;
    let reply = list(&cluster, ANN, &[("impersonate-user", "bob")]).await.is(403);
    assert!(reply.message().contains("User \"bob\" cannot list"), "{}", reply.text);
    let masters = [("impersonate-user", "bob"), ("impersonate-group", "system:masters")];
    let reply = list(&cluster, ANN, &masters).await.is(403);
    assert!(reply.message().contains("User \"ann\" cannot impersonate-on:user-info:list"), "{}", reply.text);
    let extra = [("impersonate-user", "bob"), ("impersonate-extra-scopes", "all")];
    assert!(list(&cluster, ANN, &extra).await.is(403).message().contains("User \"ann\" cannot impersonate"));
}

#[tokio::test]
async fn group_without_a_user_is_a_bad_request() {
    let cluster = Cluster::open().await;
    list(&cluster, ADMIN, &[("impersonate-group", "system:masters")]).await.is(400);
}

#[tokio::test]
async fn wrong_token_stays_wrong_whomever_it_wants_to_be() {
    let cluster = Cluster::open().await;
    list(&cluster, "wrong", &[("impersonate-user", "ann")]).await.is(401);
}
