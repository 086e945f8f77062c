//! The handle: reads from memory, sends writes to the writer, opens and closes.

use std::fmt;
use std::path::Path;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread::{self, JoinHandle};

use tokio::sync::oneshot;

use crate::engine::{Oblivion, Redb};
use crate::folder::Folder;
use crate::writer::{Commit, Request, Writer};
use crate::{
    Change, CommitError, Committed, CompactError, Engine, EngineError, Indexer, Key, OpenError, Page, ReadError,
    Record, Snapshot, State, Watch,
};

/// How much history is kept in memory, over all resources. The oldest events go first.
///
/// Bytes are those of superseded and deleted bodies as they are kept, and of the events themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// At most so many events.
    pub events: usize,
    /// Not more bytes than this, as long as that leaves `fewest` events.
    pub bytes: usize,
    /// So many events are kept although they have more bytes than that: a few large bodies must not take from all watchers
    /// the time that they have to catch up.
    pub fewest: usize,
    /// Never more bytes than this, however few events that leaves.
    pub most_bytes: usize,
}

impl Window {
    /// Whether so many events of so many bytes are more than are kept.
    pub(crate) fn is_exceeded(&self, events: usize, bytes: usize) -> bool {
        // One event always stays, however large: else its watchers would be cut off before they could read it.
        let is_too_large = bytes > self.most_bytes || (bytes > self.bytes && events > self.fewest);
        events > 1 && (events > self.events || is_too_large)
    }
}

impl Default for Window {
    /// Room for ten thousand updates of objects of five kilobytes, some seconds of full load and hours of a quiet day,
    /// at a tenth of what the whole server may use. Of bodies that are too large to be packed, such as rendered
    /// MachineConfigs of a quarter of a mebibyte, all that a busy minute makes.
    fn default() -> Self {
        Window { events: 1 << 16, bytes: 8 << 20, fewest: 256, most_bytes: 64 << 20 }
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
    /// Opens the store in `folder`, or makes an empty one. Nothing in its file changes if it is refused.
    ///
    /// Reads the whole log, and blocks the thread meanwhile.
    pub fn open(folder: &Path, indexer: Indexer, window: Window) -> Result<Self, OpenError> {
        Store::open_in(Folder::open(folder)?, indexer, window)
    }

    /// The same in a folder that was taken before, for whoever keeps other things there too.
    pub fn open_in(folder: Folder, indexer: Indexer, window: Window) -> Result<Self, OpenError> {
        let (path, file) = (folder.path().to_owned(), folder.file());
        let refused = |error| match error {
            EngineError::Io(source) => OpenError::File { file: file.clone(), source },
            EngineError::Corrupted(reason) => OpenError::Corrupted { file: file.clone(), reason },
            EngineError::Newer { found, known } => OpenError::Newer { file: file.clone(), found, known },
            // Not by another store, or the folder would be locked; by some other user of the file.
            EngineError::InUse => OpenError::InUse { folder: path.clone(), holder: None },
        };
        let engine = Redb::open(&file).map_err(refused)?;
        let loaded = Writer::load(Box::new(engine), Some(folder), indexer.clone(), window).map_err(refused)?;
        Store::start(loaded, indexer)
    }

    /// A store that forgets everything when it is dropped.
    pub fn in_memory(indexer: Indexer, window: Window) -> Result<Self, OpenError> {
        Store::with_engine(Oblivion::default(), indexer, window)
    }

    /// A store whose log is kept by `engine`.
    pub fn with_engine(engine: impl Engine, indexer: Indexer, window: Window) -> Result<Self, OpenError> {
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

    /// Makes all changes, or none. When it answers with success, they are on disk and visible.
    ///
    /// Each change gets a revision of its own, in order; the later ones of a commit see the earlier ones. A caller
    /// that stops waiting does not stop the commit.
    pub async fn commit(&self, changes: Vec<Change>) -> Result<Committed, CommitError> {
        let mut indexed = Vec::with_capacity(changes.len());
        for change in changes {
            let (key, body) = (change.key(), change.body());
            let flaw = key.flaw().or_else(|| {
                let length = body.bytes.len();
                (body.hole > length).then(|| format!("the hole at {} is outside the body of {length} bytes", body.hole))
            });
            if let Some(reason) = flaw {
                return Err(CommitError::Invalid { key: key.clone(), reason });
            }
            // Here and not in the writer: this is the part that all cores can do at once.
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
    pub fn list(&self, resource: &str, namespace: Option<&str>) -> Snapshot {
        self.inner.shared.read().list(resource, namespace)
    }

    /// How many objects of a resource there are now.
    pub fn count(&self, resource: &str) -> usize {
        self.inner.shared.read().count(resource)
    }

    /// The current objects of all resources, in no order: what who follows [`Store::watch_all`] begins with.
    pub fn all(&self) -> Snapshot {
        self.inner.shared.read().all()
    }

    /// Up to `limit` objects of a resource as they were at `revision`, in the order of their keys, after one of them
    /// or from the start. Asked with the key of each page's last object, it gives one consistent list in parts.
    ///
    /// The cost grows with what changed since then, and with what is left to list.
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

    /// Forgets history up to `revision`: events in memory, and rows on disk that no longer matter. The current
    /// objects all stay. Done in steps, between which commits go on; if it is stopped half-way, the next one finishes.
    pub async fn compact(&self, revision: u64) -> Result<(), CompactError> {
        loop {
            let step = self.ask(|reply| Request::Compact { revision, reply }).await;
            let is_more_left = step.unwrap_or(Err(CompactError::Closed))?;
            if !is_more_left {
                return Ok(());
            }
        }
    }

    /// Computes the tags of a resource's records anew, because the indexer knows more than before. Revisions stay,
    /// and watchers are told nothing: no object changed. (Does nothing if the store is closed.)
    pub async fn reindex(&self, resource: &str) {
        self.ask(|reply| Request::Reindex { resource: resource.into(), reply }).await;
    }

    /// Finishes what was asked so far, closes the file, gives the folder free and ends all watches. Reads still work.
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
        // Without requests to come, the writer finishes and closes the file.
        self.requests = None;
        if let Some(thread) = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            // A panic of the writer was reported when it happened; there is nothing left to save here.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("revision", &self.revision()).finish_non_exhaustive()
    }
}

/// The state, between the readers and the one writer.
///
/// One lock for everything: a read sees all of a commit or nothing of it, over all resources, and nobody holds the
/// lock longer than it takes to copy pointers.
#[derive(Debug)]
pub(crate) struct Shared(RwLock<State>);

impl Shared {
    pub(crate) fn new(state: State) -> Self {
        Shared(RwLock::new(state))
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State> {
        // Poisoned only by a panic of the writer thread, after which commits fail; reads are to go on.
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}
