//! All integration tests of this crate, as one program: each further program is linked with everything again.

mod adoption;
mod cuts;
mod drift;
mod faults;
mod linux;
mod rows;
mod speed;
mod support;
mod waits;
