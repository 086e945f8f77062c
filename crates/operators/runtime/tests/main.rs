//! All integration tests of this crate, as one program: each further program is linked with everything again.

mod events;
mod leadership;
