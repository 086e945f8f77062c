//! Label and field selectors of lists, watches and deletions.

mod field;
mod label;

pub use field::FieldSelector;
pub use label::LabelSelector;

use thiserror::Error;

/// A parse error of a selector.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct SelectorError(String);
