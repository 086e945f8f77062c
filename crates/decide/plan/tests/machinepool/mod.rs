//! Rows 1 to 106 of the table of upstream behaviour of machine pools, and laws of their decisions.
//!
//! Elsewhere, because no pure function shows them:
//!
//! - 21: `a_phase_that_is_not_known_reads_as_unknown` in `seaworthy-api`, where the phase is read.
//! - 28, 33, 76: what upstream does and this does not; the rows beside them (29, 35, 47, 60) show what is done.
//! - 82, the watch: the controller's; that no Machine is made is shown here.
//! - 83: providers' machines are mapped to pools by the controller; the label value that it compares is shown here.
//! - 86, the attempt itself: the controller's; what its result means is shown here.
//! - 102 to 105: the connection to workload clusters, which is the controller's.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod admission;
mod bootstrap;
mod contract;
mod deletion;
mod infrastructure;
mod machines;
mod nodes;
mod objects;
mod ownership;
mod phases;
mod props;
mod world;
