//! Lint steps: formatting, clippy, the pure half alone, cargo-deny.

use std::process::Stdio;

use anyhow::{Context as _, Result};

use crate::step::{Outcome, Run};
use crate::workspace::{Workspace, shown};

/// The version that `deny.toml` is written for.
const DENY_VERSION: &str = "0.20";

/// All files are formatted by rustfmt.
pub fn fmt(run: &mut Run<'_>) -> Result<Outcome> {
    if !has_subcommand(run.workspace, "fmt")? {
        return Ok(Outcome::Skipped("not installed: run `rustup component add rustfmt`".to_owned()));
    }
    check(run.workspace, &["fmt", "--all", "--check"], "run `cargo fmt --all`")
}

/// What the pure half is compiled from by itself. In a build of the whole workspace, a feature that one crate switches
/// on is on for all, so that a pure crate could rely on the program's features unnoticed.
const PURE_BUILDS: &[&[&str]] =
    &[&["check", "--package", "seaworthy-render"], &["check", "--package", "seaworthy-fetch", "--no-default-features"]];

/// The pure half compiles without the rest.
pub fn pure(run: &mut Run<'_>) -> Result<Outcome> {
    for args in PURE_BUILDS {
        let outcome = check(run.workspace, args, "see the errors above: it needs a feature that it does not ask for")?;
        if outcome != Outcome::Passed {
            return Ok(outcome);
        }
    }
    Ok(Outcome::Passed)
}

/// No warning of the compiler or of clippy, in tests and benches either.
pub fn clippy(run: &mut Run<'_>) -> Result<Outcome> {
    if !has_subcommand(run.workspace, "clippy")? {
        return Ok(Outcome::Skipped("not installed: run `rustup component add clippy`".to_owned()));
    }
    check(
        run.workspace,
        &["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"],
        "see the warnings above",
    )
}

/// Licences, banned crates and sources; security advisories where their database can be had.
pub fn deny(run: &mut Run<'_>) -> Result<Outcome> {
    if !has_subcommand(run.workspace, "deny")? {
        return Ok(Outcome::Skipped(format!(
            "not installed: run `cargo install cargo-deny --version '^{DENY_VERSION}' --locked`"
        )));
    }
    let offline = ["deny", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"];
    let outcome = check(run.workspace, &offline, "see the findings above")?;
    if outcome != Outcome::Passed {
        return Ok(outcome);
    }
    let mut fetch = run.workspace.cargo(&["deny", "fetch", "db"]);
    let fetched = fetch.stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !fetched.is_ok_and(|status| status.success()) {
        run.skips.add(
            "deny advisories",
            "the advisory database cannot be reached from here: run `cargo deny check advisories` elsewhere",
        );
        return Ok(Outcome::Passed);
    }
    check(run.workspace, &["deny", "check", "advisories"], "see the advisories above")
}

fn has_subcommand(workspace: &Workspace, name: &str) -> Result<bool> {
    let mut command = workspace.cargo(&[name, "--version"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status().with_context(|| format!("cannot start {}", shown(&command)))?;
    Ok(status.success())
}

fn check(workspace: &Workspace, args: &[&str], next: &str) -> Result<Outcome> {
    let mut command = workspace.cargo(args);
    let status = command.status().with_context(|| format!("cannot start {}", shown(&command)))?;
    Ok(if status.success() {
        Outcome::Passed
    } else {
        Outcome::Failed(format!("`{}` ended with {status}: {next}", shown(&command)))
    })
}
