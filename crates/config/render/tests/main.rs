//! All integration tests of this crate, as one program: each further program is linked with everything again.

mod findings;
mod golden;
mod props;
mod remote;
mod rows;
mod support;
mod yaml_oracle;
