//! Standard output. A reader that has seen enough and leaves is no failure: what it does not want is dropped without a word,
//! and the command goes on to its verdict, which scripts read from the exit code.

use std::io::{self, StdoutLock, Write};

/// A place to write to, where nobody needs to be reading.
pub struct Output<W>(W);

/// Standard output as it is, for programs.
pub fn plain() -> Output<StdoutLock<'static>> {
    Output(io::stdout().lock())
}

/// Standard output with colours where a terminal shows them, for people.
pub fn painted() -> Output<anstream::AutoStream<StdoutLock<'static>>> {
    Output(anstream::stdout().lock())
}

impl<W> Output<W> {
    /// Any other way to standard output.
    pub fn new(out: W) -> Self {
        Output(out)
    }
}

impl<W: Write> Write for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        unless_closed(self.0.write(bytes), bytes.len())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        unless_closed(self.0.write_all(bytes), ())
    }

    fn flush(&mut self) -> io::Result<()> {
        unless_closed(self.0.flush(), ())
    }
}

/// A result, or what stands for it where the reader is gone.
fn unless_closed<T>(result: io::Result<T>, instead: T) -> io::Result<T> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(instead),
        result => result,
    }
}
