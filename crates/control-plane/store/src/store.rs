//! [`Store`]: the handle, which reads from memory and sends writes to the writer thread.

use std::fmt;
use std::path::Path;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread::{self, JoinHandle};

use tokio::sync::oneshot;

use crate::data_folder::DataFolder;
use crate::engine::{DiscardLog, RedbLog};
use crate::writer::{Commit, Request, Writer};
use crate::{
    Change, CommitError, Committed, CompactError, Engine, EngineError, Indexer, Key, OpenError, Page, ReadError,
    Record, RecordList, State, Watch,
};

/// Limits of the events in memory, over all resources. The oldest events are dropped first.
///
/// Bytes are those of superseded and deleted bodies as they are kept, and of the events themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventWindow {
    pub max_events: usize,
    /// Applies as long as it leaves `min_events` events.
    pub soft_max_bytes: usize,
    /// Kept even above `soft_max_bytes`: a few large bodies must not take from all watchers the time that they have to catch
    /// up.
    pub min_events: usize,
    /// Applies even if it leaves fewer than `min_events` events.
    pub max_bytes: usize,
}

impl EventWindow {
    /// Whether so many events of so many bytes exceed the limits.
    pub(crate) fn is_exceeded(&self, events: usize, bytes: usize) -> bool {
        // One event always stays, however large: otherwise its watchers would expire before they could read it.
        let is_too_large = bytes > self.max_bytes || (bytes > self.soft_max_bytes && events > self.min_events);
        events > 1 && (events > self.max_events || is_too_large)
    }
}

impl Default for EventWindow {
    /// Ten thousand updates of objects of five kilobytes, which are some seconds of full load or hours of low load, at a tenth
    /// of the memory limit of the server. Of bodies that are too large to be packed, such as rendered MachineConfigs of
    /// 256 KiB, those of a busy minute.
    fn default() -> Self {
        EventWindow { max_events: 1 << 16, soft_max_bytes: 8 << 20, min_events: 256, max_bytes: 64 << 20 }
    }
}

/// A handle to the store; clones share it. Dropping the last one closes it.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    indexer: Indexer,
    requests: Option<Sender<Request>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Store {
    /// Opens the store in `folder`, or creates an empty one. Its file is unchanged if it is rejected.
    ///
    /// Reads the whole log, and blocks the thread meanwhile.
    pub fn open(folder: &Path, indexer: Indexer, window: EventWindow) -> Result<Self, OpenError> {
        Store::open_in(DataFolder::open(folder)?, indexer, window)
    }

    /// The same in a folder that is locked already, for callers that keep other files there too.
    pub fn open_in(folder: DataFolder, indexer: Indexer, window: EventWindow) -> Result<Self, OpenError> {
        let (path, file) = (folder.path().to_owned(), folder.file());
        let refused = |error| match error {
            EngineError::Io(source) => OpenError::File { file: file.clone(), source },
            EngineError::Corrupted(reason) => OpenError::Corrupted { file: file.clone(), reason },
            EngineError::Newer { found, known } => OpenError::Newer { file: file.clone(), found, known },
            // Not by another store, or the folder would be locked; by another program.
            EngineError::InUse => OpenError::InUse { folder: path.clone(), holder: None },
        };
        let engine = RedbLog::open(&file).map_err(refused)?;
        let loaded = Writer::load(Box::new(engine), Some(folder), indexer.clone(), window).map_err(refused)?;
        Store::start(loaded, indexer)
    }

    /// A store without a file, whose objects are lost when it is dropped.
    pub fn in_memory(indexer: Indexer, window: EventWindow) -> Result<Self, OpenError> {
        Store::with_engine(DiscardLog::default(), indexer, window)
    }

    /// A store whose log is kept by `engine`.
    pub fn with_engine(engine: impl Engine, indexer: Indexer, window: EventWindow) -> Result<Self, OpenError> {
        let loaded = Writer::load(Box::new(engine), None, indexer.clone(), window).map_err(OpenError::Engine)?;
        Store::start(loaded, indexer)
    }

    fn start((writer, shared): (Writer, Arc<Shared>), indexer: Indexer) -> Result<Self, OpenError> {
        let (requests, waiting) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || writer.run(&waiting))
            .map_err(OpenError::Thread)?;
        let inner = Inner { shared, indexer, requests: Some(requests), thread: Mutex::new(Some(thread)) };
        Ok(Store { inner: Arc::new(inner) })
    }

    /// Makes all changes, or none. When it returns `Ok`, they are on disk and visible.
    ///
    /// Each change gets a revision of its own, in order; the later ones of a commit see the earlier ones. A caller
    /// that stops waiting does not stop the commit.
    pub async fn commit(&self, changes: Vec<Change>) -> Result<Committed, CommitError> {
        let mut indexed = Vec::with_capacity(changes.len());
        for change in changes {
            let (key, body) = (change.key(), change.body());
            let invalid = key.invalid_reason().or_else(|| {
                let length = body.bytes.len();
                let offset = body.revision_offset;
                (offset > length).then(|| format!("revision offset {offset} is outside the body of {length} bytes"))
            });
            if let Some(reason) = invalid {
                return Err(CommitError::Invalid { key: key.clone(), reason });
            }
            // Here and not in the writer thread, so that it runs on all cores.
            let tags = (self.inner.indexer)(key, &body.bytes);
            indexed.push((change, tags));
        }
        self.ask(|reply| Request::Commit(Commit { changes: indexed, reply })).await.unwrap_or(Err(CommitError::Closed))
    }

    /// The current state of an object.
    pub fn get(&self, key: &Key) -> Option<Arc<Record>> {
        self.inner.shared.read().get(key).cloned()
    }

    /// The current objects of a resource, in one namespace or in all.
    pub fn list(&self, resource: &str, namespace: Option<&str>) -> RecordList {
        self.inner.shared.read().list(resource, namespace)
    }

    /// The current number of objects of a resource.
    pub fn count(&self, resource: &str) -> usize {
        self.inner.shared.read().count(resource)
    }

    /// The current objects of all resources, in no order: the initial state for [`Store::watch_all`].
    pub fn all(&self) -> RecordList {
        self.inner.shared.read().all()
    }

    /// Up to `limit` objects of a resource as they were at `revision`, in the order of their keys, after one of them
    /// or from the start. Asked with the key of each page's last object, it gives one consistent list in parts.
    ///
    /// The cost grows with the number of changes since then, and of objects left to list.
    pub fn list_at(
        &self,
        resource: &str,
        namespace: Option<&str>,
        revision: u64,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Page, ReadError> {
        self.inner.shared.read().list_at(resource, namespace, revision, after, limit)
    }

    /// The newest revision.
    pub fn revision(&self) -> u64 {
        self.inner.shared.read().revision
    }

    /// Follows the events of one resource after revision `from`: each once, in order, none left out.
    pub fn watch(&self, resource: &str, from: u64) -> Result<Watch, ReadError> {
        Watch::new(self.inner.shared.clone(), Some(resource.into()), from)
    }

    /// Follows the events of all resources after revision `from`: each once, in order, none left out.
    pub fn watch_all(&self, from: u64) -> Result<Watch, ReadError> {
        Watch::new(self.inner.shared.clone(), None, from)
    }

    /// Drops events up to `revision` from memory, and superseded rows from disk. All current objects stay. It runs in steps,
    /// between which commits continue; if it is interrupted, the next one finishes it.
    pub async fn compact(&self, revision: u64) -> Result<(), CompactError> {
        loop {
            let step = self.ask(|reply| Request::Compact { revision, reply }).await;
            let has_more = step.unwrap_or(Err(CompactError::Closed))?;
            if !has_more {
                return Ok(());
            }
        }
    }

    /// Computes the tags of a resource's records again, after the indexer's configuration changed. Revisions stay, and
    /// watchers get no event: no object changed. (Does nothing if the store is closed.)
    pub async fn reindex(&self, resource: &str) {
        self.ask(|reply| Request::Reindex { resource: resource.into(), reply }).await;
    }

    /// Finishes all pending requests, closes the file, unlocks the folder and ends all watches. Reads still work.
    pub async fn close(&self) {
        self.ask(|reply| Request::Close { reply }).await;
    }

    /// Sends a request to the writer and waits for the answer; none comes from a closed store.
    async fn ask<T>(&self, request: impl FnOnce(oneshot::Sender<T>) -> Request) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.inner.requests.as_ref()?.send(request(reply)).ok()?;
        answer.await.ok()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Without senders, the writer finishes and closes the file.
        self.requests = None;
        if let Some(thread) = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            // A panic of the writer was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("revision", &self.revision()).finish_non_exhaustive()
    }
}

/// The state, shared by the readers and the one writer.
///
/// One lock for everything: a read sees all of a commit or nothing of it, over all resources, and the lock is held only
/// while pointers are copied.
#[derive(Debug)]
pub(crate) struct Shared(RwLock<State>);

impl Shared {
    pub(crate) fn new(state: State) -> Self {
        Shared(RwLock::new(state))
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State> {
        // Poisoned only by a panic of the writer thread, after which commits fail and reads continue.
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}
