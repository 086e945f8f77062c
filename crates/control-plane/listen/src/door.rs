//! Connections, as they come in.

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
use crate::places::{Guest, Places};

/// What a stranger can use up.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time. A client beyond them gets the place of the oldest stranger, or waits.
    pub connections: usize,
    /// Connections at a time from one address, or IPv6 network of 64 bits. One beyond them gets the place of its oldest
    /// stranger, or is closed.
    pub of_one_address: usize,
    /// For how long a stranger keeps its place in any case. It is longer than all places together take to be served.
    pub newcomer: Duration,
    /// How long a client may take to shake hands.
    pub handshake: Duration,
    /// How long connections under way are waited for when the server stops.
    pub farewell: Duration,
}

/// A socket that listens.
pub struct Door {
    listener: TcpListener,
    address: SocketAddr,
}

/// A client that has shaken hands.
pub struct Arrival {
    /// The way to it and from it.
    pub stream: TlsStream<TcpStream>,
    /// Where it comes from.
    pub peer: SocketAddr,
    /// Tells its connection when the server stops.
    pub watcher: Watcher,
    /// Lets it keep its place: until then it is a stranger's.
    pub guest: Arc<Guest>,
}

/// Takes an address. Where the machine knows no IPv6, every address (`[::]`) means every one of IPv4.
///
/// # Errors
///
/// If it is taken, or not this machine's.
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

impl Door {
    /// Takes the address.
    pub async fn open(address: SocketAddr) -> Result<Door, BindError> {
        let failed = |cause| BindError { address, cause };
        let listener = bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Door { listener, address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Has every client that comes served until `stop` is done, and then lets those under way finish for a moment.
    ///
    /// `tls` is asked for each connection, so that a new certificate counts from the next one on.
    pub async fn serve<F>(
        self,
        limits: Limits,
        tls: impl Fn() -> Arc<ServerConfig>,
        stop: impl Future<Output = ()>,
        serve: impl Fn(Arrival) -> F + Clone + Send + Sync + 'static,
    ) where
        F: Future<Output = ()> + Send,
    {
        let slots = Arc::new(Semaphore::new(limits.connections));
        let places = Places::new(limits.of_one_address, limits.newcomer);
        let graceful = GracefulShutdown::new();
        let (open, ending) = watch::channel(());
        let mut stop = std::pin::pin!(stop);
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = &mut stop => break,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Mostly "too many open files": waiting lets some of them be closed.
                    warn!(%error, "a connection was not accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let Some(place) = places.take(peer.ip()) else {
                debug!(%peer, "a connection was closed: its address has as many as one may have");
                continue;
            };
            // Where somebody of its own network leaves for it, nobody else has to.
            let must_wait = slots.available_permits() == 0 && !place.has_replaced;
            let mut left_alone = if must_wait { places.make_room() } else { None };
            let mut coming = std::pin::pin!(slots.clone().acquire_owned());
            let slot = loop {
                tokio::select! {
                    slot = &mut coming => break Some(slot),
                    () = tokio::time::sleep(left_alone.unwrap_or_default()), if left_alone.is_some() => {
                        left_alone = places.make_room();
                    }
                    () = &mut stop => break None,
                }
            };
            let Some(slot) = slot else { break };
            // Nobody closes the semaphore.
            let Ok(slot) = slot else { return };
            let _ = stream.set_nodelay(true);
            let (acceptor, watcher, serve) = (TlsAcceptor::from(tls()), graceful.watcher(), serve.clone());
            let guest = place.guest();
            let (arrived, mut ending) = (Arc::clone(&guest), ending.clone());
            // Boxed, so that a connection that waits does not hold the room that its handshake took.
            let shaking = Box::pin(async move {
                let shaken = tokio::select! {
                    shaken = tokio::time::timeout(limits.handshake, acceptor.accept(stream)) => shaken,
                    // Whoever has asked for nothing yet loses nothing, and is not waited for.
                    _ = ending.changed() => return None,
                };
                match shaken {
                    Ok(Ok(stream)) => return Some(Box::new(stream)),
                    Ok(Err(error)) => debug!(%error, "a handshake failed"),
                    Err(_) => debug!("a handshake took too long"),
                }
                None
            });
            let task = tokio::spawn(async move {
                let _held = (slot, place);
                let Some(stream) = shaking.await else { return };
                Box::pin(serve(Arrival { stream: *stream, peer, watcher, guest: arrived })).await;
            });
            places.seat(&guest, task.abort_handle());
        }
        drop((self.listener, open));
        // What has not finished by then, such as a watch, ends with its connection.
        let _ = tokio::time::timeout(limits.farewell, graceful.shutdown()).await;
    }
}
