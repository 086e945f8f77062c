//! Host errors; each message names the path or the program.

/// A failed operation on a machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    #[error("path {path:?} is refused: {why}")]
    InvalidPath { path: String, why: &'static str },
    /// A failed operation on a path.
    #[error("cannot {verb} {path}: {why}")]
    File { verb: &'static str, path: String, why: String },
    #[error("`{line}` failed ({status}): {message}")]
    Command {
        /// The program and its arguments.
        line: String,
        /// The exit code or another description of its end.
        status: String,
        /// The end of its error output.
        message: String,
    },
    /// A program did not end in time and was stopped.
    #[error("`{line}` did not end within {seconds} s and was stopped")]
    Timeout {
        /// The program and its arguments.
        line: String,
        seconds: u64,
    },
    /// The machine lacks the means for an operation.
    #[error("this machine cannot {what}: {why}")]
    Unsupported {
        what: String,
        /// What is missing, and what is needed.
        why: String,
    },
    /// The power is off, on a machine in memory.
    #[error("the power is off")]
    PoweredOff,
}

impl HostError {
    pub fn file(verb: &'static str, path: &str, why: impl ToString) -> Self {
        HostError::File { verb, path: path.to_owned(), why: why.to_string() }
    }
}
