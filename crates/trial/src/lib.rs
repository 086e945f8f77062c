//! What tests ask of the machine that they run on: programs that may be missing, a disk that is small, a
//! machine with a systemd of its own.
//!
//! A test that cannot run here says so in a way that `cargo xtask test` repeats at its end.

mod machine;
mod program;
pub mod small_disk;

pub use machine::Machine;
pub use program::{program, skip};
