//! Timeouts for slow clients: closes connections that send nothing, read nothing, or read a list too slowly.
//!
//! hyper limits the time for request headers and pings HTTP/2 clients.

use std::future::Future as _;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use crate::response::Body;

/// After these bytes hyper knows the protocol and applies its own limits: the length of the HTTP/2 preface.
const PREFACE_LENGTH: usize = 24;

/// A connection with timeouts for inactivity.
pub struct StallGuard<S> {
    stream: S,
    /// The deadline of the first bytes; none once they are received.
    preface: Option<Pin<Box<Sleep>>>,
    received: usize,
    /// How long a client may read nothing.
    write_timeout: Duration,
    /// The deadline of the next read by the client, while data waits for it.
    write_deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> StallGuard<S> {
    /// A connection whose client must send data within `preface`, and read within `write_timeout`.
    pub fn new(stream: S, preface: Duration, write_timeout: Duration) -> StallGuard<S> {
        StallGuard { stream, preface: Some(Box::pin(sleep(preface))), received: 0, write_timeout, write_deadline: None }
    }

    /// The result of a write, or an error after `write_timeout`.
    fn sent<T>(&mut self, cx: &mut Context<'_>, attempt: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if attempt.is_ready() {
            self.write_deadline = None;
            return attempt;
        }
        let write_timeout = self.write_timeout;
        let write_deadline = self.write_deadline.get_or_insert_with(|| Box::pin(sleep(write_timeout)));
        ready!(write_deadline.as_mut().poll(cx));
        Poll::Ready(Err(too_slow("the client does not read the response")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StallGuard<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if self.preface.is_none() {
            return read;
        }
        match read {
            Poll::Ready(result) => {
                self.received += buffer.filled().len() - before;
                if self.received >= PREFACE_LENGTH {
                    self.preface = None;
                }
                Poll::Ready(result)
            }
            Poll::Pending => match self.preface.as_mut().map(|preface| preface.as_mut().poll(cx)) {
                Some(Poll::Ready(())) => Poll::Ready(Err(too_slow("the client sends nothing"))),
                _ => Poll::Pending,
            },
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallGuard<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let attempt = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.sent(cx, attempt)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let attempt = Pin::new(&mut self.stream).poll_flush(cx);
        self.sent(cx, attempt)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let attempt = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.sent(cx, attempt)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let attempt = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.sent(cx, attempt)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// A response body with a deadline, if it is generated on demand.
pub struct DeadlineBody {
    body: Body,
    end: Option<Pin<Box<Sleep>>>,
}

impl DeadlineBody {
    /// Watches have no deadline and complete bodies are small; a long list must be read by `end`.
    pub fn new(body: Body, end: Instant) -> DeadlineBody {
        let end = body.is_long().then(|| Box::pin(tokio::time::sleep_until(end)));
        DeadlineBody { body, end }
    }
}

impl HttpBody for DeadlineBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if let Some(end) = &mut self.end
            && end.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Some(Err(too_slow("the client reads the list too slowly"))));
        }
        // This error type has no values.
        Pin::new(&mut self.body).poll_frame(cx).map_err(|never| match never {})
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn too_slow(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what)
}
