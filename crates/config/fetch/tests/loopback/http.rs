//! Plain http: what is sent, what counts as an answer, what is tried again.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rstest::rstest;
use seaworthy_fetch::{
    Digest, FailedAttempt, FailureCategory, FailureKind, FetchObserver, FetchOutcome, FetchRun, MemorySnapshots,
    Request, Resolver, SnapshotKey, Timer,
};

use crate::loopback::support::server::{Reply, Server, ok, response};
use crate::loopback::support::{Pauses, failure, failure_of, fetcher};

#[tokio::test]
async fn content_comes_with_digest_redacted_url_and_time() {
    let server = Server::start(|_, _| ok("content")).await;
    let url = server.url_as("http", "me:SECRET@origin.test", "/file?sig=SECRET");
    let snapshot = fetcher().fetch(&Request::resource(url)).await.unwrap();
    assert_eq!(snapshot.bytes(), b"content");
    assert_eq!(snapshot.digest(), &Digest::sha256(b"content"));
    let shown = server.url_as("http", "origin.test", "/file?sig=…");
    assert_eq!(snapshot.url(), shown);
    assert_eq!(snapshot.fetched_at(), std::time::SystemTime::UNIX_EPOCH);
}

#[tokio::test]
async fn a_resource_is_asked_for_with_the_given_headers() {
    let server = Server::start(|_, _| ok("")).await;
    let mut request = Request::resource(server.url("/a/b?c=d#e"));
    request.headers =
        vec![("X-Token".into(), "one".into()), ("X-Token".into(), "two".into()), ("Host".into(), "elsewhere".into())];
    fetcher().fetch(&request).await.unwrap();
    let seen = &server.seen()[0];
    assert_eq!((seen.method.as_str(), seen.target.as_str()), ("GET", "/a/b?c=d"));
    let tokens: Vec<_> = seen.headers.iter().filter(|(name, _)| name == "x-token").collect();
    assert_eq!(tokens.len(), 2);
    assert_eq!(seen.header("host"), Some(server.address.to_string().as_str()));
    assert_eq!(seen.header("accept"), None);
    assert_eq!(seen.header("accept-encoding"), Some("identity"));
    assert!(seen.header("user-agent").unwrap().starts_with("seaworthy/"));
    assert_eq!(seen.header("authorization"), None);
}

#[tokio::test]
async fn many_fetches_run_at_once_in_tasks_of_their_own() {
    let server = Server::start(|seen, _| ok(&seen.target)).await;
    let fetcher = fetcher();
    let tasks: Vec<_> = (0..20)
        .map(|number| {
            let (fetcher, request) = (fetcher.clone(), Request::resource(server.url(&format!("/{number}"))));
            tokio::spawn(async move { fetcher.fetch(&request).await })
        })
        .collect();
    for (number, task) in tasks.into_iter().enumerate() {
        let snapshot = task.await.unwrap().unwrap();
        assert_eq!(snapshot.bytes(), format!("/{number}").as_bytes());
    }
}

#[tokio::test]
async fn a_header_value_need_not_be_ascii() {
    let server = Server::start(|_, _| ok("")).await;
    let mut request = Request::resource(server.url("/"));
    request.headers = vec![("X-Place".into(), "Zürich".into())];
    fetcher().fetch(&request).await.unwrap();
    assert_eq!(server.seen()[0].header("x-place"), Some("Zürich"));
}

#[tokio::test]
async fn a_config_is_asked_for_by_its_media_type() {
    let server = Server::start(|_, _| ok("{}")).await;
    let request = Request::config(server.url("/config.ign"));
    fetcher().fetch(&request).await.unwrap();
    let accept = "application/vnd.coreos.ignition+json;version=3.5.0, */*;q=0.1";
    assert_eq!(server.seen()[0].header("accept"), Some(accept));
}

#[tokio::test]
async fn given_headers_replace_the_defaults() {
    let server = Server::start(|_, _| ok("{}")).await;
    let mut request = Request::config(server.url("/"));
    request.headers = vec![("accept".into(), "text/plain".into()), ("USER-AGENT".into(), "me".into())];
    fetcher().fetch(&request).await.unwrap();
    let seen = &server.seen()[0];
    assert_eq!(seen.header("accept"), Some("text/plain"));
    assert_eq!(seen.header("user-agent"), Some("me"));
    let defaults = ["accept", "user-agent"];
    let sent = seen.headers.iter().filter(|(name, _)| defaults.contains(&name.as_str()));
    assert_eq!(sent.count(), 2);
}

#[tokio::test]
async fn credentials_in_the_url_become_an_authorization() {
    let server = Server::start(|_, _| ok("")).await;
    let url = server.url_as("http", "me:p%40ss@origin.test", "/");
    fetcher().fetch(&Request::resource(&url)).await.unwrap();
    // "me:p@ss"
    assert_eq!(server.seen()[0].header("authorization"), Some("Basic bWU6cEBzcw=="));
    let mut request = Request::resource(url);
    request.headers = vec![("Authorization".into(), "Bearer mine".into())];
    fetcher().fetch(&request).await.unwrap();
    assert_eq!(server.seen()[1].header("authorization"), Some("Bearer mine"));
}

#[rstest]
#[case::line_break("X-A", "a\r\nX-B: b")]
#[case::nul("X-A", "a\0")]
#[case::name_with_space("X A", "a")]
#[case::empty_name("", "a")]
#[tokio::test]
async fn headers_that_cannot_be_sent_are_refused(#[case] name: &str, #[case] value: &str) {
    let server = Server::start(|_, _| ok("")).await;
    let mut request = Request::resource(server.url("/"));
    request.headers = vec![(name.into(), value.into())];
    let error = failure(&fetcher(), &request).await;
    assert!(matches!(error.kind, FailureKind::Header { .. }), "{error}");
    assert_eq!(server.seen(), []);
}

#[tokio::test]
async fn no_content_is_an_empty_content() {
    let server = Server::start(|_, _| Reply::Send(b"HTTP/1.1 204 None\r\n\r\n".into())).await;
    let request = Request::resource(server.url("/"));
    assert_eq!(fetcher().fetch(&request).await.unwrap().bytes(), b"");
}

#[tokio::test]
async fn not_found_fails_at_once() {
    let server = Server::start(|_, _| response(404, &[], b"")).await;
    let error = failure(&fetcher(), &Request::resource(server.url("/x"))).await;
    assert_eq!(error.kind, FailureKind::NotFound);
    assert_eq!((error.attempts, server.seen().len()), (1, 1));
    assert_eq!(error.category(), FailureCategory::RemoteFetchFailed);
    assert!(error.to_string().contains(&server.url("/x")), "{error}");
}

#[rstest]
#[tokio::test]
async fn other_codes_fail_at_once(#[values(201, 206, 304, 400, 401, 403, 410, 429, 451)] code: u16) {
    let server = Server::start(move |_, _| response(code, &[], b"")).await;
    let kind = failure_of(&fetcher(), &server.url("/")).await;
    assert!(matches!(kind, FailureKind::Status { code: found, .. } if found == code));
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_server_that_recovers_is_asked_until_it_does() {
    let server = Server::start(|_, before| match before {
        0 => response(503, &[], b""),
        1 => response(500, &[], b""),
        _ => ok("at last"),
    })
    .await;
    let pauses = Arc::new(Pauses::default());
    let fetcher = fetcher().with_timer(pauses.clone());
    let snapshot = fetcher.fetch(&Request::resource(server.url("/"))).await.unwrap();
    assert_eq!(snapshot.bytes(), b"at last");
    assert_eq!(server.seen().len(), 3);
    assert_eq!(pauses.taken(), [200, 400].map(Duration::from_millis));
}

#[tokio::test]
async fn a_server_that_stays_down_is_given_up_within_the_total_time() {
    let server = Server::start(|_, _| response(503, &[], b"")).await;
    let pauses = Arc::new(Pauses::default());
    let fetcher = fetcher().with_timer(pauses.clone());
    let error = failure(&fetcher, &Request::resource(server.url("/"))).await;
    assert!(matches!(error.kind, FailureKind::Status { code: 503, .. }), "{error}");
    assert!(!error.is_permanent());
    let taken = pauses.taken();
    assert_eq!(taken[..6], [200, 400, 800, 1600, 3200, 5000].map(Duration::from_millis));
    assert!(taken[6..].iter().all(|pause| *pause == Duration::from_secs(5)));
    let total: Duration = taken.iter().sum();
    assert!(total < Duration::from_secs(60) && total >= Duration::from_secs(50));
    assert_eq!(server.seen().len(), taken.len() + 1);
    assert_eq!(error.attempts as usize, server.seen().len());
}

#[tokio::test]
async fn a_shorter_total_time_means_fewer_attempts() {
    let server = Server::start(|_, _| response(503, &[], b"")).await;
    let mut request = Request::resource(server.url("/"));
    request.settings.total_timeout = Some(Duration::from_secs(20));
    let error = failure(&fetcher(), &request).await;
    // Pauses of 0.2, 0.4, 0.8, 1.6, 3.2, 5 and 5 s fit; another of 5 s does not.
    assert_eq!((error.attempts, server.seen().len()), (8, 8));
}

#[tokio::test]
async fn a_body_that_breaks_off_is_asked_for_again() {
    let cut_off = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nonly this";
    let cut_off_chunk = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\nonly this\r\n";
    let server = Server::start(move |_, before| match before {
        0 => Reply::Send(cut_off.to_vec()),
        1 => Reply::Send(cut_off_chunk.to_vec()),
        2 => Reply::Send(b"HTTP/1.1 200 OK\r\ncontent-le".to_vec()),
        3 => Reply::Send(Vec::new()),
        _ => ok("all of it"),
    })
    .await;
    let request = Request::resource(server.url("/"));
    assert_eq!(fetcher().fetch(&request).await.unwrap().bytes(), b"all of it");
    assert_eq!(server.seen().len(), 5);
}

#[tokio::test]
async fn a_body_that_always_breaks_off_is_never_handed_out() {
    let cut_off = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nonly this";
    let server = Server::start(move |_, _| Reply::Send(cut_off.to_vec())).await;
    let kind = failure_of(&fetcher(), &server.url("/")).await;
    assert!(matches!(kind, FailureKind::Transport { .. }), "{kind}");
}

#[tokio::test]
async fn nonsense_instead_of_http_is_a_failure() {
    let server = Server::start(|_, _| Reply::Send(b"220 mail.example ESMTP\r\n".to_vec())).await;
    let kind = failure_of(&fetcher(), &server.url("/")).await;
    assert!(matches!(kind, FailureKind::Transport { .. }), "{kind}");
}

/// An address without a listener.
fn closed_port() -> std::net::SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[tokio::test]
async fn a_closed_port_and_an_unknown_name_are_tried_again_but_not_for_long() {
    for url in [format!("http://{}/", closed_port()), "http://missing.invalid/".into()] {
        let pauses = Arc::new(Pauses::default());
        let error = failure(&fetcher().with_timer(pauses.clone()), &Request::resource(&url)).await;
        assert!(matches!(error.kind, FailureKind::Unreachable { .. }), "{error}");
        assert_eq!(error.attempts, 5);
        assert_eq!(pauses.taken(), [200, 400, 800, 1600].map(Duration::from_millis));
        assert!(!error.is_permanent());
    }
}

#[tokio::test]
async fn a_name_service_that_takes_its_time_is_not_asked_five_times() {
    let pauses = Arc::new(Pauses::default());
    let slow = SlowNames(pauses.clone());
    let fetcher = fetcher().with_timer(pauses.clone()).with_resolver(Arc::new(slow));
    let error = failure(&fetcher, &Request::resource("http://missing.invalid/")).await;
    assert_eq!(error.attempts, 2, "{error}");
}

/// Needs six seconds to know nothing.
struct SlowNames(Arc<Pauses>);

impl Resolver for SlowNames {
    fn resolve<'a>(&'a self, _: &'a str) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>> {
        Box::pin(async {
            self.0.sleep(Duration::from_secs(6)).await;
            Err(io::Error::other("no answer"))
        })
    }
}

#[tokio::test]
async fn a_server_that_was_not_reached_is_not_waited_for_twice_in_a_run() {
    let dead = format!("dead.test:{}", closed_port().port());
    let server = Server::start(|_, _| ok("here")).await;
    let request = |url: String| {
        let request = Request::resource(url);
        (SnapshotKey::new("99-worker", "hash", &request, None), request)
    };
    let mut run = FetchRun::new(fetcher(), Arc::new(MemorySnapshots::new(1 << 20)));
    let first = run.obtain(&[request(format!("http://{dead}/a")), request(server.url("/a"))]).await;
    let attempts = |outcome: &FetchOutcome| outcome.content.as_ref().map_or_else(|error| error.attempts, |_| 1);
    assert_eq!(first.iter().map(attempts).collect::<Vec<_>>(), [5, 1]);
    let mut proxied = request(format!("http://{dead}/c"));
    proxied.1.settings.proxy.http = Some(server.url("/"));
    let then = run.obtain(&[request(format!("http://{dead}/b")), proxied, request(server.url("/b"))]).await;
    let error = then[0].content.as_ref().unwrap_err();
    assert_eq!((error.url.as_str(), error.attempts), (format!("http://{dead}/b").as_str(), 0));
    assert!(matches!(error.kind, FailureKind::Unreachable { .. }), "{error}");
    // Through a proxy it may be there.
    assert!(then[1].content.is_ok() && then[2].content.is_ok());
}

#[tokio::test]
async fn observer_gets_every_attempt_that_is_repeated() {
    let server = Server::start(|_, before| if before < 2 { response(503, &[], b"") } else { ok("at last") }).await;
    let recorder = Arc::new(RecordingObserver::default());
    let fetcher = fetcher().with_observer(recorder.clone());
    fetcher.fetch(&Request::resource(server.url("/a"))).await.unwrap();
    let status =
        "the server answered 503 Service Unavailable; expected 200 or 204; retry when the server has recovered";
    let lines =
        ["started".to_owned(), format!("1 of 60 s: {status}"), format!("2 of 60 s: {status}"), "ended".to_owned()];
    assert_eq!(*recorder.0.lock().unwrap(), lines);
    // The last failure is the outcome, and not reported.
    recorder.0.lock().unwrap().clear();
    failure(&fetcher, &Request::resource(format!("http://{}/", closed_port()))).await;
    let lines = recorder.0.lock().unwrap().clone();
    assert_eq!(lines.len(), 6, "{lines:?}");
    assert!(lines[4].starts_with("4 of 10 s: cannot connect"), "{lines:?}");
}

#[derive(Default)]
struct RecordingObserver(Mutex<Vec<String>>);

impl RecordingObserver {
    fn record(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }
}

impl FetchObserver for RecordingObserver {
    fn started(&self, _: &Request) {
        self.record("started".to_owned());
    }

    fn failed(&self, _: &Request, attempt: &FailedAttempt<'_>) {
        self.record(format!("{} of {} s: {}", attempt.number, attempt.limit.as_secs(), attempt.failure));
    }

    fn ended(&self, _: &Request) {
        self.record("ended".to_owned());
    }
}

#[rstest]
#[case::sha256(Digest::sha256(b"content"))]
#[case::sha512(Digest::sha512(b"content"))]
#[tokio::test]
async fn the_right_hash_passes(#[case] hash: Digest) {
    let server = Server::start(|_, _| ok("content")).await;
    let mut request = Request::resource(server.url("/"));
    request.verification = Some(hash);
    assert_eq!(fetcher().fetch(&request).await.unwrap().bytes(), b"content");
}

#[rstest]
#[case::sha256(Digest::sha256(b"other"))]
#[case::sha512(Digest::sha512(b"other"))]
#[tokio::test]
async fn a_wrong_hash_is_permanent_and_not_asked_for_again(#[case] hash: Digest) {
    let server = Server::start(|_, _| ok("content")).await;
    let mut request = Request::resource(server.url("/"));
    request.verification = Some(hash.clone());
    let error = failure(&fetcher(), &request).await;
    assert_eq!(error.category(), FailureCategory::RemoteVerificationFailed);
    assert!(error.is_permanent());
    assert_eq!(server.seen().len(), 1);
    let message = error.to_string();
    let found = hash.of_same_kind(b"content");
    assert!(message.contains(&hash.to_string()) && message.contains(&found.to_string()));
}

#[rstest]
#[case::tftp("tftp://host/x", "tftp")]
#[case::ftp("ftp://host/x", "ftp")]
#[case::file("file:///etc/passwd", "file")]
#[case::data("data:,x", "data")]
#[case::upper_case("TFTP://host/x", "tftp")]
#[tokio::test]
async fn other_schemes_are_refused(#[case] url: &str, #[case] name: &str) {
    let error = failure(&fetcher(), &Request::resource(url)).await;
    let scheme = name.to_owned();
    assert_eq!(error.kind, FailureKind::Scheme { scheme });
    assert_eq!(error.attempts, 0);
    assert!(error.is_permanent());
}

#[tokio::test]
async fn a_host_that_is_too_long_is_not_looked_up() {
    let name = |length: usize| format!("{}.test", "a.".repeat(length / 2 - 3) + "a");
    assert_eq!(name(253).len(), 252);
    let server = Server::start(|_, _| ok("")).await;
    let request = Request::resource(server.url_as("http", &name(253), "/"));
    fetcher().fetch(&request).await.unwrap();
    let error = failure(&fetcher(), &Request::resource(server.url_as("http", &name(5000), "/"))).await;
    assert!(matches!(error.kind, FailureKind::Url { .. }), "{error}");
    assert!(error.to_string().len() < 1500, "{error}");
}

#[rstest]
#[tokio::test]
async fn texts_that_are_no_urls_are_refused(
    #[values("", "nonsense", "http://", "http://[::1", "http://h:99999/", "http://h:0/", "http://a b/")] url: &str,
) {
    let kind = failure_of(&fetcher(), url).await;
    assert!(matches!(kind, FailureKind::Url { .. }), "{url}: {kind}");
}
