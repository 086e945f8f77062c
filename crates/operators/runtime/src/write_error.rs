//! Write errors: which write was not made, and why.

use std::fmt::{self, Display};
use std::time::Duration;

use seaworthy_change::ObjectRef;

use crate::client_error;
use crate::worker::{Failure, Retry};

/// How long a request may take. One that hangs would hold up everything after it.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// How an object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Read, as a part of writing.
    Read,
    /// Created.
    Create,
    /// Server-side apply.
    Apply,
    /// Replaced as a whole.
    Replace,
    /// Merge patch at a known revision.
    Patch,
    /// Deletion.
    Delete,
    /// Eviction of a pod.
    Evict,
}

impl Verb {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Verb::Read => "read",
            Verb::Create => "create",
            Verb::Apply => "apply",
            Verb::Replace => "replace",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
            Verb::Evict => "evict",
        }
    }
}

impl Display for Verb {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// A write that was not made.
#[derive(Debug, thiserror::Error)]
#[error("cannot {verb} {object}: {cause}")]
pub struct WriteError {
    /// How it was to be written.
    pub verb: Verb,
    /// The object.
    pub object: Box<ObjectRef>,
    /// Why not.
    pub cause: Cause,
}

/// Why a write was not made.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// Another process leads.
    #[error("this process is no longer the leader")]
    NotLeading,
    /// The API server does not answer. The write may have been made all the same, or may be made later.
    #[error("no answer within {} s", REQUEST_TIMEOUT.as_secs())]
    Timeout,
    /// The change is not one that can be sent.
    #[error("the change is invalid: {0}")]
    Invalid(String),
    /// The API server refused it, or could not be reached.
    #[error("{}", client_error::summary(.0))]
    Api(#[from] kube::Error),
}

impl WriteError {
    /// The status code of the API server's answer, if there was one.
    fn code(&self) -> Option<u16> {
        match &self.cause {
            Cause::Api(kube::Error::Api(status)) => Some(status.code),
            _ => None,
        }
    }

    /// Another writer was first, or the object exists already.
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }

    /// The object does not exist (any more).
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// For an eviction: a PodDisruptionBudget does not allow it now.
    pub fn is_too_many_requests(&self) -> bool {
        self.code() == Some(429)
    }
}

impl Failure for WriteError {
    fn category(&self) -> &'static str {
        match (&self.cause, self.code()) {
            (Cause::NotLeading, _) => "not-leading",
            (Cause::Invalid(_), _) => "invalid",
            (_, Some(401 | 403)) => "forbidden",
            (_, Some(404)) => "not-found",
            (_, Some(409)) => "conflict",
            (_, Some(400 | 413 | 415 | 422)) => "invalid",
            (_, Some(429)) => "too-many-requests",
            _ => "unavailable",
        }
    }

    fn retry(&self) -> Retry {
        match (&self.cause, self.code()) {
            (Cause::Invalid(_), _) => Retry::OnChange,
            (_, Some(404 | 409)) => Retry::Soon,
            _ => Retry::Backoff,
        }
    }
}
