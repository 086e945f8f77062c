//! Clients that are too slow: a connection that says nothing at first, takes nothing, or takes a list for ever, is cut.
//!
//! What is left to hyper: how long the headers of a request may take, and whether an HTTP/2 client still answers.

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

/// By then hyper knows which protocol is spoken, and its own limits hold: as long as what an HTTP/2 client says first.
const GREETING: usize = 24;

/// A connection with limits for silence.
pub struct Paced<S> {
    stream: S,
    /// Until when the greeting must have come; none once it has.
    greeting: Option<Pin<Box<Sleep>>>,
    greeted: usize,
    /// How long a client may take nothing of what it is sent.
    patience: Duration,
    /// Until when it must have taken something, while something waits for it.
    taking: Option<Pin<Box<Sleep>>>,
}

impl<S> Paced<S> {
    /// A connection whose client must say something within `greeting`, and take something within `patience`.
    pub fn new(stream: S, greeting: Duration, patience: Duration) -> Paced<S> {
        Paced { stream, greeting: Some(Box::pin(sleep(greeting))), greeted: 0, patience, taking: None }
    }

    /// The result of an attempt to send, unless the client has taken nothing for too long.
    fn sent<T>(&mut self, cx: &mut Context<'_>, attempt: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if attempt.is_ready() {
            self.taking = None;
            return attempt;
        }
        let patience = self.patience;
        let taking = self.taking.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(taking.as_mut().poll(cx));
        Poll::Ready(Err(too_slow("the client takes nothing of its answer")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if self.greeting.is_none() {
            return read;
        }
        match read {
            Poll::Ready(result) => {
                self.greeted += buffer.filled().len() - before;
                if self.greeted >= GREETING {
                    self.greeting = None;
                }
                Poll::Ready(result)
            }
            Poll::Pending => match self.greeting.as_mut().map(|greeting| greeting.as_mut().poll(cx)) {
                Some(Poll::Ready(())) => Poll::Ready(Err(too_slow("the client says nothing"))),
                _ => Poll::Pending,
            },
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
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

/// An answer that must be taken by a certain time, if it is one that could take for ever.
pub struct Timely {
    body: Body,
    end: Option<Pin<Box<Sleep>>>,
}

impl Timely {
    /// A watch takes as long as it takes, and what is whole already is small; a long list must be taken by `end`.
    pub fn new(body: Body, end: Instant) -> Timely {
        let end = body.is_long().then(|| Box::pin(tokio::time::sleep_until(end)));
        Timely { body, end }
    }
}

impl HttpBody for Timely {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if let Some(end) = &mut self.end
            && end.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Some(Err(too_slow("the client takes its list too slowly"))));
        }
        // The other kind of error cannot be made.
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
