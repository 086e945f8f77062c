//! Selectors: which objects a list, a watch or a deletion means.

mod field;
mod label;

pub use field::FieldSelector;
pub use label::LabelSelector;

use thiserror::Error;

/// A selector that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct SelectorError(String);
