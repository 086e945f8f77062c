//! [`Change`]: a requested write of one object, and the result of a commit.

use std::fmt;
use std::sync::Arc;

use crate::{Body, Key, Record};

/// The precondition of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// There is no such object.
    Absent,
    /// The object is there, at exactly this revision.
    Revision(u64),
    /// Anything. A deletion still needs an object to delete.
    Any,
}

impl fmt::Display for Expect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expect::Absent => f.write_str("no such object"),
            Expect::Revision(revision) => write!(f, "revision {revision}"),
            Expect::Any => f.write_str("an object"),
        }
    }
}

/// One change of one object. Each gets a revision of its own.
#[derive(Clone, Debug)]
pub enum Change {
    /// Create the object or replace its state.
    Put { key: Key, expected: Expect, body: Body },
    /// Remove the object.
    Delete {
        key: Key,
        expected: Expect,
        /// The last state, which the deletion's event carries.
        body: Body,
    },
}

impl Change {
    /// The object that changes.
    pub fn key(&self) -> &Key {
        match self {
            Change::Put { key, .. } | Change::Delete { key, .. } => key,
        }
    }

    pub(crate) fn expected(&self) -> Expect {
        match self {
            Change::Put { expected, .. } | Change::Delete { expected, .. } => *expected,
        }
    }

    pub(crate) fn body(&self) -> &Body {
        match self {
            Change::Put { body, .. } | Change::Delete { body, .. } => body,
        }
    }

    /// Whether the expectation of the change is met by the current state.
    pub(crate) fn is_met_by(&self, found: Option<&Arc<Record>>) -> bool {
        match (self.expected(), found) {
            (Expect::Absent, None) => matches!(self, Change::Put { .. }),
            (Expect::Revision(wanted), Some(found)) => found.revision == wanted,
            (Expect::Any, Some(_)) => true,
            (Expect::Any, None) => matches!(self, Change::Put { .. }),
            (Expect::Absent, Some(_)) | (Expect::Revision(_), None) => false,
        }
    }
}

/// The result of a commit: it is on disk and visible to every read that starts from now on.
#[derive(Clone, Debug)]
pub struct Committed {
    /// The revision of the last change (of the store, if there was none).
    pub revision: u64,
    /// The record of each change in order; of a deletion, the last state.
    pub records: Vec<Arc<Record>>,
}

/// Why a commit failed as a whole.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CommitError {
    /// An object is not as expected.
    #[error("{key}: expected {expected}, found {}", found.as_ref().map_or("none".to_owned(), |found| format!("revision {}", found.revision)))]
    Conflict { key: Key, expected: Expect, found: Option<Arc<Record>> },
    /// A change that can never be stored.
    #[error("{key}: {reason}")]
    Invalid { key: Key, reason: String },
    /// The write failed. Reads continue, and the next commit retries. If the process crashes before a commit succeeds, this
    /// one may turn out to be on disk, complete.
    #[error("the store cannot write: {cause}")]
    Unavailable {
        cause: Arc<str>,
        /// Whether there is no space left, which a user has to free.
        is_full: bool,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}
