//! Proxies: used for the hosts they are meant for, trusted with nothing else.

use rstest::rstest;
use seaworthy_fetch::{FailureKind, Request};

use crate::loopback::support::certificates::Authority;
use crate::loopback::support::proxy::TestProxy;
use crate::loopback::support::server::{Server, ok, response};
use crate::loopback::support::{failure, fetcher, fetcher_with, policy};

fn through(proxy: &TestProxy, url: &str) -> Request {
    let mut request = Request::resource(url);
    let proxy = format!("http://user:SECRET@{}", proxy.address);
    request.settings.proxy.http = Some(proxy.clone());
    request.settings.proxy.https = Some(proxy);
    request
}

// "user:SECRET"
const AUTHORIZATION: Option<&str> = Some("Basic dXNlcjpTRUNSRVQ=");

#[tokio::test]
async fn http_goes_through_the_proxy_in_absolute_form() {
    let server = Server::start(|_, _| ok("content")).await;
    let proxy = TestProxy::leading_to(server.address).await;
    let mut request = through(&proxy, "http://far.example/file?x=1");
    request.headers = vec![("X-Token".into(), "mine".into())];
    // The name does not exist: only the proxy could resolve it.
    assert_eq!(fetcher().fetch(&request).await.unwrap().bytes(), b"content");
    let seen = &proxy.seen()[0];
    assert_eq!(seen.target, "http://far.example/file?x=1");
    assert_eq!(seen.header("host"), Some("far.example"));
    assert_eq!(seen.header("proxy-authorization"), AUTHORIZATION);
    assert_eq!(seen.header("x-token"), Some("mine"));
}

#[tokio::test]
async fn a_proxy_without_scheme_and_a_target_by_address_work() {
    let server = Server::start(|_, _| ok("content")).await;
    let proxy = TestProxy::leading_to(server.address).await;
    let mut request = Request::resource("http://[fd01::1]:8080/file");
    request.settings.proxy.http = Some(proxy.address.to_string());
    assert_eq!(fetcher().fetch(&request).await.unwrap().bytes(), b"content");
    let seen = &proxy.seen()[0];
    assert_eq!(seen.target, "http://[fd01::1]:8080/file");
    assert_eq!(seen.header("host"), Some("[fd01::1]:8080"));
}

#[tokio::test]
async fn https_goes_through_the_proxy_in_a_tunnel() {
    let authority = Authority::new();
    let acceptor = authority.acceptor(&["far.example"]);
    let server = Server::start_tls(acceptor, |_, _| ok("content")).await;
    let proxy = TestProxy::leading_to(server.address).await;
    let mut request = through(&proxy, "https://far.example/file");
    request.headers = vec![("X-Token".into(), "TOKEN".into())];
    request.settings.certificate_authorities = vec![authority.pem()];
    assert_eq!(fetcher().fetch(&request).await.unwrap().bytes(), b"content");
    let seen = &proxy.seen()[0];
    assert_eq!((seen.method.as_str(), seen.target.as_str()), ("CONNECT", "far.example:443"));
    assert_eq!(seen.header("proxy-authorization"), AUTHORIZATION);
    assert!(!seen.text().contains("TOKEN"), "{seen:?}");
    let seen = &server.seen()[0];
    assert_eq!(seen.target, "/file");
    assert_eq!(seen.header("x-token"), Some("TOKEN"));
    assert_eq!(seen.header("proxy-authorization"), None);
}

#[tokio::test]
async fn a_proxy_may_itself_be_encrypted() {
    let authority = Authority::new();
    let acceptor = authority.acceptor(&["far.example", "proxy.test"]);
    let server = Server::start_tls(acceptor.clone(), |_, _| ok("content")).await;
    let proxy = TestProxy::start(server.address, Some(acceptor)).await;
    let mut request = Request::resource("https://far.example/file");
    let url = format!("https://proxy.test:{}", proxy.address.port());
    request.settings.proxy.https = Some(url);
    request.settings.certificate_authorities = vec![authority.pem()];
    assert_eq!(fetcher().fetch(&request).await.unwrap().bytes(), b"content");
    assert_eq!(proxy.seen()[0].method, "CONNECT");
}

#[tokio::test]
async fn the_certificate_behind_a_proxy_is_checked() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let acceptor = theirs.acceptor(&["far.example"]);
    let server = Server::start_tls(acceptor, |_, _| ok("content")).await;
    let proxy = TestProxy::leading_to(server.address).await;
    let mut request = through(&proxy, "https://far.example/file");
    request.settings.certificate_authorities = vec![ours.pem()];
    let error = failure(&fetcher(), &request).await;
    assert!(matches!(error.kind, FailureKind::Certificate { .. }), "{error}");
    assert_eq!(server.seen(), []);
}

#[rstest]
#[case::by_name("origin.test", "origin.test")]
#[case::by_domain(".test", "origin.test")]
#[case::by_network("127.0.0.0/8", "127.0.0.1")]
#[case::loopback_never("", "127.0.0.1")]
#[tokio::test]
async fn exempt_hosts_are_reached_directly(#[case] no_proxy: &str, #[case] host: &str) {
    let server = Server::start(|_, _| ok("direct")).await;
    let proxied = Server::start(|_, _| ok("proxied")).await;
    let proxy = TestProxy::leading_to(proxied.address).await;
    let mut request = through(&proxy, &server.url_as("http", host, "/"));
    request.settings.proxy.no_proxy = vec![no_proxy.into()];
    assert_eq!(fetcher().fetch(&request).await.unwrap().bytes(), b"direct");
    assert_eq!(proxy.seen(), []);
}

#[rstest]
#[case::metadata("http://169.254.169.254/latest/meta-data/")]
#[case::metadata_name("http://metadata.google.internal/")]
#[case::link_local("https://[fe80::1]/")]
#[tokio::test]
async fn a_proxy_is_no_way_around_the_policy(#[case] url: &str) {
    let server = Server::start(|_, _| ok("credentials")).await;
    let proxy = TestProxy::leading_to(server.address).await;
    let error = failure(&fetcher(), &through(&proxy, url)).await;
    assert!(matches!(error.kind, FailureKind::Refused(_)), "{error}");
    assert_eq!(proxy.seen(), []);
}

#[tokio::test]
async fn a_proxy_at_a_refused_address_is_not_connected_to() {
    let server = Server::start(|_, _| ok("internal")).await;
    let proxy = TestProxy::leading_to(server.address).await;
    let error = failure(&fetcher_with(policy(&[])), &through(&proxy, "http://far.example/")).await;
    assert!(matches!(error.kind, FailureKind::Refused(_)), "{error}");
    let message = error.to_string();
    assert!(message.contains("proxy http://127.0.0.1"), "{message}");
    assert_eq!(error.allow_pattern(), Some(proxy.address.to_string().as_str()));
    assert!(!message.contains("SECRET"), "{message}");
    assert_eq!(proxy.seen(), []);
}

#[rstest]
#[case::permanent(407, 1..=1)]
#[case::transient(502, 2..=99)]
#[tokio::test]
async fn a_proxy_that_refuses_a_tunnel_is_named(#[case] code: u16, #[case] attempts: std::ops::RangeInclusive<u32>) {
    let server = Server::start(move |_, _| response(code, &[], b"")).await;
    let mut request = Request::resource("https://far.example/");
    request.settings.proxy.https = Some(server.url("/"));
    let error = failure(&fetcher(), &request).await;
    assert!(matches!(error.kind, FailureKind::Proxy { .. }), "{error}");
    assert!(error.to_string().contains(&code.to_string()), "{error}");
    assert!(attempts.contains(&error.attempts), "{error}");
}

#[rstest]
#[tokio::test]
async fn a_proxy_that_is_no_url_is_named(#[values("socks5://host:1", "http://[", "http://", "ftp://h")] proxy: &str
) {
    let mut request = Request::resource("http://far.example/");
    request.settings.proxy.http = Some(proxy.into());
    let error = failure(&fetcher(), &request).await;
    assert!(matches!(error.kind, FailureKind::Proxy { .. }), "{error}");
    assert!(error.is_permanent());
}
