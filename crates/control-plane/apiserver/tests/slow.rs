//! Slow clients over a real socket, with a clock that the test controls.
//!
//! The paused clock only advances to the next deadline when all tasks are idle, so minutes pass at once and
//! deterministically.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use http_body_util::Full;
use rstest::rstest;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use seaworthy_apiserver::{
    ClockAndEntropy as _, FixedClock, Identity, Pki, Server, ServerOptions, SigningKey, StaticTokens, StorageLocation,
    SystemClock, TlsServer,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::{Instant, pause, resume, sleep};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const TOKEN: &str = "token";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// More than any socket takes by itself.
const OBJECTS: usize = 24;
const SIZE: usize = 900_000;

struct Socket {
    server: Server,
    pki: Pki,
    address: SocketAddr,
    _stop: oneshot::Sender<()>,
}

fn admin() -> Identity {
    Identity::authenticated("admin", ["system:masters".to_owned()])
}

impl Socket {
    async fn open() -> Socket {
        let mut tokens = StaticTokens::default();
        tokens.add(TOKEN, admin());
        let signing_key = Arc::new(SigningKey::read(&SigningKey::generate().unwrap()).unwrap());
        let clock = Arc::new(FixedClock::at("2026-01-02T03:04:05Z".parse().unwrap()));
        let server =
            Server::open(ServerOptions { storage: StorageLocation::Memory, clock, tokens, signing_key }).unwrap();
        server.prepare().await.unwrap();
        // Certificates are judged by the machine's clock.
        let pki = Pki::ephemeral(SystemClock.now()).unwrap();
        let listening = TlsServer::bind(server.clone(), &pki, SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let address = listening.address();
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(listening.serve(async {
            let _ = stopped.await;
        }));
        Socket { server, pki, address, _stop: stop }
    }

    async fn create(&self, name: &str, size: usize) {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
            "data": {"text": "x".repeat(size)}});
        let request = Request::post(CONFIG_MAPS).header("content-type", "application/json");
        let mut request = request.body(Full::new(bytes::Bytes::from(object.to_string()))).unwrap();
        request.extensions_mut().insert(admin());
        assert_eq!(self.server.answer(request).await.status(), 201);
    }

    async fn with_a_long_list() -> Socket {
        let socket = Socket::open().await;
        for at in 0..OBJECTS {
            socket.create(&format!("c-{at}"), SIZE).await;
        }
        socket
    }

    /// A connection after its handshake.
    async fn connect(&self, protocols: &[&[u8]]) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pki.authority().as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        let stream = TcpStream::connect(self.address).await.unwrap();
        TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("localhost").unwrap(), stream).await.unwrap()
    }

    /// A connection that has sent the head of a request.
    async fn ask(&self, line: &str, headers: &str) -> TlsStream<TcpStream> {
        let mut stream = self.connect(&[]).await;
        let head = format!("{line} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n{headers}\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    }
}

/// Everything that is still to come, however it ends.
async fn rest(stream: &mut TlsStream<TcpStream>) -> (String, io::Result<usize>) {
    let mut bytes = Vec::new();
    let end = stream.read_to_end(&mut bytes).await;
    (String::from_utf8_lossy(&bytes).into_owned(), end)
}

#[rstest]
#[case::nothing_at_all(&[], "")]
#[case::nothing_at_all_of_http_2(&[b"h2".as_slice()], "")]
#[case::half_a_greeting_of_http_2(&[b"h2".as_slice()], "PRI * HTTP/2.0\r\n")]
#[case::half_a_method(&[], "P")]
#[case::half_the_headers(&[], "GET /version HTTP/1.1\r\nhost: localhost\r\nuser-agent: sl")]
#[tokio::test]
async fn client_that_sends_no_request_is_disconnected(#[case] protocols: &[&[u8]], #[case] sent: &str) {
    let socket = Socket::open().await;
    pause();
    let mut stream = socket.connect(protocols).await;
    let began = Instant::now();
    stream.write_all(sent.as_bytes()).await.unwrap();
    let (answer, _) = rest(&mut stream).await;
    assert!(!answer.contains("200"), "{answer}");
    let waited = began.elapsed();
    assert!(waited >= Duration::from_secs(30) && waited < Duration::from_secs(40), "{waited:?}");
}

#[tokio::test]
async fn body_that_does_not_come_is_a_timeout_in_the_real_servers_words() {
    let socket = Socket::open().await;
    pause();
    let headers = "content-type: application/json\r\ncontent-length: 1000\r\n";
    let mut stream = socket.ask(&format!("POST {CONFIG_MAPS}"), headers).await;
    let began = Instant::now();
    stream.write_all(b"{\"kind\":").await.unwrap();
    let (answer, _) = rest(&mut stream).await;
    assert!(began.elapsed() >= Duration::from_secs(60), "{:?}", began.elapsed());
    assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
    let status: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(
        status,
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Timeout",
            "message": "Timeout: request did not complete within the allotted timeout", "details": {}, "code": 504})
    );
}

/// One that sends a byte now and then gets no further.
#[tokio::test]
async fn body_that_trickles_is_a_timeout_too() {
    let socket = Socket::open().await;
    pause();
    let headers = "content-type: application/json\r\ncontent-length: 1000\r\n";
    let stream = socket.ask(&format!("POST {CONFIG_MAPS}"), headers).await;
    let (mut reading, mut writing) = tokio::io::split(stream);
    let trickle = tokio::spawn(async move {
        while writing.write_all(b" ").await.is_ok() {
            sleep(Duration::from_secs(7)).await;
        }
    });
    let mut answer = vec![0; 12];
    reading.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 504");
    trickle.abort();
}

#[rstest]
#[case::list(CONFIG_MAPS.to_owned())]
#[case::watch(format!("{CONFIG_MAPS}?watch=1"))]
#[tokio::test]
async fn client_that_takes_nothing_of_its_answer_is_cut(#[case] path: String) {
    let socket = Socket::with_a_long_list().await;
    pause();
    let mut stream = socket.ask(&format!("GET {path}"), "").await;
    let began = Instant::now();
    sleep(Duration::from_secs(200)).await;
    let (answer, end) = rest(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 200 "));
    assert!(answer.len() < OBJECTS * SIZE && !answer.ends_with("\r\n0\r\n\r\n"), "it came whole");
    // Aborted, not completed: no client takes a part for the whole list.
    assert!(end.is_err());
    assert!(began.elapsed() < Duration::from_secs(201), "the rest came later");
}

#[tokio::test]
async fn list_that_is_taken_a_little_at_a_time_is_cut() {
    let socket = Socket::with_a_long_list().await;
    pause();
    let mut stream = socket.ask(&format!("GET {CONFIG_MAPS}"), "").await;
    let mut taken = 0;
    let mut piece = vec![0; 100_000];
    loop {
        match stream.read(&mut piece).await {
            Ok(0) | Err(_) => break,
            Ok(length) => taken += length,
        }
        sleep(Duration::from_secs(5)).await;
    }
    assert!(taken > 0 && taken < OBJECTS * SIZE, "{taken}");
}

#[tokio::test]
async fn quiet_watch_outlives_every_limit_of_an_answer() {
    let socket = Socket::open().await;
    pause();
    let newest = socket.server.store().revision();
    let mut stream = socket.ask(&format!("GET {CONFIG_MAPS}?watch=1&resourceVersion={newest}"), "").await;
    sleep(Duration::from_secs(20 * 60)).await;
    resume();
    socket.create("late", 10).await;
    let mut seen = String::new();
    while !seen.contains("\"name\":\"late\"") {
        let mut piece = vec![0; 4096];
        let length = stream.read(&mut piece).await.unwrap();
        assert!(length > 0, "it ended: {seen}");
        seen.push_str(str::from_utf8(&piece[..length]).unwrap());
    }
}
