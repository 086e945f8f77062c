//! What goes wrong on a machine, with the culprit in every message.

/// Why a machine did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// A path that is never used.
    #[error("path {path:?} is refused: {why}")]
    Path {
        /// The path.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The machine refused something about a path.
    #[error("cannot {verb} {path}: {why}")]
    File {
        /// What was tried.
        verb: &'static str,
        /// The path.
        path: String,
        /// What the machine said.
        why: String,
    },
    /// A program failed.
    #[error("`{line}` failed ({status}): {said}")]
    Command {
        /// The program and its arguments.
        line: String,
        /// How it ended.
        status: String,
        /// The end of what it wrote to its error output.
        said: String,
    },
    /// A program did not end in time and was stopped.
    #[error("`{line}` did not end within {seconds} s and was stopped")]
    Timeout {
        /// The program and its arguments.
        line: String,
        /// The limit.
        seconds: u64,
    },
    /// The machine has no means for it.
    #[error("this machine cannot {what}: {why}")]
    Unable {
        /// What was asked.
        what: String,
        /// What is missing, and what would do.
        why: String,
    },
    /// The power is off; only a machine in memory says so.
    #[error("the power is off")]
    Off,
}

impl HostError {
    /// A refusal about a path.
    pub fn file(verb: &'static str, path: &str, why: impl ToString) -> Self {
        HostError::File { verb, path: path.to_owned(), why: why.to_string() }
    }
}
