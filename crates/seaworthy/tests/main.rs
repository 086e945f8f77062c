//! All integration tests of this crate, as one program: each further program is linked with everything again.

#![allow(clippy::unwrap_used)] // A test that finds nothing to unwrap has failed.

mod bad_input;
mod daemon;
mod full_disk;
mod fuzz;
mod golden;
mod live;
mod program;
mod reference;
mod remote;
mod rollout;
mod served;
mod server;
mod serving;
mod transcripts;
mod up;
mod upgrade;
