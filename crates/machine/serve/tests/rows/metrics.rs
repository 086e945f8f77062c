//! Metrics.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt as _;
use seaworthy_serve::access::Credentials;
use seaworthy_serve::answers::{Answers, PoolAnswers};
use seaworthy_serve::rate_limits::RateLimits;
use seaworthy_serve::{Access, AnswerStore, Endpoint, Token};
use tokio::time::Instant;

use crate::support::{UNAUTHENTICATED, accepts, ask, endpoint};

const TOKEN: &str = "a-token-that-is-not-guessed";

fn guarded() -> Endpoint {
    let tokens = vec![Token::new(TOKEN).unwrap()];
    Endpoint { access: Access::Restricted(Credentials { tokens: tokens.into(), secrets: None }), ..endpoint() }
}

#[track_caller]
fn has(endpoint: &Endpoint, line: &str) {
    let page = endpoint.page().unwrap();
    assert!(page.lines().any(|found| found == line), "there is no {line:?} in\n{page}");
}

#[test]
fn requests_are_counted_by_pool_version_and_status() {
    let endpoint = endpoint();
    for _ in 0..3 {
        ask(&endpoint, "GET", "/config/master", &[("accept", &accepts("3.4.0"))]);
    }
    let reply = ask(&endpoint, "GET", "/config/master", &[]);
    ask(&endpoint, "GET", "/config/master", &[("if-none-match", reply.header("etag"))]);
    ask(&endpoint, "GET", "/config/master", &[("accept", &accepts("4.0.0"))]);
    ask(&endpoint, "GET", "/config/broken", &[("accept", &accepts("3.1.0"))]);
    ask(&endpoint, "HEAD", "/config/nowhere", &[]);
    ask(&endpoint, "POST", "/", &[]);
    let count = |labels: &str, count: u32| {
        has(&endpoint, &format!("seaworthy_endpoint_requests_total{{{labels}}} {count}"));
    };
    count(r#"pool="master",version="3.4.0",code="200""#, 3);
    count(r#"pool="master",version="2.2.0",code="200""#, 1);
    count(r#"pool="master",version="2.2.0",code="304""#, 1);
    count(r#"pool="master",version="",code="400""#, 1);
    count(r#"pool="broken",version="3.1.0",code="500""#, 1);
    count(r#"pool="",version="2.2.0",code="404""#, 1);
    count(r#"pool="",version="",code="405""#, 1);
    has(&endpoint, "seaworthy_endpoint_request_seconds_count 9");
    has(&endpoint, &format!("seaworthy_endpoint_sent_bytes_total {}", 4 * 32));
}

#[test]
fn health_is_not_counted() {
    let endpoint = endpoint();
    ask(&endpoint, "GET", "/healthz", &[]);
    has(&endpoint, "seaworthy_endpoint_request_seconds_count 0");
}

#[test]
fn refusals_are_counted_by_reason() {
    // A burst of 20 with the token, of 2 without.
    let endpoint = Endpoint { rate_limits: RateLimits::new(0.0, 20.0), ..guarded() };
    for _ in 0..5 {
        ask(&endpoint, "GET", "/config/master", &[]);
    }
    has(&endpoint, "seaworthy_endpoint_refused_total{reason=\"access\"} 2");
    has(&endpoint, "seaworthy_endpoint_refused_total{reason=\"rate\"} 3");
    let early = Endpoint { answers: Arc::new(AnswerStore::default()), ..guarded() };
    ask(&early, "GET", "/config/master", &[]);
    has(&early, "seaworthy_endpoint_refused_total{reason=\"unready\"} 1");
    has(&early, "seaworthy_endpoint_ready 0");
}

#[test]
fn unauthenticated_clients_add_no_rows_and_no_label_values() {
    let endpoint = guarded();
    for nth in 0..100 {
        ask(&endpoint, "GET", &format!("/config/pool-{nth}"), &[("authorization", &format!("Bearer word-{nth}"))]);
        ask(&endpoint, "GET", &format!("/{nth}"), &[("accept", &accepts(&format!("3.{nth}.0")))]);
    }
    let page = endpoint.page().unwrap();
    assert!(!page.contains("pool-") && !page.contains("word-"), "{page}");
    let rows = page.lines().filter(|line| line.starts_with("seaworthy_endpoint_requests_total")).count();
    assert_eq!(rows, 2, "{page}");
}

#[tokio::test(start_paused = true)]
async fn age_of_answers_and_absence_of_their_source_are_shown() {
    let endpoint = endpoint();
    has(&endpoint, "seaworthy_endpoint_ready 1");
    has(&endpoint, "seaworthy_endpoint_source_unreachable_seconds 0.0");
    endpoint.answers.record_attempt(false);
    tokio::time::advance(Duration::from_secs(100)).await;
    endpoint.answers.record_attempt(false);
    tokio::time::advance(Duration::from_secs(20)).await;
    has(&endpoint, "seaworthy_endpoint_source_unreachable_seconds 120.0");
    has(&endpoint, "seaworthy_endpoint_answers_age_seconds{pool=\"master\"} 120.0");
    let page = endpoint.metrics.page(&endpoint.answers, Instant::now() + Duration::from_secs(5)).unwrap();
    assert!(page.contains("answers_age_seconds{pool=\"master\"} 125.0\n"), "{page}");
    endpoint.answers.record_attempt(true);
    has(&endpoint, "seaworthy_endpoint_source_unreachable_seconds 0.0");
    // A pool that is gone has no row any more.
    endpoint.answers.publish(PoolAnswers::from([("worker".to_owned(), Arc::new(Answers::refused("x")))]));
    let page = endpoint.page().unwrap();
    assert!(page.contains("{pool=\"worker\"} 0.0") && !page.contains("{pool=\"master\"}"), "{page}");
}

#[tokio::test]
async fn aborted_response_counts_the_bytes_that_were_sent() {
    let endpoint = endpoint();
    let large = Answers::of(|_| Ok(vec![b'x'; 3 << 20]));
    endpoint.answers.publish(PoolAnswers::from([("large".to_owned(), Arc::new(large))]));
    let request = http::Request::builder().uri("/config/large").body(()).unwrap();
    let mut body = endpoint.answer(&request, UNAUTHENTICATED, std::time::Instant::now()).into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(first.len(), 1 << 20);
    has(&endpoint, "seaworthy_endpoint_request_seconds_count 0");
    drop(body);
    has(&endpoint, "seaworthy_endpoint_request_seconds_count 1");
    has(&endpoint, &format!("seaworthy_endpoint_sent_bytes_total {}", 1 << 20));
    // The whole of it, in pieces of the one buffer.
    let body = endpoint.answer(&request, UNAUTHENTICATED, std::time::Instant::now()).into_body();
    assert_eq!(body.collect().await.unwrap().to_bytes().len(), 3 << 20);
}
