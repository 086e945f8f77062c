//! All integration tests of this crate, as one program: each further program is linked with everything again.

#![allow(clippy::unwrap_used)] // A test that finds nothing to unwrap has failed.

mod findings;
mod golden;
mod props;
mod remote;
mod rows;
mod support;
mod yaml_oracle;
