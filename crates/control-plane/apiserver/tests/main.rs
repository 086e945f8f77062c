//! All integration tests of this crate, as one program: each further program is linked with everything again.

mod fuzz;
mod housekeeping;
mod in_process;
mod kinds;
mod protobuf;
mod security;
mod slow;
