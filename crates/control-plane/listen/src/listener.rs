//! [`Listener`]: accepts connections within [`ConnectionLimits`] and completes their TLS handshakes.

use std::future::Future;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::{debug, warn};

use crate::BindError;
use crate::connection_limiter::{AdmissionHandle, ConnectionLimiter};

/// How long to wait after a failed accept.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// What an unauthenticated client can use up.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Connections at a time. One beyond them gets the slot of the oldest unauthenticated connection, or waits.
    pub connections: usize,
    /// Connections at a time from one address, or IPv6 network of 64 bits. One beyond them gets the slot of the oldest
    /// unauthenticated connection of that address, or is closed.
    pub per_address: usize,
    /// How long an unauthenticated connection keeps its slot in any case. It is longer than serving all slots takes.
    pub eviction_grace: Duration,
    /// How long a client may take for the TLS handshake.
    pub handshake_timeout: Duration,
    /// How long the server waits for open connections when it stops.
    pub shutdown_grace: Duration,
}

/// A socket that listens.
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
}

/// A connection whose TLS handshake is complete.
pub struct Connection {
    /// The encrypted stream.
    pub stream: TlsStream<TcpStream>,
    /// The client's address.
    pub peer: SocketAddr,
    /// Ends the connection gracefully when the server stops.
    pub watcher: Watcher,
    /// Marks the connection as admitted: until then it may be closed in favour of a new one.
    pub admission: Arc<AdmissionHandle>,
}

/// Binds an address. On a machine without IPv6, the unspecified address `[::]` means `0.0.0.0`.
///
/// # Errors
///
/// If the address is in use, or is not one of this machine.
pub async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    match listener {
        Err(error)
            if address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED)
                && !matches!(error.kind(), ErrorKind::AddrInUse | ErrorKind::PermissionDenied) =>
        {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        listener => listener,
    }
}

impl Listener {
    /// Binds the address and listens.
    ///
    /// # Errors
    ///
    /// [`BindError`] if the address is in use, or is not one of this machine.
    pub async fn bind(address: SocketAddr) -> Result<Listener, BindError> {
        let failed = |cause| BindError { address, cause };
        let socket = bind(address).await.map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        Ok(Listener { socket, address })
    }

    /// The address of the socket, with the port that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves every client until `stop` is done, and then waits `shutdown_grace` for open connections.
    ///
    /// `tls` is called for each connection, so that a new certificate takes effect with the next one.
    pub async fn serve<F>(
        self,
        limits: ConnectionLimits,
        tls: impl Fn() -> Arc<ServerConfig>,
        stop: impl Future<Output = ()>,
        serve: impl Fn(Connection) -> F + Clone + Send + Sync + 'static,
    ) where
        F: Future<Output = ()> + Send,
    {
        let permits = Arc::new(Semaphore::new(limits.connections));
        let limiter = ConnectionLimiter::new(limits.per_address, limits.eviction_grace);
        let graceful = GracefulShutdown::new();
        let (open, ending) = watch::channel(());
        let mut stop = std::pin::pin!(stop);
        loop {
            let accepted = tokio::select! {
                accepted = self.socket.accept() => accepted,
                () = &mut stop => break,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Mostly "too many open files": waiting lets some of them be closed.
                    warn!(%error, "cannot accept a connection; retrying");
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                    continue;
                }
            };
            let Some(slot) = limiter.acquire(peer.ip()) else {
                debug!(%peer, "connection closed: its address has reached its limit of connections");
                continue;
            };
            // If a connection of the same network was closed for it, no other one has to be.
            let must_wait = permits.available_permits() == 0 && !slot.has_evicted;
            let mut eviction_delay = if must_wait { limiter.evict_oldest() } else { None };
            let mut acquiring = std::pin::pin!(permits.clone().acquire_owned());
            let permit = loop {
                tokio::select! {
                    permit = &mut acquiring => break Some(permit),
                    () = tokio::time::sleep(eviction_delay.unwrap_or_default()), if eviction_delay.is_some() => {
                        eviction_delay = limiter.evict_oldest();
                    }
                    () = &mut stop => break None,
                }
            };
            let Some(permit) = permit else { break };
            // The semaphore is never closed.
            let Ok(permit) = permit else { return };
            let _ = stream.set_nodelay(true);
            let (acceptor, watcher, serve) = (TlsAcceptor::from(tls()), graceful.watcher(), serve.clone());
            let admission = slot.admission();
            let (admission_of_connection, mut ending) = (Arc::clone(&admission), ending.clone());
            // Boxed, so that an idle connection does not keep the memory that its handshake took.
            let handshake = Box::pin(async move {
                let accepted = tokio::select! {
                    accepted = tokio::time::timeout(limits.handshake_timeout, acceptor.accept(stream)) => accepted,
                    // A client that has not sent a request yet loses nothing, and is not waited for.
                    _ = ending.changed() => return None,
                };
                match accepted {
                    Ok(Ok(stream)) => return Some(Box::new(stream)),
                    Ok(Err(error)) => debug!(%error, "TLS handshake failed"),
                    Err(_) => debug!("TLS handshake timed out"),
                }
                None
            });
            let task = tokio::spawn(async move {
                let _held = (permit, slot);
                let Some(stream) = handshake.await else { return };
                let admission = admission_of_connection;
                Box::pin(serve(Connection { stream: *stream, peer, watcher, admission })).await;
            });
            limiter.set_task(&admission, task.abort_handle());
        }
        drop((self.socket, open));
        // What has not finished by then, such as a watch, ends with its connection.
        let _ = tokio::time::timeout(limits.shutdown_grace, graceful.shutdown()).await;
    }
}
