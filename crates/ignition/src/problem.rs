//! What is wrong, or worth knowing, about a config: the place, the rule, and the values involved.

use std::fmt;

use crate::node::{Node, Origin};
use crate::path::{Path, Step};

/// How bad a [`Problem`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// Probably not what the author wants; accepted all the same.
    Warning,
    /// Not accepted.
    Error,
}

impl Severity {
    /// The word for it, as people and programs read it.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One thing to say about a config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// A stable name of the rule, for programs: `path-not-absolute`.
    pub code: &'static str,
    /// The place in the config that was looked at.
    pub path: Path,
    /// Where the value was written, when a document contains it.
    pub origin: Origin,
    /// The other values that the rule compared it with.
    pub related: Vec<Origin>,
    /// What was found and what is accepted.
    pub message: String,
}

/// A place on the way down a tree, kept on the stack so that a valid config costs no allocation.
#[derive(Clone, Copy)]
pub(crate) struct Place<'p> {
    above: Option<&'p Place<'p>>,
    step: StepRef<'p>,
}

#[derive(Clone, Copy)]
enum StepRef<'p> {
    Root,
    Key(&'p str),
    Index(usize),
}

impl<'p> Place<'p> {
    pub(crate) const ROOT: Place<'static> = Place { above: None, step: StepRef::Root };

    pub(crate) fn key(&'p self, key: &'p str) -> Place<'p> {
        Place { above: Some(self), step: StepRef::Key(key) }
    }

    pub(crate) fn index(&'p self, index: usize) -> Place<'p> {
        Place { above: Some(self), step: StepRef::Index(index) }
    }

    pub(crate) fn path(&self) -> Path {
        let mut steps = Vec::new();
        let mut place = Some(self);
        while let Some(here) = place {
            match here.step {
                StepRef::Root => {}
                StepRef::Key(key) => steps.push(Step::Key(key.to_owned())),
                StepRef::Index(index) => steps.push(Step::Index(index)),
            }
            place = here.above;
        }
        steps.reverse();
        Path(steps)
    }
}

/// Collects problems.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) problems: Vec<Problem>,
}

impl Report {
    pub(crate) fn error(&mut self, place: &Place<'_>, node: &Node<'_>, code: &'static str, message: impl Into<String>) {
        self.push(Severity::Error, place, node.origin, code, message.into(), Vec::new());
    }

    pub(crate) fn warn(&mut self, place: &Place<'_>, node: &Node<'_>, code: &'static str, message: impl Into<String>) {
        self.push(Severity::Warning, place, node.origin, code, message.into(), Vec::new());
    }

    pub(crate) fn clash(
        &mut self,
        place: &Place<'_>,
        node: &Node<'_>,
        others: &[&Node<'_>],
        code: &'static str,
        message: impl Into<String>,
    ) {
        let related = others.iter().map(|other| other.origin).collect();
        self.push(Severity::Error, place, node.origin, code, message.into(), related);
    }

    fn push(
        &mut self,
        severity: Severity,
        place: &Place<'_>,
        origin: Origin,
        code: &'static str,
        message: String,
        related: Vec<Origin>,
    ) {
        self.problems.push(Problem { severity, code, path: place.path(), origin, related, message });
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.problems.iter().any(|problem| problem.severity == Severity::Error)
    }
}
