//! What tests ask of the machine that they run on: programs that may be missing, a disk that is small.
//!
//! A test that cannot run here says so in a way that `cargo xtask test` repeats at its end.

mod program;
pub mod small_disk;

pub use program::{program, skip};
