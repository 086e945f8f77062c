//! Acting as somebody else takes rights, and gives theirs only.

use serde_json::json;

use crate::security::harness::{ADMIN, ANN, Ask, CONFIG_MAPS, House, Reply};

async fn list(house: &House, token: &str, headers: &[(&str, &str)]) -> Reply {
    house.ask(Ask { method: "GET", path: CONFIG_MAPS, token, headers, kind: "", body: "".into() }).await
}

#[tokio::test]
async fn nobody_becomes_somebody_else_without_the_right() {
    let house = House::open().await;
    for headers in [
        &[("impersonate-user", "admin"), ("impersonate-group", "system:masters")][..],
        &[("Impersonate-User", "ann")],
        &[("impersonate-user", "system:serviceaccount:default:mate")],
        &[("impersonate-user", "system:anonymous")],
    ] {
        for token in [ANN, ""] {
            let reply = list(&house, token, headers).await.is(403);
            assert!(reply.message().contains("cannot impersonate-on:"), "{}", reply.text);
        }
    }
}

#[tokio::test]
async fn whoever_acts_as_another_has_the_others_rights_and_not_their_own() {
    let house = House::open().await;
    let reply = list(&house, ADMIN, &[("impersonate-user", "ann")]).await.is(403);
    assert!(reply.message().contains("User \"ann\" cannot list"), "{}", reply.text);
    list(&house, ADMIN, &[("impersonate-user", "ann"), ("impersonate-group", "system:masters")]).await.is(200);
}

#[tokio::test]
async fn right_to_be_one_user_is_not_the_right_to_be_in_a_group() {
    let house = House::open().await;
    let rules = json!([{"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"]}]);
    house.allow("actor", "ann", rules).await;
    let reply = list(&house, ANN, &[("impersonate-user", "bob")]).await.is(403);
    assert!(reply.message().contains("User \"bob\" cannot list"), "{}", reply.text);
    let masters = [("impersonate-user", "bob"), ("impersonate-group", "system:masters")];
    let reply = list(&house, ANN, &masters).await.is(403);
    assert!(reply.message().contains("User \"ann\" cannot impersonate-on:user-info:list"), "{}", reply.text);
    let extra = [("impersonate-user", "bob"), ("impersonate-extra-scopes", "all")];
    assert!(list(&house, ANN, &extra).await.is(403).message().contains("User \"ann\" cannot impersonate"));
}

#[tokio::test]
async fn group_without_a_user_is_a_bad_request() {
    let house = House::open().await;
    list(&house, ADMIN, &[("impersonate-group", "system:masters")]).await.is(400);
}

#[tokio::test]
async fn wrong_token_stays_wrong_whomever_it_wants_to_be() {
    let house = House::open().await;
    list(&house, "wrong", &[("impersonate-user", "ann")]).await.is(401);
}
