//! What happened at one revision, kept once for all watchers.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::Record;

/// What an event did to its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// There was no such object before.
    Created,
    /// The object has a new state.
    Updated,
    /// The object is gone; the event's record is its last state, with the revision of the deletion.
    Deleted,
}

/// One change of one object. Every revision has exactly one.
#[derive(Debug)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// The new state, or the last one of a deleted object. Its revision is the event's.
    pub record: Arc<Record>,
    /// The state before: selectors need both to tell "changed" from "came into view" and "went out of view".
    pub previous: Option<Arc<Record>>,
    line: OnceLock<Bytes>,
}

impl Event {
    /// What an event costs beside its bodies: itself, its two places in the windows, its records.
    const OVERHEAD: usize = 320;

    pub(crate) fn new(kind: EventKind, record: Arc<Record>, previous: Option<Arc<Record>>) -> Self {
        Event { kind, record, previous, line: OnceLock::new() }
    }

    /// The revision at which it happened.
    pub fn revision(&self) -> u64 {
        self.record.revision
    }

    /// The event as it goes over the wire, made by the first watcher that needs it and shared by all others.
    ///
    /// Only for one encoding: whoever serves a second one encodes it without this.
    pub fn line(&self, encode: impl FnOnce(&Event) -> Bytes) -> &Bytes {
        self.line.get_or_init(|| encode(self))
    }

    /// The memory that goes when this event leaves the window: the superseded body, a deleted object's body, and the
    /// encoded line, which is counted whether or not it was made yet, so that the bound holds when all are made.
    pub(crate) fn weight(&self) -> usize {
        let body = self.record.body.len();
        let kept_for_this = match self.kind {
            EventKind::Deleted => body,
            EventKind::Created | EventKind::Updated => 0,
        };
        Self::OVERHEAD + self.previous.as_ref().map_or(0, |previous| previous.body.len()) + kept_for_this + body
    }
}
