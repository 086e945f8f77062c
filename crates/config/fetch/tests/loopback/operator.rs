//! The administrator's credentials go where the administrator says, whatever a config wants.

use rstest::rstest;
use seaworthy_fetch::{FailureKind, Request};

use crate::loopback::support::certificates::Authority;
use crate::loopback::support::cloud::Cloud;
use crate::loopback::support::proxy::TestProxy;
use crate::loopback::support::server::{Reply, Seen, ok};
use crate::loopback::support::{environment, failure, fetcher};

const HOSTS: [&str; 3] = ["sts.us-east-1.amazonaws.com", "s3.us-east-1.amazonaws.com", "storage.googleapis.com"];

/// Credentials of every kind; those that are files lie in the folder.
fn credentials(kind: &str, folder: &tempfile::TempDir) -> Vec<(&'static str, String)> {
    let token = folder.path().join("token");
    std::fs::write(&token, "IDENTITY").unwrap();
    let token = token.to_str().unwrap().to_owned();
    match kind {
        "keys" => vec![("AWS_ACCESS_KEY_ID", "KEYID".into()), ("AWS_SECRET_ACCESS_KEY", "KEYSECRET".into())],
        "web identity" => vec![
            ("AWS_WEB_IDENTITY_TOKEN_FILE", token),
            ("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/reader".into()),
        ],
        "agent" => vec![
            ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "https://sts.us-east-1.amazonaws.com/".into()),
            ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token),
        ],
        _ => {
            // Made for this test; nothing accepts it.
            let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap();
            let key = key.serialize_pem().lines().collect::<Vec<_>>().join("\\n");
            let account = format!(r#"{{"private_key":"{key}","private_key_id":"1","client_email":"a@b"}}"#);
            vec![("GOOGLE_SERVICE_ACCOUNT_KEY", account)]
        }
    }
}

fn cloud_answer(seen: &Seen) -> Reply {
    match seen.header("host") {
        Some("sts.us-east-1.amazonaws.com") => ok("<AssumeRoleWithWebIdentityResponse>\
             <AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>ROLEKEY</AccessKeyId>\
             <SecretAccessKey>S</SecretAccessKey><SessionToken>ROLETOKEN</SessionToken>\
             <Expiration>2999-01-01T00:00:00Z</Expiration></Credentials>\
             </AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"),
        _ => ok("content"),
    }
}

#[rstest]
#[case("keys", "s3://bucket/key")]
#[case("web identity", "s3://bucket/key")]
#[case("agent", "s3://bucket/key")]
#[case("service account", "gs://bucket/key")]
#[tokio::test]
async fn credentials_never_meet_the_proxy_of_a_config(#[case] kind: &str, #[case] url: &str) {
    let cloud = Cloud::start(&HOSTS, cloud_answer).await;
    let folder = tempfile::tempdir().unwrap();
    let credentials = credentials(kind, &folder);
    let variables: Vec<_> = credentials.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let request = cloud.request(url);
    // Without credentials that proxy is a way to the content, and its authority is trusted.
    assert_eq!(fetcher().fetch(&request).await.unwrap().bytes(), b"content");
    let (before, asked_before) = (cloud.proxy.seen().len(), cloud.server.seen().len());
    let error = failure(&fetcher().with_environment(environment(&variables)), &request).await;
    // The only other route is a direct one, to a name that does not resolve here.
    assert!(
        matches!(&error.kind, FailureKind::Unreachable { reason, .. } if reason.contains("no such name")),
        "{error}"
    );
    assert_eq!((cloud.proxy.seen().len(), cloud.server.seen().len()), (before, asked_before));
}

#[rstest]
#[case("keys", "s3://bucket/key")]
#[case("web identity", "s3://bucket/key")]
#[case("service account", "gs://bucket/key")]
#[tokio::test]
async fn credentials_trust_no_authority_of_a_config(#[case] kind: &str, #[case] url: &str) {
    let cloud = Cloud::start(&HOSTS, cloud_answer).await;
    let folder = tempfile::tempdir().unwrap();
    let proxy = format!("http://{}", cloud.proxy.address);
    let credentials = credentials(kind, &folder);
    let mut variables: Vec<_> = credentials.iter().map(|(name, value)| (*name, value.as_str())).collect();
    variables.push(("https_proxy", &proxy));
    let error = failure(&fetcher().with_environment(environment(&variables)), &cloud.request(url)).await;
    assert!(matches!(error.kind, FailureKind::Certificate { is_operators: true, .. }), "{error}");
    assert!(error.to_string().contains("the system's trust store"), "{error}");
    assert_eq!(cloud.server.seen(), []);
}

#[rstest]
#[case("keys", "s3://bucket/key")]
#[case("web identity", "s3://bucket/key")]
#[case("service account", "gs://bucket/key")]
#[tokio::test]
async fn credentials_go_through_the_proxy_of_the_operator(#[case] kind: &str, #[case] url: &str) {
    let cloud = Cloud::start(&HOSTS, cloud_answer).await;
    let folder = tempfile::tempdir().unwrap();
    let credentials = credentials(kind, &folder);
    let variables: Vec<_> = credentials.iter().map(|(name, value)| (*name, value.as_str())).collect();
    // What a config says instead is passed over.
    let other = TestProxy::leading_to(cloud.server.address).await;
    let mut request = Request::resource(url);
    request.settings.proxy.https = Some(format!("http://{}", other.address));
    request.settings.certificate_authorities = vec![Authority::new().pem()];
    let snapshot = cloud.trusted_by_operator(&variables).fetch(&request).await.unwrap();
    assert_eq!(snapshot.bytes(), b"content");
    assert!(cloud.server.seen().last().unwrap().header("authorization").is_some());
    assert_eq!(other.seen(), []);
}

#[rstest]
#[case("s3://bucket/key")]
#[case("gs://bucket/key")]
#[tokio::test]
async fn without_credentials_the_config_chooses_its_proxy(#[case] url: &str) {
    let cloud = Cloud::start(&HOSTS, cloud_answer).await;
    let operators = TestProxy::leading_to(cloud.server.address).await;
    let proxy = format!("http://{}", operators.address);
    let fetcher = fetcher().with_environment(environment(&[("HTTPS_PROXY", &proxy)]));
    assert_eq!(fetcher.fetch(&cloud.request(url)).await.unwrap().bytes(), b"content");
    assert_eq!(operators.seen(), []);
    assert_eq!(cloud.proxy.seen().len(), 1);
}

#[tokio::test]
async fn a_bundle_of_the_operator_that_holds_nothing_is_refused() {
    let kind = fetcher().with_authorities(&[b"not a certificate".to_vec()]).err().unwrap();
    assert!(matches!(kind, FailureKind::Authority { index: 0, .. }), "{kind}");
}

#[tokio::test]
async fn a_web_identity_is_exchanged_for_keys() {
    let cloud = Cloud::start(&HOSTS, cloud_answer).await;
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "IDENTITY").unwrap();
    let fetcher = cloud.trusted_by_operator(&[
        ("AWS_WEB_IDENTITY_TOKEN_FILE", token.to_str().unwrap()),
        ("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/reader"),
    ]);
    let snapshot = fetcher.fetch(&Request::resource("s3://bucket/key")).await.unwrap();
    assert_eq!(snapshot.bytes(), b"content");
    let seen = cloud.server.seen();
    assert_eq!(seen.len(), 2);
    assert!(seen[1].header("authorization").unwrap().contains("Credential=ROLEKEY/"));
    assert_eq!(seen[1].header("x-amz-security-token"), Some("ROLETOKEN"));
}

#[tokio::test]
async fn an_agent_for_credentials_needs_more_than_the_authority_of_a_config() {
    let cloud = Cloud::start(&["agent.test"], |_| ok("{}")).await;
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "PODTOKEN").unwrap();
    let fetcher = fetcher().with_environment(environment(&[
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &cloud.server.url_as("https", "agent.test", "/")),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token.to_str().unwrap()),
    ]));
    let error = failure(&fetcher, &cloud.request("s3://bucket/key")).await;
    assert!(matches!(error.kind, FailureKind::Certificate { is_operators: true, .. }), "{error}");
    assert_eq!(cloud.server.seen(), []);
}
