//! The controllers process: the list of operators, the selection of those that run, and start and stop of the process.
//!
//! A new operator is a crate beside this one and a row in [`operators`].

pub mod operator_selection;
pub mod operators;
pub mod process;

pub use operator_selection::OperatorSelection;
pub use operators::OperatorOptions;
