//! Findings: errors, warnings and notes about inputs and results, each with the objects and fields involved.

use std::fmt;

use seaworthy_ignition::path::Step;
use seaworthy_ignition::{Node, Path, Problem, Severity};
use serde::Serialize;

use crate::kinds;

/// One fact about the inputs or the result. Findings never change the result; those with the severity `error` are the
/// reasons why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// A stable name of the rule, for programs.
    pub code: &'static str,
    /// The pool it was found in; `None` when it is about one object, whatever the pool.
    pub pool: Option<String>,
    /// What it is about in the result: a file's path, a unit, a field. Empty when the places say it all.
    pub subject: String,
    /// The places in the inputs, the deciding one first.
    pub places: Vec<FieldLocation>,
    /// What was found, what is accepted, and what to do.
    pub message: String,
}

/// A field of an input object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldLocation {
    /// The kind of the object.
    pub kind: &'static str,
    /// The object's name.
    pub name: String,
    /// The JSON path in the object.
    pub path: String,
    /// The remote config that the path is one of, when the object refers to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
}

impl FieldLocation {
    /// A place in a MachineConfig.
    pub fn machine_config(name: impl Into<String>, path: &Path) -> Self {
        FieldLocation { kind: kinds::MACHINE_CONFIG, name: name.into(), path: path.to_string(), remote: None }
    }

    /// A place in a pool.
    pub fn pool(name: impl Into<String>, path: &str) -> Self {
        FieldLocation { kind: kinds::MACHINE_CONFIG_POOL, name: name.into(), path: path.to_owned(), remote: None }
    }
}

impl fmt::Display for FieldLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)?;
        if !self.path.is_empty() && self.path != "$" {
            write!(f, ", {}", self.path)?;
        }
        match &self.remote {
            Some(remote) => write!(f, " (in {remote})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A place in the pool itself names it.
        let is_of_pool = |pool: &&String| {
            self.places.first().is_some_and(|place| place.kind == kinds::MACHINE_CONFIG_POOL && place.name == **pool)
        };
        if let Some(pool) = self.pool.as_ref().filter(|pool| !is_of_pool(pool)) {
            write!(f, "pool {pool}: ")?;
        }
        for (nth, place) in self.places.iter().enumerate() {
            if nth > 0 {
                f.write_str(" and ")?;
            }
            write!(f, "{place}")?;
        }
        if !self.places.is_empty() {
            f.write_str(": ")?;
        }
        if !self.subject.is_empty() && !self.message.contains(&self.subject) {
            write!(f, "{}: ", self.subject)?;
        }
        f.write_str(&self.message)
    }
}

impl Finding {
    /// A problem of one MachineConfig's own, whose Ignition config that is.
    pub(crate) fn of_problem(machine_config: &str, config: &Node<'_>, problem: &Problem) -> Self {
        let path = Path::of(&["spec", "config"]).join(&as_written(config, &problem.path));
        Finding {
            severity: problem.severity,
            code: problem.code,
            pool: None,
            subject: String::new(),
            places: vec![FieldLocation::machine_config(machine_config, &path)],
            message: problem.message.clone(),
        }
    }

    /// The finding as JSON, for programs.
    pub fn to_json(&self) -> serde_json::Value {
        let mut json = serde_json::json!({
            "severity": self.severity.as_str(),
            "code": self.code,
            "message": self.message,
            "places": self.places,
        });
        if let Some(pool) = &self.pool {
            json["pool"] = pool.as_str().into();
        }
        if !self.subject.is_empty() {
            json["subject"] = self.subject.as_str().into();
        }
        json
    }

    /// Whether this keeps a pool from being rendered.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// A path with its keys in the case that their author gave them, which is taken in any.
pub(crate) fn as_written(config: &Node<'_>, path: &Path) -> Path {
    let mut node = Some(config);
    let step = |step: &Step| {
        let here = node.take();
        let (key, child) = match step {
            Step::Index(index) => (step.clone(), here.and_then(|here| here.as_list()?.get(*index))),
            Step::Key(key) => {
                let entries = here.and_then(Node::as_map);
                let exact = entries.and_then(|map| map.iter().find(|(name, _)| name == key));
                let near = || entries.and_then(|map| map.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)));
                match exact.or_else(near) {
                    Some((name, child)) => (Step::Key(name.to_owned()), Some(child)),
                    None => (step.clone(), None),
                }
            }
        };
        node = child;
        key
    };
    Path(path.0.iter().map(step).collect())
}
