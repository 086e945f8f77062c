//! Every row on the server of the page on server and daemon, by its number; and what is asked of the endpoint beyond.
//! What needs a cluster is in `tests/endpoint`.
//!
//! Left out, with the reason:
//!
//! - S-24 and S-25, the image of a layered pool: the kinds that it is looked up in, MachineOSConfig and MachineOSBuild,
//!   are not among ours. An image that was built ahead is named by an annotation, and that is tested (`content.rs`).
//! - Of S-10, that 3.0 is served: it is refused as a bad request, since nothing can be brought down to it.
//! - Of S-11, that a config of 3.1 is not read, and that a wrong type is refused: what we read is wider, and the types do
//!   not let the other be written.

#![allow(clippy::unwrap_used)] // A test that finds nothing to unwrap has failed.

mod access;
mod away;
mod bootstrap;
mod content;
mod door;
mod machine;
mod metrics;
mod negotiation;
mod stub;
mod support;
