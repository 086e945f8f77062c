//! Object store of the embedded API server: objects by key and revision, durable, cached in memory, watched.
//!
//! The durable state is a **log**: every change is one row, and the row's number is the revision. The current objects and
//! the recent events are computed from the log once, at the start, and then kept in memory, where all reads are answered.
//! A change is therefore one body written to disk, and a read is a lookup.
//!
//! ```text
//!  commit(changes) ──▶ queue ──▶ writer thread: check all that waits ─▶ one durable append ─▶ publish ─▶ answer
//!                                                                       (Engine: redb file)      │
//!  get, list, list_at ◀── State: objects by key, recent events, one lock ◀───────────────────────┘
//!  watch ◀── a position in the events, woken by a notification; no buffer of its own
//! ```
//!
//! Grouping makes it fast: while one append waits for the disk, the next group gathers, so the cost of a sync is shared by
//! all commits of a group. Bodies come without their revision. The writer inserts it when it is known, so the bytes on disk
//! are the bytes to serve. In memory a body is a delta to another one of its resource, which for most objects is small.
//!
//! The caller **compacts** the log (the store has no clock): of the rows up to a revision, each object keeps its newest one,
//! deleted objects keep none; all rows after it stay. So the state before any event after that revision is known, and the
//! state at an older revision is the current one with the events since undone. In memory, events are also dropped when
//! there are too many ([`EventWindow`]); a watcher that has not seen a dropped one expires.
//!
//! # Invariants
//!
//! 1. Durable before acknowledged, visible only once durable, and visible to everyone when acknowledged.
//! 2. A commit is atomic: for readers, for watchers, and after a crash.
//! 3. Each change has its own revision. Revisions are consecutive and never come back: not after a restart, not after a
//!    crash, not when compaction removed the newest rows.
//! 4. Every watcher gets each event of its resource after its start once, in order of revision, without a gap, until
//!    it gets [`WatchError::Expired`] or [`WatchError::Closed`].
//! 5. A read never touches the disk, and never waits for one.
//! 6. A failed write changes nothing: its callers get [`CommitError::Unavailable`], reads continue, the next write
//!    retries.
//! 7. A folder has one process; a file that is damaged or too new is rejected and stays unchanged, byte for byte.
//! 8. Memory is bounded by the current objects plus the window.
//!
//! # Example
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! use std::sync::Arc;
//! use seaworthy_store::{Body, Change, Expect, Key, Store, Tags, EventWindow};
//!
//! let store = Store::in_memory(Arc::new(|_, _| Tags::default()), EventWindow::default())?;
//! let key = Key::new("core/configmaps", "default", "greeting");
//! let mut watch = store.watch("core/configmaps", store.revision())?;
//!
//! let body = Body::new(r#"{"metadata":{"resourceVersion":""}}"#, 32);
//! store.commit(vec![Change::Put { key: key.clone(), expected: Expect::Absent, body }]).await?;
//!
//! assert_eq!(store.get(&key).unwrap().body(), r#"{"metadata":{"resourceVersion":"1"}}"#);
//! assert_eq!(watch.next().await?.events[0].record.key, key);
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod change;
mod data_folder;
mod engine;
mod error;
mod event;
mod feed;
mod key;
mod packed;
mod record;
mod state;
mod store;
mod tags;
mod watch;
mod writer;

pub use change::{Change, CommitError, Committed, Expect};
pub use data_folder::DataFolder;
pub use engine::{Engine, EngineError, MemoryLog, RedbLog, Row, RowKind, Watermarks};
pub use error::{CompactError, OpenError, ReadError, WatchError};
pub use event::{Event, EventKind};
pub use key::Key;
pub use record::{Body, Record};
pub use state::{Page, RecordList};
pub use store::{EventWindow, Store};
pub use tags::{Indexer, Tags};
pub use watch::{Batch, Watch};

use state::State;
