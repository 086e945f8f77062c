//! [`ResponseBody`]: sends a body in chunks, and logs and counts the request when it is sent or given up.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tracing::info;

use crate::metrics::{Metrics, RejectReason, RequestLabels};

/// How much the connection gets at a time. All chunks are slices of one buffer, which all clients of the same config share:
/// nothing is copied before it is encrypted.
const CHUNK_BYTES: usize = 1 << 20;
/// The size of the last chunk, one TLS record: the connection asks for it when everything else has been sent, which is how
/// the time of sending is measured.
const LAST_CHUNK_BYTES: usize = 16 << 10;

/// A body, and the record of its request.
#[derive(Debug)]
pub struct ResponseBody {
    rest: Bytes,
    record: RequestRecord,
}

/// What is logged and counted of a request. Nothing in it can be a secret: see [`crate::endpoint`].
#[derive(Debug)]
pub struct RequestRecord {
    /// The counters.
    pub metrics: Arc<Metrics>,
    /// The labels of its counters.
    pub labels: RequestLabels,
    /// Why it was rejected, if it was.
    pub rejected: Option<RejectReason>,
    /// When its headers had been read.
    pub started: Instant,
    /// The client's address.
    pub peer: std::net::SocketAddr,
    pub method: http::Method,
    /// Its path, as far as it may be logged.
    pub path: String,
    /// The `User-Agent`.
    pub agent: String,
    /// Why no config is served.
    pub reason: Option<String>,
    /// Length of the body in bytes.
    pub length: usize,
    /// Whether it is neither counted nor logged.
    pub is_silent: bool,
    /// Whether it is logged.
    pub is_logged: bool,
}

impl ResponseBody {
    /// A body with the record of its request.
    pub fn new(body: Bytes, record: RequestRecord) -> ResponseBody {
        ResponseBody { rest: body, record }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let length = match self.rest.len() {
            left if left > LAST_CHUNK_BYTES => (left - LAST_CHUNK_BYTES).min(CHUNK_BYTES),
            left => left,
        };
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

/// The connection drops a body when it has taken the last chunk, or when it ends.
impl Drop for ResponseBody {
    fn drop(&mut self) {
        let record = &self.record;
        if record.is_silent {
            return;
        }
        let (took, sent) = (record.started.elapsed(), record.length - self.rest.len());
        let RequestLabels { pool, version, code } = &record.labels;
        if record.is_logged {
            info!(
                peer = %record.peer,
                method = %record.method,
                path = record.path,
                status = code,
                pool,
                version,
                bytes = record.length,
                sent,
                micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
                agent = ?record.agent,
                reason = record.reason,
                "request"
            );
        }
        record.metrics.answered(record.labels.clone(), record.rejected, took, sent);
    }
}
