//! https: trusted and untrusted certificates.

use rstest::rstest;
use seaworthy_fetch::{CertificateStep, FailureKind, Request};

use crate::loopback::support::certificates::Authority;
use crate::loopback::support::server::{Server, ok};
use crate::loopback::support::{failure, fetcher};

async fn secure(authority: &Authority, names: &[&str]) -> Server {
    Server::start_tls(authority.acceptor(names), |_, _| ok("content")).await
}

#[rstest]
#[case::name("origin.test")]
#[case::address("127.0.0.1")]
#[tokio::test]
async fn a_given_authority_is_trusted(#[case] host: &str) {
    let authority = Authority::new();
    let server = secure(&authority, &["origin.test", "127.0.0.1"]).await;
    let mut request = Request::resource(server.url_as("https", host, "/"));
    request.settings.certificate_authorities = vec![authority.pem()];
    assert_eq!(fetcher().fetch(&request).await.unwrap().bytes(), b"content");
}

#[tokio::test]
async fn every_certificate_of_every_bundle_counts() {
    let (one, two, three) = (Authority::new(), Authority::new(), Authority::new());
    let server = secure(&two, &["origin.test"]).await;
    let mut request = Request::resource(server.url_as("https", "origin.test", "/"));
    let bundle = [&one.pem(), &b"# a comment\n"[..], &two.pem()].concat();
    request.settings.certificate_authorities = vec![three.pem(), bundle.into()];
    assert_eq!(fetcher().fetch(&request).await.unwrap().bytes(), b"content");
}

#[tokio::test]
async fn other_authorities_are_not_trusted_and_not_tried_again() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let server = secure(&theirs, &["origin.test"]).await;
    let mut request = Request::resource(server.url_as("https", "origin.test", "/"));
    for authorities in [vec![], vec![ours.pem()]] {
        request.settings.certificate_authorities = authorities;
        let error = failure(&fetcher(), &request).await;
        assert!(matches!(error.kind, FailureKind::Certificate { .. }), "{error}");
        assert_eq!(error.attempts, 1);
        let message = error.to_string();
        assert!(message.contains("origin.test") && message.contains("certificateAuthorities"));
    }
    assert_eq!(server.seen(), []);
}

#[tokio::test]
async fn a_certificate_for_another_name_is_not_trusted() {
    let authority = Authority::new();
    let server = secure(&authority, &["other.test"]).await;
    let mut request = Request::resource(server.url_as("https", "origin.test", "/"));
    request.settings.certificate_authorities = vec![authority.pem()];
    let error = failure(&fetcher(), &request).await;
    assert!(matches!(error.kind, FailureKind::Certificate { step: CertificateStep::MatchName, .. }), "{error}");
}

#[rstest]
#[case::empty(b"")]
#[case::no_pem(b"not a certificate")]
#[case::not_base64(b"-----BEGIN CERTIFICATE-----\n*\n-----END CERTIFICATE-----\n")]
#[case::no_certificate(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")]
#[tokio::test]
async fn a_bundle_that_cannot_be_used_is_named(#[case] bundle: &[u8]) {
    let authority = Authority::new();
    let server = secure(&authority, &["origin.test"]).await;
    let mut request = Request::resource(server.url_as("https", "origin.test", "/"));
    request.settings.certificate_authorities = vec![authority.pem(), bundle.into()];
    let error = failure(&fetcher(), &request).await;
    let FailureKind::Authority { index, .. } = error.kind else {
        panic!("{error}");
    };
    assert_eq!((index, error.attempts), (1, 1));
}

#[tokio::test]
async fn the_certificate_of_an_authority_is_not_one_of_a_server() {
    let authority = Authority::new();
    let server = Server::start_tls(authority.own_acceptor(), |_, _| ok("content")).await;
    let mut request = Request::resource(server.url_as("https", "origin.test", "/"));
    request.settings.certificate_authorities = vec![authority.pem()];
    let error = failure(&fetcher(), &request).await;
    assert!(matches!(error.kind, FailureKind::Certificate { step: CertificateStep::IssueForServer, .. }), "{error}");
    let message = error.to_string();
    assert!(message.contains("it is a CA certificate") && message.contains("CA:TRUE"), "{message}");
    assert!(!message.contains("certificateAuthorities"), "{message}");
}

#[tokio::test]
async fn a_server_without_encryption_is_a_failure_at_once() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    // As most servers answer to what is no request.
    let server = tokio::spawn(async move {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut hello = [0; 64];
        assert!(stream.read(&mut hello).await.unwrap() > 0);
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n").await.unwrap();
    });
    let error = failure(&fetcher(), &Request::resource(format!("https://127.0.0.1:{port}/"))).await;
    assert_eq!(error.kind, FailureKind::NotEncrypted { host: "127.0.0.1".to_owned(), port });
    assert_eq!(error.attempts, 1);
    assert!(error.to_string().contains("write http:// if the server has no encryption"), "{error}");
    server.await.unwrap();
}
