//! The socket: what is spoken there, and what is not put up with.

use std::time::Duration;

use rstest::rstest;
use seaworthy_serve::listen::Patience;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{House, endpoint, write_serving};

/// Nothing waits for it to pass, except where something is wrong.
const PATIENCE: Duration = Duration::from_secs(20);

/// Reads all that comes, until the other side has enough.
async fn rest(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> Vec<u8> {
    let mut bytes = Vec::new();
    // How it ends, orderly or not, does not matter.
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await;
    assert!(read.is_ok(), "the connection is still open");
    bytes
}

/// A greeting in a version of TLS that offers these ciphers, with the extensions that 1.2 needs.
fn hello(version: [u8; 2], ciphers: &[[u8; 2]]) -> Vec<u8> {
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

/// What a server says to a greeting: the type of its first record, and its first two bytes.
async fn greeted(house: &House, hello: &[u8]) -> (u8, [u8; 2]) {
    let mut stream = TcpStream::connect(house.address).await.unwrap();
    stream.write_all(hello).await.unwrap();
    let mut head = [0; 7];
    tokio::time::timeout(PATIENCE, stream.read_exact(&mut head)).await.unwrap().unwrap();
    (head[0], [head[5], head[6]])
}

const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;

#[tokio::test(flavor = "multi_thread")]
async fn s_14_old_tls_and_http_2_are_refused() {
    let house = House::open(endpoint()).await;
    // ECDHE with AES and SHA, as a client of that time offers it. 70: the version is refused.
    for version in [[3, 1], [3, 2]] {
        let (kind, alert) = greeted(&house, &hello(version, &[[0xc0, 0x09], [0xc0, 0x13]])).await;
        assert_eq!((kind, alert), (ALERT, [2, 70]), "{version:?}");
    }
    assert!(house.connect_with(None, rustls::ALL_VERSIONS, &["h2"]).await.is_err());
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        assert!(house.connect_with(None, &[version], &["http/1.1"]).await.is_ok(), "{version:?}");
    }
    let mut stream = house.connect_with(None, rustls::ALL_VERSIONS, &[]).await.unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    let answer = rest(&mut stream).await;
    assert!(!answer.starts_with(b"HTTP/1.1 200") && !answer.starts_with(&[0, 0]), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn s_15_weak_ciphers_are_not_agreed_on() {
    let house = House::open(endpoint()).await;
    // With CBC, with RC4, with 3DES. 40: nothing in common.
    let weak = [[0xc0, 0x09], [0xc0, 0x0a], [0xc0, 0x13], [0xc0, 0x23], [0x00, 0x2f], [0x00, 0x05], [0x00, 0x0a]];
    assert_eq!(greeted(&house, &hello([3, 3], &weak)).await, (ALERT, [2, 40]));
    // With a strong one among them the same greeting is answered.
    let strong = [&weak[..], &[[0xc0, 0x2b]]].concat();
    assert_eq!(greeted(&house, &hello([3, 3], &strong)).await.0, HANDSHAKE);
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_text_is_not_answered() {
    let house = House::open(endpoint()).await;
    let mut stream = TcpStream::connect(house.address).await.unwrap();
    stream.write_all(b"GET /config/master HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let answer = rest(&mut stream).await;
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn config_comes_through_the_door() {
    let house = House::open(endpoint()).await;
    let reply = house.get("/config/master", &[], None).await;
    assert_eq!((reply.status, &reply.body[..]), (200, &br#"{"ignition":{"version":"2.2.0"}}"#[..]));
    assert_eq!(reply.header("content-length"), "32");
}

/// Sends a request and reads until the server hangs up.
async fn sent(house: &House, request: &[u8]) -> String {
    let mut stream = house.connect(None).await.unwrap();
    stream.write_all(request).await.unwrap();
    String::from_utf8_lossy(&rest(&mut stream).await).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn head_has_no_body_on_the_wire() {
    let house = House::open(endpoint()).await;
    let answer = sent(&house, b"HEAD /config/master HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("content-length: 32\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\n"), "{answer}");
}

#[rstest]
#[case::one_long_header(format!("GET /config/master HTTP/1.1\r\nhost: x\r\na: {}\r\n\r\n", "x".repeat(100_000)), "431")]
#[case::many_headers(format!("GET /config/master HTTP/1.1\r\nhost: x\r\n{}\r\n", "a: x\r\n".repeat(500)), "431")]
#[case::long_path(format!("GET /config/{} HTTP/1.1\r\nhost: x\r\n\r\n", "x".repeat(100_000)), "4")]
#[case::no_request("nonsense\r\n\r\n".to_owned(), "400")]
#[case::control_characters("GET /config/master\u{1} HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(), "400")]
#[case::two_lengths("GET /config/master HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n".to_owned(), "400")]
#[tokio::test(flavor = "multi_thread")]
async fn odd_requests_are_refused(#[case] request: String, #[case] status: &str) {
    let house = House::open(endpoint()).await;
    let mut stream = house.connect(None).await.unwrap();
    // The server may hang up before it has all of it.
    let _ = stream.write_all(request.as_bytes()).await;
    let answer = String::from_utf8_lossy(&rest(&mut stream).await).into_owned();
    assert!(answer.is_empty() || answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    assert_eq!(house.get("/healthz", &[], None).await.status, 200, "and the next one is served");
}

/// Not even a little.
const IMPATIENT: Patience = Patience {
    handshake: Duration::from_millis(200),
    headers: Duration::from_millis(200),
    lifetime: Duration::from_secs(300),
};

#[tokio::test(flavor = "multi_thread")]
async fn whoever_does_not_shake_hands_is_let_go() {
    let house = House::with(endpoint(), IMPATIENT).await;
    let mut stream = TcpStream::connect(house.address).await.unwrap();
    assert!(rest(&mut stream).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_does_not_finish_a_request_is_let_go() {
    let house = House::with(endpoint(), IMPATIENT).await;
    for start in [&b""[..], b"GET /config/master HTTP/1.1\r\nhost: x\r\nx-slow: "] {
        let mut stream = house.connect(None).await.unwrap();
        stream.write_all(start).await.unwrap();
        let answer = rest(&mut stream).await;
        assert!(!answer.starts_with(b"HTTP/1.1 200"), "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_keeps_a_connection_for_ever_is_let_go() {
    let lifetime = Duration::from_millis(300);
    let house = House::with(endpoint(), Patience { lifetime, ..Patience::default() }).await;
    let mut stream = house.connect(None).await.unwrap();
    assert!(rest(&mut stream).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn new_certificate_is_shown_without_a_restart() {
    let house = House::open(endpoint()).await;
    let shown = async || {
        let stream = house.connect(None).await.unwrap();
        stream.get_ref().1.peer_certificates().unwrap()[0].clone()
    };
    let first = shown().await;
    assert!(!house.certificates.reload().unwrap());
    write_serving(&house.pki, &house.files);
    assert!(house.certificates.reload().unwrap());
    let second = shown().await;
    assert_ne!(first, second);
    // Half of a new pair is no reason to stop.
    std::fs::write(&house.files.certificate, "nonsense").unwrap();
    let error = house.certificates.reload().unwrap_err().to_string();
    assert!(error.contains("tls.crt") && error.contains("TLS cannot be set up: the certificate"), "{error}");
    assert_eq!(shown().await, second);
}
