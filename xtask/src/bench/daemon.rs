//! `cargo xtask bench daemon`: time of an update with many files, and memory and processor time of an idle node daemon.

pub(super) mod process;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use serde::Deserialize;

use super::limits::Verdict;
use super::{binary, folder, machine, page};
use crate::table::{Align, Table};
use crate::workspace::{Workspace, stdout_of};
use process::Process;

/// Where `--write` puts the result, below the workspace's root.
const PAGE: &str = "docs/evidence/bench-daemon.md";

/// How many files an update brings.
pub(super) const FILES: usize = 500;
/// How often it is timed; the middle one counts.
pub(super) const ROUNDS: usize = 9;
/// An update may take this many times what plain calls take: each file once, and once more for the way back.
const MAX_TIME_FACTOR: f64 = 2.0;
/// The daemon runs on every node, beside its workloads.
const MAX_MEMORY_BYTES: f64 = 25e6;
/// A share of one core that does not matter on a node.
const MAX_IDLE_CORES: f64 = 0.001;

/// What `cargo xtask bench daemon` takes.
#[derive(Args)]
pub struct DaemonArgs {
    /// Rewrite docs/evidence/bench-daemon.md.
    #[arg(long, conflicts_with = "binary")]
    write: bool,
    /// How long the idle daemon is measured; it checks its machine for drift once a minute.
    #[arg(long, value_name = "SECONDS", default_value_t = 70)]
    idle: u64,
    /// Measure this program instead of a release build of seaworthy.
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
}

/// Nanoseconds of every round.
#[derive(Deserialize)]
pub(super) struct Times {
    plain: Vec<u64>,
    ours: Vec<u64>,
}

impl Times {
    /// The middle ones, in milliseconds.
    pub(super) fn middle(&self) -> (f64, f64) {
        let middle = |all: &[u64]| {
            let mut all = all.to_vec();
            all.sort_unstable();
            all.get(all.len() / 2).copied().unwrap_or_default() as f64 / 1e6
        };
        (middle(&self.plain), middle(&self.ours))
    }
}

/// Measures and reports; false when a limit is not held.
pub fn run(workspace: &Workspace, args: &DaemonArgs) -> Result<bool> {
    let timer = binary::example(workspace, "files")?;
    let program = binary::product(workspace, args.binary.as_deref())?;
    let load = machine::load();
    // Below the build folder: the temporary folder may be in memory.
    let folder = workspace.scratch("bench")?.join("daemon");
    folder::empty(&folder)?;
    eprintln!("{ROUNDS} updates with {FILES} files");
    let mut command = Command::new(&timer);
    command.arg(folder.join("files")).args([FILES.to_string(), ROUNDS.to_string()]);
    let times: Times = serde_json::from_slice(&stdout_of(&mut command)?).context("what the updates reported")?;
    eprintln!("a daemon, idle for {} s", args.idle);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (place, idle) = (folder.join("process"), Duration::from_secs(args.idle));
    let process = runtime.block_on(process::measure(&program, &place, FILES, idle))?;
    fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;

    let verdicts = judge(&times, &process);
    let facts = format!("{}. Load average {load} before, {} after.", machine::facts(), machine::load());
    println!("{facts}\n\n{}\n{}", numbers(&times, &process).plain(), page::verdicts(&verdicts).plain());
    if args.write {
        let (compiler, _) = machine::compiler()?;
        let text = markdown(&times, &process, &verdicts, &facts, &compiler, args.idle);
        let path = workspace.root.join(PAGE);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        println!("wrote {PAGE}");
    }
    Ok(verdicts.iter().all(Verdict::is_held))
}

fn judge(times: &Times, process: &Process) -> Vec<Verdict> {
    let (plain, ours) = times.middle();
    let verdict = |what: String, ratio: f64, limit: f64| Verdict { what, ratio, limit };
    vec![
        verdict(format!("{FILES} files, against plain writes"), ours / plain.max(f64::MIN_POSITIVE), MAX_TIME_FACTOR),
        verdict("resident memory, MB".to_owned(), process.resident as f64 / 1e6, MAX_MEMORY_BYTES / 1e6),
        verdict("idle, % of a core".to_owned(), process.idle * 100.0, MAX_IDLE_CORES * 100.0),
    ]
}

fn numbers(times: &Times, process: &Process) -> Table {
    let (plain, ours) = times.middle();
    let mut table = Table::new(&[("what", Align::Left), ("measured", Align::Right)]);
    let mut row = |what: String, value: String| table.row([what, value]);
    row(format!("{FILES} files with plain writes"), format!("{plain:.0} ms"));
    row(format!("{FILES} files with the daemon's update"), format!("{ours:.0} ms"));
    row("order to done".to_owned(), format!("{:.0} ms", process.followed_in * 1e3));
    row("resident memory, idle".to_owned(), format!("{:.1} MB", process.resident as f64 / 1e6));
    row("peak memory".to_owned(), format!("{:.1} MB", process.peak as f64 / 1e6));
    row("processor time, idle".to_owned(), format!("{:.3} % of a core", process.idle * 100.0));
    table
}

fn markdown(times: &Times, process: &Process, verdicts: &[Verdict], facts: &str, compiler: &str, idle: u64) -> String {
    format!(
        "\
# Node daemon performance

Generated by `cargo xtask bench daemon --write`, which measures and checks the limits; do not edit it by hand.

Machine: {facts} Release build with rustc {compiler}.

- *plain writes* create {FILES} files of 1200 bytes in one folder, and sync each one to disk. The daemon's *update* writes the same files
  from a configuration: it saves what a rollback needs, writes each file to a temporary name and renames it, and can be interrupted by
  a power cut at any moment. Both take turns {ROUNDS} times on the same disk; the median counts.
- *order to done* covers a process `seaworthy daemon` with an API server on the same machine: it receives the order, reads the
  MachineConfig, reports `Working`, writes, verifies the result, and reports `Done`.
- Memory is resident memory of that process afterwards, and its peak. 1 MB is 1,000,000 bytes.
- *idle* is {idle} s without an order. In that time the machine is checked for drift at least once.

## Numbers

{}
## Limits

{}",
        numbers(times, process).markdown(),
        page::verdicts(verdicts).markdown()
    )
}

#[cfg(test)]
mod tests {
    use super::process::Process;
    use super::{Times, judge, markdown};

    #[test]
    fn every_limit_is_checked_and_on_the_page() {
        let times =
            Times { plain: vec![9_000_000, 1_000_000, 2_000_000], ours: vec![5_000_000, 4_500_000, 90_000_000] };
        let process = Process { followed_in: 0.2, resident: 24_000_000, peak: 30_000_000, idle: 0.0 };
        let verdicts = judge(&times, &process);
        let words: Vec<&str> = verdicts.iter().map(super::Verdict::word).collect();
        assert_eq!(words, ["FAIL", "PASS", "PASS"]);
        let page = markdown(&times, &process, &verdicts, "a machine.", "1.95.0", 70);
        for part in ["`cargo xtask bench daemon --write`", "24.0 MB", "2.50", "FAIL", "200 ms"] {
            assert!(page.contains(part), "no {part} in:\n{page}");
        }
    }
}
