//! Response bodies: bytes, chunks generated on demand, or a stream.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::mpsc;

pub struct Body(Inner);

enum Inner {
    /// The remaining bytes.
    Pieces(VecDeque<Bytes>),
    /// Chunks that are generated when the client is ready for them: a long list is never in memory as a whole.
    Lazy(Box<dyn Iterator<Item = Bytes> + Send>),
    /// Chunks as they arrive.
    Stream(mpsc::Receiver<Bytes>),
}

impl Body {
    /// An empty body.
    pub fn empty() -> Body {
        Body(Inner::Pieces(VecDeque::new()))
    }

    /// Chunks, in order.
    pub fn pieces(pieces: impl IntoIterator<Item = Bytes>) -> Body {
        Body(Inner::Pieces(pieces.into_iter().filter(|piece| !piece.is_empty()).collect()))
    }

    /// Chunks, in order, generated on demand.
    pub fn lazy(pieces: impl Iterator<Item = Bytes> + Send + 'static) -> Body {
        Body(Inner::Lazy(Box::new(pieces)))
    }

    /// Whether its chunks are generated on demand.
    pub fn is_long(&self) -> bool {
        matches!(self.0, Inner::Lazy(_))
    }

    /// The chunks of a channel, until its sender is dropped.
    pub fn stream(receiver: mpsc::Receiver<Bytes>) -> Body {
        Body(Inner::Stream(receiver))
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Inner::Pieces(_) => "Body(pieces)",
            Inner::Lazy(_) => "Body(lazy)",
            Inner::Stream(_) => "Body(stream)",
        })
    }
}

impl<B: Into<Bytes>> From<B> for Body {
    fn from(bytes: B) -> Body {
        Body::pieces([bytes.into()])
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.0 {
            Inner::Pieces(pieces) => Poll::Ready(pieces.pop_front().map(|piece| Ok(Frame::data(piece)))),
            Inner::Lazy(pieces) => Poll::Ready(pieces.next().map(|piece| Ok(Frame::data(piece)))),
            Inner::Stream(receiver) => receiver.poll_recv(cx).map(|piece| piece.map(|piece| Ok(Frame::data(piece)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Inner::Pieces(pieces) => pieces.is_empty(),
            Inner::Lazy(_) | Inner::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Pieces(pieces) => SizeHint::with_exact(pieces.iter().map(|piece| piece.len() as u64).sum()),
            Inner::Lazy(_) | Inner::Stream(_) => SizeHint::default(),
        }
    }
}
