//! All integration tests of this crate, as one program: each further program is linked with everything again.

#![allow(clippy::unwrap_used)] // A test that finds nothing to unwrap has failed.

mod crds;
mod lossless;
mod pages;
mod reference;
mod rules;
mod structural;
mod upstream;
