//! Failures that end a command, and the exit codes that scripts rely on.

use std::fmt::Display;
use std::process::ExitCode;

use crate::paint;

/// Everything went well.
pub const OK: u8 = 0;
/// The inputs were read, and something about them is wrong (or, for `diff`, different).
pub const WRONG: u8 = 1;
/// The command line or an input could not be understood.
pub const UNREADABLE: u8 = 2;

/// The reason why a command could not do its work.
#[derive(Debug)]
pub struct Failure {
    messages: Vec<String>,
    code: u8,
}

impl Failure {
    /// An input or an argument that cannot be understood.
    pub fn unreadable(message: impl Display) -> Self {
        Failure { messages: vec![message.to_string()], code: UNREADABLE }
    }

    /// Something that was understood and went wrong.
    pub fn wrong(message: impl Display) -> Self {
        Failure { messages: vec![message.to_string()], code: WRONG }
    }

    /// Several inputs that cannot be understood.
    pub fn all_unreadable(messages: Vec<String>) -> Self {
        Failure { messages, code: UNREADABLE }
    }

    /// What is wrong, for programs.
    pub fn messages(&self) -> &[String] {
        &self.messages
    }

    /// Says what is wrong and gives the exit code.
    pub fn report(self) -> ExitCode {
        for message in &self.messages {
            paint::error(message);
        }
        ExitCode::from(self.code)
    }
}

/// Output that cannot be written.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Failure::unreadable(format!("cannot write the output: {error}"))
    }
}
