//! `cargo xtask bench serve`: measures the Ignition endpoint and nginx, which serves the same bytes from a file, and checks
//! the targets.
//!
//! - [`config`] is what is served, [`candidate`] starts a server, ours or nginx, and measures its memory.
//! - [`wrk`] drives requests, [`machines`] boots a fleet and holds connections.
//! - [`targets`] checks the results, [`page`] formats them.

pub(super) mod candidate;
mod config;
mod machines;
mod page;
mod targets;
pub(super) mod wrk;

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Args;

use super::apiserver::{in_release, on_one_thread};
use super::{binary, folder, machine};
use crate::tool::{Availability, NGINX, OPENSSL, Tool, Toolbox, WRK};
use crate::workspace::{Workspace, stdout_of};
use candidate::{Candidate, ServerSetup};
use machines::BootedFleet;
use page::Environment;
use wrk::{Connections, Load};

/// Where `--write` puts the result, below the workspace's root.
const PAGE: &str = "docs/evidence/bench-serve.md";

/// Connections that wrk holds: more than a server has threads, fewer than would measure the system's queues.
pub(super) const CONNECTIONS: usize = 64;
/// How often each load is driven, in turns; the best round of each server counts, since noise only ever adds.
const ROUNDS: usize = 5;
/// How long one round lasts.
pub(super) const LOAD_PERIOD_SECONDS: u64 = 8;
/// How long a server may take until it listens, and how often that is checked.
const START_TIMEOUT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Connections that are held idle.
const IDLE_CONNECTIONS: usize = 1000;
/// Machines that boot, and how many of them at a time.
const MACHINES: (usize, usize) = (5000, 200);

/// What `cargo xtask bench serve` takes.
#[derive(Args)]
pub struct ServeArgs {
    /// Rewrite docs/evidence/bench-serve.md.
    #[arg(long, conflicts_with_all = ["binary", "quick"])]
    write: bool,
    /// Run one short round, as a smoke test; the verdicts are then ignored.
    #[arg(long)]
    quick: bool,
    /// Do not install nginx and wrk; if they are missing, only our server is measured, without its speed.
    #[arg(long)]
    no_install: bool,
    /// Measure this program instead of a release build of seaworthy.
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
}

/// What was measured of one server.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// Requests on connections that stay.
    pub kept: Option<Load>,
    /// Requests on a connection each.
    pub one_shot: Option<Load>,
    pub memory: machines::MemoryUse,
    /// The machines that booted.
    pub fleet: Option<BootedFleet>,
}

/// Measures and reports; false when a target is missed.
pub fn run(workspace: &Workspace, args: &ServeArgs) -> Result<bool> {
    if cfg!(debug_assertions) {
        return in_release(workspace);
    }
    let mut tools = Toolbox::new(!args.no_install);
    let openssl = found(&mut tools, &OPENSSL)
        .map_err(|reason| anyhow::anyhow!("{reason}; a certificate for both servers cannot be made without it"))?;
    let (nginx, wrk) = (found(&mut tools, &NGINX), found(&mut tools, &WRK));
    for reason in [&nginx, &wrk].into_iter().filter_map(|it| it.as_ref().err()) {
        if args.write {
            bail!("{reason}; the page compares with nginx under wrk's load");
        }
        println!("SKIPPED {reason}");
    }
    let program = binary::product(workspace, args.binary.as_deref())?;
    let folder = workspace.scratch("bench")?.join("serve");
    folder::empty(&folder)?;
    let load = machine::load();
    let setup = ServerSetup::create(&folder, &openssl)?;
    let (rounds, seconds) = if args.quick { (1, 2) } else { (ROUNDS, LOAD_PERIOD_SECONDS) };

    eprintln!("seaworthy server: machines and connections");
    let mut ours = Candidate::ours(&program, &setup)?;
    let body = on_one_thread(ours.served(&setup))?;
    config::check(&body)?;
    let mut measured = on_one_thread(alone(&ours, &setup, &body))?;
    let mut beside = None;
    if let (Ok(nginx), Ok(wrk)) = (&nginx, &wrk) {
        // Restarted: the memory that a thousand connections left behind must not affect the next load.
        ours.stop()?;
        eprintln!("nginx: machines and connections");
        let mut other = Candidate::nginx(nginx, &setup, &body)?;
        let mut theirs = on_one_thread(alone(&other, &setup, &body))?;
        other.stop()?;
        for round in 1..=rounds {
            eprintln!("round {round} of {rounds}");
            for connections in [Connections::Kept, Connections::OneShot] {
                let drive = wrk::Drive { program: wrk, connections, count: CONNECTIONS, seconds };
                other = Candidate::nginx(nginx, &setup, &body)?;
                drive.run(&other, &setup)?.into_best(&mut theirs);
                other.stop()?;
                ours = Candidate::ours(&program, &setup)?;
                on_one_thread(ours.served(&setup))?;
                drive.run(&ours, &setup)?.into_best(&mut measured);
                ours.stop()?;
            }
        }
        beside = Some(theirs);
    } else {
        ours.stop()?;
    }
    let environment = Environment {
        machine: machine::facts(),
        load: format!("{load} before, {} after", machine::load()),
        versions: versions(&program, args.binary.is_some(), nginx.as_deref().ok(), wrk.as_deref().ok(), &openssl)?,
        bytes: body.len(),
        rounds,
        seconds,
    };
    let verdicts = targets::judge(&measured, beside.as_ref());
    println!("{}\nload average {}", environment.machine, environment.load);
    println!("{}\n", environment.versions);
    println!("{}", page::speed(&measured, beside.as_ref()).plain());
    println!("{}", page::fleets(&measured, beside.as_ref()).plain());
    println!("{}", page::memory(&measured, beside.as_ref()).plain());
    println!("{}", page::verdicts(&verdicts).plain());
    if args.write {
        let text = page::markdown(&measured, beside.as_ref(), &verdicts, &environment);
        let path = workspace.root.join(PAGE);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        println!("wrote {PAGE}");
    }
    if args.quick {
        println!("quick run: the verdicts are ignored");
    }
    Ok(args.quick || !verdicts.iter().any(targets::Verdict::is_missed))
}

/// What is measured with a client of our own.
pub(super) async fn alone(candidate: &Candidate, setup: &ServerSetup, body: &[u8]) -> Result<Results> {
    let client = candidate.client(setup)?;
    // Measured after a first request, so that its one-time memory is not counted for connections.
    let memory = machines::measure_memory(&client, candidate, IDLE_CONNECTIONS).await?;
    let fleet = machines::boot(&client, body, MACHINES).await?;
    let memory = machines::MemoryUse { peak: candidate.memory()?.peak, ..memory };
    Ok(Results { memory, fleet: Some(fleet), ..Results::default() })
}

/// Where a tool is, or why there is none.
pub(super) fn found(tools: &mut Toolbox, tool: &'static Tool) -> Result<PathBuf, String> {
    match tools.ensure(tool) {
        Availability::At(path) => Ok(path),
        Availability::Missing(reason) => Err(format!("{}: {reason}", tool.program)),
    }
}

/// Threads or workers that each server is given.
fn workers() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Retries until it works, for [`START_TIMEOUT`]: a server that was just started does not listen yet.
async fn retry<T, F: Future<Output = Result<T>>>(attempt: impl Fn() -> F) -> Result<T> {
    let begun = std::time::Instant::now();
    loop {
        match attempt().await {
            Ok(value) => return Ok(value),
            Err(error) if begun.elapsed() > START_TIMEOUT => return Err(error),
            Err(_) => tokio::time::sleep(POLL_INTERVAL).await,
        }
    }
}

fn versions(
    program: &Path,
    is_given: bool,
    nginx: Option<&Path>,
    wrk: Option<&Path>,
    openssl: &Path,
) -> Result<String> {
    let built = match is_given {
        true => "given with --binary, built in an unknown way".to_owned(),
        false => format!("release build with rustc {}", machine::compiler()?.0),
    };
    let own = stdout_of(std::process::Command::new(program).arg("--version"))?;
    let mut text = format!("Ours: {}, {built}.", String::from_utf8_lossy(&own).trim());
    if let (Some(nginx), Some(_)) = (nginx, wrk) {
        // nginx prints it on standard error.
        let output = std::process::Command::new(nginx).arg("-v").output().context("cannot start nginx")?;
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        let version = printed.trim().rsplit_once('/').map_or("of an unknown version", |(_, version)| version);
        let library = stdout_of(std::process::Command::new(openssl).arg("version"))?;
        let library = String::from_utf8_lossy(&library).into_owned();
        let library = library.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
        text += &format!(" Compared with: nginx {version} with {library}; wrk drives both.");
    }
    Ok(text)
}
