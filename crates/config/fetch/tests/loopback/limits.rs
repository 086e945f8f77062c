//! Size and time: what is too large or too slow is cut off.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use flate2::write::GzEncoder;
use rstest::rstest;
use seaworthy_fetch::{Compression, Digest, FailureKind, FetchRun, MemorySnapshots, Policy, Request, SnapshotKey};

use crate::loopback::support::server::{Reply, Server, ok};
use crate::loopback::support::{failure, failure_of, fetcher, fetcher_with, policy};

fn small() -> Policy {
    Policy { max_object_bytes: 1000, max_total_bytes: 2500, ..policy(&["127.0.0.1"]) }
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

#[rstest]
#[case::without_length("HTTP/1.1 200 OK\r\n\r\n")]
#[case::chunked("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nfffffff\r\n")]
#[case::with_a_length("HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n")]
#[tokio::test]
async fn an_endless_body_is_cut_off(#[case] head: &'static str) {
    let server = Server::start(move |_, _| Reply::Endless(head.into())).await;
    let error = failure(&fetcher_with(small()), &Request::resource(server.url("/"))).await;
    let (limit, is_unpacked) = (1000, false);
    assert_eq!(error.kind, FailureKind::TooLarge { limit, is_unpacked });
    assert!(error.is_permanent());
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_body_announced_as_too_large_is_not_waited_for() {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 1001\r\n\r\n";
    let server = Server::start(move |_, _| Reply::Stall(head.into())).await;
    let mut request = Request::resource(server.url("/"));
    request.settings.total_timeout = Some(Duration::from_secs(5));
    let error = failure(&fetcher_with(small()), &request).await;
    assert!(matches!(error.kind, FailureKind::TooLarge { limit: 1000, .. }), "{error}");
}

#[tokio::test]
async fn an_endless_head_is_cut_off() {
    let head = "HTTP/1.1 200 OK\r\nx-endless: ";
    let server = Server::start(move |_, _| Reply::Endless(head.into())).await;
    let kind = failure_of(&fetcher(), &server.url("/")).await;
    assert!(matches!(kind, FailureKind::Transport { .. }), "{kind}");
}

#[tokio::test]
async fn a_body_may_fill_the_limit_exactly() {
    let server = Server::start(|seen, _| {
        let size: usize = seen.target[1..].parse().unwrap();
        ok(vec![b'x'; size])
    })
    .await;
    let fetcher = fetcher_with(small());
    let request = Request::resource(server.url("/1000"));
    assert_eq!(fetcher.fetch(&request).await.unwrap().bytes().len(), 1000);
    let kind = failure_of(&fetcher, &server.url("/1001")).await;
    assert!(matches!(kind, FailureKind::TooLarge { limit: 1000, .. }), "{kind}");
}

/// A server of contents of a thousand bytes (and of ten at `/small`) that are sent only in one order.
async fn in_order(order: &'static [&'static str]) -> Server {
    let turns = tokio::sync::watch::Sender::new(0);
    Server::start(move |seen, _| {
        let place = order.iter().position(|path| *path == seen.target).unwrap();
        let Reply::Send(bytes) = ok(vec![b'x'; if seen.target == "/small" { 10 } else { 1000 }]) else {
            unreachable!()
        };
        Reply::InTurn(bytes, place, turns.clone())
    })
    .await
}

#[rstest]
#[case(&["/a", "/b", "/c", "/small"])]
#[case(&["/small", "/c", "/b", "/a"])]
#[case(&["/c", "/a", "/small", "/b"])]
#[tokio::test]
async fn what_goes_beyond_the_total_does_not_depend_on_the_order_of_arrival(#[case] order: &'static [&'static str]) {
    let server = in_order(order).await;
    let wanted: Vec<_> = ["/a", "/b", "/c", "/small"]
        .into_iter()
        .map(|path| {
            let request = Request::resource(server.url(path));
            (SnapshotKey::new("99-worker", "hash", &request, None), request)
        })
        .collect();
    let mut run = FetchRun::new(fetcher_with(small()), Arc::new(MemorySnapshots::new(1 << 20)));
    let kinds: Vec<_> = run.obtain(&wanted).await.into_iter().map(|outcome| outcome.content.map(drop)).collect();
    let kinds: Vec<_> = kinds.into_iter().map(|outcome| outcome.map_err(|error| error.kind)).collect();
    let refused = FailureKind::TotalTooLarge { size: 1000, limit: 2500 };
    assert_eq!(kinds, [Ok(()), Ok(()), Err(refused), Ok(())]);
}

#[tokio::test]
async fn packed_content_is_unpacked_before_it_is_verified() {
    let packed = gzip(b"content");
    let server = Server::start(move |_, _| ok(&packed)).await;
    let mut request = Request::resource(server.url("/"));
    request.compression = Some(Compression::Gzip);
    request.verification = Some(Digest::sha256(b"content"));
    let snapshot = fetcher().fetch(&request).await.unwrap();
    assert_eq!(snapshot.bytes(), b"content");
    assert_eq!(snapshot.digest(), &Digest::sha256(b"content"));
}

#[tokio::test]
async fn content_that_is_not_packed_is_handed_out_as_it_came() {
    let packed = gzip(b"content");
    let expected = packed.clone();
    let server = Server::start(move |_, _| ok(&packed)).await;
    let request = Request::resource(server.url("/"));
    assert_eq!(fetcher().fetch(&request).await.unwrap().bytes(), expected);
}

#[tokio::test]
async fn wrongly_declared_packing_is_permanent() {
    let server = Server::start(|_, _| ok("not packed")).await;
    let mut request = Request::resource(server.url("/"));
    request.compression = Some(Compression::Gzip);
    let error = failure(&fetcher(), &request).await;
    assert!(matches!(error.kind, FailureKind::Gzip { .. }), "{error}");
    assert!(error.is_permanent());
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_bomb_is_stopped_at_the_limit() {
    let bomb = gzip(&[0; 100_000]);
    assert!(bomb.len() < 1000);
    let server = Server::start(move |_, _| ok(&bomb)).await;
    let mut request = Request::resource(server.url("/"));
    request.compression = Some(Compression::Gzip);
    let error = failure(&fetcher_with(small()), &request).await;
    let (limit, is_unpacked) = (1000, true);
    assert_eq!(error.kind, FailureKind::TooLarge { limit, is_unpacked });
}

#[tokio::test]
async fn a_server_that_never_answers_is_left_after_the_headers_timeout() {
    let server = Server::start(|_, _| Reply::Stall(Vec::new())).await;
    let limit = Duration::from_millis(50);
    let mut request = Request::resource(server.url("/"));
    request.settings.response_headers_timeout = Some(limit);
    request.settings.total_timeout = Some(Duration::from_secs(2));
    let error = failure(&fetcher(), &request).await;
    assert_eq!(error.kind, FailureKind::HeadersTimeout { limit });
    assert!(error.attempts > 1, "{error}");
}

#[tokio::test]
async fn without_a_headers_timeout_the_total_decides() {
    let server = Server::start(|_, _| Reply::Stall(b"HTTP/1.1 200".into())).await;
    let limit = Duration::from_millis(150);
    let mut request = Request::resource(server.url("/"));
    request.settings.response_headers_timeout = Some(Duration::ZERO);
    request.settings.total_timeout = Some(limit);
    let error = failure(&fetcher(), &request).await;
    let last = None;
    assert_eq!(error.kind, FailureKind::TotalTimeout { limit, last });
}

#[tokio::test]
async fn a_body_that_stalls_is_left_after_the_total_time() {
    let stalled = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\ndrop";
    let server = Server::start(move |_, before| match before {
        0 => Reply::Send(b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n".into()),
        _ => Reply::Stall(stalled.to_vec()),
    })
    .await;
    let mut request = Request::resource(server.url("/"));
    request.settings.total_timeout = Some(Duration::from_secs(1));
    let error = failure(&fetcher(), &request).await;
    let FailureKind::TotalTimeout { last, .. } = &error.kind else {
        panic!("{error}");
    };
    let last = last.as_deref().unwrap();
    assert!(matches!(last, FailureKind::Status { code: 503, .. }), "{last}");
    assert_eq!(error.attempts, 2);
    assert!(!error.is_permanent());
}
