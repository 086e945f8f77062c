//! Who gets in, who may do what, and what stays secret: everything over the server's front door.
#![allow(clippy::unwrap_used)]

mod authentication;
mod certificates;
mod harness;
mod impersonation;
mod policies;
mod rights;
mod secrecy;
