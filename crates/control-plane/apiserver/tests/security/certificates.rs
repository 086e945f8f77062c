//! Client certificates over a real socket: the authority's are accepted, all others refused.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use seaworthy_apiserver::{CertifiedKey, ClockAndEntropy as _, Pki, SystemClock, TlsServer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_rustls::TlsConnector;

use crate::security::harness::{CONFIG_MAPS, Cluster};

struct Socket {
    pki: Pki,
    address: SocketAddr,
    _stop: oneshot::Sender<()>,
}

async fn listen() -> Socket {
    let cluster = Cluster::open().await;
    // Certificates are judged by the machine's clock, which a test cannot move.
    let pki = Pki::ephemeral(SystemClock.now()).unwrap();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let listening = TlsServer::bind(cluster.server.clone(), &pki, any).await.unwrap();
    let address = listening.address();
    let (stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(listening.serve(async {
        let _ = stopped.await;
    }));
    Socket { pki, address, _stop: stop }
}

/// Sends a request with this certificate; the error is that of the connection.
async fn ask(socket: &Socket, certificate: Option<&CertifiedKey>, headers: &str) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(socket.pki.authority().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots);
    let config = match certificate {
        None => config.with_no_client_auth(),
        Some(CertifiedKey { certificate, key, .. }) => {
            let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
            config.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap()).unwrap()
        }
    };
    let stream = TcpStream::connect(socket.address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    let request = format!("GET {CONFIG_MAPS} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

#[tokio::test]
async fn certificate_names_the_user_and_its_groups() {
    let socket = listen().await;
    let now = SystemClock.now();
    let admin = socket.pki.client("root", "system:masters", now).unwrap();
    assert!(ask(&socket, Some(&admin), "").await.unwrap().starts_with("HTTP/1.1 200"));
    let ann = socket.pki.client("ann", "crew", now).unwrap();
    let answer = ask(&socket, Some(&ann), "").await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("User \\\"ann\\\" cannot list"), "{answer}");
}

#[tokio::test]
async fn certificate_without_a_name_is_anonymous() {
    let socket = listen().await;
    let nameless = socket.pki.client("", "system:masters", SystemClock.now()).unwrap();
    let answer = ask(&socket, Some(&nameless), "").await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("system:anonymous"), "{answer}");
}

#[tokio::test]
async fn certificate_of_another_authority_does_not_get_in() {
    let socket = listen().await;
    let other = Pki::ephemeral(SystemClock.now()).unwrap();
    let forged = other.client("root", "system:masters", SystemClock.now()).unwrap();
    assert!(ask(&socket, Some(&forged), "").await.is_err());
}

#[tokio::test]
async fn certificate_that_has_expired_does_not_get_in() {
    let socket = listen().await;
    let long_ago = "2001-01-01T00:00:00Z".parse().unwrap();
    let expired = socket.pki.client("root", "system:masters", long_ago).unwrap();
    assert!(ask(&socket, Some(&expired), "").await.is_err());
}

#[tokio::test]
async fn certificate_for_servers_is_none_for_clients() {
    let socket = listen().await;
    let serving = socket.pki.serving(&[], &["system:masters"], SystemClock.now()).unwrap();
    assert!(ask(&socket, Some(&serving), "").await.is_err());
}

#[tokio::test]
async fn good_certificate_counts_whatever_token_is_beside_it() {
    let socket = listen().await;
    let admin = socket.pki.client("root", "system:masters", SystemClock.now()).unwrap();
    let answer = ask(&socket, Some(&admin), "authorization: Bearer wrong\r\n").await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn without_a_certificate_and_a_token_the_socket_serves_the_anonymous_user() {
    let socket = listen().await;
    let headers = "x-remote-user: root\r\nx-remote-group: system:masters\r\nidentity: root\r\n";
    let answer = ask(&socket, None, headers).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("system:anonymous"), "{answer}");
}

#[tokio::test]
async fn plain_http_is_not_answered() {
    let socket = listen().await;
    let mut stream = TcpStream::connect(socket.address).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    // Whether the connection is closed or reset: no HTTP comes back.
    let _ = stream.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
}
