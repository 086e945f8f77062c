//! `cargo xtask bench apiserver`: measures our API server and the real one with the same work, and checks the targets.
//!
//! - [`client`] sends, [`load`] times, [`fan_out`] times what watchers see.
//! - [`objects`] is what is sent, [`workload`] in which order.
//! - [`candidate`] starts a server, ours or the real one, and measures its memory.
//! - [`targets`] checks the results, [`page`] formats them.

mod candidate;
pub(super) mod client;
mod fan_out;
mod load;
mod objects;
pub(super) mod page;
pub(super) mod targets;
pub(super) mod workload;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;

use super::{binary, folder, machine};
use crate::kube::binaries::{Binaries, Policy, version};
use crate::workspace::Workspace;
use candidate::Candidate;
use page::Environment;
use workload::{FULL, QUICK, Results, Size};

/// Where `--write` puts the result, below the workspace's root.
const PAGE: &str = "docs/evidence/bench-apiserver.md";

/// How often our server is started on an empty folder; the middle one counts.
const STARTS: usize = 5;

/// What `cargo xtask bench apiserver` takes.
#[derive(Args)]
pub struct ApiserverArgs {
    /// Rewrite docs/evidence/bench-apiserver.md.
    #[arg(long, conflicts_with_all = ["binary", "quick", "ours_only"])]
    write: bool,
    /// Use a fifth of the objects and fewer operations, as a smoke test; the verdicts are then ignored.
    #[arg(long)]
    quick: bool,
    /// Do not measure the real server.
    #[arg(long)]
    ours_only: bool,
    /// Measure this program instead of a release build of seaworthy.
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
}

/// Measures and reports; false when a target is missed.
pub fn run(workspace: &Workspace, args: &ApiserverArgs) -> Result<bool> {
    if cfg!(debug_assertions) {
        return in_release(workspace);
    }
    let size = if args.quick { QUICK } else { FULL };
    let program = binary::product(workspace, args.binary.as_deref())?;
    let binaries = match args.ours_only {
        true => Err("--ours-only was given".to_owned()),
        false => Binaries::provide(workspace, Policy::Build)?,
    };
    let folder = workspace.scratch("bench")?.join("apiserver");
    let load = machine::load();
    eprintln!("seaworthy apiserver");
    let ours = on_one_thread(ours(&program, &folder, size))?;
    let (real, reason) = match &binaries {
        Ok(binaries) => {
            eprintln!("kube-apiserver with etcd");
            (Some(on_one_thread(real(binaries, &folder, size))?), None)
        }
        Err(reason) => (None, Some(reason)),
    };
    let environment = Environment {
        machine: machine::facts(),
        load: format!("{load} before, {} after", machine::load()),
        versions: versions(&program, args.binary.is_some(), binaries.as_ref())?,
    };
    let verdicts = targets::judge(&ours, real.as_ref());
    println!("{}\nload average {}", environment.machine, environment.load);
    println!("{}\n", environment.versions);
    println!("{}", page::speed(&ours, real.as_ref()).plain());
    println!("{}", page::costs(&ours, real.as_ref(), size).plain());
    println!("{}", page::verdicts(&verdicts).plain());
    if let Some(reason) = reason {
        println!("SKIPPED the real server: {reason}");
    }
    if args.write {
        let text = page::markdown(&ours, real.as_ref(), &verdicts, size, &environment);
        let path = workspace.root.join(PAGE);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        println!("wrote {PAGE}");
    }
    if args.quick {
        println!("quick run: the verdicts are ignored");
    }
    Ok(args.quick || !verdicts.iter().any(targets::Verdict::is_missed))
}

/// The client must cost as little as it can, so a release build of this program does the work.
pub(super) fn in_release(workspace: &Workspace) -> Result<bool> {
    let program = binary::release(workspace, "xtask", "xtask")?;
    let status = Command::new(&program).args(std::env::args_os().skip(1)).status();
    Ok(status.with_context(|| format!("cannot start {}", program.display()))?.success())
}

/// One thread is enough for the client, and leaves the rest of the machine to the server.
pub(super) fn on_one_thread<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

pub(super) async fn ours(program: &Path, folder: &Path, size: Size) -> Result<Results> {
    let mut starts: Vec<Duration> = Vec::new();
    for _ in 1..STARTS {
        folder::empty(folder)?;
        let candidate = Candidate::ours(program, folder).await?;
        starts.push(candidate.started_in);
        candidate.stop()?;
    }
    folder::empty(folder)?;
    let candidate = Candidate::ours(program, folder).await?;
    starts.push(candidate.started_in);
    starts.sort_unstable();
    let mut results = workload::run(&candidate, size).await?;
    results.start = starts[starts.len() / 2];
    candidate.stop()?;
    Ok(results)
}

async fn real(binaries: &Binaries, folder: &Path, size: Size) -> Result<Results> {
    folder::empty(folder)?;
    let candidate = Candidate::real(binaries, folder).await?;
    let results = workload::run(&candidate, size).await?;
    candidate.stop()?;
    Ok(results)
}

fn versions(program: &Path, is_given: bool, binaries: Result<&Binaries, &String>) -> Result<String> {
    // How a given program was built is unknown: it may well be a debug build.
    let built = match is_given {
        true => "given with --binary, built in an unknown way".to_owned(),
        false => format!("release build with rustc {}", machine::compiler()?.0),
    };
    let ours = format!("Ours: seaworthy {}, {built}.", version(program, &["--version"])?);
    Ok(match binaries {
        Ok(Binaries { apiserver, etcd, .. }) => format!(
            "{ours} Real: kube-apiserver {} with etcd {}.",
            version(apiserver, &["--version"])?,
            version(etcd, &["--version"])?
        ),
        Err(reason) => format!("{ours} The real server was left out: {reason}."),
    })
}
