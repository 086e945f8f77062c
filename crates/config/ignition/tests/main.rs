//! All integration tests of this crate, as one program: each further program is linked with everything again.

mod configs;
mod golden;
mod ignition_validate;
mod oracle;
mod props;
mod recorded;
mod rows;
mod translation_oracle;
