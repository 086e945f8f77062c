//! Failures and exit codes of commands; scripts rely on the codes.

use std::fmt::Display;
use std::process::ExitCode;

use crate::terminal;

/// Success.
pub const EXIT_OK: u8 = 0;
/// A negative result: a finding, a difference, a pool that cannot be rendered.
pub const EXIT_FAILED: u8 = 1;
/// The command line or an input is invalid, or the command cannot start.
pub const EXIT_INVALID: u8 = 2;

/// Why a command failed.
#[derive(Debug)]
pub struct Failure {
    messages: Vec<String>,
    code: u8,
}

impl Failure {
    /// A failure with exit code 2: an invalid argument or input.
    pub fn invalid(message: impl Display) -> Self {
        Failure { messages: vec![message.to_string()], code: EXIT_INVALID }
    }

    /// A failure with exit code 1.
    pub fn failed(message: impl Display) -> Self {
        Failure { messages: vec![message.to_string()], code: EXIT_FAILED }
    }

    /// Several invalid inputs.
    pub fn all_invalid(messages: Vec<String>) -> Self {
        Failure { messages, code: EXIT_INVALID }
    }

    pub fn messages(&self) -> &[String] {
        &self.messages
    }

    /// Prints the messages and returns the exit code.
    pub fn report(self) -> ExitCode {
        for message in &self.messages {
            terminal::error(message);
        }
        ExitCode::from(self.code)
    }
}

/// Output that cannot be written.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Failure::invalid(format!("cannot write the output: {error}"))
    }
}
