//! Objects by key and revision: durable, cached in memory, watched.
//!
//! The store under the embedded API server. Its durable truth is a **log**: every change is one row, and the row's
//! number is the revision. What the objects are now, and what happened lately, is worked out from the log once, at the
//! start, and then kept in memory, where all reads are answered. A change is therefore one body written to disk, and a
//! read is a lookup.
//!
//! ```text
//!  commit(changes) ──▶ queue ──▶ writer thread: check all that waits ─▶ one durable append ─▶ publish ─▶ answer
//!                                                                       (Engine: redb file)      │
//!  get, list, list_at ◀── State: objects by key, recent events, one lock ◀───────────────────────┘
//!  watch ◀── a position in the events, woken by a bell; no buffer of its own
//! ```
//!
//! Grouping is what makes it fast: while one append waits for the disk, the next group gathers, so the price of a sync
//! is shared by all who wait. Bodies come with a hole where the revision goes. The writer fills it in when it knows the
//! revision, so the bytes on disk are the bytes to serve. In memory a body is what differs from another one of its
//! resource, which for most objects is next to nothing.
//!
//! The log is **compacted** when the caller says so (the store has no clock): of the rows up to a revision, each object
//! keeps its newest one, deleted objects keep none; rows after it all stay. So what was there before any event after
//! it is known, and the state at an older revision is the current one with the events since undone. In memory, events
//! also go when there are too many ([`Window`]); a watcher that has not seen one that goes is cut off.
//!
//! # What always holds
//!
//! 1. Durable before acknowledged, visible only once durable, and visible to everyone when acknowledged.
//! 2. A commit is made as a whole or not at all: for readers, for watchers, and after a crash.
//! 3. Each change has its own revision. Revisions are consecutive and never come back: not after a restart, not after a
//!    crash, not when compaction removed the newest rows.
//! 4. Every watcher gets each event of its resource after its start once, in order of revision, without a gap, until
//!    it is told [`WatchError::Expired`] or [`WatchError::Closed`].
//! 5. A read never touches the disk, and never waits for one.
//! 6. A failed write changes nothing: its callers get [`CommitError::Unavailable`], reads go on, the next write tries
//!    again.
//! 7. A folder has one process; a file that is damaged or too new is refused and stays as it is, byte for byte.
//! 8. Memory is bounded by the current objects plus the window.
//!
//! # Example
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! use std::sync::Arc;
//! use seaworthy_store::{Body, Change, Expect, Key, Store, Tags, Window};
//!
//! let store = Store::in_memory(Arc::new(|_, _| Tags::default()), Window::default())?;
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
mod engine;
mod error;
mod event;
mod feed;
mod folder;
mod key;
mod packed;
mod record;
mod state;
mod store;
mod tags;
mod watch;
mod writer;

pub use change::{Change, CommitError, Committed, Expect};
pub use engine::{Engine, EngineError, Mark, Memory, Redb, Row, RowKind};
pub use error::{CompactError, OpenError, ReadError, WatchError};
pub use event::{Event, EventKind};
pub use folder::Folder;
pub use key::Key;
pub use record::{Body, Record};
pub use state::{Page, Snapshot};
pub use store::{Store, Window};
pub use tags::{Indexer, Tags};
pub use watch::{Batch, Watch};

use state::State;
