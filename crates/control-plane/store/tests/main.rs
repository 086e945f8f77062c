//! All integration tests of this crate, as one program: each further program is linked with everything again.

mod common;
mod concurrent;
mod contract;
mod folder;
mod full_disk;
mod model;
