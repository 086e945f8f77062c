//! [`Writer`]: the thread that writes. It appends all pending commits at once, publishes their events, and replies.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::data_folder::DataFolder;
use crate::engine::{RowKind, Watermarks};
use crate::packed::{Packed, Packer};
use crate::store::Shared;
use crate::tags::Interner;
use crate::{
    Change, CommitError, Committed, CompactError, Engine, EngineError, Event, EventKind, EventWindow, Indexer, Key,
    Record, Row, State, Tags,
};

/// Limits of a group, so that its first commit does not wait too long.
const MAX_GROUP_COMMITS: usize = 1024;
const MAX_GROUP_BYTES: usize = 8 << 20;

/// How long to wait for the next commit of a group: much less than a sync takes, and long enough for a task to be woken and
/// to commit again.
const GROUP_TIMEOUT: Duration = Duration::from_micros(50);

/// Limit of the rows that one step of a compaction removes: commits wait no longer than that takes.
const MAX_COMPACTION_ROWS: usize = 256;

/// A request to the thread.
pub(crate) enum Request {
    Commit(Commit),
    /// Removes some of the superseded rows; the reply is whether there are more.
    Compact {
        revision: u64,
        reply: oneshot::Sender<Result<bool, CompactError>>,
    },
    Reindex {
        resource: Arc<str>,
        reply: oneshot::Sender<()>,
    },
    Close {
        reply: oneshot::Sender<()>,
    },
}

pub(crate) struct Commit {
    /// The changes with their tags.
    pub(crate) changes: Vec<(Change, Tags)>,
    pub(crate) reply: oneshot::Sender<Result<Committed, CommitError>>,
}

pub(crate) struct Writer {
    engine: Box<dyn Engine>,
    shared: Arc<Shared>,
    indexer: Indexer,
    interner: Interner,
    packer: Packer,
    compacted: u64,
    /// Rows that a compaction may remove, in the order of the rows that superseded them.
    superseded: VecDeque<Superseded>,
    last_group: usize,
    /// Whether the last append failed.
    is_failing: bool,
    // After the engine, so that the folder is unlocked once its file is closed.
    _folder: Option<DataFolder>,
}

/// Ends all watches when it is dropped.
struct Closing(Arc<Shared>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.write().close();
    }
}

struct Superseded {
    row: u64,
    by: u64,
}

impl Writer {
    /// Reads the log and builds the state from it.
    pub(crate) fn load(
        mut engine: Box<dyn Engine>,
        folder: Option<DataFolder>,
        indexer: Indexer,
        window: EventWindow,
    ) -> Result<(Self, Arc<Shared>), EngineError> {
        let watermarks = engine.watermarks()?;
        let mut state = State::new(watermarks.compacted, window);
        let (mut interner, mut packer) = (Interner::default(), Packer::default());
        let mut superseded = VecDeque::new();
        engine.load(&mut |row| {
            // Each row after the compacted part follows the one before.
            if row.revision > watermarks.compacted && row.revision != state.revision + 1 {
                return Err(EngineError::Corrupted(format!("row {} is missing", state.revision + 1)));
            }
            let previous = state.get(&row.key).cloned();
            superseded.extend(superseded_by(row.revision, row.kind, previous.as_deref()));
            let tags = indexer(&row.key, &row.body);
            let Row { revision, kind, created_revision, key, body } = row;
            let body = packer.pack(&key.resource, body);
            let record = record(&mut interner, previous.as_ref(), key, revision, created_revision, body, tags);
            if revision > watermarks.compacted {
                state.apply(event(kind, record, previous));
            } else {
                state.restore(record, kind == RowKind::Delete);
            }
            Ok(())
        })?;
        if state.revision != watermarks.revision {
            return Err(EngineError::Corrupted(format!("row {} is missing", state.revision + 1)));
        }
        let shared = Arc::new(Shared::new(state));
        let writer = Writer {
            engine,
            shared: shared.clone(),
            indexer,
            interner,
            packer,
            compacted: watermarks.compacted,
            superseded,
            last_group: 0,
            is_failing: false,
            _folder: folder,
        };
        Ok((writer, shared))
    }

    /// Runs until a close request, or until all handles are dropped.
    pub(crate) fn run(mut self, requests: &Receiver<Request>) {
        // Also after a panic below: watchers must not wait for events indefinitely.
        let closing = Closing(self.shared.clone());
        let mut reply_when_closed = None;
        let mut waiting = None;
        while let Some(request) = waiting.take().or_else(|| requests.recv().ok()) {
            match request {
                Request::Commit(first) => {
                    let (group, next) = self.gather(first, requests);
                    waiting = next;
                    self.last_group = group.len();
                    self.commit(group);
                }
                Request::Compact { revision, reply } => {
                    // The caller may be gone; the request is handled all the same, here and below.
                    let _ = reply.send(self.compact(revision));
                }
                Request::Reindex { resource, reply } => {
                    self.reindex(&resource);
                    let _ = reply.send(());
                }
                Request::Close { reply } => {
                    reply_when_closed = Some(reply);
                    break;
                }
            }
        }
        drop(self);
        drop(closing);
        if let Some(reply) = reply_when_closed {
            let _ = reply.send(());
        }
    }

    /// The commits that are pending after the first one, and the other request that ended the group, if any.
    fn gather(&self, first: Commit, requests: &Receiver<Request>) -> (Vec<Commit>, Option<Request>) {
        let mut bytes = first.bytes();
        let mut group = vec![first];
        while group.len() < MAX_GROUP_COMMITS && bytes < MAX_GROUP_BYTES {
            // The callers of the last group have just got their replies and are about to commit again. Without a short wait
            // the first of them would have a sync of its own and all others would wait for two.
            let timeout = if group.len() < self.last_group { GROUP_TIMEOUT } else { Duration::ZERO };
            match requests.recv_timeout(timeout) {
                Ok(Request::Commit(commit)) => {
                    bytes += commit.bytes();
                    group.push(commit);
                }
                Ok(other) => return (group, Some(other)),
                Err(_) => break,
            }
        }
        (group, None)
    }

    fn commit(&mut self, commits: Vec<Commit>) {
        let mut group = Group { revision: self.shared.read().revision, ..Group::default() };
        let mut replies = Vec::with_capacity(commits.len());
        for Commit { changes, reply } in commits {
            replies.push((reply, group.add(changes, &self.shared, &mut self.interner, &mut self.packer)));
        }
        if !group.rows.is_empty() {
            if let Err(error) = self.engine.append(&group.rows) {
                // Once, not for every commit that a full disk refuses.
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::error!(%error, "store: write failed; commits are rejected until writes succeed");
                }
                let (cause, is_full) = (Arc::from(error.to_string()), error.is_full());
                let failure = CommitError::Unavailable { cause, is_full };
                for (reply, _) in replies {
                    // A conflict too: it may be one with a change that was not written.
                    let _ = reply.send(Err(failure.clone()));
                }
                return;
            }
            if std::mem::replace(&mut self.is_failing, false) {
                tracing::info!("store: writes succeed again");
            }
            self.publish(group.events);
        }
        for (reply, result) in replies {
            let _ = reply.send(result);
        }
    }

    fn publish(&mut self, events: Vec<Arc<Event>>) {
        let mut resources = BTreeSet::new();
        for event in &events {
            resources.insert(event.record.key.resource.clone());
            let kind = row_kind(event.kind);
            self.superseded.extend(superseded_by(event.revision(), kind, event.previous.as_deref()));
        }
        {
            let mut state = self.shared.write();
            for event in events {
                state.apply(event);
            }
        }
        self.shared.read().notify(&resources);
    }

    fn compact(&mut self, revision: u64) -> Result<bool, CompactError> {
        let newest = self.shared.read().revision;
        if revision > newest {
            return Err(CompactError::Future { revision, newest });
        }
        let compacted = self.compacted.max(revision);
        let rows: Vec<u64> = self
            .superseded
            .iter()
            .take_while(|superseded| superseded.by <= compacted)
            .take(MAX_COMPACTION_ROWS)
            .map(|superseded| superseded.row)
            .collect();
        if rows.is_empty() && compacted == self.compacted {
            return Ok(false);
        }
        self.engine.compact(Watermarks { revision: newest, compacted }, &rows).map_err(|error| {
            tracing::warn!(%error, "store: cannot compact");
            CompactError::Unavailable { cause: error.to_string() }
        })?;
        self.superseded.drain(..rows.len());
        self.compacted = compacted;
        self.shared.write().forget(compacted);
        Ok(self.superseded.front().is_some_and(|superseded| superseded.by <= compacted))
    }

    fn reindex(&mut self, resource: &Arc<str>) {
        // Only this thread changes the state, so what is computed outside the lock is still valid inside it.
        let records = self.shared.read().records(resource);
        let mut changed = HashMap::new();
        for record in &records {
            let tags = (self.indexer)(&record.key, &record.body());
            if tags != record.tags {
                changed.insert(Arc::as_ptr(record), self.interner.tags(tags, None));
            }
        }
        if !changed.is_empty() {
            self.shared.write().retag(resource, &changed);
        }
    }
}

impl Commit {
    fn bytes(&self) -> usize {
        self.changes.iter().map(|(change, _)| change.body().bytes.len()).sum()
    }
}

/// Commits that go to the log together.
#[derive(Default)]
struct Group {
    revision: u64,
    /// The objects after the commits so far, for later commits of the group.
    staged: HashMap<Key, Option<Arc<Record>>>,
    events: Vec<Arc<Event>>,
    /// The row of each event, for the log.
    rows: Vec<Row>,
}

impl Group {
    /// Adds all changes of a commit, or none.
    fn add(
        &mut self,
        changes: Vec<(Change, Tags)>,
        shared: &Shared,
        interner: &mut Interner,
        packer: &mut Packer,
    ) -> Result<Committed, CommitError> {
        let (revision, start) = (self.revision, self.events.len());
        for (change, tags) in changes {
            let found = match self.staged.get(change.key()) {
                Some(staged) => staged.clone(),
                None => shared.read().get(change.key()).cloned(),
            };
            if !change.is_met_by(found.as_ref()) {
                self.revision = revision;
                self.rows.truncate(start);
                for event in self.events.drain(start..).rev() {
                    // Back to the record before, whether that was staged or not: it equals the one of the state.
                    self.staged.insert(event.record.key.clone(), event.previous.clone());
                }
                return Err(CommitError::Conflict { key: change.key().clone(), expected: change.expected(), found });
            }
            self.revision += 1;
            let body = change.body().with_revision(self.revision);
            let (kind, key) = match change {
                Change::Put { key, .. } => (RowKind::Put, key),
                Change::Delete { key, .. } => (RowKind::Delete, key),
            };
            let created = found.as_ref().map_or(self.revision, |found| found.created_revision);
            let packed = packer.pack(&key.resource, body.clone());
            let record = record(interner, found.as_ref(), key, self.revision, created, packed, tags);
            self.staged.insert(record.key.clone(), (kind == RowKind::Put).then(|| record.clone()));
            let key = record.key.clone();
            self.rows.push(Row { revision: self.revision, kind, created_revision: created, key, body });
            self.events.push(event(kind, record, found));
        }
        let records = self.events[start..].iter().map(|event| event.record.clone()).collect();
        Ok(Committed { revision: self.revision, records })
    }
}

fn record(
    interner: &mut Interner,
    previous: Option<&Arc<Record>>,
    key: Key,
    revision: u64,
    created_revision: u64,
    body: Packed,
    tags: Tags,
) -> Arc<Record> {
    let key = previous.map_or_else(|| interner.key(&key), |previous| previous.key.clone());
    let tags = interner.tags(tags, previous.map(|previous| &previous.tags));
    Arc::new(Record { key, revision, created_revision, body, tags })
}

fn event(kind: RowKind, record: Arc<Record>, previous: Option<Arc<Record>>) -> Arc<Event> {
    let kind = match (kind, &previous) {
        (RowKind::Put, None) => EventKind::Created,
        (RowKind::Put, Some(_)) => EventKind::Updated,
        (RowKind::Delete, _) => EventKind::Deleted,
    };
    Arc::new(Event::new(kind, record, previous))
}

fn row_kind(kind: EventKind) -> RowKind {
    match kind {
        EventKind::Created | EventKind::Updated => RowKind::Put,
        EventKind::Deleted => RowKind::Delete,
    }
}

/// The rows that a row supersedes once it is compacted: the one before it, and itself if it is a deletion.
fn superseded_by(revision: u64, kind: RowKind, previous: Option<&Record>) -> impl Iterator<Item = Superseded> {
    let before = previous.map(|previous| previous.revision);
    let itself = (kind == RowKind::Delete).then_some(revision);
    before.into_iter().chain(itself).map(move |row| Superseded { row, by: revision })
}
