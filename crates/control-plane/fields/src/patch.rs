//! Patch errors.

use crate::depth::MAX_DEPTH;

/// What is wrong with a patch, by the answer that it gets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// It is no patch: 400.
    #[error("{0}")]
    BadRequest(String),
    /// It asks for too much: 413.
    #[error("{0}")]
    TooLarge(String),
    /// It does not fit the object: 422.
    #[error("{0}")]
    Unprocessable(String),
    /// It does not fit the type. The real server answers 500.
    #[error("{0}")]
    Internal(String),
}

impl PatchError {
    pub(crate) fn too_deep() -> PatchError {
        PatchError::BadRequest(format!("nested more than {MAX_DEPTH} levels deep"))
    }
}
