//! Redirects: followed, but not everywhere, and not with everything.

use rstest::rstest;
use seaworthy_fetch::{FailureKind, Request};

use crate::loopback::support::certificates::Authority;
use crate::loopback::support::server::{Server, ok, redirect, response};
use crate::loopback::support::{failure, failure_of, fetcher, fetcher_with, policy};

#[rstest]
#[tokio::test]
async fn a_redirect_is_followed(#[values(301, 302, 303, 307, 308)] code: u16) {
    let server = Server::start(move |seen, _| match seen.target.as_str() {
        "/a/from" => response(code, &[("location", "../to?x=1")], b"ignored"),
        _ => ok("content"),
    })
    .await;
    let mut request = Request::resource(server.url("/a/from"));
    request.headers = vec![("X-Token".into(), "mine".into())];
    let snapshot = fetcher().fetch(&request).await.unwrap();
    assert_eq!(snapshot.bytes(), b"content");
    assert_eq!(snapshot.url(), server.url("/a/from"));
    let seen = &server.seen()[1];
    assert_eq!((seen.method.as_str(), seen.target.as_str()), ("GET", "/to?x=1"));
    assert_eq!(seen.header("x-token"), Some("mine"));
}

#[tokio::test]
async fn another_origin_gets_neither_headers_nor_credentials() {
    let other = Server::start(|_, _| ok("content")).await;
    let to = other.url_as("http", "b.test", "/to");
    let server = Server::start(move |_, _| redirect(&to)).await;
    let mut request = Request::config(server.url_as("http", "me:SECRET@a.test", "/from"));
    request.headers = vec![("X-Token".into(), "SECRET".into()), ("User-Agent".into(), "SECRET".into())];
    fetcher().fetch(&request).await.unwrap();
    assert_eq!(server.seen()[0].header("x-token"), Some("SECRET"));
    assert!(server.seen()[0].header("authorization").is_some());
    let seen = &other.seen()[0];
    assert!(!seen.text().contains("SECRET"), "{seen:?}");
    assert_eq!(seen.header("authorization"), None);
    // What says which content is wanted goes on.
    assert!(seen.header("accept").unwrap().contains("ignition"));
    assert!(seen.header("user-agent").unwrap().starts_with("seaworthy/"));
}

#[rstest]
#[case::another_host("b.test", "a.test")]
#[case::another_port("a.test", "a.test")]
#[tokio::test]
async fn the_way_back_does_not_bring_the_headers_back(#[case] second: &str, #[case] first: &str) {
    let back = std::sync::Arc::new(std::sync::OnceLock::<String>::new());
    let other = {
        let back = back.clone();
        Server::start(move |_, _| redirect(back.get().unwrap())).await
    };
    let to = other.url_as("http", second, "/through");
    let server = Server::start(move |seen, _| match seen.target.as_str() {
        "/from" => redirect(&to),
        _ => ok("content"),
    })
    .await;
    back.set(server.url_as("http", first, "/to")).unwrap();
    let mut request = Request::resource(server.url_as("http", first, "/from"));
    request.headers = vec![("X-Token".into(), "SECRET".into())];
    fetcher().fetch(&request).await.unwrap();
    assert_eq!(server.seen()[0].header("x-token"), Some("SECRET"));
    assert_eq!(other.seen()[0].header("x-token"), None);
    assert_eq!(server.seen()[1].header("x-token"), None);
}

#[tokio::test]
async fn ten_redirects_are_followed_and_a_loop_is_not() {
    let server = Server::start(|seen, _| match seen.target[1..].parse::<u32>() {
        Ok(0) => ok("content"),
        Ok(more) => redirect(&format!("/{}", more - 1)),
        Err(_) => redirect("/loop"),
    })
    .await;
    let request = Request::resource(server.url("/10"));
    assert_eq!(fetcher().fetch(&request).await.unwrap().bytes(), b"content");
    assert_eq!(server.seen().len(), 11);
    let error = failure(&fetcher(), &Request::resource(server.url("/loop"))).await;
    assert!(matches!(error.kind, FailureKind::Redirect { .. }), "{error}");
    assert!(error.is_permanent());
    assert_eq!(server.seen().len(), 11 + 11);
}

#[tokio::test]
async fn a_redirect_to_a_refused_address_is_not_followed() {
    let inside = Server::start(|_, _| ok("internal")).await;
    let to = inside.url("/?sig=SECRET");
    let server = Server::start(move |_, _| redirect(&to)).await;
    let fetcher = fetcher_with(policy(&[&server.address.to_string()]));
    let error = failure(&fetcher, &Request::resource(server.url("/from"))).await;
    assert!(matches!(error.kind, FailureKind::Refused(_)), "{error}");
    assert_eq!(error.redirected_to.as_deref(), Some(inside.url("/?sig=…").as_str()));
    let message = error.to_string();
    assert!(message.contains(&server.url("/from")), "{message}");
    assert_eq!(error.allow_pattern(), Some(inside.address.to_string().as_str()));
    assert_eq!(inside.seen(), []);
}

#[rstest]
#[tokio::test]
async fn a_redirect_to_something_else_is_refused(
    #[values("file:///etc/passwd", "data:,x", "s3://bucket/key", "http://", "//")] to: &'static str,
) {
    let server = Server::start(move |_, _| redirect(to)).await;
    let kind = failure_of(&fetcher(), &server.url("/")).await;
    assert!(matches!(kind, FailureKind::Redirect { .. }), "{kind}");
}

#[tokio::test]
async fn a_redirect_to_nowhere_is_refused() {
    let server = Server::start(|_, _| response(302, &[], b"")).await;
    let kind = failure_of(&fetcher(), &server.url("/")).await;
    assert!(matches!(kind, FailureKind::Redirect { .. }), "{kind}");
}

#[tokio::test]
async fn a_redirect_from_https_to_http_is_refused() {
    let authority = Authority::new();
    let plain = Server::start(|_, _| ok("content")).await;
    let to = plain.url_as("http", "a.test", "/to");
    let acceptor = authority.acceptor(&["a.test"]);
    let server = Server::start_tls(acceptor, move |_, _| redirect(&to)).await;
    let mut request = Request::resource(server.url_as("https", "a.test", "/from"));
    request.settings.certificate_authorities = vec![authority.pem()];
    let error = failure(&fetcher(), &request).await;
    assert!(matches!(error.kind, FailureKind::Redirect { .. }), "{error}");
    assert_eq!((server.seen().len(), plain.seen().len()), (1, 0));
}

#[tokio::test]
async fn a_redirect_from_http_to_https_is_followed_without_the_headers() {
    let authority = Authority::new();
    let acceptor = authority.acceptor(&["a.test"]);
    let secure = Server::start_tls(acceptor, |_, _| ok("content")).await;
    let to = secure.url_as("https", "a.test", "/to");
    let server = Server::start(move |_, _| redirect(&to)).await;
    let mut request = Request::resource(server.url_as("http", "a.test", "/from"));
    request.headers = vec![("X-Token".into(), "SECRET".into())];
    request.settings.certificate_authorities = vec![authority.pem()];
    assert_eq!(fetcher().fetch(&request).await.unwrap().bytes(), b"content");
    assert_eq!(secure.seen()[0].header("x-token"), None);
}
