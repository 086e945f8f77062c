//! Report: one line for each scenario, and the list of those that are expected to fail.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use regex::Regex;

use crate::scenario::Scenario;

/// Scenarios that do not pass. One per line, `#` starts a remark:
///
/// - `name` alone: it always differs, in any way.
/// - `name | sometimes | difference | reason`: it may differ, but only in this way.
#[derive(Debug, Default)]
pub struct Exceptions(BTreeMap<String, Exception>);

#[derive(Debug)]
enum Exception {
    Always,
    Sometimes { difference: String },
}

impl Exceptions {
    /// Reads a list.
    pub fn load(file: &Path) -> Exceptions {
        let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        Exceptions::parse(&text)
    }

    fn parse(text: &str) -> Exceptions {
        let lines = text.lines().filter_map(|line| Some((name_in(line)?, line)));
        Exceptions(lines.map(|(name, line)| (name.to_owned(), Exception::parse(line))).collect())
    }

    /// Whether a scenario is listed.
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
}

impl Exception {
    fn parse(line: &str) -> Exception {
        match line.split(" | ").map(str::trim).collect::<Vec<_>>()[..] {
            [_] => Exception::Always,
            [_, "sometimes", difference, reason] if !difference.is_empty() && !reason.is_empty() => {
                Exception::Sometimes { difference: difference.to_owned() }
            }
            _ => panic!("{line:?} is neither a name nor `name | sometimes | difference | reason`"),
        }
    }

    /// Whether these differences, which may be none, are the expected ones.
    fn covers(&self, differences: &[String]) -> bool {
        match self {
            Exception::Always => !differences.is_empty(),
            Exception::Sometimes { difference } => {
                differences.iter().filter(|line| line.starts_with(' ')).all(|line| line.trim() == difference)
                    && differences.iter().all(|line| line.starts_with(' ') || line.starts_with("step "))
            }
        }
    }
}

fn name_in(line: &str) -> Option<&str> {
    line.split_whitespace().next().filter(|word| !word.starts_with('#'))
}

/// Whether a scenario's name or topic matches one of the patterns, which commas separate; no pattern selects all.
pub fn is_selected(patterns: &str, scenario: &Scenario) -> bool {
    patterns.is_empty()
        || patterns.split(',').any(|pattern| {
            let pattern = regex::escape(pattern.trim()).replace(r"\*", ".*").replace(r"\?", ".");
            let pattern = Regex::new(&format!("^{pattern}$")).unwrap();
            pattern.is_match(&scenario.name) || pattern.is_match(&scenario.topic)
        })
}

/// What became of the scenarios.
pub struct Report {
    exceptions: Exceptions,
    lines: String,
    passed: Vec<String>,
    pending: usize,
    wrong: Vec<String>,
    seen: BTreeSet<String>,
}

impl Report {
    /// Nothing has been run yet.
    pub fn new(exceptions: Exceptions) -> Report {
        Report {
            exceptions,
            lines: String::new(),
            passed: Vec::new(),
            pending: 0,
            wrong: Vec::new(),
            seen: BTreeSet::new(),
        }
    }

    /// Adds a scenario with what differed.
    pub fn add(&mut self, name: &str, differences: Vec<String>) {
        self.seen.insert(name.to_owned());
        let is_covered = self.exceptions.0.get(name).is_some_and(|exception| exception.covers(&differences));
        let is_listed = self.exceptions.contains(name);
        let verdict = match (differences.is_empty(), is_listed, is_covered) {
            (true, false, _) | (true, _, true) => "ok     ",
            (true, true, false) => "PASSES ",
            (false, _, true) => "pending",
            (false, _, false) => "FAIL   ",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(self.lines, "{verdict} {name}");
        match verdict {
            "FAIL   " | "PASSES " => self.wrong.push(name.to_owned()),
            "pending" => self.pending += 1,
            _ => {}
        }
        if differences.is_empty() {
            self.passed.push(name.to_owned());
        } else if !is_covered {
            for line in differences {
                let _ = writeln!(self.lines, "        {line}");
            }
        }
    }

    /// Notes a scenario that cannot be run here.
    pub fn leave_out(&mut self, name: &str) {
        self.seen.insert(name.to_owned());
        let _ = writeln!(self.lines, "left out {name}: there are no controllers");
    }

    /// Takes what passes off the list.
    pub fn shrink(&mut self, list: &Path) {
        let text = fs::read_to_string(list).unwrap();
        let kept = text.lines().filter(|line| !name_in(line).is_some_and(|name| self.passed.iter().any(|p| p == name)));
        fs::write(list, kept.flat_map(|line| [line, "\n"]).collect::<String>()).unwrap();
        self.wrong.retain(|name| !self.passed.contains(name));
    }

    /// Prints everything; panics unless all went as the list says.
    pub fn finish(self) {
        print!("{}", self.lines);
        println!("{} passed, {} pending, {} wrong", self.passed.len(), self.pending, self.wrong.len());
        if let Some(problem) = self.problem() {
            panic!("{problem}");
        }
    }

    fn problem(&self) -> Option<String> {
        if self.seen.is_empty() {
            return Some("no scenario was run: does REPLAY_ONLY match any?".to_owned());
        }
        if !self.wrong.is_empty() {
            let names = self.wrong.join(", ");
            return Some(format!("not as expected (FAIL, or PASSES though it is listed as pending): {names}"));
        }
        let unknown: Vec<_> =
            self.exceptions.0.keys().filter(|name| !self.seen.contains(*name)).map(String::as_str).collect();
        (!unknown.is_empty() && std::env::var_os("REPLAY_ONLY").is_none())
            .then(|| format!("listed, but there is no such scenario: {}", unknown.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::{Exceptions, Report, is_selected};
    use crate::scenario::Scenario;

    fn problem(list: &str, ran: &[(&str, bool)]) -> Option<String> {
        let mut report = Report::new(Exceptions::parse(list));
        for (name, passed) in ran {
            report.add(name, if *passed { Vec::new() } else { vec!["differs".to_owned()] });
        }
        report.problem()
    }

    #[test]
    fn failure_outside_the_list_and_pass_inside_it_are_both_wrong() {
        let list = "# not yet\nb\n";
        assert_eq!(problem(list, &[("a", true), ("b", false)]), None);
        assert!(problem(list, &[("a", false), ("b", false)]).unwrap().ends_with(": a"));
        assert!(problem(list, &[("a", true), ("b", true)]).unwrap().ends_with(": b"));
    }

    #[test]
    fn occasional_difference_must_be_the_listed_one() {
        let found = |differences: &[&str]| {
            let mut report = Report::new(Exceptions::parse("a | sometimes | /x: expected 1, got 2 | a race"));
            report.add("a", differences.iter().map(|line| (*line).to_owned()).collect());
            report.problem().is_some()
        };
        assert!(!found(&[]));
        assert!(!found(&["step 1 (one)", "    /x: expected 1, got 2"]));
        assert!(found(&["step 1 (one)", "    /x: expected 1, got 3"]));
        assert!(found(&["step 1 (one)", "    /x: expected 1, got 2", "    /y: unexpected 1"]));
        assert!(found(&["order of resourceVersions /0: expected 1, got 2"]));
    }

    #[test]
    #[should_panic(expected = "is neither")]
    fn exception_without_a_reason_is_refused() {
        Exceptions::parse("a | sometimes | /x: expected 1, got 2");
    }

    #[test]
    fn running_nothing_is_no_success() {
        assert!(problem("", &[]).is_some());
    }

    #[test]
    fn patterns_select_by_name_and_topic() {
        let scenario = r#"{"name": "crd-cel", "topic": "crd", "about": "", "steps": []}"#;
        let scenario = Scenario::parse(scenario).unwrap();
        for pattern in ["", "crd", "crd-*", "x,*-cel"] {
            assert!(is_selected(pattern, &scenario), "{pattern}");
        }
        for pattern in ["cel", "crd-", "x"] {
            assert!(!is_selected(pattern, &scenario), "{pattern}");
        }
    }
}
