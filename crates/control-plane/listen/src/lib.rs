//! TLS listener of the servers: a socket, TLS, and limits for what an unauthenticated client can use up before a request
//! is read.
//!
//! - [`Listener`] accepts connections, completes the TLS handshake, and passes each connection to a handler;
//! - [`addresses`] lists the addresses under which clients reach it;
//! - [`tls`] builds its TLS configuration;
//! - [`probes`] serves `/metrics`, `/healthz` and `/readyz` on a socket of its own.

pub mod addresses;
mod connection_limiter;
mod listener;
pub mod probes;
pub mod tls;

pub use connection_limiter::{AdmissionHandle, client_network};
pub use listener::{Connection, ConnectionLimits, Listener, bind};
pub use tls::{Keypair, TlsError};

use std::net::SocketAddr;

/// Why a server does not listen.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {cause}; choose another address with --listen, or port 0 for any free one")]
pub struct BindError {
    /// The requested address.
    pub address: SocketAddr,
    /// The error of the operating system.
    pub cause: std::io::Error,
}
