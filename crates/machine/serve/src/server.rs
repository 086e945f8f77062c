//! [`EndpointServer`]: the endpoint on a socket: TLS, HTTP/1.1, and limits for what an unauthenticated client can use up.
//!
//! Differs: upstream always opens a second port, 22624, without TLS, and has a setting for cipher suites. A config has
//! secrets in it, so there is no such port; and only strong cipher suites are supported, so there is nothing to choose.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::CONNECTION;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use seaworthy_listen::{BindError, Connection, ConnectionLimits, Listener};
use tracing::debug;

use crate::certificates::Certificates;
use crate::endpoint::{Endpoint, Peer};

/// A fleet that boots at once comes in waves of some hundreds; no address takes more than half of the slots. An
/// unauthenticated client has one for the time of a handshake and a request, unless it is needed before. Two slow processors
/// complete 4,096 handshakes in three seconds.
pub const LIMITS: ConnectionLimits = ConnectionLimits {
    connections: 4096,
    per_address: 2048,
    eviction_grace: Duration::from_secs(5),
    handshake_timeout: Duration::from_secs(10),
    shutdown_grace: Duration::from_secs(1),
};
/// How long a client may take to send its headers, idle time between requests included.
const HEADERS_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a connection may last: a client that reads that slowly is not a machine that boots.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(300);
/// The largest request line and headers.
const MAX_HEAD_BYTES: usize = 16 * 1024;
const MAX_HEADERS: usize = 64;

/// Timeouts of clients; shorter ones are for tests.
#[derive(Clone, Copy, Debug)]
pub struct ClientTimeouts {
    /// For the TLS handshake.
    pub handshake: Duration,
    /// For the headers of a request.
    pub headers: Duration,
    /// For a connection as a whole.
    pub connection: Duration,
}

impl Default for ClientTimeouts {
    fn default() -> Self {
        ClientTimeouts { handshake: LIMITS.handshake_timeout, headers: HEADERS_TIMEOUT, connection: CONNECTION_TIMEOUT }
    }
}

/// An endpoint that listens.
pub struct EndpointServer {
    listener: Listener,
    endpoint: Arc<Endpoint>,
    certificates: Arc<Certificates>,
    timeouts: ClientTimeouts,
    limits: ConnectionLimits,
}

impl EndpointServer {
    /// Binds the address and listens.
    pub async fn bind(
        endpoint: Arc<Endpoint>,
        certificates: Arc<Certificates>,
        address: SocketAddr,
    ) -> Result<EndpointServer, BindError> {
        Ok(EndpointServer::with_listener(endpoint, certificates, Listener::bind(address).await?))
    }

    /// Serves on a listener that is bound already.
    pub fn with_listener(
        endpoint: Arc<Endpoint>,
        certificates: Arc<Certificates>,
        listener: Listener,
    ) -> EndpointServer {
        EndpointServer { listener, endpoint, certificates, timeouts: ClientTimeouts::default(), limits: LIMITS }
    }

    /// With other timeouts of clients.
    pub fn with_timeouts(self, timeouts: ClientTimeouts) -> EndpointServer {
        EndpointServer { timeouts, ..self }
    }

    /// With other limits of connections; the handshake timeout is that of [`ClientTimeouts`].
    pub fn with_limits(self, limits: ConnectionLimits) -> EndpointServer {
        EndpointServer { limits, ..self }
    }

    /// The address of the socket.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Serves until `stop` is done, and then waits a moment for requests in flight.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let EndpointServer { listener, endpoint, certificates, timeouts, limits } = self;
        let limits = ConnectionLimits { handshake_timeout: timeouts.handshake, ..limits };
        let serve = move |connection: Connection| serve(Arc::clone(&endpoint), connection, timeouts);
        listener.serve(limits, || certificates.current(), stop, serve).await;
    }
}

/// Serves one connection until it ends.
async fn serve(endpoint: Arc<Endpoint>, connection: Connection, timeouts: ClientTimeouts) {
    let Connection { stream, peer, watcher, admission } = connection;
    // The handshake has verified a certificate that is there.
    let has_certificate = stream.get_ref().1.peer_certificates().is_some_and(|chain| !chain.is_empty());
    let client = Peer { address: peer, has_certificate };
    let service = service_fn(move |request| {
        let response = endpoint.answer(&request, client, Instant::now());
        // A response to a client that is not admitted closes the connection.
        if !response.headers().contains_key(CONNECTION) {
            admission.admit();
        }
        async move { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(timeouts.headers)
        .max_buf_size(MAX_HEAD_BYTES)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(stream), service);
    match tokio::time::timeout(timeouts.connection, watcher.watch(connection)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => debug!(%peer, %error, "connection ended"),
        Err(_) => debug!(%peer, "connection timed out"),
    }
}
