//! All integration tests of this crate, as one program: each further program is linked with everything again.

#![allow(clippy::unwrap_used)] // A test that finds nothing to unwrap has failed.

mod fuzz;
mod housekeeping;
mod in_process;
mod kinds;
mod protobuf;
mod security;
mod slow;
