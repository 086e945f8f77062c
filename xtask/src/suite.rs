//! Suite: the steps of `cargo xtask test` and `cargo xtask lint`, and those that run cargo's own tests.
//!
//! To add a suite that `cargo test` cannot express, write a function and give it a row in [`STEPS`]. A suite that
//! only needs a program is an ordinary cargo test: name the program in `needs` of `unit`.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::skips::FILE_VARIABLE;
use crate::step::{Outcome, Run, Step};
use crate::test_result::{TestResult, ended_test, ignored_test, slow_test};
use crate::tool::{DBUS_DAEMON, IGNITION_VALIDATE, SYSTEMCTL, UNSHARE, VALGRIND};
use crate::workspace::{Workspace, shown};
use crate::{bench, kube, layering, links, lint, process, words};

/// Longer than any build, during which nothing is printed, and longer than any test's own timeout.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(25 * 60);

/// Everything that `cargo xtask test` runs, cheapest first. Cargo's tests are at the end, because the last lines
/// of a run are the ones that get read.
pub const STEPS: &[Step] = &[
    Step { name: "fmt", group: "lint", needs: &[], run: lint::fmt, build: no_build },
    Step { name: "layering", group: "lint", needs: &[], run: layering::step, build: no_build },
    Step { name: "words", group: "lint", needs: &[], run: words::step, build: no_build },
    Step { name: "links", group: "lint", needs: &[], run: links::step, build: no_build },
    Step { name: "deny", group: "lint", needs: &[], run: lint::deny, build: no_build },
    Step { name: "pure", group: "lint", needs: &[], run: lint::pure, build: no_build },
    Step { name: "clippy", group: "lint", needs: &[], run: lint::clippy, build: no_build },
    Step { name: "apiserver", group: "kubernetes", needs: &[], run: kube::conformance::ours, build: no_build },
    // Before cargo's tests, which show the kubectl that it provides to our server.
    Step { name: "kubernetes", group: "kubernetes", needs: &[], run: kube::conformance::real, build: no_build },
    Step {
        name: "unit",
        group: "cargo-test",
        needs: &[&DBUS_DAEMON, &IGNITION_VALIDATE, &SYSTEMCTL, &UNSHARE],
        run: unit,
        build: no_build,
    },
    // Its build takes minutes of both cores, which the tests before it leave idle half of the time.
    Step {
        name: "instructions",
        group: "bench",
        needs: &[&VALGRIND],
        run: bench::instructions::step,
        build: bench::instructions::build,
    },
    Step { name: "doc", group: "cargo-test", needs: &[], run: doc, build: no_build },
];

/// For steps that need no build, or whose build is the step.
fn no_build(_: &mut Run<'_>) -> Option<Command> {
    None
}

/// What `cargo xtask test` takes.
#[derive(Args)]
pub struct TestArgs {
    /// Run only these steps or groups: fmt, layering, words, links, deny, pure, clippy (together: lint), instructions
    /// (bench), apiserver, kubernetes (together: kubernetes), unit, doc (together: cargo-test).
    #[arg(long, value_name = "STEP", value_delimiter = ',')]
    only: Vec<String>,
    /// Install nothing; what is missing is listed as skipped.
    #[arg(long)]
    no_install: bool,
}

/// `cargo xtask test`.
pub fn test(workspace: &Workspace, args: &TestArgs) -> Result<bool> {
    let steps = select(&args.only)?;
    Run::start(workspace, !args.no_install)?.finish(&steps)
}

/// `cargo xtask lint`.
pub fn lint(workspace: &Workspace) -> Result<bool> {
    let steps = select(&["lint".to_owned()])?;
    Run::start(workspace, false)?.finish(&steps)
}

/// `cargo xtask layering`.
pub fn layering(workspace: &Workspace) -> Result<bool> {
    let steps = select(&["layering".to_owned()])?;
    Run::start(workspace, false)?.finish(&steps)
}

/// The steps with one of these names or groups, in their own order; [`STEPS`] for no name.
fn select(only: &[String]) -> Result<Vec<&'static Step>> {
    let matches = |step: &Step, name: &str| step.name == name || step.group == name;
    if let Some(unknown) = only.iter().find(|name| !STEPS.iter().any(|step| matches(step, name))) {
        let known: Vec<_> = STEPS.iter().map(|step| step.name).collect();
        bail!("there is no step {unknown:?}; choose from lint, cargo-test, {}", known.join(", "));
    }
    if only.is_empty() {
        return Ok(STEPS.iter().collect());
    }
    Ok(STEPS.iter().filter(|step| only.iter().any(|name| matches(step, name))).collect())
}

/// Unit and integration tests of all crates.
fn unit(run: &mut Run<'_>) -> Result<Outcome> {
    // `--tests` is what plain `cargo test` runs, less the documentation's examples, which have a step of their own.
    let command = run.workspace.cargo(&["test", "--workspace", "--no-fail-fast", "--tests"]);
    let result = cargo_test(run, command)?;
    Ok(match result {
        Outcome::Passed if run.tests.passed == 0 => Outcome::Failed("cargo ran no test at all".to_owned()),
        other => other,
    })
}

/// The examples in the documentation.
fn doc(run: &mut Run<'_>) -> Result<Outcome> {
    let command = run.workspace.cargo(&["test", "--workspace", "--no-fail-fast", "--doc"]);
    cargo_test(run, command)
}

/// Shows cargo's output as it comes, and adds up its result lines on the way. A test that hangs is ended, and named:
/// a run that is ended from outside does not show which test it was.
pub fn cargo_test(run: &mut Run<'_>, mut command: Command) -> Result<Outcome> {
    run.tools.export_to(&mut command);
    command.env(FILE_VARIABLE, run.skips.file());
    let mut child =
        command.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot start {}", shown(&command)))?;
    let mut sum = TestResult::default();
    let mut slow = Vec::new();
    let mut out = std::io::stdout().lock();
    let has_ended = process::read_lines(&mut child, OUTPUT_TIMEOUT, |line| {
        out.write_all(line)?;
        let text = String::from_utf8_lossy(line);
        if let Some(result) = TestResult::parse(&text) {
            sum.add(result);
        } else if let Some((name, reason)) = ignored_test(&text) {
            run.skips.add(&format!("test {name}"), reason);
        } else if let Some(name) = slow_test(&text) {
            slow.push(name.to_owned());
        } else if let Some(name) = ended_test(&text) {
            slow.retain(|slow| slow != name);
        }
        Ok(())
    })?;
    drop(out);
    run.tests.add(sum);
    if !has_ended {
        process::end_with_descendants(&mut child)?;
        return Ok(Outcome::Failed(format!(
            "nothing was printed for {OUTPUT_TIMEOUT:?}; not ended: {}",
            slow.join(", ")
        )));
    }
    let status = child.wait()?;
    Ok(match (status.success(), sum.failed) {
        (true, _) => Outcome::Passed,
        (false, 0) => Outcome::Failed(format!("cargo ended with {status}")),
        (false, failed) => Outcome::Failed(format!("{failed} failed")),
    })
}

#[cfg(test)]
mod tests {
    use super::{STEPS, select};

    fn names(only: &[&str]) -> Vec<&'static str> {
        let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
        select(&only).unwrap().iter().map(|step| step.name).collect()
    }

    #[test]
    fn no_name_selects_every_step() {
        assert_eq!(names(&[]).len(), STEPS.len());
    }

    #[test]
    fn group_and_step_select_in_the_suites_order() {
        assert_eq!(names(&["doc", "lint"]), ["fmt", "layering", "words", "links", "deny", "pure", "clippy", "doc"]);
    }

    #[test]
    fn kubectl_is_provided_before_cargos_tests_use_it() {
        let all = names(&[]);
        let place = |name| all.iter().position(|step| *step == name).unwrap();
        assert!(place("kubernetes") < place("unit"));
        assert_eq!(names(&["kubernetes"]), ["apiserver", "kubernetes"]);
    }

    #[test]
    fn unknown_step_is_refused_with_the_known_ones() {
        let error = select(&["lnit".to_owned()]).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("lnit") && error.contains("layering"), "{error}");
    }

    #[test]
    fn names_of_steps_are_unique() {
        let mut all: Vec<_> = STEPS.iter().map(|step| step.name).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), STEPS.len());
    }
}
