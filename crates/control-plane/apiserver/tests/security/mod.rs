//! Authentication, authorisation and secrecy, tested through the server's requests.
#![allow(clippy::unwrap_used)]

mod authentication;
mod certificates;
mod harness;
mod impersonation;
mod policies;
mod rights;
mod secrecy;
