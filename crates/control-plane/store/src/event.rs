//! What happened at one revision, kept once for all watchers.

use std::sync::{Arc, Mutex, PoisonError};

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
    line: Mutex<Line>,
}

/// The event as it goes over the wire.
#[derive(Debug)]
enum Line {
    /// Nobody has asked for it yet.
    Unmade,
    /// Kept for all watchers.
    Made(Bytes),
    /// Made for whoever asks, and not kept: most watchers are past this event.
    Old,
}

impl Event {
    /// What an event costs beside its bodies: itself, its two places in the windows, its records.
    const OVERHEAD: usize = 320;

    pub(crate) fn new(kind: EventKind, record: Arc<Record>, previous: Option<Arc<Record>>) -> Self {
        Event { kind, record, previous, line: Mutex::new(Line::Unmade) }
    }

    /// The same event with other records, not a recent one any more.
    pub(crate) fn with(&self, record: Arc<Record>, previous: Option<Arc<Record>>) -> Self {
        Event { kind: self.kind, record, previous, line: Mutex::new(Line::Old) }
    }

    /// The revision at which it happened.
    pub fn revision(&self) -> u64 {
        self.record.revision
    }

    /// The event as it goes over the wire, made by the first watcher that needs it and shared by all others while the
    /// event is recent.
    ///
    /// Only for one encoding: whoever serves a second one encodes it without this.
    pub fn line(&self, encode: impl FnOnce(&Event) -> Bytes) -> Bytes {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        match &*line {
            Line::Made(made) => made.clone(),
            Line::Unmade => {
                let made = encode(self);
                *line = Line::Made(made.clone());
                made
            }
            Line::Old => {
                drop(line);
                encode(self)
            }
        }
    }

    /// Lets go of the line.
    pub(crate) fn age(&self) {
        *self.line.lock().unwrap_or_else(PoisonError::into_inner) = Line::Old;
    }

    /// The memory that goes when this event leaves the window: the superseded body, and a deleted object's body.
    pub(crate) fn weight(&self) -> usize {
        let kept_for_this = match self.kind {
            EventKind::Deleted => self.record.body.weight(),
            EventKind::Created | EventKind::Updated => 0,
        };
        Self::OVERHEAD + self.previous.as_ref().map_or(0, |previous| previous.body.weight()) + kept_for_this
    }
}
