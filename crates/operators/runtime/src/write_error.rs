//! Write errors: the write that failed, and its cause.

use std::fmt::{self, Display};
use std::time::Duration;

use seaworthy_change::ObjectRef;

use crate::client_error;
use crate::worker::{ReconcileError, RetryPolicy};

/// How long a request may take. One that hangs would hold up everything after it.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteVerb {
    /// Read, as a part of writing.
    Read,
    Create,
    /// Server-side apply.
    Apply,
    Replace,
    /// Merge patch at a known resource version.
    Patch,
    Delete,
    /// Eviction of a pod.
    Evict,
}

impl WriteVerb {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            WriteVerb::Read => "read",
            WriteVerb::Create => "create",
            WriteVerb::Apply => "apply",
            WriteVerb::Replace => "replace",
            WriteVerb::Patch => "patch",
            WriteVerb::Delete => "delete",
            WriteVerb::Evict => "evict",
        }
    }
}

impl Display for WriteVerb {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// A write that was not made.
#[derive(Debug, thiserror::Error)]
#[error("cannot {verb} {object}: {cause}")]
pub struct WriteError {
    pub verb: WriteVerb,
    pub object: Box<ObjectRef>,
    pub cause: WriteErrorCause,
}

/// Why a write was not made.
#[derive(Debug, thiserror::Error)]
pub enum WriteErrorCause {
    /// Another process leads.
    #[error("this process is no longer the leader")]
    NotLeading,
    /// The API server does not respond. The write may have been made all the same, or may be made later.
    #[error("no answer within {} s", REQUEST_TIMEOUT.as_secs())]
    Timeout,
    /// The change cannot be sent.
    #[error("the change is invalid: {0}")]
    Invalid(String),
    /// The API server refused it, or could not be reached.
    #[error("{}", client_error::summary(.0))]
    Api(#[from] kube::Error),
}

impl WriteError {
    /// The status code of the API server's response, if there was one.
    fn code(&self) -> Option<u16> {
        match &self.cause {
            WriteErrorCause::Api(kube::Error::Api(status)) => Some(status.code),
            _ => None,
        }
    }

    /// Another writer was first, or the object already exists.
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }

    /// The object does not exist (any more).
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// This very object does not exist (any more), as opposed to its kind or its namespace.
    pub fn is_gone(&self) -> bool {
        let named = match &self.cause {
            WriteErrorCause::Api(kube::Error::Api(status)) => status.details.as_ref().map(|details| &*details.name),
            _ => None,
        };
        self.is_not_found() && named == Some(&*self.object.name)
    }

    /// For an eviction: a PodDisruptionBudget does not allow it now.
    pub fn is_too_many_requests(&self) -> bool {
        self.code() == Some(429)
    }
}

impl ReconcileError for WriteError {
    fn category(&self) -> &'static str {
        match (&self.cause, self.code()) {
            (WriteErrorCause::NotLeading, _) => "not-leading",
            (WriteErrorCause::Invalid(_), _) => "invalid",
            (_, Some(401 | 403)) => "forbidden",
            (_, Some(404)) => "not-found",
            (_, Some(409)) => "conflict",
            (_, Some(400 | 413 | 415 | 422)) => "invalid",
            (_, Some(429)) => "too-many-requests",
            _ => "unavailable",
        }
    }

    fn retry(&self) -> RetryPolicy {
        match (&self.cause, self.code()) {
            (WriteErrorCause::Invalid(_), _) => RetryPolicy::OnChange,
            (_, Some(404 | 409)) => RetryPolicy::Soon,
            _ => RetryPolicy::Backoff,
        }
    }
}
