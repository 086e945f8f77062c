//! `cargo xtask bench compare`: runs every bench on this checkout and on one of another commit, in turns, and checks that no
//! number got worse.
//!
//! - Each round measures both sides, so that noise of the machine affects both; the best value of each side counts.
//! - Every number is one of which less is better.
//! - Both sides are measured by this program, with the same input.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Error, Result, bail};
use clap::{Args, ValueEnum};

use super::apiserver::workload::FULL;
use super::apiserver::{in_release, on_one_thread};
use super::commit::commit;
use super::daemon::process;
use super::input::Fleet;
use super::measurement::Probe;
use super::rollout::fleet::FleetReport;
use super::serve::candidate::{Candidate, ServerSetup};
use super::serve::wrk::{Connections, Drive};
use super::{apiserver, binary, daemon, folder, instructions, machine, render, serve};
use crate::table::{Align, Table};
use crate::tool::{OPENSSL, Tool, Toolbox, VALGRIND, WRK};
use crate::workspace::{Workspace, stdout_of};

/// Where `--write` puts the result, below the workspace's root.
const PAGE: &str = "docs/evidence/bench-compare.md";
/// How much worse a number may be: the share that repeated runs of one program differ by.
const MAX_RATIO: f64 = 1.05;
/// The fleets that are rolled out.
const FLEETS: [usize; 2] = [1000, 10_000];
/// How long the idle daemon is measured.
const IDLE_PERIOD: Duration = Duration::from_secs(20);

/// What `cargo xtask bench compare` takes.
#[derive(Args)]
pub struct CompareArgs {
    /// The checkout of the other commit; it is built there.
    #[arg(long, value_name = "FOLDER")]
    before: PathBuf,
    /// Rewrite docs/evidence/bench-compare.md.
    #[arg(long, conflicts_with = "only")]
    write: bool,
    /// Run only these benches.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Bench>,
    /// How many rounds; the best value of each side counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Bench {
    Instructions,
    Render,
    Serve,
    Daemon,
    Rollout,
    Apiserver,
}

/// The programs of a commit.
struct Side {
    commit: String,
    /// The release build of the program.
    program: PathBuf,
    /// The bench of roll-outs.
    fleet: PathBuf,
    /// The bench of updates with many files.
    files: PathBuf,
}

/// Numbers by name, with their unit in it. Less is better.
type Numbers = BTreeMap<String, f64>;

/// A number of both sides.
#[derive(Clone, Debug, PartialEq)]
struct Compared {
    what: String,
    before: f64,
    after: f64,
}

impl Compared {
    fn ratio(&self) -> f64 {
        self.after / self.before.max(f64::MIN_POSITIVE)
    }

    fn is_held(&self) -> bool {
        self.ratio() <= MAX_RATIO
    }
}

/// Measures and reports; false when a number got worse.
pub fn run(workspace: &Workspace, args: &CompareArgs) -> Result<bool> {
    if cfg!(debug_assertions) {
        return in_release(workspace);
    }
    let found = args.before.canonicalize().with_context(|| format!("--before {}", args.before.display()))?;
    let sides = [Side::build(&Workspace::at(&found)?)?, Side::build(workspace)?];
    let tools = Tools::find()?;
    let setup = Setup { workspace, tools, folder: workspace.scratch("bench/compare")? };
    let load = machine::load();
    let all = Bench::value_variants().iter().copied();
    let mut sections = Vec::new();
    for bench in all.filter(|bench| args.only.is_empty() || args.only.contains(bench)) {
        bench.prepare(&setup)?;
        let mut best: [Numbers; 2] = Default::default();
        for round in 1..=bench.rounds(args.rounds) {
            for (side, best) in sides.iter().zip(&mut best) {
                eprintln!("{bench:?}, round {round}: {}", side.commit);
                keep_best(best, bench.measure(&setup, side)?);
            }
        }
        let [before, after] = best;
        let compared = compare(&before, &after)?;
        println!("{}", table(&compared).plain());
        sections.push((bench, compared));
    }
    let facts = format!("{}. Load average {load} before, {} after.", machine::facts(), machine::load());
    println!("{facts}");
    if args.write {
        let path = workspace.root.join(PAGE);
        let text = markdown(&sides, &sections, &facts, &machine::compiler()?.0, args.rounds);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        println!("wrote {PAGE}");
    }
    Ok(sections.iter().flat_map(|(_, compared)| compared).all(Compared::is_held))
}

impl Side {
    fn build(checkout: &Workspace) -> Result<Side> {
        Ok(Side {
            commit: commit(&checkout.root)?,
            program: binary::product(checkout, None)?,
            fleet: binary::example(checkout, "fleet")?,
            files: binary::example(checkout, "files")?,
        })
    }
}

/// Programs from Debian's packages.
struct Tools {
    valgrind: PathBuf,
    openssl: PathBuf,
    wrk: PathBuf,
}

impl Tools {
    fn find() -> Result<Tools> {
        let mut toolbox = Toolbox::new(true);
        let mut find = |tool: &'static Tool| serve::found(&mut toolbox, tool).map_err(Error::msg);
        Ok(Tools { valgrind: find(&VALGRIND)?, openssl: find(&OPENSSL)?, wrk: find(&WRK)? })
    }
}

/// What all benches share.
struct Setup<'w> {
    workspace: &'w Workspace,
    tools: Tools,
    folder: PathBuf,
}

impl Setup<'_> {
    /// An empty folder.
    fn emptied(&self, name: &str) -> Result<PathBuf> {
        let folder = self.folder.join(name);
        folder::empty(&folder)?;
        Ok(folder)
    }

    /// The manifests of a fleet that is rendered.
    fn manifests(&self, fleet: &Fleet) -> PathBuf {
        self.folder.join(format!("render-{}.json", fleet.name()))
    }
}

impl Bench {
    fn rounds(self, rounds: u32) -> u32 {
        match self {
            // The same count every time.
            Bench::Instructions => 1,
            // Short.
            Bench::Render => 3 * rounds,
            _ => rounds,
        }
    }

    /// Writes what all rounds of both sides have in common. What an earlier run wrote may be another generator's.
    fn prepare(self, setup: &Setup<'_>) -> Result<()> {
        if self == Bench::Render {
            for fleet in render::FLEETS {
                fleet.write(&setup.manifests(fleet))?;
            }
        }
        Ok(())
    }

    fn measure(self, setup: &Setup<'_>, side: &Side) -> Result<Numbers> {
        match self {
            Bench::Instructions => {
                let counted = instructions::count(setup.workspace, &setup.tools.valgrind, Some(&side.program))?;
                let millions = |(name, count): (String, u64)| (format!("{name}, M instructions"), count as f64 / 1e6);
                Ok(counted.instructions.into_iter().map(millions).collect())
            }
            Bench::Render => rendered(setup, side),
            Bench::Serve => served(setup, side),
            Bench::Daemon => followed(setup, side),
            Bench::Rollout => {
                let mut numbers = Numbers::new();
                for nodes in FLEETS {
                    numbers.extend(rolled_out(side, nodes)?);
                }
                Ok(numbers)
            }
            Bench::Apiserver => answered(setup, side),
        }
    }
}

fn rendered(setup: &Setup<'_>, side: &Side) -> Result<Numbers> {
    let probe = Probe {
        program: binary::release(setup.workspace, "xtask", "xtask")?,
        parser: binary::release(setup.workspace, "xtask", "parse-mimalloc")?,
    };
    let mut numbers = Numbers::new();
    for fleet in render::FLEETS {
        let measured = probe.command(&render::command(&side.program, &setup.manifests(fleet)))?;
        numbers.insert(format!("{}, ms", fleet.name()), measured.nanoseconds as f64 / 1e6);
        numbers.insert(format!("{}, peak MB", fleet.name()), measured.peak_bytes as f64 / 1e6);
    }
    Ok(numbers)
}

fn served(setup: &Setup<'_>, side: &Side) -> Result<Numbers> {
    let server = ServerSetup::create(&setup.emptied("serve")?, &setup.tools.openssl)?;
    let mut candidate = Candidate::ours(&side.program, &server)?;
    let body = on_one_thread(candidate.served(&server))?;
    let mut results = on_one_thread(serve::alone(&candidate, &server, &body))?;
    candidate.stop()?;
    for connections in [Connections::Kept, Connections::OneShot] {
        candidate = Candidate::ours(&side.program, &server)?;
        on_one_thread(candidate.served(&server))?;
        let drive = Drive {
            program: &setup.tools.wrk,
            connections,
            count: serve::CONNECTIONS,
            seconds: serve::LOAD_PERIOD_SECONDS,
        };
        drive.run(&candidate, &server)?.into_best(&mut results);
        candidate.stop()?;
    }
    let loads = [("persistent connections", &results.kept), ("one request per connection", &results.one_shot)];
    let mut numbers = Numbers::new();
    for (name, load) in loads {
        let load = load.as_ref().context("wrk was not run")?;
        if load.failed > 0 {
            bail!("{} of {}: {} requests failed", name, side.commit, load.failed);
        }
        numbers.insert(format!("{name}, µs per request"), 1e6 / load.rate);
        numbers.insert(format!("{name}, µs of CPU per request"), load.cpu);
    }
    let fleet = results.fleet.as_ref().context("no machine booted")?;
    if fleet.failed > 0 {
        bail!("{}: {} machines were not served", side.commit, fleet.failed);
    }
    numbers.insert(format!("{} machines boot, s", fleet.machines), fleet.elapsed.as_secs_f64());
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    numbers.insert("idle, MB".to_owned(), megabytes(results.memory.idle));
    numbers.insert("1,000 connections that were served, MB".to_owned(), megabytes(results.memory.served));
    Ok(numbers)
}

fn followed(setup: &Setup<'_>, side: &Side) -> Result<Numbers> {
    let folder = setup.emptied("daemon")?;
    let mut command = Command::new(&side.files);
    command.arg(folder.join("files")).args([daemon::FILES.to_string(), daemon::ROUNDS.to_string()]);
    let times: daemon::Times = serde_json::from_slice(&stdout_of(&mut command)?).context("the times of updates")?;
    let (_, ours) = times.middle();
    let place = folder.join("process");
    let process = on_one_thread(process::measure(&side.program, &place, daemon::FILES, IDLE_PERIOD))?;
    Ok([
        (format!("update with {} files, ms", daemon::FILES), ours),
        ("order to done, ms".to_owned(), process.followed_in * 1e3),
        ("idle, MB".to_owned(), process.resident as f64 / 1e6),
        ("peak MB".to_owned(), process.peak as f64 / 1e6),
    ]
    .into())
}

fn rolled_out(side: &Side, nodes: usize) -> Result<Numbers> {
    let output = stdout_of(Command::new(&side.fleet).args([nodes.to_string(), "0".to_owned()]))?;
    let report: FleetReport = serde_json::from_slice(&output).context("the report of the fleet")?;
    let name = report.name();
    Ok([
        (format!("{name}, ms of CPU per node"), report.cpu_ms_per_node()),
        (format!("{name}, roll-out s"), report.wall_ms as f64 / 1e3),
        (format!("{name}, decision ms at p50"), report.decisions.p50_micros as f64 / 1e3),
        (format!("{name}, writes per node"), report.plane_writes_per_node()),
        (format!("{name}, peak MB"), report.peak_bytes as f64 / 1e6),
    ]
    .into())
}

fn answered(setup: &Setup<'_>, side: &Side) -> Result<Numbers> {
    let results = on_one_thread(apiserver::ours(&side.program, &setup.emptied("apiserver")?, FULL))?;
    let mut numbers = Numbers::new();
    for timed in &results.timed {
        let name = format!("{}, {} connections, µs each", timed.operation.name(), timed.connections);
        numbers.insert(name, 1e6 / timed.sample.rate());
    }
    numbers.insert("start, ms".to_owned(), results.start.as_secs_f64() * 1e3);
    numbers.insert("idle, MB".to_owned(), results.idle.now as f64 / 1e6);
    numbers.insert(format!("with {} objects, MB", 2 * FULL.objects), results.filled.now as f64 / 1e6);
    Ok(numbers)
}

/// Keeps the smaller of each number: noise only ever adds.
fn keep_best(best: &mut Numbers, numbers: Numbers) {
    for (name, number) in numbers {
        best.entry(name).and_modify(|best| *best = best.min(number)).or_insert(number);
    }
}

fn compare(before: &Numbers, after: &Numbers) -> Result<Vec<Compared>> {
    if !before.keys().eq(after.keys()) {
        bail!("the two commits were measured differently: {:?} and {:?}", before.keys(), after.keys());
    }
    let pairs = before.iter().zip(after.values());
    Ok(pairs.map(|((what, before), after)| Compared { what: what.clone(), before: *before, after: *after }).collect())
}

fn table(compared: &[Compared]) -> Table {
    let mut table = Table::new(&[
        ("number", Align::Left),
        ("before", Align::Right),
        ("after", Align::Right),
        ("after / before", Align::Right),
        ("verdict", Align::Left),
    ]);
    for row in compared {
        let verdict = if row.is_held() { "PASS" } else { "FAIL" };
        table.row([
            row.what.clone(),
            format!("{:.2}", row.before),
            format!("{:.2}", row.after),
            format!("{:.2}", row.ratio()),
            verdict.to_owned(),
        ]);
    }
    table
}

fn markdown(
    sides: &[Side; 2],
    sections: &[(Bench, Vec<Compared>)],
    facts: &str,
    compiler: &str,
    rounds: u32,
) -> String {
    let tables: String =
        sections.iter().map(|(bench, compared)| format!("## {bench:?}\n\n{}\n", table(compared).markdown())).collect();
    format!(
        "\
# Comparison of two commits

Generated by `cargo xtask bench compare --before FOLDER --write`; do not edit it by hand.

Machine: {facts} Release builds with rustc {compiler}.

*before* is commit {}, *after* is commit {}. Both are measured by the same program in {rounds} rounds (rendering: {}; instructions are counted once), in turns, and the best
value of each side counts. Of every number less is better; one passes if it is at most {MAX_RATIO} of what it was.

{}",
        sides[0].commit,
        sides[1].commit,
        3 * rounds,
        tables.trim_end().to_owned() + "\n"
    )
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{Bench, Compared, Numbers, Side, compare, keep_best, markdown};

    fn numbers(all: &[(&str, f64)]) -> Numbers {
        all.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect()
    }

    #[test]
    fn best_of_all_rounds_counts() {
        let mut best = Numbers::new();
        for round in [[("a", 3.0), ("b", 1.0)], [("a", 2.0), ("b", 4.0)]] {
            keep_best(&mut best, numbers(&round));
        }
        assert_eq!(best, numbers(&[("a", 2.0), ("b", 1.0)]));
    }

    #[test]
    fn five_percent_more_pass_and_a_little_over_fails() {
        let held = |after| Compared { what: String::new(), before: 100.0, after }.is_held();
        assert!(held(105.0) && held(50.0) && !held(105.1));
    }

    #[test]
    fn numbers_that_one_side_lacks_are_an_error() {
        assert_eq!(compare(&numbers(&[("a", 1.0)]), &numbers(&[("a", 2.0)])).unwrap()[0].ratio(), 2.0);
        assert!(compare(&numbers(&[("a", 1.0)]), &numbers(&[("b", 1.0)])).is_err());
    }

    #[test]
    fn page_has_both_commits_and_every_verdict() {
        let side = |commit: &str| Side {
            commit: commit.to_owned(),
            program: PathBuf::new(),
            fleet: PathBuf::new(),
            files: PathBuf::new(),
        };
        let compared = compare(&numbers(&[("a", 1.0), ("b", 1.0)]), &numbers(&[("a", 1.04), ("b", 1.2)])).unwrap();
        let page = markdown(&[side("old"), side("new")], &[(Bench::Render, compared)], "a machine.", "1.95.0", 3);
        for part in ["old", "new", "1.04", "PASS", "1.20", "FAIL", "## Render", "`cargo xtask bench compare"] {
            assert!(page.contains(part), "no {part} in:\n{page}");
        }
    }
}
