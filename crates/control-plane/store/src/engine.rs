//! [`Engine`]: the storage of the log, on disk ([`RedbLog`]), in memory ([`MemoryLog`]), or none ([`DiscardLog`]).

mod discard_log;
mod memory_log;
mod redb_log;
mod row;

use std::io;

pub(crate) use self::discard_log::DiscardLog;
pub use self::memory_log::MemoryLog;
pub use self::redb_log::{FILE, RedbLog};
pub use self::row::{Row, RowKind};

/// Revisions that an engine stores in addition to the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watermarks {
    /// The newest revision that was assigned. At least that of the newest row.
    pub revision: u64,
    /// Rows up to this revision are compacted: they may lack their predecessors.
    pub compacted: u64,
}

/// A durable log of rows by revision. One thread uses it.
///
/// - `append` and `compact` are atomic, and durable when they return `Ok`.
/// - After an error the log is as before when it is used again. If a crash comes first, what failed may be there,
///   complete.
/// - Dropping it flushes and releases the storage.
pub trait Engine: Send + 'static {
    /// The stored watermarks.
    fn watermarks(&mut self) -> Result<Watermarks, EngineError>;

    /// Visits every row in order of revision; an error of `visit` ends it. Does not change the storage.
    fn load(&mut self, visit: &mut dyn FnMut(Row) -> Result<(), EngineError>) -> Result<(), EngineError>;

    /// Adds rows whose revisions follow the newest one.
    fn append(&mut self, rows: &[Row]) -> Result<(), EngineError>;

    /// Stores `watermarks` and removes the rows of these revisions; a missing one is not an error.
    fn compact(&mut self, watermarks: Watermarks, superseded: &[u64]) -> Result<(), EngineError>;
}

/// Why an operation of an engine failed.
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
    /// Whether there is no space left, which a user has to free.
    pub fn is_full(&self) -> bool {
        match self {
            EngineError::Io(error) => {
                matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            EngineError::Corrupted(_) | EngineError::Newer { .. } | EngineError::InUse => false,
        }
    }
}
