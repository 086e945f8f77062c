//! The body of an answer, on its way: handed out piece by piece, so that it is known how far it got.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tracing::info;

use crate::metrics::{Metrics, Refused, RequestLabels};

/// How much the connection is given at a time. All pieces are parts of one buffer, which everybody who is served the same
/// config shares: nothing is copied before it is encrypted.
const PIECE: usize = 1 << 20;
/// How much is held back for the end, one record of TLS: it is asked for when all else has been sent, and only that tells
/// how long sending took.
const LAST: usize = 16 << 10;

/// A body, and what is written down when it has arrived or is given up.
#[derive(Debug)]
pub struct Parcel {
    rest: Bytes,
    receipt: Receipt,
}

/// What is known of the request when it is answered. Nothing in it can be a secret: see [`crate::endpoint`].
#[derive(Debug)]
pub struct Receipt {
    /// Where it is counted.
    pub metrics: Arc<Metrics>,
    /// As what it is counted.
    pub labels: RequestLabels,
    /// Whether and why it was turned away.
    pub refused: Option<Refused>,
    /// When its head had been read.
    pub begun: Instant,
    /// From where it came.
    pub peer: std::net::SocketAddr,
    /// How it was asked.
    pub method: http::Method,
    /// For what.
    pub path: String,
    /// By which program, as it says.
    pub agent: String,
    /// Why there is no config.
    pub reason: Option<String>,
    /// How long the body is.
    pub length: usize,
    /// Whether it is neither counted nor logged.
    pub is_silent: bool,
    /// Whether it is logged.
    pub is_logged: bool,
}

impl Parcel {
    /// A body with its receipt.
    pub fn new(body: Bytes, receipt: Receipt) -> Parcel {
        Parcel { rest: body, receipt }
    }
}

impl Body for Parcel {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let length = match self.rest.len() {
            left if left > LAST => (left - LAST).min(PIECE),
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

/// The connection lets go of a body when it has taken the last piece, or when it ends.
impl Drop for Parcel {
    fn drop(&mut self) {
        let receipt = &self.receipt;
        if receipt.is_silent {
            return;
        }
        let (took, sent) = (receipt.begun.elapsed(), receipt.length - self.rest.len());
        let RequestLabels { pool, version, code } = &receipt.labels;
        if receipt.is_logged {
            info!(
                peer = %receipt.peer,
                method = %receipt.method,
                path = receipt.path,
                status = code,
                pool,
                version,
                bytes = receipt.length,
                sent,
                micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
                agent = ?receipt.agent,
                reason = receipt.reason,
                "asked"
            );
        }
        receipt.metrics.answered(receipt.labels.clone(), receipt.refused, took, sent);
    }
}
