//! Object stores: a real S3 implementation that checks signatures, and scripted servers for what
//! it does not have.

use std::net::SocketAddr;
use std::path::Path;

use hyper_util::rt::TokioIo;
use rstest::rstest;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use seaworthy_fetch::{Compression, Digest, FailureCategory, FailureKind, Fetcher, Policy, Request};
use tokio::net::TcpListener;

use crate::loopback::support::cloud::Cloud;
use crate::loopback::support::proxy::TestProxy;
use crate::loopback::support::server::{Reply, Server, ok, response};
use crate::loopback::support::{environment, failure, fetcher, fetcher_with, policy};

/// Serves the folders in `root` as buckets; ends with the test's runtime.
async fn serve_s3(root: &Path, key: &str, secret: &str) -> SocketAddr {
    let files = s3s_fs::FileSystem::new(root).unwrap();
    let mut builder = S3ServiceBuilder::new(files);
    builder.set_auth(SimpleAuth::from_single(key, secret));
    let service = builder.build();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let service = service.clone();
            tokio::spawn(async move {
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service).await
            });
        }
    });
    address
}

fn bucket_with(key: &str, content: &[u8]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("bucket").join(key);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
    root
}

fn with_keys(address: SocketAddr, secret: &str) -> Fetcher {
    fetcher().with_environment(environment(&[
        ("AWS_ACCESS_KEY_ID", "KEYID"),
        ("AWS_SECRET_ACCESS_KEY", secret),
        ("AWS_ENDPOINT_URL", &format!("http://{address}")),
        ("AWS_ALLOW_HTTP", "true"),
    ]))
}

fn anonymous(server: &Server) -> Fetcher {
    fetcher().with_environment(environment(&[
        ("AWS_ENDPOINT_URL_S3", &server.url_as("http", "s3.test", "")),
        ("AWS_ALLOW_HTTP", "true"),
    ]))
}

#[rstest]
#[case::s3("s3://bucket/dir/a%20file+with=odd%25%C3%A4.txt")]
#[case::arn("arn:aws:s3:::bucket/dir/a file+with=odd%ä.txt")]
#[tokio::test]
async fn a_real_s3_server_accepts_our_signature(#[case] url: &str) {
    let root = bucket_with("dir/a file+with=odd%ä.txt", b"content");
    let address = serve_s3(root.path(), "KEYID", "KEYSECRET").await;
    let mut request = Request::resource(url);
    request.verification = Some(Digest::sha256(b"content"));
    let snapshot = with_keys(address, "KEYSECRET").fetch(&request).await.unwrap();
    assert_eq!(snapshot.bytes(), b"content");
    assert_eq!(snapshot.url(), url);
}

#[tokio::test]
async fn a_wrong_key_is_refused_by_a_real_s3_server_and_not_shown() {
    let root = bucket_with("file", b"content");
    let address = serve_s3(root.path(), "KEYID", "KEYSECRET").await;
    let request = Request::resource("s3://bucket/file");
    let error = failure(&with_keys(address, "WRONGSECRET"), &request).await;
    let FailureKind::Status { code, detail, .. } = &error.kind else {
        panic!("{error}");
    };
    assert_eq!((*code, detail.as_deref()), (403, Some("SignatureDoesNotMatch")));
    assert_eq!(error.attempts, 1);
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains("SECRET") && !shown.contains("KEYID"), "{shown}");
}

#[tokio::test]
async fn a_missing_object_is_not_found() {
    let root = bucket_with("file", b"content");
    let address = serve_s3(root.path(), "KEYID", "KEYSECRET").await;
    let request = Request::resource("s3://bucket/other");
    let error = failure(&with_keys(address, "KEYSECRET"), &request).await;
    assert_eq!(error.kind, FailureKind::NotFound);
    assert_eq!(error.attempts, 1);
}

#[tokio::test]
async fn an_object_with_another_hash_is_refused() {
    let root = bucket_with("file", b"content");
    let address = serve_s3(root.path(), "KEYID", "KEYSECRET").await;
    let mut request = Request::resource("s3://bucket/file");
    request.verification = Some(Digest::sha512(b"other"));
    let error = failure(&with_keys(address, "KEYSECRET"), &request).await;
    assert_eq!(error.category(), FailureCategory::RemoteVerificationFailed);
}

#[tokio::test]
async fn an_object_larger_than_the_limit_is_refused() {
    let root = bucket_with("file", &[0; 5000]);
    let address = serve_s3(root.path(), "KEYID", "KEYSECRET").await;
    let policy = Policy { max_object_bytes: 4999, ..policy(&["127.0.0.1"]) };
    let fetcher = fetcher_with(policy).with_environment(environment(&[
        ("AWS_ACCESS_KEY_ID", "KEYID"),
        ("AWS_SECRET_ACCESS_KEY", "KEYSECRET"),
        ("AWS_ENDPOINT_URL", &format!("http://{address}")),
        ("AWS_ALLOW_HTTP", "true"),
    ]));
    let error = failure(&fetcher, &Request::resource("s3://bucket/file")).await;
    assert!(matches!(error.kind, FailureKind::TooLarge { limit: 4999, .. }), "{error}");
}

#[tokio::test]
async fn without_credentials_objects_are_asked_for_anonymously() {
    let server = Server::start(|_, _| ok("content")).await;
    let request = Request::resource("s3://bucket/dir/key?versionId=a%2Fb");
    let snapshot = anonymous(&server).fetch(&request).await.unwrap();
    assert_eq!(snapshot.bytes(), b"content");
    assert_eq!(snapshot.url(), "s3://bucket/dir/key?versionId=a%2Fb");
    let seen = &server.seen()[0];
    assert_eq!(seen.method, "GET");
    assert_eq!(seen.target, "/bucket/dir/key?versionId=a%2Fb");
    assert_eq!(seen.header("authorization"), None);
}

#[tokio::test]
async fn a_refused_anonymous_request_names_what_to_do() {
    let server = Server::start(|_, _| response(403, &[], b"<Code>AccessDenied</Code>")).await;
    let error = failure(&anonymous(&server), &Request::resource("s3://bucket/key")).await;
    let message = error.to_string();
    assert!(message.contains("AccessDenied"), "{message}");
    assert!(message.contains("had no credentials"), "{message}");
}

#[tokio::test]
async fn signed_requests_carry_region_and_session_token() {
    let server = Server::start(|_, _| ok("content")).await;
    let fetcher = fetcher().with_environment(environment(&[
        ("AWS_ACCESS_KEY_ID", "KEYID"),
        ("AWS_SECRET_ACCESS_KEY", "KEYSECRET"),
        ("AWS_SESSION_TOKEN", "SESSION"),
        ("AWS_REGION", "eu-central-1"),
        ("AWS_ENDPOINT_URL", &server.url("/")),
        ("AWS_ALLOW_HTTP", "true"),
    ]));
    fetcher.fetch(&Request::resource("s3://bucket/key")).await.unwrap();
    let arn = Request::resource("arn:aws-us-gov:s3:us-gov-east-1::bucket/key");
    fetcher.fetch(&arn).await.unwrap();
    let seen = server.seen();
    let authorization = |at: usize| seen[at].header("authorization").unwrap();
    assert!(authorization(0).starts_with("AWS4-HMAC-SHA256 Credential=KEYID/"));
    assert!(authorization(0).contains("/eu-central-1/s3/aws4_request"));
    assert!(authorization(1).contains("/us-gov-east-1/s3/aws4_request"));
    assert_eq!(seen[0].header("x-amz-security-token"), Some("SESSION"));
}

#[tokio::test]
async fn an_access_point_has_a_host_of_its_own() {
    let server = Server::start(|_, _| ok("content")).await;
    let arn = "arn:aws:s3:eu-west-1:123456789012:accesspoint/point/object/dir/key?versionId=7";
    anonymous(&server).fetch(&Request::resource(arn)).await.unwrap();
    let seen = &server.seen()[0];
    let host = format!("point-123456789012.s3.test:{}", server.port());
    assert_eq!(seen.header("host"), Some(host.as_str()));
    assert_eq!(seen.target, "/dir/key?versionId=7");
}

#[tokio::test]
async fn a_store_that_recovers_is_asked_until_it_does() {
    let cut_off = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nonly this";
    let server = Server::start(move |_, before| match before {
        0 => response(503, &[], b"<Code>SlowDown</Code>"),
        1 => Reply::Send(cut_off.to_vec()),
        _ => ok("content"),
    })
    .await;
    let request = Request::resource("s3://bucket/key");
    let snapshot = anonymous(&server).fetch(&request).await.unwrap();
    assert_eq!(snapshot.bytes(), b"content");
    assert_eq!(server.seen().len(), 3);
}

#[tokio::test]
async fn a_store_may_leave_the_length_open() {
    let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n7\r\ncontent\r\n0\r\n\r\n";
    let server = Server::start(move |_, _| Reply::Send(chunked.to_vec())).await;
    let request = Request::resource("s3://bucket/key");
    let snapshot = anonymous(&server).fetch(&request).await.unwrap();
    assert_eq!(snapshot.bytes(), b"content");
}

#[tokio::test]
async fn an_endless_object_is_cut_off() {
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nfffffff\r\n";
    let server = Server::start(move |_, _| Reply::Endless(head.into())).await;
    let error = failure(&anonymous(&server), &Request::resource("s3://bucket/key")).await;
    assert!(matches!(error.kind, FailureKind::TooLarge { .. }), "{error}");
}

#[rstest]
#[case::s3("s3://bucket/key")]
#[case::gs("gs://bucket/key")]
#[tokio::test]
async fn the_policy_holds_for_object_stores(#[case] url: &str) {
    let server = Server::start(|_, _| ok("internal")).await;
    let fetcher = fetcher_with(policy(&[])).with_environment(environment(&[
        ("AWS_ENDPOINT_URL", &server.url_as("http", "store.test", "")),
        ("AWS_ALLOW_HTTP", "true"),
        ("STORAGE_EMULATOR_HOST", &format!("store.test:{}", server.port())),
    ]));
    let error = failure(&fetcher, &Request::resource(url)).await;
    assert!(matches!(error.kind, FailureKind::Refused(_)), "{error}");
    assert_eq!(server.seen(), []);
}

#[tokio::test]
async fn an_unencrypted_endpoint_must_be_asked_for() {
    let server = Server::start(|_, _| ok("content")).await;
    for (url, variable) in [("s3://bucket/key", "AWS_ALLOW_HTTP"), ("gs://bucket/key", "GOOGLE_ALLOW_HTTP")] {
        let fetcher = fetcher().with_environment(environment(&[
            ("AWS_ENDPOINT_URL", &server.url("/")),
            ("GOOGLE_BASE_URL", &server.url("/")),
        ]));
        let error = failure(&fetcher, &Request::resource(url)).await;
        assert!(error.to_string().contains(&format!("{variable}=true")), "{error}");
    }
    assert_eq!(server.seen(), []);
}

#[rstest]
#[case::s3("s3://bucket/key")]
#[case::arn("arn:aws:s3:::bucket/key")]
#[tokio::test]
async fn packed_objects_are_refused_for_s3(#[case] url: &str) {
    let server = Server::start(|_, _| ok("content")).await;
    let mut request = Request::resource(url);
    request.compression = Some(Compression::Gzip);
    let error = failure(&anonymous(&server), &request).await;
    assert!(matches!(error.kind, FailureKind::Compression { .. }), "{error}");
    assert!(error.is_permanent());
    assert_eq!(server.seen(), []);
}

#[tokio::test]
async fn headers_do_not_go_with_object_stores() {
    let mut request = Request::resource("gs://bucket/key");
    request.headers = vec![("X-Token".into(), "SECRET".into())];
    let error = failure(&fetcher(), &request).await;
    assert!(matches!(error.kind, FailureKind::Header { .. }), "{error}");
}

#[tokio::test]
async fn google_objects_are_fetched_from_an_emulator() {
    let server = Server::start(|_, _| ok("content")).await;
    let emulator = format!("store.test:{}", server.port());
    let fetcher = fetcher().with_environment(environment(&[("STORAGE_EMULATOR_HOST", &emulator)]));
    let request = Request::resource("gs://bucket/dir/a%20file");
    let snapshot = fetcher.fetch(&request).await.unwrap();
    assert_eq!(snapshot.bytes(), b"content");
    let seen = &server.seen()[0];
    assert_eq!(seen.target, "/bucket/dir%2Fa%20file");
    assert_eq!(seen.header("authorization"), None);
}

#[tokio::test]
async fn google_requests_are_signed_by_the_service_account() {
    let server = Server::start(|_, _| ok("content")).await;
    // Made for this test; nothing accepts it.
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256).unwrap();
    let account = format!(
        r#"{{"private_key":"{}","private_key_id":"1","client_email":"a@b"}}"#,
        key.serialize_pem().lines().collect::<Vec<_>>().join("\\n")
    );
    let fetcher = fetcher().with_environment(environment(&[
        ("GOOGLE_SERVICE_ACCOUNT_KEY", &account),
        ("GOOGLE_BASE_URL", &server.url_as("http", "store.test", "")),
        ("GOOGLE_ALLOW_HTTP", "true"),
    ]));
    let request = Request::resource("gs://bucket/key");
    assert_eq!(fetcher.fetch(&request).await.unwrap().bytes(), b"content");
    let authorization = server.seen()[0].header("authorization").unwrap().to_owned();
    // A signed token has three parts.
    assert!(authorization.starts_with("Bearer "), "{authorization}");
    assert_eq!(authorization.split('.').count(), 3, "{authorization}");
}

#[tokio::test]
async fn google_objects_may_be_packed() {
    let packed = {
        use std::io::Write as _;
        let level = flate2::Compression::fast();
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
        encoder.write_all(b"content").unwrap();
        encoder.finish().unwrap()
    };
    let server = Server::start(move |_, _| ok(&packed)).await;
    let emulator = format!("store.test:{}", server.port());
    let fetcher = fetcher().with_environment(environment(&[("STORAGE_EMULATOR_HOST", &emulator)]));
    let mut request = Request::resource("gs://bucket/key");
    request.compression = Some(Compression::Gzip);
    assert_eq!(fetcher.fetch(&request).await.unwrap().bytes(), b"content");
}

#[tokio::test]
async fn credentials_that_cannot_be_used_are_named_but_not_shown() {
    for variables in [
        &[("GOOGLE_SERVICE_ACCOUNT_KEY", "{\"private_key\": \"SECRET\"}")][..],
        &[("GOOGLE_SERVICE_ACCOUNT", "/nonexistent/SECRET.json")],
        &[("GOOGLE_APPLICATION_CREDENTIALS", "/nonexistent/SECRET.json")],
    ] {
        let fetcher = fetcher().with_environment(environment(variables));
        let error = failure(&fetcher, &Request::resource("gs://bucket/key")).await;
        assert!(matches!(error.kind, FailureKind::Credentials { .. }), "{error}");
        assert!(error.to_string().contains(variables[0].0), "{error}");
        assert!(!error.to_string().contains("SECRET"), "{error}");
        assert!(error.is_permanent());
    }
}

#[tokio::test]
async fn half_of_the_keys_is_an_error_rather_than_anonymous() {
    let fetcher = fetcher().with_environment(environment(&[("AWS_SECRET_ACCESS_KEY", "SECRET")]));
    let error = failure(&fetcher, &Request::resource("s3://bucket/key")).await;
    assert!(matches!(error.kind, FailureKind::Credentials { .. }), "{error}");
    assert!(error.to_string().contains("AWS_ACCESS_KEY_ID"), "{error}");
}

#[tokio::test]
async fn an_endpoint_for_credentials_that_the_operator_names_is_reached_directly() {
    // The policy allows the store's port only; the agent's is named by the environment.
    let store = Server::start(|_, _| ok("content")).await;
    let agent = Server::start(|_, _| {
        ok(r#"{"AccessKeyId":"AGENTKEY","SecretAccessKey":"S","Token":"AGENTTOKEN",
               "Expiration":"2999-01-01T00:00:00Z"}"#)
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "PODTOKEN").unwrap();
    let fetcher = fetcher_with(policy(&[&store.address.to_string()]));
    let fetcher = fetcher.with_environment(environment(&[
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &agent.url_as("http", "agent.test", "/v1/credentials")),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token.to_str().unwrap()),
        ("AWS_ENDPOINT_URL", &store.url("/")),
        ("AWS_ALLOW_HTTP", "true"),
    ]));
    // Nor is the config's proxy used.
    let proxy = TestProxy::leading_to(store.address).await;
    let mut request = Request::resource("s3://bucket/key");
    request.settings.proxy.http = Some(format!("http://{}", proxy.address));
    assert_eq!(fetcher.fetch(&request).await.unwrap().bytes(), b"content");
    assert_eq!(proxy.seen(), []);
    assert_eq!(agent.seen()[0].header("authorization"), Some("PODTOKEN"));
    let authorization = store.seen()[0].header("authorization").unwrap().to_owned();
    assert!(authorization.contains("Credential=AGENTKEY/"), "{authorization}");
    // A config cannot use that endpoint.
    let request = Request::resource(agent.url_as("http", "agent.test", "/v1/credentials"));
    let error = failure(&fetcher, &request).await;
    assert!(matches!(error.kind, FailureKind::Refused(_)), "{error}");
    assert_eq!(agent.seen().len(), 1);
}

#[tokio::test]
async fn a_token_service_that_refuses_is_named() {
    let agent = Server::start(|_, _| response(403, &[], b"<Code>ExpiredToken</Code>")).await;
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "PODTOKEN").unwrap();
    let fetcher = fetcher().with_environment(environment(&[
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &agent.url("/")),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token.to_str().unwrap()),
    ]));
    let error = failure(&fetcher, &Request::resource("s3://bucket/key")).await;
    assert!(matches!(error.kind, FailureKind::Credentials { .. }), "{error}");
    assert!(error.to_string().contains("ExpiredToken"), "{error}");
    assert_eq!(error.attempts, 1);
}

#[rstest]
#[case("s3://bucket/key", "s3.us-east-1.amazonaws.com", "/bucket/key")]
#[case("arn:aws:s3:::bucket/key", "s3.us-east-1.amazonaws.com", "/bucket/key")]
#[case("arn:aws:s3:eu-west-1::bucket/key", "s3.eu-west-1.amazonaws.com", "/bucket/key")]
#[case("arn:aws-cn:s3:::bucket/key", "s3.cn-north-1.amazonaws.com.cn", "/bucket/key")]
#[case(
    "arn:aws:s3:eu-west-1:123456789012:accesspoint/point/object/key",
    "point-123456789012.s3-accesspoint.eu-west-1.amazonaws.com",
    "/key"
)]
#[case("gs://bucket/key", "storage.googleapis.com", "/bucket/key")]
#[tokio::test]
async fn every_kind_of_url_has_its_endpoint(#[case] url: &str, #[case] host: &str, #[case] target: &str) {
    let cloud = Cloud::start(&[host], |_| ok("content")).await;
    let snapshot = fetcher().fetch(&cloud.request(url)).await.unwrap();
    assert_eq!(snapshot.bytes(), b"content");
    assert_eq!(cloud.proxy.seen()[0].target, format!("{host}:443"));
    let seen = &cloud.server.seen()[0];
    assert_eq!((seen.header("host"), seen.target.as_str()), (Some(host), target));
}

#[tokio::test]
async fn a_bucket_in_another_region_is_followed_there() {
    let names = ["s3.us-east-1.amazonaws.com", "s3.eu-west-1.amazonaws.com"];
    let cloud = Cloud::start(&names, |seen| match seen.header("host") {
        Some("s3.eu-west-1.amazonaws.com") => ok("content"),
        _ => response(301, &[("x-amz-bucket-region", "eu-west-1")], b""),
    })
    .await;
    let snapshot = fetcher().fetch(&cloud.request("s3://bucket/key")).await.unwrap();
    assert_eq!(snapshot.bytes(), b"content");
    assert_eq!(cloud.server.seen().len(), 2);
}

#[tokio::test]
async fn a_region_that_is_none_is_not_followed() {
    let cloud = Cloud::start(&["s3.us-east-1.amazonaws.com"], |_| {
        response(301, &[("x-amz-bucket-region", "evil.example/")], b"")
    })
    .await;
    let error = failure(&fetcher(), &cloud.request("s3://bucket/key")).await;
    assert!(matches!(error.kind, FailureKind::Status { code: 301, .. }), "{error}");
    assert_eq!(cloud.server.seen().len(), 1);
}
