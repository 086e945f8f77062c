//! Steps: the named checks of the test command, and the runner that reports on all of them.
//!
//! Every step runs, even if an earlier one failed: one run shows everything that is wrong.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::background_build::BackgroundBuild;
use crate::skips::Skips;
use crate::table::{Align, Table};
use crate::test_result::TestResult;
use crate::tool::{Availability, Tool, Toolbox};
use crate::workspace::Workspace;

/// One check.
pub struct Step {
    /// What `--only` and the reports call it.
    pub name: &'static str,
    /// A second name for `--only`, shared by several steps.
    pub group: &'static str,
    /// What is looked up, and installed, before the step runs. A missing tool does not stop the step: it, or the
    /// tests inside it, decide what still can be done.
    pub needs: &'static [&'static Tool],
    /// Does it.
    pub run: fn(&mut Run<'_>) -> Result<Outcome>,
    /// The build that it will need; `None` if it needs none, or will be skipped or fail without one. In a run of several steps it
    /// starts first, in the background.
    pub build: fn(&mut Run<'_>) -> Option<Command>,
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It ran and found nothing wrong.
    Passed,
    /// It ran and found something wrong; details have been printed.
    Failed(String),
    /// It could not run, for this reason.
    Skipped(String),
}

/// What the steps of one run share.
pub struct Run<'a> {
    /// The checkout.
    pub workspace: &'a Workspace,
    /// Programs for suites.
    pub tools: Toolbox,
    /// What could not run.
    pub skips: Skips,
    /// The sum of all test binaries.
    pub tests: TestResult,
}

impl<'a> Run<'a> {
    /// A run that has not done anything.
    pub fn start(workspace: &'a Workspace, may_install: bool) -> Result<Self> {
        Ok(Self {
            workspace,
            tools: Toolbox::new(may_install),
            skips: Skips::start(workspace)?,
            tests: TestResult::default(),
        })
    }

    /// Runs the steps in order and prints the closing report; true when nothing failed.
    pub fn finish(mut self, steps: &[&Step]) -> Result<bool> {
        let mut ended = Vec::new();
        let mut builds = BTreeMap::new();
        for step in steps.iter().filter(|_| steps.len() > 1) {
            if let Some(build) = (step.build)(&mut self) {
                builds.insert(step.name, BackgroundBuild::start(self.workspace, step.name, &build));
            }
        }
        for step in steps {
            println!("\n==> {}", step.name);
            let begun = Instant::now();
            for tool in step.needs {
                self.tools.ensure(tool);
            }
            let built = builds.remove(step.name).map(|started| started.and_then(BackgroundBuild::finish));
            let outcome = match built {
                None | Some(Ok(Outcome::Passed)) => (step.run)(&mut self),
                Some(not_built) => not_built,
            };
            let outcome = outcome.unwrap_or_else(|error| Outcome::Failed(format!("could not run: {error:#}")));
            match &outcome {
                Outcome::Passed => self.note_missing(step),
                Outcome::Failed(what) => {
                    println!("{} failed: {what}", step.name);
                    self.note_missing(step);
                }
                Outcome::Skipped(reason) => {
                    println!("{} skipped: {reason}", step.name);
                    self.skips.add(step.name, reason);
                }
            }
            ended.push((step.name, outcome, begun.elapsed()));
        }
        self.skips.collect()?;
        println!("\n{}", steps_report(&ended));
        print!("{}", self.skips.report());
        if self.tests != TestResult::default() {
            println!("\nAll test binaries together:\n{}", self.tests);
        }
        let failed: Vec<_> = ended
            .iter()
            .filter(|(_, outcome, _)| matches!(outcome, Outcome::Failed(_)))
            .map(|(name, ..)| *name)
            .collect();
        if !failed.is_empty() {
            println!("\nFailed: {}", failed.join(", "));
        }
        Ok(failed.is_empty())
    }

    /// A step that ran without one of its tools has left something out, even if no test inside it says so.
    fn note_missing(&mut self, step: &Step) {
        for tool in step.needs {
            if let Availability::Missing(reason) = self.tools.ensure(tool) {
                self.skips.add(tool.program, &reason);
            }
        }
    }
}

fn steps_report(ended: &[(&'static str, Outcome, Duration)]) -> String {
    let heading = [("Step", Align::Left), ("Seconds", Align::Right), ("Result", Align::Left)];
    let mut table = Table::new(&heading);
    for (name, outcome, took) in ended {
        let result = match outcome {
            Outcome::Passed => "passed".to_owned(),
            // Only the first line: the rest is where the step ran.
            Outcome::Failed(what) => format!("FAILED: {}", what.lines().next().unwrap_or_default()),
            Outcome::Skipped(_) => "skipped".to_owned(),
        };
        table.row([(*name).to_owned(), format!("{:.1}", took.as_secs_f64()), result]);
    }
    table.plain()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Outcome, steps_report};

    #[test]
    fn report_shows_every_step_with_its_result() {
        let ended = [
            ("fmt", Outcome::Passed, Duration::from_millis(1500)),
            ("unit", Outcome::Failed("two tests\ndetails".to_owned()), Duration::from_secs(90)),
            ("deny", Outcome::Skipped("not installed".to_owned()), Duration::ZERO),
        ];
        assert_eq!(
            steps_report(&ended),
            "Step  Seconds  Result\n\
             fmt       1.5  passed\n\
             unit     90.0  FAILED: two tests\n\
             deny      0.0  skipped\n"
        );
    }
}
