//! The door of every server of ours: a socket, TLS, and limits for what a stranger can use up before a request is read.
//!
//! - [`Door`] accepts connections, shakes hands, and gives each to whoever serves it;
//! - [`reach`] knows under which addresses it is found;
//! - [`tls`] makes what it shakes hands with;
//! - [`probes`] answers what others ask about the process itself, on a socket of its own.

mod door;
mod places;
pub mod probes;
pub mod reach;
pub mod tls;

pub use door::{Arrival, Door, Limits, bind};
pub use places::{Guest, network};
pub use tls::{Keypair, TlsError};

use std::net::SocketAddr;

/// Why a server does not listen.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {cause}; choose another address with --listen, or port 0 for any free one")]
pub struct BindError {
    /// The address that was asked for.
    pub address: SocketAddr,
    /// What the system said.
    pub cause: std::io::Error,
}
