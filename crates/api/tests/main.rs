//! All integration tests of this crate, as one program: each further program is linked with everything again.

mod crds;
mod lossless;
mod reference;
mod rules;
mod structural;
mod upstream;
