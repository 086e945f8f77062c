//! `cargo xtask fuzz`: fuzzes one parser of untrusted input for a while.
//!
//! The targets are the tests in `tests/fuzz` of the API server, where every run tries each of them for a moment.
//! They are built as tests are, with all checks of overflows on; no tool beside cargo is needed.

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::workspace::{Workspace, shown};

/// What can be tried.
const TARGETS: &[&str] = &[
    "path",
    "label_selector",
    "field_selector",
    "json_patch",
    "merge_patch",
    "strategic_patch",
    "apply",
    "managed_fields",
    "definition",
];

/// What `cargo xtask fuzz` takes.
#[derive(Args)]
pub struct FuzzArgs {
    /// Which reader: path, label_selector, field_selector, json_patch, merge_patch, strategic_patch, apply,
    /// managed_fields or definition.
    target: String,
    /// How long.
    #[arg(long, value_name = "N", default_value_t = 60, conflicts_with = "seed")]
    seconds: u64,
    /// Repeat the one input that a failure printed the seed of.
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
}

/// Runs a target; false if it failed.
pub fn run(workspace: &Workspace, args: &FuzzArgs) -> Result<bool> {
    if !TARGETS.contains(&args.target.as_str()) {
        bail!("there is no target {:?}; choose from {}", args.target, TARGETS.join(", "));
    }
    let target = format!("fuzz::{}", args.target);
    let test = ["test", "-p", "seaworthy-apiserver", "--test", "suite", "--", "--exact", "--nocapture", &target];
    let mut command = workspace.cargo(&test);
    match args.seed {
        Some(seed) => command.env("SEAWORTHY_FUZZ_SEED", seed.to_string()),
        None => command.env("SEAWORTHY_FUZZ_SECONDS", args.seconds.to_string()),
    };
    let status = command.status().with_context(|| format!("cannot start {}", shown(&command)))?;
    Ok(status.success())
}

#[cfg(test)]
mod tests {
    use super::TARGETS;

    #[test]
    fn targets_are_those_of_the_test() {
        let test = include_str!("../../crates/control-plane/apiserver/tests/fuzz/mod.rs");
        let (_, list) = test.split_once("\ntargets!(").unwrap();
        let (list, _) = list.split_once(')').unwrap();
        let listed: Vec<&str> = list.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        assert_eq!(listed, TARGETS);
    }
}
