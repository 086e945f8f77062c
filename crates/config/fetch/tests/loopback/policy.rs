//! Addresses: what a config must not reach is not reached, however it is written.

use std::collections::BTreeMap;
use std::sync::Arc;

use rstest::rstest;
use seaworthy_fetch::{AddressClass, FailureKind, Fetcher, Policy, Request};

use crate::loopback::support::server::{Server, ok};
use crate::loopback::support::{Names, failure, failure_of, fetcher_with, policy};

#[rstest]
#[tokio::test]
async fn no_spelling_of_a_refused_address_is_connected_to(
    #[values(
        "127.0.0.1",
        "127.1",
        "127.0.1",
        "127.0.0.1.",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0x7f.1",
        "0177.0.0.1",
        "0177.0x0.1",
        "017700000001",
        "%31%32%37.0.0.1",
        "\u{ff11}\u{ff12}\u{ff17}.0.0.1",
        "127\u{3002}0\u{3002}0\u{3002}1",
        "user:pass@127.0.0.1",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[0000:0000:0000:0000:0000:FFFF:7F00:0001]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "0.0.0.0",
        "0",
        "[::]",
        "localhost",
        "LOCALHOST",
        "localhost.",
        "any.localhost",
        "loopback.test",
        "169.254.169.254",
        "0xa9fea9fe",
        "2852039166",
        "[::ffff:a9fe:a9fe]",
        "[fe80::1]",
        "[fd00:ec2::254]",
        "[fd20:ce::254]",
        "metadata.google.internal",
        "METADATA.google.internal.",
        "100.100.100.200",
        "168.63.129.16",
        "224.0.0.1",
        "255.255.255.255",
        "[ff02::1]"
    )]
    host: &str,
) {
    let server = Server::start(|_, _| ok("internal")).await;
    let fetcher = fetcher_with(Policy::default());
    for url in [format!("http://{host}:{}/", server.port()), format!("https://{host}:{}/", server.port())] {
        let error = failure(&fetcher, &Request::resource(url)).await;
        assert!(matches!(error.kind, FailureKind::Refused(_)), "{error}");
        assert_eq!(error.attempts, 1, "{error}");
        assert!(error.is_permanent());
        assert!(error.allow_pattern().is_some(), "{error}");
    }
    assert_eq!(server.seen(), []);
}

#[tokio::test]
async fn the_suggested_pattern_makes_it_work() {
    let server = Server::start(|_, _| ok("content")).await;
    for host in ["127.0.0.1", "2130706433", "loopback.test"] {
        let request = Request::resource(format!("http://{host}:{}/", server.port()));
        let error = failure(&fetcher_with(Policy::default()), &request).await;
        let FailureKind::Refused(refusal) = error.kind else {
            panic!("{error}");
        };
        assert_eq!(refusal.class, AddressClass::Loopback);
        let fetcher = fetcher_with(policy(&[&refusal.allow]));
        assert_eq!(fetcher.fetch(&request).await.unwrap().bytes(), b"content");
    }
}

#[tokio::test]
async fn an_allowed_port_does_not_open_the_others() {
    let server = Server::start(|_, _| ok("internal")).await;
    let fetcher = fetcher_with(policy(&["127.0.0.1:1", "loopback.test:2"]));
    for host in ["127.0.0.1", "loopback.test"] {
        let url = format!("http://{host}:{}/", server.port());
        let kind = failure_of(&fetcher, &url).await;
        assert!(matches!(kind, FailureKind::Refused(_)), "{kind}");
    }
    assert_eq!(server.seen(), []);
}

fn resolving(names: &Arc<Names>, policy: Policy) -> Fetcher {
    fetcher_with(policy).with_resolver(names.clone())
}

fn names(name: &str, answers: Vec<Vec<&'static str>>) -> Arc<Names> {
    Arc::new(Names { answers: BTreeMap::from([(name.to_owned(), answers)]), ..Names::default() })
}

#[rstest]
#[case::loopback("127.0.0.1")]
#[case::mapped("::ffff:127.0.0.1")]
#[case::metadata("169.254.169.254")]
#[case::translated_metadata("64:ff9b::a9fe:a9fe")]
#[tokio::test]
async fn a_name_is_judged_by_its_address(#[case] address: &'static str) {
    let server = Server::start(|_, _| ok("internal")).await;
    let names = names("innocent.example", vec![vec![address]]);
    let fetcher = resolving(&names, Policy::default());
    let url = format!("http://innocent.example:{}/", server.port());
    let error = failure(&fetcher, &Request::resource(url)).await;
    assert!(matches!(error.kind, FailureKind::Refused(_)), "{error}");
    assert!(error.to_string().contains("innocent.example"), "{error}");
    assert_eq!(server.seen(), []);
}

#[tokio::test]
async fn the_address_that_was_judged_is_the_one_connected_to() {
    // The second answer would lead inside; it is never asked for.
    let server = Server::start(|_, _| ok("content")).await;
    let rebinding = names("a.example", vec![vec!["127.0.0.1"], vec!["127.0.0.2"]]);
    let fetcher = resolving(&rebinding, policy(&["127.0.0.1"]));
    let url = format!("http://a.example:{}/", server.port());
    fetcher.fetch(&Request::resource(&url)).await.unwrap();
    assert_eq!(rebinding.asked.lock().unwrap()["a.example"], 1);
    // And if the next fetch gets it, that one is refused.
    let kind = failure_of(&fetcher, &url).await;
    assert!(matches!(kind, FailureKind::Refused(_)), "{kind}");
}

#[tokio::test]
async fn of_several_addresses_only_those_that_pass_are_tried() {
    let server = Server::start(|_, _| ok("content")).await;
    let mixed = names("a.example", vec![vec!["127.0.0.2", "127.0.0.1"]]);
    let fetcher = resolving(&mixed, policy(&["127.0.0.1"]));
    let url = format!("http://a.example:{}/", server.port());
    let snapshot = fetcher.fetch(&Request::resource(url)).await.unwrap();
    assert_eq!(snapshot.bytes(), b"content");
}

#[tokio::test]
async fn the_next_address_is_tried_when_one_does_not_answer() {
    let server = Server::start(|_, _| ok("content")).await;
    let several = names("a.example", vec![vec!["127.0.0.9", "127.0.0.1"]]);
    let fetcher = resolving(&several, policy(&["127.0.0.0/8"]));
    let url = format!("http://a.example:{}/", server.port());
    let snapshot = fetcher.fetch(&Request::resource(url)).await.unwrap();
    assert_eq!(snapshot.bytes(), b"content");
}
