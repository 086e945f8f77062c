//! The controllers: each reads caches, asks a pure function what should be, and has it done.
//!
//! Nothing is decided here that could be decided in `generate`, `render` or `plan`.

pub mod caches;

pub use caches::Caches;
