//! Authentication, rate limits and token files.

use std::sync::Arc;
use std::time::Duration;

use http::header::AUTHORIZATION;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::runtime::watcher::Event;
use rstest::rstest;
use seaworthy_runtime::Cache;
use seaworthy_serve::access::{Credentials, Denied, Tokens, parse_tokens, read_tokens};
use seaworthy_serve::rate_limits::RateLimits;
use seaworthy_serve::token_file::TokenFile;
use seaworthy_serve::{Access, AnswerStore, Endpoint, Peer, Token};
use serde_json::{Value, json};

use crate::support::{Log, TestServer, UNAUTHENTICATED, ask, ask_as, endpoint};

const TOKEN: &str = "a-token-that-is-not-guessed";

/// An endpoint that requires the token.
pub fn guarded() -> Endpoint {
    let tokens = vec![Token::new("another").unwrap(), Token::new(TOKEN).unwrap()].into();
    Endpoint { access: Access::Restricted(Credentials { tokens, secrets: None }), ..endpoint() }
}

#[test]
fn replaced_tokens_take_effect_at_once() {
    let tokens = Tokens::from(vec![Token::new(TOKEN).unwrap()]);
    let access = Access::Restricted(Credentials { tokens: tokens.clone(), secrets: None });
    let endpoint = Endpoint { access, ..endpoint() };
    let status =
        |token: &str| ask(&endpoint, "GET", "/config/master", &[("authorization", &format!("Bearer {token}"))]).status;
    assert_eq!((status(TOKEN), status("next")), (200, 401));
    assert!(tokens.replace(vec![Token::new("next").unwrap()]));
    assert!(!tokens.replace(vec![Token::new("next").unwrap()]), "nothing is new");
    assert_eq!((status(TOKEN), status("next")), (401, 200));
}

#[test]
fn token_is_accepted() {
    let reply = ask(&guarded(), "GET", "/config/master", &[("authorization", &format!("Bearer {TOKEN}"))]);
    assert_eq!(reply.status, 200);
    let reply = ask(&guarded(), "GET", "/config/master", &[("authorization", &format!("bearer  {TOKEN} "))]);
    assert_eq!(reply.status, 200);
}

#[rstest]
#[case(&[])]
#[case(&[("authorization", "")])]
#[case(&[("authorization", "Bearer")])]
#[case(&[("authorization", "Bearer ")])]
#[case(&[("authorization", "Bearer a-token-that-is-not-guesse")])]
#[case(&[("authorization", "Bearer a-token-that-is-not-guessed.")])]
#[case(&[("authorization", "Bearer A-TOKEN-THAT-IS-NOT-GUESSED")])]
#[case(&[("authorization", "Basic a-token-that-is-not-guessed")])]
#[case(&[("authorization", "a-token-that-is-not-guessed")])]
#[case(&[("authorization", "Bearer a-token-that-is-not-guessed"), ("authorization", "Bearer x")])]
#[case(&[("x-authorization", "Bearer a-token-that-is-not-guessed")])]
#[case(&[("cookie", "token=a-token-that-is-not-guessed")])]
fn client_without_the_token_gets_no_reason(#[case] headers: &[(&str, &str)]) {
    for (path, status) in [("/config/master", 401), ("/config/broken", 401), ("/config/nowhere", 401)] {
        let reply = ask(&guarded(), "GET", path, headers);
        assert_eq!((reply.status, reply.body.len(), reply.header("seaworthy-reason")), (status, 0, ""), "{path}");
        assert_eq!(reply.header("www-authenticate"), "Bearer realm=\"seaworthy\"");
    }
}

#[test]
fn token_in_the_query_is_no_token() {
    let reply = ask(&guarded(), "GET", &format!("/config/master?token={TOKEN}"), &[]);
    assert_eq!(reply.status, 401);
}

#[test]
fn certificate_is_accepted_and_health_needs_none() {
    let known = Peer { has_certificate: true, ..UNAUTHENTICATED };
    assert_eq!(ask_as(&guarded(), known, "GET", "/config/master", &[]).status, 200);
    assert_eq!(ask(&guarded(), "GET", "/healthz", &[]).status, 200);
}

#[test]
fn open_access_needs_no_credentials() {
    assert_eq!(ask(&endpoint(), "GET", "/config/master", &[("authorization", "Bearer x")]).status, 200);
}

#[test]
fn nothing_is_served_before_the_source_is_read() {
    let endpoint = Endpoint { answers: Arc::new(AnswerStore::default()), ..guarded() };
    for headers in [&[][..], &[("authorization", "Bearer x")]] {
        let reply = ask(&endpoint, "GET", "/config/master", headers);
        assert_eq!((reply.status, reply.header("retry-after"), reply.body.len()), (503, "5", 0));
    }
    assert_eq!(ask(&endpoint, "GET", "/healthz", &[]).status, 200);
}

#[test]
fn address_above_its_rate_limit_gets_retry_after() {
    // A burst of 20 with the token, of 2 without.
    let endpoint = Endpoint { rate_limits: RateLimits::new(0.0, 20.0), ..guarded() };
    let statuses = |headers: &[(&str, &str)], count: usize| -> Vec<u16> {
        (0..count).map(|_| ask(&endpoint, "GET", "/config/master", headers).status).collect()
    };
    assert_eq!(statuses(&[], 4), [401, 401, 503, 503]);
    let authorization = format!("Bearer {TOKEN}");
    let known = statuses(&[("authorization", &authorization)], 21);
    assert!(
        known[..20].iter().all(|status| *status == 200),
        "unauthenticated requests from the same address do not delay it"
    );
    assert_eq!(known[20], 503);
    let elsewhere = Peer { address: "10.0.0.1:1".parse().unwrap(), has_certificate: true };
    assert_eq!(ask_as(&endpoint, elsewhere, "GET", "/config/master", &[]).status, 200);
    assert_eq!(ask(&endpoint, "GET", "/healthz", &[]).status, 200);
    let later = ask(&endpoint, "GET", "/config/master", &[]);
    assert_eq!(
        (later.header("retry-after"), later.header("seaworthy-reason")),
        ("5", "this address exceeds its rate limit")
    );
}

#[test]
fn unauthenticated_requests_are_limited_and_do_not_fill_the_log() {
    let endpoint = Endpoint { rate_limits: RateLimits::new(0.0, 20.0), ..guarded() };
    let text = logged(|| {
        let asked = [("GET", "/x"), ("POST", "/config/master"), ("GET", "/"), ("GET", "/config/master"), ("GET", "/x")];
        let statuses: Vec<u16> = asked.iter().map(|(method, path)| ask(&endpoint, method, path, &[]).status).collect();
        assert_eq!(statuses, [404, 405, 503, 503, 503]);
        // Load balancers would take the endpoint out.
        assert_eq!(ask(&endpoint, "GET", "/healthz", &[]).status, 200);
        let authorization = format!("Bearer {TOKEN}");
        assert_eq!(ask(&endpoint, "GET", "/config/master", &[("authorization", &authorization)]).status, 200);
    });
    assert_eq!(text.matches("request peer=").count(), 3, "{text}");
    let page = endpoint.page().unwrap();
    assert!(page.contains("seaworthy_endpoint_refused_total{reason=\"rate\"} 3\n"), "{page}");
    // The same before anything is known.
    let endpoint =
        Endpoint { rate_limits: RateLimits::new(0.0, 20.0), answers: Arc::new(AnswerStore::default()), ..guarded() };
    let text = logged(|| {
        for _ in 0..5 {
            assert_eq!(ask(&endpoint, "GET", "/config/master", &[]).status, 503);
        }
    });
    assert_eq!(text.matches("request peer=").count(), 2, "{text}");
}

/// The cluster's bootstrap token `abcdef.0123456789abcdef`, changed by `change`.
fn secret(change: Value) -> Secret {
    let mut object = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "bootstrap-token-abcdef", "namespace": "kube-system", "resourceVersion": "1"},
        "type": "bootstrap.kubernetes.io/token",
        "data": {"token-id": "YWJjZGVm", "token-secret": "MDEyMzQ1Njc4OWFiY2RlZg==",
            "usage-bootstrap-authentication": "dHJ1ZQ=="},
    });
    for (key, value) in change.as_object().unwrap() {
        match value {
            Value::Object(data) => data.iter().for_each(|(name, value)| object[key][name] = value.clone()),
            value => object[key] = value.clone(),
        }
    }
    serde_json::from_value(object).unwrap()
}

fn admitted(secret: Secret, shown: &str) -> Result<(), Denied> {
    let cache = Cache::default();
    [Event::Init, Event::InitApply(secret), Event::InitDone].into_iter().for_each(|event| cache.apply_event(event));
    let access = Access::Restricted(Credentials { tokens: Tokens::default(), secrets: Some(Arc::new(cache)) });
    let headers = [(http::header::AUTHORIZATION, format!("Bearer {shown}").parse().unwrap())];
    access.admit(&headers.into_iter().collect(), false, "2026-01-02T03:04:05Z".parse::<Timestamp>().unwrap())
}

#[rstest]
#[case(json!({}))]
#[case(json!({"data": {"expiration": "MjAyNi0wMS0wMlQwMzowNDowNlo="}}))] // One second later.
fn bootstrap_token_of_the_cluster_is_accepted(#[case] change: Value) {
    assert_eq!(admitted(secret(change), "abcdef.0123456789abcdef"), Ok(()));
}

#[rstest]
#[case::expired(json!({"data": {"expiration": "MjAyNi0wMS0wMlQwMzowNDowNVo="}}), Denied::Expired)]
#[case::unreadable_time(json!({"data": {"expiration": "bmV2ZXI="}}), Denied::Expired)]
#[case::not_for_this(json!({"data": {"usage-bootstrap-authentication": "ZmFsc2U="}}), Denied::WrongUsage)]
#[case::another_id(json!({"data": {"token-id": "eHl6eHl6"}}), Denied::UnknownToken)]
#[case::another_secret(json!({"data": {"token-secret": "eHh4eHh4eHh4eHh4eHh4eA=="}}), Denied::UnknownToken)]
#[case::no_token(json!({"type": "Opaque"}), Denied::UnknownToken)]
#[case::expired_with_another_secret(json!({"data": {
    "expiration": "MjAyNi0wMS0wMlQwMzowNDowNVo=", "token-secret": "eHh4eHh4eHh4eHh4eHh4eA=="}}), Denied::UnknownToken)]
#[case::going(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), Denied::UnknownToken)]
fn secret_that_is_not_a_valid_token_is_not_accepted(#[case] change: Value, #[case] why: Denied) {
    assert_eq!(admitted(secret(change), "abcdef.0123456789abcdef"), Err(why));
}

#[rstest]
fn what_is_not_shaped_like_a_token_is_not_looked_up(
    #[values(
        "abcdef",
        "abcdef.",
        ".0123456789abcdef",
        "abcdef.0123456789abcdeF",
        "abcdef.0123456789abcdef0",
        "../../x.y"
    )]
    shown: &str,
) {
    assert_eq!(admitted(secret(json!({})), shown), Err(Denied::UnknownToken));
}

#[test]
fn tokens_are_read_line_by_line_and_never_shown() {
    let tokens = parse_tokens("# for workers\n\n one \ntwo\n", "tokens").unwrap();
    assert_eq!(tokens, [Token::new("one").unwrap(), Token::new("two").unwrap()]);
    assert_eq!(format!("{tokens:?}"), "[Token(…), Token(…)]");
    let error = parse_tokens("one\nhunter2 with blanks\n", "tokens").unwrap_err().to_string();
    assert!(error.starts_with("tokens, line 2: ") && !error.contains("hunter2"), "{error}");
    let error = parse_tokens("# nothing\n", "tokens").unwrap_err().to_string();
    assert!(error.starts_with("tokens: there is no token"), "{error}");
    let error = read_tokens("/nowhere/tokens".as_ref()).unwrap_err().to_string();
    assert!(error.starts_with("/nowhere/tokens: cannot be read: "), "{error}");
}

/// Whether a token is accepted.
fn accepts(tokens: &Tokens, token: &str) -> bool {
    let access = Access::Restricted(Credentials { tokens: tokens.clone(), secrets: None });
    let headers = [(AUTHORIZATION, format!("Bearer {token}").parse().unwrap())].into_iter().collect();
    access.admit(&headers, false, Timestamp::now()).is_ok()
}

#[rstest]
#[case::emptied(Some("# all are revoked\n"))]
#[case::deleted(None)]
fn tokens_are_revoked_when_their_file_stays_empty_or_gone(#[case] left: Option<&str>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens");
    let tokens: Tokens = parse_tokens("leaked\n", "tokens").unwrap().into();
    let mut file = TokenFile::new(path.clone(), tokens.clone());
    let change = |text: Option<&str>| match text {
        Some(text) => std::fs::write(&path, text).unwrap(),
        None => std::fs::remove_file(&path).unwrap(),
    };
    change(Some("leaked\n"));
    file.reload();
    // The file is rewritten: it is missing for a moment.
    for _ in 0..2 {
        change(left);
        file.reload();
        file.reload();
        assert!(accepts(&tokens, "leaked"));
        change(Some("leaked\n"));
        file.reload();
    }
    change(left);
    let log = Log::default();
    tracing::subscriber::with_default(log.subscriber(), || (0..100).for_each(|_| file.reload()));
    assert!(!accepts(&tokens, "leaked"));
    assert_eq!(log.text().lines().count(), 2, "{}", log.text());
    // A file with a broken line brings none of them back.
    change(Some("no token\n"));
    let text = logged(|| (0..3).for_each(|_| file.reload()));
    assert!(text.contains("no token is accepted") && !text.contains("stay valid"), "{text}");
    change(Some("next\n"));
    file.reload();
    assert!(accepts(&tokens, "next"));
}

#[test]
fn tokens_stay_while_their_file_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens");
    let tokens: Tokens = parse_tokens("good\n", "tokens").unwrap().into();
    let mut file = TokenFile::new(path.clone(), tokens.clone());
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::fs::write(&path, "no token\n").unwrap();
    (0..5).for_each(|_| file.reload());
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    (0..5).for_each(|_| file.reload());
    std::fs::remove_dir(&path).unwrap();
    // The pipe has no writer: reading would block.
    std::fs::rename(&pipe, &path).unwrap();
    (0..5).for_each(|_| file.reload());
    assert!(accepts(&tokens, "good"));
}

/// What is logged while something is done.
fn logged(done: impl FnOnce()) -> String {
    let log = Log::default();
    tracing::subscriber::with_default(log.subscriber(), done);
    log.text()
}

#[rstest]
#[case::none(&[], Denied::NoCredentials)]
#[case::unknown(&["Bearer wrong-word"], Denied::UnknownToken)]
#[case::two(&["Bearer wrong-word", "Bearer wrong-word"], Denied::SeveralHeaders)]
#[case::other_kind(&["Basic wrong-word"], Denied::NotBearer)]
#[case::no_kind(&["wrong-word"], Denied::NotBearer)]
fn reason_of_a_denied_request_is_logged_and_not_sent(#[case] shown: &[&str], #[case] why: Denied) {
    let headers: Vec<(&str, &str)> = shown.iter().map(|header| ("authorization", *header)).collect();
    let text = logged(|| {
        let reply = ask(&guarded(), "GET", "/config/master", &headers);
        assert_eq!((reply.status, reply.headers.contains_key("seaworthy-reason")), (401, false));
    });
    assert!(text.contains("status=401") && text.contains(&format!("reason=\"{why}\"")), "{text}");
    assert!(!text.contains("wrong-word"), "{text}");
}

#[test]
fn tokens_are_never_logged() {
    let text = logged(|| {
        let header = format!("Bearer {TOKEN}");
        for (path, header) in [("/config/master?token=", header.as_str()), ("/config/master", "Bearer wrong-word")] {
            let path = if path.ends_with('=') { format!("{path}{TOKEN}") } else { path.to_owned() };
            let headers = [("authorization", header), ("user-agent", "Ignition/2.14.0\u{7f}x")];
            // A header with a control character in it cannot even be made.
            ask(&guarded(), "GET", &path, &headers[..1]);
        }
        ask(&guarded(), "GET", "/config/master", &[("user-agent", "Ignition/2.14.0")]);
        // Also in other places.
        for path in [format!("/config/{TOKEN}"), format!("/{TOKEN}"), format!("/config/master/{TOKEN}/x")] {
            ask(&guarded(), "GET", &path, &[]);
            ask(&guarded(), "POST", &path, &[]);
        }
        ask(&guarded(), "GET", "/config/nowhere", &[("authorization", &format!("Bearer {TOKEN}"))]);
    });
    assert!(text.contains("/config/master") && text.contains("status=200") && text.contains("status=401"), "{text}");
    assert!(text.contains("Ignition/2.14.0"), "{text}");
    // The path of an authenticated client is logged.
    assert!(text.contains("path=\"/config/nowhere\" status=404"), "{text}");
    assert!(text.contains("reason=\"there is no pool nowhere\""), "{text}");
    assert!(!text.contains(TOKEN) && !text.contains("wrong-word") && !text.contains("token="), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn certificate_of_the_client_ca_is_accepted_and_another_is_not() {
    let server = TestServer::start(guarded()).await;
    let now = Timestamp::now();
    let own = server.pki.client("machine", "machines", now).unwrap();
    assert_eq!(server.get("/config/master", &[], Some(&own)).await.status, 200);
    assert_eq!(server.get("/config/master", &[], None).await.status, 401);
    let header = format!("Bearer {TOKEN}");
    assert_eq!(server.get("/config/master", &[("authorization", &header)], None).await.status, 200);
    let forged = seaworthy_apiserver::Pki::ephemeral(now).unwrap().client("machine", "machines", now).unwrap();
    // With TLS 1.3 the client learns of it when it reads.
    let refused = async {
        let mut stream = server.connect(Some(&forged)).await?;
        tokio::io::AsyncReadExt::read(&mut stream, &mut [0; 1]).await
    };
    let refused = tokio::time::timeout(Duration::from_secs(20), refused).await.unwrap();
    assert!(refused.is_err(), "{refused:?}");
}
