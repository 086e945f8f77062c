//! Test environments: programs that may be missing, a small disk, and a machine with its own systemd.
//!
//! A test that cannot run here is recorded as skipped, and `cargo xtask test` lists it at its end.

mod program;
pub mod small_disk;
mod systemd_machine;

pub use program::{program, skip};
pub use systemd_machine::SystemdMachine;
