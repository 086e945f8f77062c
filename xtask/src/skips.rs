//! Skips: what could not run, and why; collected during a run, shown at its end.
//!
//! A test that needs something it does not find appends one line, `SKIPPED <lane>: <reason>`, to the file named by
//! the variable [`FILE_VARIABLE`] and returns. Steps add theirs with [`Skips::add`]. Nothing is passed over in
//! silence: the list is printed even when it is empty.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

use crate::table::{Align, Table};
use crate::workspace::Workspace;

/// Names the file for a test's `SKIPPED` lines.
pub const FILE_VARIABLE: &str = "SEAWORTHY_SKIPPED";

/// The list of one run.
pub struct Skips {
    file: PathBuf,
    entries: Vec<(String, String)>,
}

impl Skips {
    /// An empty list; the file of the run before is removed.
    pub fn start(workspace: &Workspace) -> Result<Self> {
        let file = workspace.scratch("xtask")?.join("skipped.txt");
        match fs::remove_file(&file) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {}", file.display()));
            }
            _ => {}
        }
        Ok(Self { file, entries: Vec::new() })
    }

    /// The file that tests write to.
    pub fn file(&self) -> &PathBuf {
        &self.file
    }

    /// Notes one lane. The first reason stays: later ones follow from it.
    pub fn add(&mut self, lane: &str, reason: &str) {
        if !self.entries.iter().any(|(known, _)| known == lane) {
            self.entries.push((lane.to_owned(), reason.to_owned()));
        }
    }

    /// Takes over what the tests wrote.
    pub fn collect(&mut self) -> Result<()> {
        let text = match fs::read(&self.file) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", self.file.display()));
            }
        };
        for (lane, reason) in text.lines().filter_map(parse_line) {
            self.add(lane, reason);
        }
        Ok(())
    }

    /// The list as a table, or a line that says that there is none.
    pub fn report(&self) -> String {
        if self.entries.is_empty() {
            return "Skipped: nothing\n".to_owned();
        }
        let mut table = Table::new(&[("Skipped", Align::Left), ("Reason", Align::Left)]);
        for (lane, reason) in &self.entries {
            table.row([lane.clone(), reason.clone()]);
        }
        table.plain()
    }
}

/// A line that does not keep to the form is shown as it is: losing it would hide a skip.
fn parse_line(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    if line.is_empty() {
        return None;
    }
    Some(line.strip_prefix("SKIPPED ").and_then(|rest| rest.split_once(": ")).unwrap_or((line, "(no reason given)")))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{Skips, parse_line};

    fn empty() -> Skips {
        Skips { file: PathBuf::new(), entries: Vec::new() }
    }

    #[test]
    fn empty_list_is_shown_as_empty() {
        assert_eq!(empty().report(), "Skipped: nothing\n");
    }

    #[test]
    fn lane_is_listed_once_with_its_first_reason() {
        let mut skips = empty();
        skips.add("ignition-validate", "apt-get failed");
        skips.add("ignition-validate", "not found");
        skips.add("deny", "not installed");
        assert_eq!(
            skips.report(),
            "Skipped            Reason\nignition-validate  apt-get failed\ndeny               not installed\n"
        );
    }

    #[test]
    fn lines_of_tests_are_read() {
        assert_eq!(parse_line("SKIPPED kubectl: not found: PATH"), Some(("kubectl", "not found: PATH")));
        assert_eq!(parse_line("garbled"), Some(("garbled", "(no reason given)")));
        assert_eq!(parse_line("  "), None);
    }
}
