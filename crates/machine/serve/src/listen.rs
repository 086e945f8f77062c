//! The endpoint on a socket: TLS, HTTP/1.1, and limits for everything that a stranger can use up.
//!
//! Differs: upstream always opens a second port, 22624, without TLS, and has a setting for cipher suites. A config has
//! secrets in it, so there is no such port; and of cipher suites there are only strong ones, so there is nothing to choose.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::CONNECTION;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use seaworthy_listen::{Arrival, BindError, Door, Limits};
use tracing::debug;

use crate::certificates::Certificates;
use crate::endpoint::{Endpoint, Visitor};

/// A fleet that boots at once comes in waves of some hundreds; no address takes more than half of the places. A stranger has
/// one for the time of a handshake and a request, unless it is needed before. Two slow processors shake 4,096 hands in three
/// seconds.
pub const LIMITS: Limits = Limits {
    connections: 4096,
    of_one_address: 2048,
    newcomer: Duration::from_secs(5),
    handshake: Duration::from_secs(10),
    farewell: Duration::from_secs(1),
};
/// How long a client may take to send its headers, and may be silent between requests.
const HEADERS: Duration = Duration::from_secs(15);
/// How long a connection may last: whoever reads that slowly is no machine that boots.
const LIFETIME: Duration = Duration::from_secs(300);
/// How much of a request's head is taken in.
const HEAD: usize = 16 * 1024;
/// How many headers it may have.
const HEADER_COUNT: usize = 64;

/// How long clients are waited for; a test has less time than a machine.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For shaking hands.
    pub handshake: Duration,
    /// For the headers of a request.
    pub headers: Duration,
    /// For everything on one connection.
    pub lifetime: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience { handshake: LIMITS.handshake, headers: HEADERS, lifetime: LIFETIME }
    }
}

/// An endpoint that listens.
pub struct Listening {
    door: Door,
    endpoint: Arc<Endpoint>,
    certificates: Arc<Certificates>,
    patience: Patience,
    limits: Limits,
}

impl Listening {
    /// Takes the address.
    pub async fn bind(
        endpoint: Arc<Endpoint>,
        certificates: Arc<Certificates>,
        address: SocketAddr,
    ) -> Result<Listening, BindError> {
        Ok(Listening::through(endpoint, certificates, Door::open(address).await?))
    }

    /// Listens where somebody has taken the address already.
    pub fn through(endpoint: Arc<Endpoint>, certificates: Arc<Certificates>, door: Door) -> Listening {
        Listening { door, endpoint, certificates, patience: Patience::default(), limits: LIMITS }
    }

    /// Waits this long for clients.
    pub fn with_patience(self, patience: Patience) -> Listening {
        Listening { patience, ..self }
    }

    /// Has room for so many connections; the time for shaking hands is a matter of patience.
    pub fn with_limits(self, limits: Limits) -> Listening {
        Listening { limits, ..self }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.door.address()
    }

    /// Serves until `stop` is done, and then lets requests under way finish for a moment.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let Listening { door, endpoint, certificates, patience, limits } = self;
        let limits = Limits { handshake: patience.handshake, ..limits };
        let serve = move |arrival: Arrival| serve(Arc::clone(&endpoint), arrival, patience);
        door.serve(limits, || certificates.current(), stop, serve).await;
    }
}

/// Serves one connection until it ends.
async fn serve(endpoint: Arc<Endpoint>, arrival: Arrival, patience: Patience) {
    let Arrival { stream, peer, watcher, guest } = arrival;
    // Only a certificate that was checked is there.
    let has_certificate = stream.get_ref().1.peer_certificates().is_some_and(|chain| !chain.is_empty());
    let visitor = Visitor { address: peer, has_certificate };
    let service = service_fn(move |request| {
        let response = endpoint.answer(&request, visitor, Instant::now());
        // To whoever is not let in the answer says that it is the last one.
        if !response.headers().contains_key(CONNECTION) {
            guest.admit();
        }
        async move { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience.headers)
        .max_buf_size(HEAD)
        .max_headers(HEADER_COUNT)
        .serve_connection(TokioIo::new(stream), service);
    match tokio::time::timeout(patience.lifetime, watcher.watch(connection)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => debug!(%peer, %error, "a connection ended"),
        Err(_) => debug!(%peer, "a connection lasted too long"),
    }
}
