//! The server on a socket: TLS, HTTP/1.1 and HTTP/2, and limits for everything that a stranger can use up.

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tracing::{debug, warn};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::access::Identity;
use crate::authentication::PeerCertificate;
use crate::pace::{Paced, Timely};
use crate::pki::{Certified, Pki, PkiError};
use crate::server::Server;
use crate::status::Failure;

/// Connections at a time. Each costs some tens of kilobytes; a fleet's watches need a few thousand.
const CONNECTIONS: usize = 8192;
/// How long a client may take to shake hands.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long a client may take to send its headers, from the end of the handshake or of the answer before: as long as
/// the real server gives it.
const HEADERS: Duration = Duration::from_secs(32);
/// How long an answer may take, body of the request and of a long list included; the events of a watch come after
/// that.
const ANSWER: Duration = Duration::from_secs(60);
/// How long a client may take nothing at all of what it is sent, be it the events of a watch.
const STALLED: Duration = Duration::from_secs(60);
/// How often a silent HTTP/2 client is asked whether it is still there.
const STILL_THERE: Duration = Duration::from_secs(30);
/// Requests at a time on one HTTP/2 connection: as many as the real server takes.
const STREAMS: u32 = 250;
/// How long requests under way are waited for when the server stops.
const FAREWELL: Duration = Duration::from_secs(1);

/// Why the server does not listen.
#[derive(Debug, Error)]
pub enum ListenError {
    /// The address is taken or not ours.
    #[error("cannot listen on {address}: {cause}; choose another address with --listen, or port 0 for any free one")]
    Bind {
        /// The address that was asked for.
        address: SocketAddr,
        /// What the system said.
        cause: std::io::Error,
    },
    /// There is no certificate.
    #[error(transparent)]
    Pki(#[from] PkiError),
    /// TLS cannot be set up.
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
}

/// A server that listens.
pub struct Listening {
    server: Server,
    listener: TcpListener,
    acceptor: TlsAcceptor,
    address: SocketAddr,
}

impl Listening {
    /// Takes the address, with a certificate for every name under which clients may reach it.
    pub async fn bind(server: Server, pki: &Pki, address: SocketAddr) -> Result<Listening, ListenError> {
        let bind = |cause| ListenError::Bind { address, cause };
        let listener = TcpListener::bind(address).await.map_err(bind)?;
        let address = listener.local_addr().map_err(bind)?;
        let mut addresses = vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        if !address.ip().is_unspecified() && !addresses.contains(&address.ip()) {
            addresses.push(address.ip());
        }
        let names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
        let serving = pki.serving(&addresses, &names, server.world().now())?;
        let acceptor = TlsAcceptor::from(Arc::new(tls(&serving, pki.authority())?));
        Ok(Listening { server, listener, acceptor, address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` is done. Then watches end, and requests under way have a moment to finish.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let slots = Arc::new(Semaphore::new(CONNECTIONS));
        let graceful = GracefulShutdown::new();
        let mut stop = std::pin::pin!(stop);
        loop {
            // A client beyond the limit waits in the system's queue.
            let slot = tokio::select! {
                slot = slots.clone().acquire_owned() => slot,
                () = &mut stop => break,
            };
            // Nobody closes the semaphore.
            let Ok(slot) = slot else { return };
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = &mut stop => break,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Mostly "too many open files": waiting lets some of them be closed.
                    warn!(%error, "a connection was not accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let _ = stream.set_nodelay(true);
            let (server, acceptor, watcher) = (self.server.clone(), self.acceptor.clone(), graceful.watcher());
            tokio::spawn(async move {
                let _slot = slot;
                let stream = match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
                    Ok(Ok(stream)) => stream,
                    Ok(Err(error)) => return debug!(%error, "a handshake failed"),
                    Err(_) => return debug!("a handshake took too long"),
                };
                let peer = stream.get_ref().1.peer_certificates().and_then(|chain| identity(chain.first()?));
                let service = tower_service_fn(server, peer);
                let mut builder = Builder::new(TokioExecutor::new());
                builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS);
                builder
                    .http2()
                    .timer(TokioTimer::new())
                    .max_concurrent_streams(STREAMS)
                    .keep_alive_interval(STILL_THERE);
                let connection =
                    builder.serve_connection(TokioIo::new(Paced::new(stream, HEADERS, STALLED)), service).into_owned();
                if let Err(error) = watcher.watch(connection).await {
                    debug!(%error, "a connection ended");
                }
            });
        }
        drop(self.listener);
        self.server.end_watches();
        // What has not finished by then ends with its connection.
        let _ = tokio::time::timeout(FAREWELL, graceful.shutdown()).await;
    }
}

fn tower_service_fn(
    server: Server,
    peer: Option<Identity>,
) -> impl hyper::service::Service<
    Request<Incoming>,
    Response = http::Response<Timely>,
    Error = std::convert::Infallible,
    Future: Send,
> + Clone {
    TowerToHyperService::new(Peer { server, peer })
}

/// The server for one connection: it knows the certificate that the client showed.
#[derive(Clone)]
struct Peer {
    server: Server,
    peer: Option<Identity>,
}

impl tower_service::Service<Request<Incoming>> for Peer {
    type Response = http::Response<Timely>;
    type Error = std::convert::Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
        tower_service::Service::<Request<Incoming>>::poll_ready(&mut self.server, cx)
    }

    fn call(&mut self, mut request: Request<Incoming>) -> Self::Future {
        // Only a client inside the process brings its identity along: from a socket it is shown by credentials.
        request.extensions_mut().remove::<Identity>();
        if let Some(identity) = &self.peer {
            request.extensions_mut().insert(PeerCertificate(identity.clone()));
        }
        let answer = self.server.call(request);
        Box::pin(async move {
            let end = Instant::now() + ANSWER;
            let answer = match tokio::time::timeout_at(end, answer).await {
                // Going wrong is an answer too.
                Ok(Ok(answer)) => answer,
                Err(_) => Failure::timed_out().into_response(&[]),
            };
            Ok(answer.map(|body| Timely::new(body, end)))
        })
    }
}

fn tls(serving: &Certified, authority: &str) -> Result<ServerConfig, ListenError> {
    let failed = |error: String| ListenError::Tls(error);
    let pem = |text: &str| CertificateDer::from_pem_slice(text.as_bytes()).map_err(|error| failed(error.to_string()));
    let key = PrivateKeyDer::from_pem_slice(serving.key.as_bytes()).map_err(|error| failed(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    roots.add(pem(authority)?).map_err(|error| failed(error.to_string()))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        // A client without a certificate has a token, or is anonymous.
        .allow_unauthenticated()
        .build()
        .map_err(|error| failed(error.to_string()))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(error.to_string()))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![pem(&serving.certificate)?], key)
        .map_err(|error| failed(error.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// The user that a certificate names: the common name, with the organisations as groups.
fn identity(certificate: &CertificateDer<'_>) -> Option<Identity> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    // Of several names the last one counts, as for the real server.
    let user = parsed.subject().iter_common_name().last()?.as_str().ok()?.to_owned();
    let groups = parsed.subject().iter_organization().filter_map(|group| group.as_str().ok().map(str::to_owned));
    (!user.is_empty()).then(|| Identity::authenticated(user, groups))
}
