//! The socket: protocol versions, limits and timeouts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rstest::rstest;
use seaworthy_listen::{ConnectionLimits, tls};
use seaworthy_serve::Certificates;
use seaworthy_serve::answers::{Answers, PoolAnswers};
use seaworthy_serve::certificates::CertificateFiles;
use seaworthy_serve::server::{ClientTimeouts, LIMITS};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::access::guarded;
use crate::support::{TestServer, empty, endpoint, write_serving};

/// How long anything may take before a test fails. No passing test waits for it.
const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

/// Reads until the other side closes the connection.
async fn read_to_end(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> Vec<u8> {
    let mut bytes = Vec::new();
    // How it ends, orderly or not, does not matter.
    let read = tokio::time::timeout(WAIT_TIMEOUT, stream.read_to_end(&mut bytes)).await;
    assert!(read.is_ok(), "the connection is still open");
    bytes
}

/// A ClientHello of a version of TLS with these ciphers, and the extensions that 1.2 needs.
fn client_hello(version: [u8; 2], ciphers: &[[u8; 2]]) -> Vec<u8> {
    let mut body = version.to_vec();
    body.extend([7; 32]);
    body.push(0);
    body.extend(u16::try_from(ciphers.len() * 2).unwrap().to_be_bytes());
    body.extend(ciphers.concat());
    body.extend([1, 0]);
    // Groups (x25519, P-256), point formats, signatures (ECDSA and RSA with SHA-256, and with SHA-1).
    let extensions: &[u8] =
        &[0, 10, 0, 6, 0, 4, 0, 29, 0, 23, 0, 11, 0, 2, 1, 0, 0, 13, 0, 10, 0, 8, 4, 3, 4, 1, 2, 3, 2, 1];
    body.extend(u16::try_from(extensions.len()).unwrap().to_be_bytes());
    body.extend(extensions);
    let mut message = vec![1, 0];
    message.extend(u16::try_from(body.len()).unwrap().to_be_bytes());
    message.extend(body);
    let mut record = vec![22, 3, 1];
    record.extend(u16::try_from(message.len()).unwrap().to_be_bytes());
    record.extend(message);
    record
}

/// The response to a ClientHello: the type of the first record, and its first two bytes.
async fn first_record(server: &TestServer, hello: &[u8]) -> (u8, [u8; 2]) {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(hello).await.unwrap();
    let mut head = [0; 7];
    tokio::time::timeout(WAIT_TIMEOUT, stream.read_exact(&mut head)).await.unwrap().unwrap();
    (head[0], [head[5], head[6]])
}

const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;

#[tokio::test(flavor = "multi_thread")]
async fn s_14_old_tls_and_http_2_are_refused() {
    let server = TestServer::start(endpoint()).await;
    // ECDHE with AES and SHA, as a client of that time offers it. 70: the version is refused.
    for version in [[3, 1], [3, 2]] {
        let (kind, alert) = first_record(&server, &client_hello(version, &[[0xc0, 0x09], [0xc0, 0x13]])).await;
        assert_eq!((kind, alert), (ALERT, [2, 70]), "{version:?}");
    }
    assert!(server.connect_with(None, rustls::ALL_VERSIONS, &["h2"]).await.is_err());
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        assert!(server.connect_with(None, &[version], &["http/1.1"]).await.is_ok(), "{version:?}");
    }
    let mut stream = server.connect_with(None, rustls::ALL_VERSIONS, &[]).await.unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    let answer = read_to_end(&mut stream).await;
    assert!(!answer.starts_with(b"HTTP/1.1 200") && !answer.starts_with(&[0, 0]), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_1_3_alone_can_be_required() {
    let server = TestServer::with_versions(endpoint(), ClientTimeouts::default(), LIMITS, tls::TLS13_ONLY).await;
    assert!(server.connect_with(None, &[&rustls::version::TLS12], &["http/1.1"]).await.is_err());
    assert!(server.connect_with(None, &[&rustls::version::TLS13], &["http/1.1"]).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn s_15_weak_ciphers_are_not_agreed_on() {
    let server = TestServer::start(endpoint()).await;
    // With CBC, with RC4, with 3DES. 40: nothing in common.
    let weak = [[0xc0, 0x09], [0xc0, 0x0a], [0xc0, 0x13], [0xc0, 0x23], [0x00, 0x2f], [0x00, 0x05], [0x00, 0x0a]];
    assert_eq!(first_record(&server, &client_hello([3, 3], &weak)).await, (ALERT, [2, 40]));
    // With a strong one among them the same ClientHello is accepted.
    let strong = [&weak[..], &[[0xc0, 0x2b]]].concat();
    assert_eq!(first_record(&server, &client_hello([3, 3], &strong)).await.0, HANDSHAKE);
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_text_is_not_answered() {
    let server = TestServer::start(endpoint()).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"GET /config/master HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let answer = read_to_end(&mut stream).await;
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn config_is_served_over_tls() {
    let server = TestServer::start(endpoint()).await;
    let reply = server.get("/config/master", &[], None).await;
    assert_eq!((reply.status, &reply.body[..]), (200, &br#"{"ignition":{"version":"2.2.0"}}"#[..]));
    assert_eq!(reply.header("content-length"), "32");
}

/// Sends a request and reads until the server hangs up.
async fn sent(server: &TestServer, request: &[u8]) -> String {
    let mut stream = server.connect(None).await.unwrap();
    stream.write_all(request).await.unwrap();
    String::from_utf8_lossy(&read_to_end(&mut stream).await).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn head_has_no_body_on_the_wire() {
    let server = TestServer::start(endpoint()).await;
    let answer = sent(&server, b"HEAD /config/master HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("content-length: 32\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\n"), "{answer}");
}

#[rstest]
// A client that has not sent everything when the connection ends may not read the response.
#[case::one_long_header(format!("GET /config/master HTTP/1.1\r\nhost: x\r\na: {}\r\n\r\n", "x".repeat(100_000)), "431", true)]
#[case::many_headers(format!("GET /config/master HTTP/1.1\r\nhost: x\r\n{}\r\n", "a: x\r\n".repeat(500)), "431", true)]
#[case::long_path(format!("GET /config/{} HTTP/1.1\r\nhost: x\r\n\r\n", "x".repeat(100_000)), "4", true)]
#[case::no_request("nonsense\r\n\r\n".to_owned(), "400", false)]
#[case::control_characters("GET /config/master\u{1} HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(), "400", false)]
#[case::two_lengths("GET /config/master HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n".to_owned(), "400", false)]
#[tokio::test(flavor = "multi_thread")]
async fn odd_requests_are_refused(#[case] request: String, #[case] status: &str, #[case] is_long: bool) {
    let server = TestServer::start(endpoint()).await;
    let mut stream = server.connect(None).await.unwrap();
    // The server may hang up before it has all of it.
    let _ = stream.write_all(request.as_bytes()).await;
    let answer = String::from_utf8_lossy(&read_to_end(&mut stream).await).into_owned();
    assert!((is_long && answer.is_empty()) || answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    assert_eq!(server.get("/healthz", &[], None).await.status, 200, "and the next one is served");
}

const SHORT_TIMEOUTS: ClientTimeouts = ClientTimeouts {
    handshake: Duration::from_millis(200),
    headers: Duration::from_millis(200),
    connection: Duration::from_secs(300),
};

#[tokio::test(flavor = "multi_thread")]
async fn client_without_a_handshake_is_disconnected() {
    let server = TestServer::with_timeouts(endpoint(), SHORT_TIMEOUTS).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    assert!(read_to_end(&mut stream).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn client_that_does_not_finish_a_request_is_disconnected() {
    let server = TestServer::with_timeouts(endpoint(), SHORT_TIMEOUTS).await;
    for start in [&b""[..], b"GET /config/master HTTP/1.1\r\nhost: x\r\nx-slow: "] {
        let mut stream = server.connect(None).await.unwrap();
        stream.write_all(start).await.unwrap();
        let answer = read_to_end(&mut stream).await;
        assert!(!answer.starts_with(b"HTTP/1.1 200"), "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_that_never_ends_is_closed() {
    // The headers' timeout is longer than the test waits.
    let timeouts = ClientTimeouts {
        headers: Duration::from_secs(300),
        connection: Duration::from_millis(300),
        ..ClientTimeouts::default()
    };
    let server = TestServer::with_timeouts(endpoint(), timeouts).await;
    let mut stream = server.connect(None).await.unwrap();
    assert!(read_to_end(&mut stream).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn new_certificate_is_shown_without_a_restart() {
    let server = TestServer::start(endpoint()).await;
    let shown = async || {
        let stream = server.connect(None).await.unwrap();
        stream.get_ref().1.peer_certificates().unwrap()[0].clone()
    };
    let first = shown().await;
    assert!(!server.certificates.reload().unwrap());
    write_serving(&server.pki, &server.files);
    assert!(server.certificates.reload().unwrap());
    let second = shown().await;
    assert_ne!(first, second);
    // Half of a new pair is no reason to stop.
    std::fs::write(&server.files.certificate, "nonsense").unwrap();
    let error = server.certificates.reload().unwrap_err().to_string();
    assert!(error.contains("tls.crt") && error.contains("TLS cannot be set up: the certificate"), "{error}");
    assert_eq!(shown().await, second);
}

#[tokio::test(flavor = "multi_thread")]
async fn unusable_file_is_named_with_its_option() {
    let server = TestServer::start(endpoint()).await;
    let (files, other) = (server.files.clone(), server.files.key.with_file_name("other"));
    let error_of =
        |files: CertificateFiles| Certificates::load(files, tls::DEFAULT_VERSIONS).err().unwrap().to_string();
    let cause_with = |option: &str, text: &str| {
        std::fs::write(&other, text).unwrap();
        let mut files = files.clone();
        match option {
            "--cert" => files.certificate = other.clone(),
            "--key" => files.key = other.clone(),
            _ => files.client_ca = Some(other.clone()),
        }
        let error = error_of(files);
        let named = format!("{option} {}: TLS cannot be set up: ", other.display());
        error.strip_prefix(&named).unwrap_or_else(|| panic!("{error}")).to_owned()
    };
    assert_eq!(cause_with("--client-ca", ""), "the client CA: there is no certificate in it");
    assert_eq!(cause_with("--cert", ""), "the certificate: there is no certificate in it");
    assert_eq!(cause_with("--key", ""), "the key: there is no private key in it");
    let swapped = CertificateFiles { certificate: files.key.clone(), key: files.certificate.clone(), ..files.clone() };
    let key = files.certificate.display();
    let begin =
        format!("--key {key}: TLS cannot be set up: the key: there is no private key in it, but a certificate; ");
    assert!(error_of(swapped.clone()).starts_with(&begin) && error_of(swapped).ends_with("may be swapped"));
    // Of a certificate and the key of another one it is not known which is wrong.
    let serving = server.pki.client("machine", "machines", jiff::Timestamp::now()).unwrap();
    std::fs::write(&other, serving.key).unwrap();
    let error = error_of(CertificateFiles { key: other.clone(), ..files.clone() });
    assert!(error.starts_with(&format!("--cert {key} and --key {}: ", other.display())), "{error}");
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn other_methods_are_refused_and_their_bodies_not_waited_for(
    #[values("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW")] method: &str,
) {
    let server = TestServer::start(endpoint()).await;
    // A gigabyte is announced and never sent.
    let target = if method == "CONNECT" { "localhost:1" } else { "/config/master" };
    let request = format!("{method} {target} HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000000\r\n\r\nsome");
    let answer = sent(&server, request.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
    assert!(answer.contains("content-length: 0\r\n"), "{answer}");
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn paths_with_tricks_in_them_lead_nowhere_on_the_wire(
    #[values(
        "/config/../config/master",
        "/config/./master",
        "/config/%2e%2e/config/master",
        "/config/%6d%61ster",
        "/config/master%00.json",
        "/config/..\\master",
        "/config/m\u{e4}ster",
        "//config/master",
        "config/master",
        "*",
        "/config/master\t"
    )]
    path: &str,
) {
    let server = TestServer::start(endpoint()).await;
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    let answer = sent(&server, request.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 404 ") || answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert_eq!(server.get("/healthz", &[], None).await.status, 200, "and the next one is served");
}

/// A connection from another address of this machine.
async fn from_elsewhere(server: &TestServer) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    socket.connect(server.address).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn flood_from_one_address_leaves_room_for_others() {
    let limits = ConnectionLimits { connections: 64, per_address: 16, eviction_grace: Duration::ZERO, ..LIMITS };
    let server = TestServer::with_limits(endpoint(), ClientTimeouts::default(), limits).await;
    let mut held = Vec::new();
    for _ in 0..300 {
        // Nothing is ever sent on them.
        held.push(TcpStream::connect(server.address).await.unwrap());
    }
    // A machine elsewhere does not notice.
    let stream = from_elsewhere(&server).await;
    let mut stream = server.handshake(stream, None, rustls::ALL_VERSIONS, &["http/1.1"]).await.unwrap();
    stream.write_all(b"GET /config/master HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    let answer = read_to_end(&mut stream).await;
    assert!(answer.starts_with(b"HTTP/1.1 200 "), "{answer:?}");
    // It came after all of them, so each has its place by now or is being hung up on.
    let closing = async {
        for stream in &mut held[..300 - 16] {
            // How it ends, orderly or not, does not matter.
            let _ = stream.read(&mut [0; 1]).await;
        }
    };
    assert!(tokio::time::timeout(WAIT_TIMEOUT, closing).await.is_ok(), "more than its share is open");
    for stream in &mut held[300 - 16..] {
        let hung_up = tokio::time::timeout(Duration::from_millis(1), stream.read(&mut [0; 1])).await;
        assert!(hung_up.is_err(), "the youngest have places");
    }
    // Those who leave make room.
    drop(held);
    let again = async {
        loop {
            if let Ok(stream) = server.connect(None).await {
                return stream;
            }
        }
    };
    assert!(tokio::time::timeout(WAIT_TIMEOUT, again).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_beyond_all_slots_wait_and_are_served() {
    let limits = ConnectionLimits { connections: 2, per_address: 2, ..LIMITS };
    let timeouts = ClientTimeouts { headers: Duration::from_millis(300), ..ClientTimeouts::default() };
    let server = TestServer::with_limits(endpoint(), timeouts, limits).await;
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut stream = server.connect(None).await.unwrap();
        // They were served, so they are not evicted.
        response_head(&mut stream, "/config/master").await;
        held.push(stream);
    }
    // It waits until one of them has been silent for too long.
    let stream = from_elsewhere(&server).await;
    let handshake = server.handshake(stream, None, rustls::ALL_VERSIONS, &["http/1.1"]);
    assert!(tokio::time::timeout(WAIT_TIMEOUT, handshake).await.unwrap().is_ok());
    drop(held);
}

/// Sends a request on a connection that is kept, and reads the head of the response.
async fn response_head(stream: &mut (impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin), path: &str) -> String {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(tokio::time::timeout(WAIT_TIMEOUT, stream.read_u8()).await.unwrap().unwrap());
    }
    String::from_utf8(head).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_does_not_wait_for_clients_without_a_request() {
    let server = TestServer::with_limits(
        endpoint(),
        LONG_TIMEOUTS,
        ConnectionLimits { shutdown_grace: Duration::from_secs(300), ..LIMITS },
    )
    .await;
    let silent = TcpStream::connect(server.address).await.unwrap();
    let shaken = server.connect(None).await.unwrap();
    let mut idle = server.connect(None).await.unwrap();
    response_head(&mut idle, "/config/master").await;
    // A client that came after them is served, so they are not in the backlog any more.
    assert_eq!(server.get("/healthz", &[], None).await.status, 200);
    assert!(tokio::time::timeout(WAIT_TIMEOUT, server.stop()).await.is_ok());
    drop((silent, shaken, idle));
}

/// Longer than any test.
const LONG_TIMEOUTS: ClientTimeouts = ClientTimeouts {
    handshake: Duration::from_secs(300),
    headers: Duration::from_secs(300),
    connection: Duration::from_secs(300),
};

#[tokio::test(flavor = "multi_thread")]
async fn unauthenticated_connections_in_all_slots_keep_no_machine_out() {
    let limits = ConnectionLimits { connections: 8, per_address: 4, eviction_grace: Duration::ZERO, ..LIMITS };
    let server = TestServer::with_limits(guarded(), LONG_TIMEOUTS, limits).await;
    let machine = server.pki.client("machine", "machines", jiff::Timestamp::now()).unwrap();
    // One machine has been served, and keeps its connection.
    let mut first = server.connect(Some(&machine)).await.unwrap();
    assert!(response_head(&mut first, "/config/master").await.starts_with("HTTP/1.1 200 "));
    let mut held = Vec::new();
    for _ in 0..20 {
        // Some complete the handshake, none sends a request.
        held.push(TcpStream::connect(server.address).await.unwrap());
        let stream = from_elsewhere(&server).await;
        held.push(stream);
    }
    let mut shaken = Vec::new();
    for _ in 0..10 {
        shaken.push(server.connect(None).await.unwrap());
    }
    // From behind the same address as they.
    for _ in 0..3 {
        assert_eq!(server.get("/config/master", &[], Some(&machine)).await.status, 200);
    }
    let again = response_head(&mut first, "/config/master").await;
    // The body of the first response precedes it.
    assert!(again.contains("}HTTP/1.1 200 "), "a client that was served stays connected: {again}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_unauthenticated_connection_is_evicted_for_one_machine() {
    let limits = ConnectionLimits { connections: 4, per_address: 4, eviction_grace: Duration::ZERO, ..LIMITS };
    let server = TestServer::with_limits(endpoint(), LONG_TIMEOUTS, limits).await;
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(TcpStream::connect(server.address).await.unwrap());
    }
    let mut machine = server.connect(None).await.unwrap();
    assert!(response_head(&mut machine, "/config/master").await.starts_with("HTTP/1.1 200 "));
    let hung_up = tokio::time::timeout(WAIT_TIMEOUT, held[0].read(&mut [0; 1])).await;
    assert!(hung_up.is_ok(), "the oldest is closed");
    for stream in &mut held[1..] {
        let hung_up = tokio::time::timeout(Duration::from_millis(20), stream.read(&mut [0; 1])).await;
        assert!(hung_up.is_err(), "the others stay open");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn machine_waits_for_the_grace_of_unauthenticated_connections() {
    let eviction_grace = Duration::from_millis(500);
    let limits = ConnectionLimits { connections: 2, per_address: 2, eviction_grace, ..LIMITS };
    let server = TestServer::with_limits(endpoint(), LONG_TIMEOUTS, limits).await;
    let begun = Instant::now();
    let held = [TcpStream::connect(server.address).await.unwrap(), TcpStream::connect(server.address).await.unwrap()];
    let stream = from_elsewhere(&server).await;
    let handshake = server.handshake(stream, None, rustls::ALL_VERSIONS, &["http/1.1"]);
    assert!(tokio::time::timeout(WAIT_TIMEOUT, handshake).await.unwrap().is_ok());
    // Both came after this, so it cannot be less however fast or slow the machine is.
    assert!(begun.elapsed() >= eviction_grace, "a connection was evicted after {:?}", begun.elapsed());
    drop(held);
}

#[tokio::test(flavor = "multi_thread")]
async fn client_that_is_not_admitted_is_answered_once() {
    let server = TestServer::with_timeouts(guarded(), LONG_TIMEOUTS).await;
    for (path, status) in [("/config/master", "401"), ("/x", "404"), ("/healthz", "200")] {
        let mut stream = server.connect(None).await.unwrap();
        let answer = response_head(&mut stream, path).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        assert!(read_to_end(&mut stream).await.is_empty(), "{path}: the connection is over");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_waits_for_a_response_in_flight_within_its_grace() {
    for (shutdown_grace, is_read) in [(Duration::from_secs(300), true), (Duration::from_millis(100), false)] {
        let endpoint = endpoint();
        let large = Answers::of(|_| Ok(vec![b'x'; 32 << 20]));
        endpoint.answers.publish(PoolAnswers::from([("large".to_owned(), Arc::new(large))]));
        let server =
            TestServer::with_limits(endpoint, LONG_TIMEOUTS, ConnectionLimits { shutdown_grace, ..LIMITS }).await;
        let mut stream = server.connect(None).await.unwrap();
        assert!(response_head(&mut stream, "/config/large").await.starts_with("HTTP/1.1 200 "));
        let ended = server.stop();
        if is_read {
            assert_eq!(read_to_end(&mut stream).await.len(), 32 << 20);
        }
        tokio::time::timeout(WAIT_TIMEOUT, ended).await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn client_that_does_not_read_its_response_is_disconnected() {
    let endpoint = endpoint();
    // More than the system keeps between the two.
    let large = Answers::of(|_| Ok(vec![b'x'; 32 << 20]));
    endpoint
        .answers
        .publish(PoolAnswers::from([("large".to_owned(), Arc::new(large)), ("master".to_owned(), Arc::new(empty()))]));
    let metrics = Arc::clone(&endpoint.metrics);
    let answers = Arc::clone(&endpoint.answers);
    let timeouts = ClientTimeouts { connection: Duration::from_millis(300), ..ClientTimeouts::default() };
    let server = TestServer::with_timeouts(endpoint, timeouts).await;
    let mut stream = server.connect(None).await.unwrap();
    stream.write_all(b"GET /config/large HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    // The request is counted when its connection is given up.
    let counted = async {
        let line = "requests_total{pool=\"large\",version=\"2.2.0\",code=\"200\"} 1\n";
        while !metrics.page(&answers, tokio::time::Instant::now()).unwrap().contains(line) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(WAIT_TIMEOUT, counted).await.unwrap();
    let answer = read_to_end(&mut stream).await;
    assert!(answer.len() < 32 << 20, "all of it came");
}
