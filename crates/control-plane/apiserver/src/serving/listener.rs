//! TLS server: HTTP/1.1 and HTTP/2 on a socket, with limits for unauthenticated clients.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use seaworthy_listen::{BindError, Connection, ConnectionLimits, Keypair, Listener, TlsError, addresses, tls};
use thiserror::Error;
use tokio::time::Instant;
use tracing::debug;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::access::Identity;
use crate::authentication::PeerCertificate;
use crate::response::status::Failure;
use crate::server::Server;
use crate::serving::pki::{Pki, PkiError};
use crate::serving::slow_client::{DeadlineBody, StallGuard};

/// Each connection costs some tens of kilobytes; a fleet's watches need a few thousand, and often come from one
/// address.
const LIMITS: ConnectionLimits = ConnectionLimits {
    connections: 8192,
    per_address: usize::MAX,
    eviction_grace: Duration::from_secs(8),
    handshake_timeout: Duration::from_secs(10),
    shutdown_grace: Duration::from_secs(1),
};
/// How long a client may take to send its headers, from the end of the handshake or of the previous response: as in
/// kube-apiserver.
const HEADER_TIMEOUT: Duration = Duration::from_secs(32);
/// How long a request may take, including its body and a long list; the events of a watch are exempt.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a client may read nothing of a response, including the events of a watch.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// How often an idle HTTP/2 connection is pinged.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);
/// Concurrent requests of one HTTP/2 connection: as in kube-apiserver.
const MAX_CONCURRENT_STREAMS: u32 = 250;

/// Why the server does not listen.
#[derive(Debug, Error)]
pub enum ListenError {
    /// The address is in use or not available.
    #[error(transparent)]
    Bind(#[from] BindError),
    #[error(transparent)]
    Pki(#[from] PkiError),
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// The server on a bound address.
pub struct TlsServer {
    server: Server,
    listener: Listener,
    tls: Arc<ServerConfig>,
}

impl TlsServer {
    /// Binds the address, with a certificate for all names by which clients may reach it.
    pub async fn bind(server: Server, pki: &Pki, address: SocketAddr) -> Result<TlsServer, ListenError> {
        TlsServer::with_listener(server, pki, Listener::bind(address).await?)
    }

    /// Listens on an address that is bound already.
    ///
    /// # Errors
    ///
    /// If there is no certificate for it.
    pub fn with_listener(server: Server, pki: &Pki, listener: Listener) -> Result<TlsServer, ListenError> {
        let addresses = addresses::reachable(listener.address());
        let names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
        let serving = pki.serving(&addresses, &names, server.clock().now())?;
        let keypair = Keypair { certificates: &serving.certificate, key: &serving.key };
        // A client without a certificate has a token, or is anonymous.
        let tls = tls::config(keypair, Some(pki.authority()), tls::DEFAULT_VERSIONS, &["h2", "http/1.1"])?;
        Ok(TlsServer { server, listener, tls: Arc::new(tls) })
    }

    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Serves until `stop` completes. Then watches end, and running requests have a grace period.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let (server, tls) = (self.server, self.tls);
        let stop = {
            let server = server.clone();
            async move {
                stop.await;
                server.end_watches();
            }
        };
        let serve = move |connection: Connection| serve(server.clone(), connection);
        self.listener.serve(LIMITS, || Arc::clone(&tls), stop, serve).await;
    }
}

/// Serves one connection until it ends.
async fn serve(server: Server, connection: Connection) {
    let Connection { stream, watcher, admission, .. } = connection;
    // A client that completed the handshake may hold a long watch: only clients before that make room for others.
    admission.admit();
    let peer = stream.get_ref().1.peer_certificates().and_then(|chain| identity(chain.first()?));
    let service = tower_service_fn(server, peer);
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_CONCURRENT_STREAMS)
        .keep_alive_interval(KEEP_ALIVE_INTERVAL);
    let stream = TokioIo::new(StallGuard::new(stream, HEADER_TIMEOUT, WRITE_TIMEOUT));
    if let Err(error) = watcher.watch(builder.serve_connection(stream, service).into_owned()).await {
        debug!(%error, "connection closed");
    }
}

fn tower_service_fn(
    server: Server,
    peer: Option<Identity>,
) -> impl hyper::service::Service<
    Request<Incoming>,
    Response = http::Response<DeadlineBody>,
    Error = std::convert::Infallible,
    Future: Send,
> + Clone {
    TowerToHyperService::new(ConnectionService { server, peer })
}

/// The server for one connection, with the identity of its client certificate.
#[derive(Clone)]
struct ConnectionService {
    server: Server,
    peer: Option<Identity>,
}

impl tower_service::Service<Request<Incoming>> for ConnectionService {
    type Response = http::Response<DeadlineBody>;
    type Error = std::convert::Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
        tower_service::Service::<Request<Incoming>>::poll_ready(&mut self.server, cx)
    }

    fn call(&mut self, mut request: Request<Incoming>) -> Self::Future {
        // Only clients in the process set their identity: over a socket, credentials prove it.
        request.extensions_mut().remove::<Identity>();
        if let Some(identity) = &self.peer {
            request.extensions_mut().insert(PeerCertificate(identity.clone()));
        }
        let answer = self.server.call(request);
        Box::pin(async move {
            let end = Instant::now() + RESPONSE_TIMEOUT;
            let answer = match tokio::time::timeout_at(end, answer).await {
                // Failures are responses too.
                Ok(Ok(answer)) => answer,
                Err(_) => Failure::timed_out().into_response(&[]),
            };
            Ok(answer.map(|body| DeadlineBody::new(body, end)))
        })
    }
}

/// The user that a certificate names: the common name, with the organisations as groups.
fn identity(certificate: &CertificateDer<'_>) -> Option<Identity> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    // Of several names the last one counts, as for the real server.
    let user = parsed.subject().iter_common_name().last()?.as_str().ok()?.to_owned();
    let groups = parsed.subject().iter_organization().filter_map(|group| group.as_str().ok().map(str::to_owned));
    (!user.is_empty()).then(|| Identity::authenticated(user, groups))
}
