//! Why something could not be opened or read.

use std::io;
use std::path::PathBuf;

use crate::EngineError;

/// Why a store could not be opened. Its file is as it was, byte for byte.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The place is taken by something that is no folder.
    #[error("data folder {}: it is not a folder; name another place or move it away", folder.display())]
    NotAFolder {
        /// The folder that was asked for.
        folder: PathBuf,
    },
    /// The folder cannot be made, entered or written to.
    #[error("data folder {}: cannot {act}: {source}", folder.display())]
    Folder {
        /// The folder that was asked for.
        folder: PathBuf,
        /// What was tried.
        act: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// Others can look into the folder, and it holds other things, so it is not ours to lock away.
    #[error(
        "data folder {}: it has mode {mode:o}, so others can look into it, and it holds other files already; \
         run chmod 700 on it or name a folder of its own",
        folder.display()
    )]
    Exposed {
        /// The folder that was asked for.
        folder: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Another process has it, or this one has it twice.
    #[error(
        "data folder {}: it is in use{}; stop that process first or name another folder",
        folder.display(),
        holder.map_or(String::new(), |pid| format!(" by process {pid}"))
    )]
    InUse {
        /// The folder that was asked for.
        folder: PathBuf,
        /// The process that has it.
        holder: Option<u32>,
    },
    /// The file is not what this program writes, or was damaged.
    #[error(
        "{}: it is damaged or not a store: {reason}; nothing was changed; restore it from a backup, or move it away \
         to begin with an empty store",
        file.display()
    )]
    Corrupted {
        /// The store's file.
        file: PathBuf,
        /// What was found.
        reason: String,
    },
    /// The file comes from a newer version.
    #[error(
        "{}: it has format {found}, this program knows formats up to {known}; nothing was changed; use the newer \
         version of this program",
        file.display()
    )]
    Newer {
        /// The store's file.
        file: PathBuf,
        /// The file's format.
        found: u64,
        /// The newest format that this program can read.
        known: u64,
    },
    /// The file cannot be read or written.
    #[error("{}: {source}", file.display())]
    File {
        /// The store's file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// An engine without a file failed.
    #[error("the store's log: {0}")]
    Engine(#[source] EngineError),
    /// No thread for the writer.
    #[error("cannot start the store's writer thread: {0}")]
    Thread(#[source] io::Error),
}

/// Why a moment cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// It is too long ago.
    #[error("the revision is too old; the oldest that can be read is {oldest}")]
    Expired {
        /// The oldest revision that can be read.
        oldest: u64,
    },
    /// It has not come yet.
    #[error("the revision is in the future; the newest is {newest}")]
    Future {
        /// The newest revision.
        newest: u64,
    },
}

/// Why a watch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    /// Events that this watcher has not seen are gone: list again.
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
    /// The revision has not come yet.
    #[error("cannot compact up to revision {revision}; the newest is {newest}")]
    Future {
        /// What was asked for.
        revision: u64,
        /// The newest revision.
        newest: u64,
    },
    /// The disk refused. Everything goes on; ask again later.
    #[error("the store cannot write: {cause}")]
    Unavailable {
        /// What the disk said.
        cause: String,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}
