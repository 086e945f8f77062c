//! All integration tests of this crate, as one program: each further program is linked with everything again.

mod disruption;
mod drain;
mod garbage;
mod golden;
mod histories;
mod node_status;
mod pool;
mod props;
mod reservations;
mod rows;
mod scale;
mod support;
