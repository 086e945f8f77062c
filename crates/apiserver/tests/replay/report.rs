//! One line for each scenario, and the list of those that are not expected to pass.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use regex::Regex;

use crate::scenario::Scenario;

/// Scenarios that do not pass. One per line: its name, then anything about it; `#` starts a remark.
#[derive(Debug, Default)]
pub struct Exceptions(BTreeSet<String>);

impl Exceptions {
    /// Reads a list.
    pub fn load(file: &Path) -> Exceptions {
        let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        Exceptions::parse(&text)
    }

    fn parse(text: &str) -> Exceptions {
        Exceptions(text.lines().filter_map(name_in).map(str::to_owned).collect())
    }

    /// Whether a scenario is listed.
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains(name)
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
        let verdict = match (differences.is_empty(), self.exceptions.contains(name)) {
            (true, false) => "ok     ",
            (false, true) => "pending",
            (true, true) => "PASSES ",
            (false, false) => "FAIL   ",
        };
        if differences.is_empty() == self.exceptions.contains(name) {
            self.wrong.push(name.to_owned());
        }
        // Writing to a string cannot fail.
        let _ = writeln!(self.lines, "{verdict} {name}");
        if differences.is_empty() {
            self.passed.push(name.to_owned());
        } else if self.exceptions.contains(name) {
            self.pending += 1;
        } else {
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
        let unknown: Vec<_> = self.exceptions.0.difference(&self.seen).map(String::as_str).collect();
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
        let list = "# not yet\nb reason\n";
        assert_eq!(problem(list, &[("a", true), ("b", false)]), None);
        assert!(problem(list, &[("a", false), ("b", false)]).unwrap().ends_with(": a"));
        assert!(problem(list, &[("a", true), ("b", true)]).unwrap().ends_with(": b"));
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
