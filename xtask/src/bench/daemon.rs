//! `cargo xtask bench daemon`: what the node daemon costs, in time for many files and in memory and processor time at rest.

mod process;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use serde::Deserialize;

use super::limits::Verdict;
use super::{binary, machine, page};
use crate::table::{Align, Table};
use crate::workspace::{Workspace, stdout_of};
use process::Process;

/// Where `--write` puts the result, below the workspace's root.
const PAGE: &str = "docs/evidence/bench-daemon.md";

/// How many files an update brings.
const FILES: usize = 500;
/// How often it is timed; the middle one counts.
const ROUNDS: usize = 9;
/// An update may take this many times what plain calls take: each file once, and once more for the way back.
const TIME_FACTOR: f64 = 2.0;
/// It runs on every node, beside what the node is there for.
const MEMORY: f64 = 25e6;
/// A part of one core that nobody notices.
const IDLE: f64 = 0.001;

/// What `cargo xtask bench daemon` takes.
#[derive(Args)]
pub struct DaemonArgs {
    /// Rewrite docs/evidence/bench-daemon.md.
    #[arg(long, conflicts_with = "binary")]
    write: bool,
    /// How long the daemon is watched doing nothing; it looks at its machine once a minute.
    #[arg(long, value_name = "SECONDS", default_value_t = 70)]
    idle: u64,
    /// Measure this program instead of a release build of seaworthy.
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
}

/// Nanoseconds of every round.
#[derive(Deserialize)]
struct Times {
    plain: Vec<u64>,
    ours: Vec<u64>,
}

impl Times {
    /// The middle ones, in milliseconds.
    fn middle(&self) -> (f64, f64) {
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
    let timer = binary::example(workspace, "seaworthy-node", "files")?;
    let program = binary::product(workspace, args.binary.as_deref())?;
    let load = machine::load();
    // Below the folder of builds: what is below the one for passing files may be in memory only.
    let folder = workspace.scratch("bench")?.join("daemon");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    eprintln!("{ROUNDS} updates with {FILES} files");
    let mut command = Command::new(&timer);
    command.arg(folder.join("files")).args([FILES.to_string(), ROUNDS.to_string()]);
    let times: Times = serde_json::from_slice(&stdout_of(&mut command)?).context("what the updates reported")?;
    eprintln!("a daemon, and {} s of nothing to do", args.idle);
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
        verdict(format!("{FILES} files, against plain calls"), ours / plain.max(f64::MIN_POSITIVE), TIME_FACTOR),
        verdict("resident memory, MB".to_owned(), process.resident as f64 / 1e6, MEMORY / 1e6),
        verdict("idle, % of a core".to_owned(), process.idle * 100.0, IDLE * 100.0),
    ]
}

fn numbers(times: &Times, process: &Process) -> Table {
    let (plain, ours) = times.middle();
    let mut table = Table::new(&[("what", Align::Left), ("measured", Align::Right)]);
    let mut row = |what: String, value: String| table.row([what, value]);
    row(format!("{FILES} files with plain calls"), format!("{plain:.0} ms"));
    row(format!("{FILES} files with the daemon's update"), format!("{ours:.0} ms"));
    row("from the order to the word that it is done".to_owned(), format!("{:.0} ms", process.followed_in * 1e3));
    row("resident memory at rest".to_owned(), format!("{:.1} MB", process.resident as f64 / 1e6));
    row("peak memory".to_owned(), format!("{:.1} MB", process.peak as f64 / 1e6));
    row("processor time at rest".to_owned(), format!("{:.3} % of a core", process.idle * 100.0));
    table
}

fn markdown(times: &Times, process: &Process, verdicts: &[Verdict], facts: &str, compiler: &str, idle: u64) -> String {
    format!(
        "\
# Node daemon performance

Made by `cargo xtask bench daemon --write`, which measures, judges and writes this page; do not edit it by hand.

Machine: {facts} Release build with rustc {compiler}.

- *plain calls* create {FILES} files of 1200 bytes in one folder, and wait for the disk after each. The daemon's *update* brings the same
  files from a configuration: it keeps what is needed for the way back, writes each file whole beside its place and moves it there, and
  survives a power cut at any moment. Both take turns {ROUNDS} times, on the same disk; the middle ones count.
- *from the order* is the whole way of a process `seaworthy daemon` with an API server beside it: it hears of the order, reads the
  MachineConfig, says that it begins, writes, looks whether all is right, and says so.
- Memory is what that process has resident afterwards, in millions of bytes, and the most that it ever had.
- *at rest* is {idle} s without an order. In that time it looks at least once whether its machine is what it should be.

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
    fn every_limit_is_judged_and_stands_on_the_page() {
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
