//! Errors of opening, reading, watching and compacting.

use std::io;
use std::path::PathBuf;

use crate::EngineError;

/// Why a store could not be opened. Its file is unchanged, byte for byte.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The path, or a parent of it, is not a folder.
    #[error("data folder {}: not a folder; choose another path, or move the file away", folder.display())]
    NotAFolder { folder: PathBuf },
    /// The folder cannot be created, accessed or written to.
    #[error("data folder {}: cannot {act}: {source}", folder.display())]
    Folder {
        folder: PathBuf,
        /// The operation that failed.
        act: &'static str,
        source: io::Error,
    },
    /// Other users can access the folder, and it has other files, so its mode is not changed.
    #[error(
        "data folder {}: mode {mode:o} lets other users access it, and it already contains other files; \
         run chmod 700 on it, or choose an empty folder",
        folder.display()
    )]
    Exposed { folder: PathBuf, mode: u32 },
    /// Another process has it, or this one has it twice.
    #[error(
        "data folder {} is in use{}; stop that process first or name another folder",
        folder.display(),
        holder.map_or(String::new(), |pid| format!(" by process {pid}"))
    )]
    InUse {
        folder: PathBuf,
        /// The id of the process that has it, if known.
        holder: Option<u32>,
    },
    /// The file is not what this program writes, or was damaged.
    #[error(
        "{}: it is damaged or not a store: {reason}; nothing was changed; restore it from a backup, or move it away \
         to begin with an empty store",
        file.display()
    )]
    Corrupted { file: PathBuf, reason: String },
    /// The file comes from a newer version.
    #[error(
        "{}: it has format {found}, this program knows formats up to {known}; nothing was changed; use the newer \
         version of this program",
        file.display()
    )]
    Newer { file: PathBuf, found: u64, known: u64 },
    /// The file cannot be read or written.
    #[error("{}: {source}", file.display())]
    File { file: PathBuf, source: io::Error },
    /// An engine without a file failed.
    #[error("the store's log: {0}")]
    Engine(#[source] EngineError),
    /// The writer thread could not be started.
    #[error("cannot start the store's writer thread: {0}")]
    Thread(#[source] io::Error),
}

/// Why a revision cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// It is compacted.
    #[error("the revision is too old; the oldest that can be read is {oldest}")]
    Expired {
        /// The oldest revision that can be read.
        oldest: u64,
    },
    /// It does not exist yet.
    #[error("the revision is in the future; the newest is {newest}")]
    Future {
        /// The newest revision.
        newest: u64,
    },
}

/// Why a watch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    /// Events that this watcher has not seen were dropped: list again.
    #[error("the watcher fell behind; the oldest revision that can be watched from is {oldest}")]
    Expired {
        /// The oldest revision that can be watched from.
        oldest: u64,
    },
    /// The store was closed, and everything that happened before was delivered.
    #[error("the store is closed")]
    Closed,
}

/// Why the log was not compacted.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CompactError {
    /// The revision does not exist yet.
    #[error("cannot compact up to revision {revision}; the newest is {newest}")]
    Future {
        revision: u64,
        /// The newest revision.
        newest: u64,
    },
    /// The write failed. The store continues; retry later.
    #[error("the store cannot write: {cause}")]
    Unavailable { cause: String },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}
