//! All integration tests of this crate, as one program: each further program is linked with everything again.

#![allow(clippy::unwrap_used)] // A test that finds nothing to unwrap has failed.

mod disruption;
mod drain;
mod garbage;
mod golden;
mod histories;
mod machinepool;
mod node_status;
mod pool;
mod props;
mod reservations;
mod rows;
mod scale;
mod support;
