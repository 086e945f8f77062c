//! Credentials: valid ones are accepted, all others get 401, none is the anonymous user.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rstest::rstest;
use serde_json::{Value, json};

use crate::security::harness::{ADMIN, ANN, Ask, CONFIG_MAPS, Cluster, signing_key};

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

async fn account(cluster: &Cluster) {
    cluster.create(ACCOUNTS, json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "mate"}})).await;
}

async fn token(cluster: &Cluster, spec: Value) -> String {
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
    let answer = cluster.create(&format!("{ACCOUNTS}/mate/token"), request).await;
    answer["status"]["token"].as_str().unwrap().to_owned()
}

async fn who(cluster: &Cluster, token: &str) -> Result<String, u16> {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let reply = cluster.send(token, "POST", WHO, review).await;
    match reply.code {
        201 => Ok(reply.body["status"]["userInfo"]["username"].as_str().unwrap().to_owned()),
        code => Err(code),
    }
}

#[tokio::test]
async fn service_account_is_who_its_token_says() {
    let cluster = Cluster::open().await;
    account(&cluster).await;
    let token = token(&cluster, json!({})).await;
    assert_eq!(who(&cluster, &token).await.as_deref(), Ok("system:serviceaccount:default:mate"));
}

#[rstest]
#[case("/healthz")]
#[case("/version")]
#[case("/api/v1/nodes")]
#[case("/nowhere")]
#[case("/apis")]
#[tokio::test]
async fn wrong_token_is_refused_whatever_the_path(#[case] path: &str) {
    let cluster = Cluster::open().await;
    for token in ["wrong", "a.b.c", "abcdef.0123456789abcdef", "\u{e9}", &"x".repeat(20_000)] {
        let reply = cluster.get(token, path).await.is(401);
        assert_eq!(reply.body["reason"], "Unauthorized");
        assert!(!reply.text.contains(token), "{}", reply.text);
    }
}

#[rstest]
#[case("/healthz", 200)]
#[case("/livez", 200)]
#[case("/readyz", 200)]
#[case("/version", 200)]
#[case("/api", 403)]
#[case("/apis", 403)]
#[case("/openapi/v3", 403)]
#[case("/metrics", 403)]
#[case("/", 403)]
#[case("/healthz/../api", 403)]
#[case("//healthz", 403)]
#[case("/api/v1/namespaces", 403)]
#[case("/api/v1/namespaces/kube-system/secrets", 403)]
#[case("/apis/apps/v1/deployments", 403)]
#[case("/api/v1/nothing", 403)]
#[tokio::test]
async fn anonymous_reaches_health_and_version_only(#[case] path: &str, #[case] code: u16) {
    let cluster = Cluster::open().await;
    cluster.get("", path).await.is(code);
    let writing = if code == 200 { 403 } else { code };
    for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
        cluster.send("", method, path, Value::Null).await.is(writing);
    }
}

#[tokio::test]
async fn other_schemes_than_bearer_are_no_credentials() {
    let cluster = Cluster::open().await;
    for value in ["Basic YTpi", "Bearer", "Bearer ", "token"] {
        let headers = [("authorization", value)];
        let ask = Ask { method: "GET", path: CONFIG_MAPS, token: "", headers: &headers, kind: "", body: "".into() };
        let reply = cluster.ask(ask).await.is(403);
        assert!(reply.message().contains("system:anonymous"), "{}", reply.text);
    }
}

#[tokio::test]
async fn identity_cannot_be_sent_as_a_header() {
    let cluster = Cluster::open().await;
    let headers = [
        ("identity", "admin"),
        ("x-remote-user", "admin"),
        ("x-remote-group", "system:masters"),
        ("x-forwarded-user", "admin"),
        ("x-peer-certificate", "CN=admin,O=system:masters"),
    ];
    let ask = Ask { method: "GET", path: CONFIG_MAPS, token: "", headers: &headers, kind: "", body: "".into() };
    let reply = cluster.ask(ask).await.is(403);
    assert!(reply.message().contains("system:anonymous"), "{}", reply.text);
}

#[tokio::test]
async fn token_of_another_server_is_refused() {
    let (one, two) = (Cluster::open().await, Cluster::open_with(signing_key()).await);
    account(&one).await;
    account(&two).await;
    let token = token(&one, json!({})).await;
    assert!(who(&one, &token).await.is_ok());
    assert_eq!(who(&two, &token).await, Err(401));
}

#[tokio::test]
async fn token_that_was_changed_is_refused() {
    let cluster = Cluster::open().await;
    account(&cluster).await;
    let token = token(&cluster, json!({})).await;
    let parts: Vec<&str> = token.split('.').collect();
    let [header, body, signature] = parts.as_slice() else { panic!("a token has three parts") };
    let mut claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(body).unwrap()).unwrap();
    claims["exp"] = 9_999_999_999_i64.into();
    let longer = URL_SAFE_NO_PAD.encode(claims.to_string());
    let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none","typ":"JWT"}"#);
    let symmetric = URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256","typ":"JWT"}"#);
    for forged in [
        format!("{header}.{longer}.{signature}"),
        format!("{none}.{longer}."),
        format!("{none}.{body}.{signature}"),
        format!("{symmetric}.{body}.{signature}"),
        format!("{header}.{body}."),
        format!("{header}.{body}"),
        format!("{header}.{body}.{signature}.{signature}"),
        format!("{header}.{body}.{}", URL_SAFE_NO_PAD.encode([0; 64])),
    ] {
        assert_eq!(who(&cluster, &forged).await, Err(401), "{forged}");
    }
}

#[tokio::test]
async fn token_ends_when_it_says_so() {
    let cluster = Cluster::open().await;
    account(&cluster).await;
    let token = token(&cluster, json!({"expirationSeconds": 600})).await;
    cluster.wait(599);
    assert!(who(&cluster, &token).await.is_ok());
    cluster.wait(1);
    assert_eq!(who(&cluster, &token).await, Err(401));
}

#[tokio::test]
async fn token_for_another_audience_is_refused_here_and_reviewed_for_that_audience_only() {
    let cluster = Cluster::open().await;
    account(&cluster).await;
    let token = token(&cluster, json!({"audiences": ["vault", "bank"]})).await;
    assert_eq!(who(&cluster, &token).await, Err(401));
    let review = |token: &str, audiences: &[&str]| {
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
            "spec": {"token": token, "audiences": audiences}})
    };
    let theirs = cluster.create(REVIEWS, review(&token, &["vault", "shop"])).await;
    assert_eq!(theirs["status"]["authenticated"], true);
    assert_eq!(theirs["status"]["audiences"], json!(["vault"]));
    assert_eq!(cluster.create(REVIEWS, review(&token, &["shop"])).await["status"]["authenticated"], Value::Null);
    assert_eq!(cluster.create(REVIEWS, review(&token, &[])).await["status"]["authenticated"], Value::Null);
    // A token without an audience is for this server only, not for other audiences.
    assert_eq!(cluster.create(REVIEWS, review(ADMIN, &["shop"])).await["status"]["authenticated"], Value::Null);
    assert_eq!(cluster.create(REVIEWS, review(ADMIN, &[])).await["status"]["authenticated"], true);
}

#[tokio::test]
async fn token_of_a_deleted_account_is_refused_even_if_the_name_comes_back() {
    let cluster = Cluster::open().await;
    account(&cluster).await;
    let token = token(&cluster, json!({})).await;
    cluster.send(ADMIN, "DELETE", &format!("{ACCOUNTS}/mate"), Value::Null).await.is(200);
    assert_eq!(who(&cluster, &token).await, Err(401));
    account(&cluster).await;
    assert_eq!(who(&cluster, &token).await, Err(401));
}

#[tokio::test]
async fn token_of_an_account_that_a_finalizer_holds_ends_soon_after_its_deletion() {
    let cluster = Cluster::open().await;
    account(&cluster).await;
    let token = token(&cluster, json!({})).await;
    let one = format!("{ACCOUNTS}/mate");
    cluster.patch(ADMIN, &one, json!({"metadata": {"finalizers": ["example.com/hold"]}})).await.is(200);
    cluster.send(ADMIN, "DELETE", &one, Value::Null).await.is(200);
    assert!(who(&cluster, &token).await.is_ok());
    cluster.wait(60);
    assert_eq!(who(&cluster, &token).await, Err(401));
}

#[tokio::test]
async fn token_goes_with_the_object_that_it_is_bound_to() {
    let cluster = Cluster::open().await;
    account(&cluster).await;
    let secrets = "/api/v1/namespaces/default/secrets";
    cluster.create(secrets, json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "anchor"}})).await;
    let bound = json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": "anchor"}});
    let token = token(&cluster, bound).await;
    assert!(who(&cluster, &token).await.is_ok());
    cluster.send(ADMIN, "DELETE", &format!("{secrets}/anchor"), Value::Null).await.is(200);
    assert_eq!(who(&cluster, &token).await, Err(401));
}

#[tokio::test]
async fn bootstrap_token_is_good_while_its_secret_says_so() {
    let cluster = Cluster::open().await;
    let secrets = "/api/v1/namespaces/kube-system/secrets";
    let encode = |text: &str| STANDARD.encode(text);
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
    "metadata": {"name": "bootstrap-token-abcdef"}, "data": {
        "token-id": encode("abcdef"), "token-secret": encode("0123456789abcdef"),
        "usage-bootstrap-authentication": encode("true"), "expiration": encode("2026-01-02T03:05:05Z"),
        "auth-extra-groups": encode("system:masters,system:bootstrappers:crew"),
    }});
    cluster.create(secrets, secret).await;
    let right = "abcdef.0123456789abcdef";
    assert_eq!(who(&cluster, right).await.as_deref(), Ok("system:bootstrap:abcdef"));
    // Neither a member of `system:masters`, nor another user with rights.
    cluster.get(right, "/api/v1/nodes").await.is(403);
    for wrong in ["abcdef.0123456789abcdee", "abcdee.0123456789abcdef", "abcdef.0123456789abcde", "abcdef."] {
        assert_eq!(who(&cluster, wrong).await, Err(401), "{wrong}");
    }
    cluster.wait(60);
    assert_eq!(who(&cluster, right).await, Err(401));
}

#[tokio::test]
async fn right_token_beside_a_wrong_one_is_the_one_that_comes_first() {
    let cluster = Cluster::open().await;
    let headers = [("authorization", "Bearer wrong"), ("authorization", "Bearer admin-token")];
    let ask = Ask { method: "GET", path: CONFIG_MAPS, token: "", headers: &headers, kind: "", body: "".into() };
    cluster.ask(ask).await.is(401);
    cluster.get(ANN, CONFIG_MAPS).await.is(403);
}
