//! Transports: the server on a TLS socket, and inside the process without one.

mod in_process;
mod listener;
mod pki;
mod slow_client;

pub use in_process::InProcessService;
pub use listener::{ListenError, TlsServer};
pub use pki::{CertifiedKey, Pki, PkiError};
