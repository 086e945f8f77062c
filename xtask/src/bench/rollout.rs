//! `cargo xtask bench rollout`: rolls a change out to whole fleets, each in a process of its own, and checks the limits.
//!
//! - [`fleet`] is what was measured of one fleet, [`targets`] checks it, [`table`] formats it.

pub(super) mod fleet;
mod table;
mod targets;

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result};
use clap::Args;

use super::limits::Verdict;
use super::{binary, machine, page};
use crate::workspace::{Workspace, stdout_of};
use fleet::FleetReport;

/// Where `--write` puts the result, below the workspace's root.
const PAGE: &str = "docs/evidence/bench-rollout.md";

/// The fleets whose nodes follow at once.
const SIZES: [usize; 4] = [100, 1000, 5000, 10_000];
/// The fleets whose nodes take their time, and how long, in milliseconds.
const SLOW: [(usize, u64); 2] = [(1000, 2000), (10_000, 2000)];

/// What `cargo xtask bench rollout` takes.
#[derive(Args)]
pub struct RolloutArgs {
    /// Rewrite docs/evidence/bench-rollout.md.
    #[arg(long, conflicts_with = "nodes")]
    write: bool,
    /// Measure one fleet of this many nodes only, which carry out orders at once; targets that need more are skipped.
    #[arg(long, value_name = "COUNT")]
    nodes: Option<usize>,
}

/// Measures and reports; false when a target is missed.
pub fn run(workspace: &Workspace, args: &RolloutArgs) -> Result<bool> {
    let program = binary::example(workspace, "fleet")?;
    let load = machine::load();
    let sizes: Vec<(usize, u64)> = match args.nodes {
        Some(nodes) => vec![(nodes, 0)],
        None => SIZES.into_iter().map(|nodes| (nodes, 0)).chain(SLOW).collect(),
    };
    let mut fleets: Vec<FleetReport> = Vec::new();
    for (nodes, takes) in sizes {
        eprintln!("{nodes} nodes that take {takes} ms");
        let output = stdout_of(Command::new(&program).args([nodes.to_string(), takes.to_string()]))?;
        fleets.push(serde_json::from_slice(&output).context("what the fleet reported")?);
    }
    let verdicts = targets::judge(&fleets);
    let facts = format!("{}. Load average {load} before, {} after.", machine::facts(), machine::load());
    println!("{facts}\n");
    println!(
        "{}\n{}\n{}",
        table::costs(&fleets).plain(),
        table::writes(&fleets).plain(),
        page::verdicts(&verdicts).plain()
    );
    if args.write {
        let (compiler, _) = machine::compiler()?;
        let text = table::markdown(&fleets, &verdicts, &facts, &compiler);
        let path = workspace.root.join(PAGE);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        println!("wrote {PAGE}");
    }
    Ok(verdicts.iter().all(Verdict::is_held))
}
