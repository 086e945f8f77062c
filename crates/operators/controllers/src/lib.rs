//! The process of the controllers: the list of operators, which of them run, and how the process starts and stops.
//!
//! A new operator is a crate beside this one and a row in [`operators`].

pub mod operators;
pub mod process;
pub mod selection;

pub use operators::Options;
pub use selection::Selection;
