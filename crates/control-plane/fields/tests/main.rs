//! All integration tests of this crate, as one program: each further program is linked with everything again.

mod bad_input;
mod owners;
mod patches;
mod scenarios;
