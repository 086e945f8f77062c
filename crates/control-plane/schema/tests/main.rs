//! All integration tests of this crate, as one program: each further program is linked with everything again.

mod built_in;
mod laws;
mod openapi;
mod recorded;
mod scenarios;
