//! Where the log is kept: a small trait, on disk ([`Redb`]), in memory ([`Memory`]), or not at all.

mod memory;
mod oblivion;
mod redb;
mod row;

use std::io;

pub use self::memory::Memory;
pub(crate) use self::oblivion::Oblivion;
pub use self::redb::{FILE, Redb};
pub use self::row::{Row, RowKind};

/// What an engine remembers beside the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// No revision above this was given out. At least that of the newest row.
    pub revision: u64,
    /// Rows up to this revision may lack their predecessors: they are state, not history.
    pub compacted: u64,
}

/// A durable log of rows by revision. One thread uses it.
///
/// - `append` and `compact` are atomic, and durable when they return `Ok`.
/// - After an error the log is as before when it is used again. If a crash comes first, what failed may be there,
///   complete.
/// - Dropping it flushes what is left to flush and gives the storage free.
pub trait Engine: Send + 'static {
    /// What is remembered beside the rows.
    fn mark(&mut self) -> Result<Mark, EngineError>;

    /// Shows every row in order of revision; an error of `visit` ends it. Leaves the storage as it is.
    fn load(&mut self, visit: &mut dyn FnMut(Row) -> Result<(), EngineError>) -> Result<(), EngineError>;

    /// Adds rows whose revisions follow the newest one.
    fn append(&mut self, rows: &[Row]) -> Result<(), EngineError>;

    /// Remembers `mark` and removes the rows of these revisions; one that is not there is no error.
    fn compact(&mut self, mark: Mark, superseded: &[u64]) -> Result<(), EngineError>;
}

/// Why an engine could not do it.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The storage refused: no room, no permission, a failing disk.
    #[error("{0}")]
    Io(#[source] io::Error),
    /// The storage holds something that this program did not write, or not like this.
    #[error("{0}")]
    Corrupted(String),
    /// The storage was written by a newer version of this program.
    #[error("it has format {found}; this program knows formats up to {known}")]
    Newer {
        /// The format of the storage.
        found: u64,
        /// The newest format that this program can read.
        known: u64,
    },
    /// Another process has the storage open.
    #[error("another process has it open")]
    InUse,
}

impl EngineError {
    /// Whether somebody has to make room.
    pub fn is_full(&self) -> bool {
        match self {
            EngineError::Io(error) => {
                matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            EngineError::Corrupted(_) | EngineError::Newer { .. } | EngineError::InUse => false,
        }
    }
}
