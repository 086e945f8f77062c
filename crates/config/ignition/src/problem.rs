//! Problems of a config: the path, the rule, the severity and the values involved.

use std::collections::HashSet;

pub use seaworthy_values::Severity;

use crate::node::{Node, Origin};
use crate::path::{Path, Step};

/// One error, warning or note about a config.
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

/// The code of a value that is no string, number, list or object where one is accepted.
pub(crate) const WRONG_TYPE: &str = "wrong-type";

/// Whether the rule of this code is about a key rather than the value under it.
pub fn is_about_key(code: &str) -> bool {
    matches!(code, "unknown-key" | "key-case" | "key-twice")
}

/// Whether the rule of this code is about the conversion of a 2.x config to 3.x: such a config may be valid all the
/// same.
pub fn is_about_conversion(code: &str) -> bool {
    matches!(code, "v2-networkd" | "v2-partitions" | "v2-filesystem" | "v2-user" | "v2-link-prefix")
}

/// A path under construction on the way down a tree, kept on the stack so that a valid config costs no allocation.
#[derive(Clone, Copy)]
pub(crate) struct PathRef<'p> {
    above: Option<&'p PathRef<'p>>,
    step: StepRef<'p>,
}

#[derive(Clone, Copy)]
enum StepRef<'p> {
    Root,
    Key(&'p str),
    Index(usize),
}

impl<'p> PathRef<'p> {
    pub(crate) const ROOT: PathRef<'static> = PathRef { above: None, step: StepRef::Root };

    pub(crate) fn key(&'p self, key: &'p str) -> PathRef<'p> {
        PathRef { above: Some(self), step: StepRef::Key(key) }
    }

    pub(crate) fn index(&'p self, index: usize) -> PathRef<'p> {
        PathRef { above: Some(self), step: StepRef::Index(index) }
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
///
/// Of each code only the first [`MAX_SHOWN`] of a severity are kept and the rest counted: a config of a few hundred
/// kilobytes can break one rule a hundred thousand times, which would flood the output.
#[derive(Default)]
pub(crate) struct Report {
    problems: Vec<Problem>,
    counts: Vec<Count>,
    /// The values of the wrong type among the problems. They are left out of the config, but "missing" is not what is
    /// wrong with them.
    wrong: HashSet<Path>,
}

/// How many problems of one code and severity are kept.
const MAX_SHOWN: usize = 100;

/// How often a rule was broken.
struct Count {
    severity: Severity,
    code: &'static str,
    found: usize,
    /// The first one that was not kept.
    omitted: Option<(Path, Origin)>,
}

impl Report {
    pub(crate) fn error(
        &mut self,
        place: &PathRef<'_>,
        node: &Node<'_>,
        code: &'static str,
        message: impl Into<String>,
    ) {
        self.push(Severity::Error, place, node.origin, code, message, &[]);
    }

    pub(crate) fn warn(
        &mut self,
        place: &PathRef<'_>,
        node: &Node<'_>,
        code: &'static str,
        message: impl Into<String>,
    ) {
        self.push(Severity::Warning, place, node.origin, code, message, &[]);
    }

    pub(crate) fn clash(
        &mut self,
        place: &PathRef<'_>,
        node: &Node<'_>,
        others: &[&Node<'_>],
        code: &'static str,
        message: impl Into<String>,
    ) {
        self.push(Severity::Error, place, node.origin, code, message, others);
    }

    fn push(
        &mut self,
        severity: Severity,
        place: &PathRef<'_>,
        origin: Origin,
        code: &'static str,
        message: impl Into<String>,
        others: &[&Node<'_>],
    ) {
        if self.is_of_wrong_type(place) {
            return;
        }
        // There are a few dozen codes: a search beats a table.
        let at = self.counts.iter().position(|count| count.severity == severity && count.code == code);
        let at = at.unwrap_or_else(|| {
            self.counts.push(Count { severity, code, found: 0, omitted: None });
            self.counts.len() - 1
        });
        let count = &mut self.counts[at];
        count.found += 1;
        if count.found > MAX_SHOWN {
            count.omitted.get_or_insert_with(|| (place.path(), origin));
            return;
        }
        let related = others.iter().map(|other| other.origin).collect();
        let path = place.path();
        if code == WRONG_TYPE {
            self.wrong.insert(path.clone());
        }
        self.problems.push(Problem { severity, code, path, origin, related, message: message.into() });
    }

    /// Whether a value, or one that it lies in, is known to have the wrong type.
    fn is_of_wrong_type(&self, place: &PathRef<'_>) -> bool {
        if self.wrong.is_empty() {
            return false;
        }
        let mut path = place.path();
        while !path.is_root() {
            if self.wrong.contains(&path) {
                return true;
            }
            path.0.pop();
        }
        false
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.counts.iter().any(|count| count.severity == Severity::Error)
    }

    /// Takes out the kinds of which another report on the same config has more than it keeps, so that none is counted
    /// twice.
    pub(crate) fn forget_counted_in(&mut self, other: &Report) {
        for full in other.counts.iter().filter(|count| count.omitted.is_some()) {
            self.counts.retain(|count| (count.severity, count.code) != (full.severity, full.code));
            self.problems.retain(|problem| (problem.severity, problem.code) != (full.severity, full.code));
        }
    }

    /// The problems, and behind them one for each code that has more than are kept.
    pub(crate) fn into_problems(self) -> Vec<Problem> {
        let mut problems = self.problems;
        for Count { severity, code, found, omitted } in self.counts {
            let Some((path, origin)) = omitted else { continue };
            let message = format!(
                "{} more problems with code {code} are not listed; fix the {MAX_SHOWN} listed ones first",
                found - MAX_SHOWN
            );
            problems.push(Problem { severity, code, path, origin, related: Vec::new(), message });
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Version, parse, translate_down};

    #[test]
    fn what_is_too_much_to_read_is_counted() {
        let config = json!({"ignition": {"version": "3.5.0"}, "storage": {"files": vec![0; 350], "x": 1}});
        let problems = parse(&Node::from_json(&config)).unwrap_err();
        let of = |code: &str| problems.iter().filter(|problem| problem.code == code).collect::<Vec<_>>();
        let wrong = of("wrong-type");
        assert_eq!(wrong.len(), MAX_SHOWN + 1);
        assert_eq!(wrong[MAX_SHOWN - 1].path.to_string(), "storage.files[99]");
        assert_eq!(wrong[MAX_SHOWN].path.to_string(), "storage.files[100]");
        assert_eq!(wrong[MAX_SHOWN].severity, Severity::Error);
        assert!(
            wrong[MAX_SHOWN].message.starts_with("250 more problems with code wrong-type "),
            "{}",
            wrong[MAX_SHOWN].message
        );
        // One code does not use up the room of another.
        assert_eq!(of("unknown-key").len(), 1);
        assert_eq!(of("path-missing").len(), MAX_SHOWN + 1);
    }

    #[test]
    fn as_many_as_are_kept_need_no_count() {
        let config = json!({"ignition": {"version": "3.5.0"}, "storage": {"files": vec![0; MAX_SHOWN]}});
        let problems = parse(&Node::from_json(&config)).unwrap_err();
        assert_eq!(problems.iter().filter(|problem| problem.code == "wrong-type").count(), MAX_SHOWN);
    }

    #[test]
    fn warnings_are_counted_apart_from_errors_and_without_becoming_some() {
        let files: Vec<_> = (0..150).map(|at| json!({"path": format!("/{at}"), "mode": 0o4755, "x": 1})).collect();
        let config = json!({"ignition": {"version": "3.5.0"}, "storage": {"files": files}});
        let config = Node::from_json(&config);
        let parsed = parse(&config).unwrap();
        assert_eq!(parsed.warnings.len(), 2 * (MAX_SHOWN + 1));
        let problems = translate_down(&parsed.config, Version::V3_2).unwrap_err();
        assert_eq!(problems.len(), MAX_SHOWN + 1);
    }

    #[test]
    fn mistakes_of_a_2_config_are_counted_once() {
        let files: Vec<_> = (0..350).map(|_| json!({"filesystem": "root", "path": "a"})).collect();
        let config = json!({"ignition": {"version": "2.2.0"}, "storage": {"files": files}});
        let mut config = Node::from_json(&config);
        config.number(0);
        let problems = parse(&config).unwrap_err();
        let errors: Vec<_> = problems.iter().filter(|problem| problem.code == "path-not-absolute").collect();
        let counts: Vec<_> =
            errors.iter().filter(|problem| problem.message.contains(" more problems with code ")).collect();
        assert_eq!(counts.len(), 1);
        assert_eq!(counts[0].path.to_string(), "storage.files[100].path");
    }
}
