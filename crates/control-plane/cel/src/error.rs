//! Errors: problems found while compiling, each with its location in the text, and the error of one evaluation.

use std::fmt;
use std::sync::Arc;

use crate::source::{Location, Source};

/// Clients get at most this many problems of one expression.
const MAX_REPORTED: usize = 100;
/// A line longer than this is not repeated below its problem.
const MAX_SNIPPET: usize = 16_384;

/// One problem in an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileError {
    /// Where in the text.
    pub location: Location,
    /// What is wrong.
    pub message: String,
    /// The line it is on, if there is one, for display.
    line: Option<String>,
}

/// The problems of an expression that does not compile, in the order of their places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileErrors {
    errors: Vec<CompileError>,
    /// Set when the expression is well typed but cannot be turned into a program, such as `int('x')`.
    instantiation: bool,
}

impl CompileErrors {
    /// The problems, sorted by place.
    pub fn iter(&self) -> impl Iterator<Item = &CompileError> {
        self.errors.iter()
    }

    /// Whether the expression type-checks but a constant part of it always fails. The API server reports these with
    /// another prefix than compilation problems, and without a place.
    pub fn is_instantiation(&self) -> bool {
        self.instantiation
    }

    pub(crate) fn instantiation(message: String) -> Self {
        let error = CompileError { location: Location::NONE, message, line: None };
        CompileErrors { errors: vec![error], instantiation: true }
    }
}

impl fmt::Display for CompileErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.instantiation {
            return f.write_str(&self.errors[0].message);
        }
        for (index, error) in self.errors.iter().take(MAX_REPORTED).enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        if self.errors.len() > MAX_REPORTED {
            write!(f, "\n{} more errors were truncated", self.errors.len() - MAX_REPORTED)?;
        }
        Ok(())
    }
}

impl std::error::Error for CompileErrors {}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ERROR: <input>:{}:{}: {}", self.location.line, self.location.column + 1, self.message)?;
        let Some(line) = self.line.as_deref().filter(|line| line.len() <= MAX_SNIPPET) else { return Ok(()) };
        write!(f, "\n | {}\n | ", line.replace('\t', " "))?;
        let mut chars = line.chars();
        for _ in 0..self.location.column {
            match chars.next() {
                Some(c) if c.len_utf8() > 1 => f.write_str("\u{ff0e}")?,
                Some(_) => f.write_str(".")?,
                None => break,
            }
        }
        f.write_str(if chars.next().is_some_and(|c| c.len_utf8() > 1) { "\u{ff3e}" } else { "^" })
    }
}

/// Collects problems while an expression is read and checked.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    source: &'a Source<'a>,
    errors: Vec<CompileError>,
}

impl<'a> Report<'a> {
    pub(crate) fn new(source: &'a Source<'a>) -> Self {
        Report { source, errors: Vec::new() }
    }

    /// A problem at a code point of the text.
    pub(crate) fn at(&mut self, offset: u32, message: impl Into<String>) {
        let location = self.source.location(offset);
        let line = self.source.line(location.line).map(str::to_owned);
        self.errors.push(CompileError { location, message: message.into(), line });
    }

    /// A problem of the text as a whole.
    pub(crate) fn whole(&mut self, message: impl Into<String>) {
        self.errors.push(CompileError { location: Location::NONE, message: message.into(), line: None });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    pub(crate) fn finish(mut self) -> CompileErrors {
        self.errors.sort_by_key(|error| error.location);
        CompileErrors { errors: self.errors, instantiation: false }
    }
}

/// Why an evaluation has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvalError {
    message: Arc<str>,
    kind: ErrorKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ErrorKind {
    /// An error of the language: `&&`, `||` and comprehensions may absorb it.
    Value,
    /// No overload fits; the caller adds the name of the function.
    OverloadMismatch,
    /// The budget is used up: nothing absorbs this.
    Cost,
}

impl EvalError {
    /// An error of the language with this text.
    pub fn new(message: impl Into<Arc<str>>) -> Self {
        EvalError { message: message.into(), kind: ErrorKind::Value }
    }

    pub(crate) fn no_such_overload() -> Self {
        EvalError::new("no such overload")
    }

    /// For functions: their caller words the error.
    pub(crate) fn overload_mismatch() -> Self {
        EvalError { message: "no such overload".into(), kind: ErrorKind::OverloadMismatch }
    }

    pub(crate) fn is_overload_mismatch(&self) -> bool {
        self.kind == ErrorKind::OverloadMismatch
    }

    pub(crate) fn over_budget() -> Self {
        EvalError { message: "operation cancelled: actual cost limit exceeded".into(), kind: ErrorKind::Cost }
    }

    /// Whether the evaluation was stopped because it cost too much.
    pub fn is_over_budget(&self) -> bool {
        self.kind == ErrorKind::Cost
    }

    /// The text clients see.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for EvalError {}
