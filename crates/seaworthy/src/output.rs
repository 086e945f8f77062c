//! Standard output. A closed pipe is not a failure: the rest of the output is dropped, and the command still computes its
//! exit code, which scripts read.

use std::io::{self, StdoutLock, Write};

use seaworthy_ignition::node::Node;
use seaworthy_render::yaml;
use serde_json::{Value, json};

use crate::cli::DefinitionFormat;

/// A writer that ignores a closed pipe.
pub struct Output<W>(W);

/// Standard output as it is, for programs.
pub fn plain() -> Output<StdoutLock<'static>> {
    Output(io::stdout().lock())
}

/// Standard output with colours where a terminal shows them, for people.
pub fn colored() -> Output<anstream::AutoStream<StdoutLock<'static>>> {
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

/// A result, or a substitute if the reader has closed the pipe.
fn unless_closed<T>(result: io::Result<T>, instead: T) -> io::Result<T> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(instead),
        result => result,
    }
}

/// Prints objects, ready for `kubectl apply`.
pub fn objects(objects: &[Value], format: DefinitionFormat) -> io::Result<()> {
    let mut out = io::BufWriter::new(plain());
    match format {
        DefinitionFormat::Json => {
            let list = json!({"apiVersion": "v1", "items": objects, "kind": "List"});
            writeln!(out, "{}", seaworthy_manifest::pretty(&list))?;
        }
        DefinitionFormat::Yaml => {
            for object in objects {
                out.write_all(b"---\n")?;
                yaml::write_bytes(&Node::from_json(object), &mut out)?;
            }
        }
    }
    out.flush()
}
