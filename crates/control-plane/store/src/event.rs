//! [`Event`]: the change of one revision, shared by all watchers.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::Record;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    Created,
    Updated,
    /// The event's record is the last state of the object, with the revision of the deletion.
    Deleted,
}

/// One change of one object. Every revision has exactly one.
#[derive(Debug)]
pub struct Event {
    pub kind: EventKind,
    /// The new state, or the last one of a deleted object. Its revision is the event's.
    pub record: Arc<Record>,
    /// The state before: selectors need both to distinguish a change from entering or leaving the selection.
    pub previous: Option<Arc<Record>>,
    line: Mutex<EncodedLine>,
}

/// The event as it goes over the wire.
#[derive(Debug)]
enum EncodedLine {
    /// Not requested yet.
    Pending,
    /// Shared by all watchers.
    Cached(Bytes),
    /// Encoded for each watcher: most watchers are past this event.
    Uncached,
}

impl Event {
    /// The memory of an event in addition to its bodies: itself, its two entries in the feeds, its records.
    const OVERHEAD: usize = 320;

    pub(crate) fn new(kind: EventKind, record: Arc<Record>, previous: Option<Arc<Record>>) -> Self {
        Event { kind, record, previous, line: Mutex::new(EncodedLine::Pending) }
    }

    /// The same event with other records, not a recent one any more.
    pub(crate) fn with(&self, record: Arc<Record>, previous: Option<Arc<Record>>) -> Self {
        Event { kind: self.kind, record, previous, line: Mutex::new(EncodedLine::Uncached) }
    }

    /// The revision at which it happened.
    pub fn revision(&self) -> u64 {
        self.record.revision
    }

    /// The event as it goes over the wire, encoded for the first watcher that needs it and shared by all others while the
    /// event is recent.
    ///
    /// For one encoding only: events of a second encoding must not use this.
    pub fn line(&self, encode: impl FnOnce(&Event) -> Bytes) -> Bytes {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        match &*line {
            EncodedLine::Cached(encoded) => encoded.clone(),
            EncodedLine::Pending => {
                let encoded = encode(self);
                *line = EncodedLine::Cached(encoded.clone());
                encoded
            }
            EncodedLine::Uncached => {
                drop(line);
                encode(self)
            }
        }
    }

    /// Drops the cached line.
    pub(crate) fn uncache_line(&self) {
        *self.line.lock().unwrap_or_else(PoisonError::into_inner) = EncodedLine::Uncached;
    }

    /// The memory that is freed when this event leaves the window: the superseded body, and a deleted object's body.
    pub(crate) fn weight(&self) -> usize {
        let kept_for_this = match self.kind {
            EventKind::Deleted => self.record.body.weight(),
            EventKind::Created | EventKind::Updated => 0,
        };
        Self::OVERHEAD + self.previous.as_ref().map_or(0, |previous| previous.body.weight()) + kept_for_this
    }
}
