//! All integration tests of this crate, as one program: each further program is linked with everything again.

mod chaos;
mod preview_equivalence;
