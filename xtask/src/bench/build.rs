//! `cargo xtask bench build`: what building the program and its tests costs from nothing, and which crates and tests are slowest.

mod slow_tests;
mod timings;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use nix::sys::resource::{UsageWho, getrusage};

use super::binary::{self, TestProgram};
use super::commit::commit;
use super::limits::Verdict;
use super::{machine, page};
use crate::table::{Align, Table};
use crate::workspace::{Workspace, cargo, shown};
use slow_tests::SlowTest;
use timings::Crate;

/// Where `--write` puts the result, below the workspace's root.
const PAGE: &str = "docs/evidence/bench-build.md";
/// How many crates and tests are listed.
const MAX_LISTED: usize = 10;
/// The first command of the README, on 2 cores with nothing cached.
const MAX_RELEASE_BUILD: Duration = Duration::from_secs(7 * 60);
/// The program as it is installed.
const MAX_BINARY_BYTES: u64 = 45_000_000;

/// What `cargo xtask bench build` takes.
#[derive(Args)]
pub struct BuildArgs {
    /// Rewrite docs/evidence/bench-build.md.
    #[arg(long)]
    write: bool,
    /// Measure the release build of this checkout of another commit as well, before this one.
    #[arg(long, value_name = "FOLDER")]
    before: Option<PathBuf>,
    /// Do not build and run the tests.
    #[arg(long, conflicts_with = "write")]
    no_tests: bool,
}

/// A build from nothing.
#[derive(Clone, Debug)]
struct Build {
    wall: Duration,
    processor: Duration,
    /// Packages compiled.
    packages: usize,
    /// Test programs linked.
    programs: Vec<TestProgram>,
    /// Every compiled crate, slowest first.
    crates: Vec<Crate>,
}

/// One checkout, measured.
struct Measured {
    commit: String,
    release: Build,
    binary_bytes: u64,
    tests: Option<Build>,
}

/// Measures and reports; false when a limit is not held.
pub fn run(workspace: &Workspace, args: &BuildArgs) -> Result<bool> {
    let load = machine::load();
    let scratch = workspace.scratch("bench/build")?;
    let before = match &args.before {
        Some(folder) => {
            let found = folder.canonicalize();
            let found = found.with_context(|| format!("--before {}: cannot find it", folder.display()))?;
            Some(measure(&found, &scratch.join("before"), false)?)
        }
        None => None,
    };
    let after = measure(&workspace.root, &scratch.join("after"), !args.no_tests)?;
    let slow = match &after.tests {
        Some(tests) => slow_tests::run(&tests.programs)?,
        None => Vec::new(),
    };
    let verdicts = judge(&after);
    let facts = format!("{}. Load average {load} before, {} after.", machine::facts(), machine::load());
    let numbers = numbers(before.as_ref(), &after);
    let tables = [("Builds", numbers), ("Slowest crates", slowest(&after)), ("Slowest tests", slowest_tests(&slow))];
    println!("{facts}\n");
    tables.iter().for_each(|(title, table)| println!("{title}\n{}", table.plain()));
    println!("{}", page::verdicts(&verdicts).plain());
    if args.write {
        let (compiler, _) = machine::compiler()?;
        let tables: String =
            tables.iter().map(|(title, table)| format!("## {title}\n\n{}\n", table.markdown())).collect();
        let path = workspace.root.join(PAGE);
        fs::write(&path, markdown(&tables, &verdicts, &facts, &compiler))
            .with_context(|| format!("cannot write {}", path.display()))?;
        println!("wrote {PAGE}");
    }
    fs::remove_dir_all(&scratch).with_context(|| format!("cannot remove {}", scratch.display()))?;
    Ok(verdicts.iter().all(Verdict::is_held))
}

/// Builds a checkout twice from nothing: the program for use, and the tests.
fn measure(checkout: &Path, target: &Path, with_tests: bool) -> Result<Measured> {
    // Downloads depend on the network, and count for neither side.
    execute(cargo_in(checkout, target, &["fetch", "--locked"]))?;
    let release = build(checkout, &target.join("release-build"), &["build", "--release", "--package", "seaworthy"])?;
    let program = target.join("release-build/release/seaworthy");
    let size = fs::metadata(&program).with_context(|| format!("cannot read {}", program.display()))?.len();
    let tests = match with_tests {
        true => Some(build(checkout, &target.join("tests"), &["test", "--workspace", "--tests", "--no-run"])?),
        false => None,
    };
    // A source archive is measured as well: it has no commit.
    let commit = commit(checkout).unwrap_or_default();
    Ok(Measured { commit, release, binary_bytes: size, tests })
}

fn cargo_in(checkout: &Path, target: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(cargo());
    command.args(args).current_dir(checkout).env("CARGO_TARGET_DIR", target);
    binary::remove_build_variables(&mut command);
    command
}

fn execute(mut command: Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {}", shown(&command)))?;
    if !status.success() {
        bail!("`{}` ended with {status}", shown(&command));
    }
    Ok(())
}

fn build(checkout: &Path, target: &Path, args: &[&str]) -> Result<Build> {
    if target.exists() {
        fs::remove_dir_all(target).with_context(|| format!("cannot remove {}", target.display()))?;
    }
    let mut command = cargo_in(checkout, target, args);
    command.args(["--locked", "--timings", "--message-format", "json-render-diagnostics"]).stderr(Stdio::inherit());
    let (start, processor) = (Instant::now(), processor_time()?);
    let output = command.output().with_context(|| format!("cannot start {}", shown(&command)))?;
    let (wall, processor) = (start.elapsed(), processor_time()?.saturating_sub(processor));
    if !output.status.success() {
        bail!("`{}` ended with {}", shown(&command), output.status);
    }
    let report = target.join("cargo-timings/cargo-timing.html");
    let report = fs::read_to_string(&report).with_context(|| format!("cannot read {}", report.display()))?;
    let units = timings::units(&report)?;
    let programs = binary::test_programs(&output.stdout);
    Ok(Build { wall, processor, packages: timings::packages(&units), programs, crates: timings::crates(&units) })
}

/// The processor time of all processes that have ended below this one.
fn processor_time() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok(Duration::from_secs_f64(seconds(usage.user_time()) + seconds(usage.system_time())))
}

fn judge(measured: &Measured) -> Vec<Verdict> {
    let verdict = |what: &str, ratio: f64, limit: f64| Verdict { what: what.to_owned(), ratio, limit };
    vec![
        verdict("release build, minutes", minutes(measured.release.wall), minutes(MAX_RELEASE_BUILD)),
        verdict("binary, MB", megabytes(measured.binary_bytes), megabytes(MAX_BINARY_BYTES)),
    ]
}

fn minutes(time: Duration) -> f64 {
    time.as_secs_f64() / 60.0
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

fn numbers(before: Option<&Measured>, after: &Measured) -> Table {
    let mut table = Table::new(&[
        ("what", Align::Left),
        ("before", Align::Right),
        ("after", Align::Right),
        ("after / before", Align::Right),
    ]);
    let commit = |measured: Option<&Measured>| measured.map_or_else(|| "–".to_owned(), |it| it.commit.clone());
    table.row(["commit".to_owned(), commit(before), commit(Some(after)), "–".to_owned()]);
    let mut row = |what: &str, value: &dyn Fn(&Measured) -> Option<(f64, String)>| {
        let (old, new) = (before.and_then(value), value(after));
        let ratio = old.as_ref().zip(new.as_ref()).map(|((old, _), (new, _))| new / old.max(f64::MIN_POSITIVE));
        let text = |value: Option<(f64, String)>| value.map_or_else(|| "–".to_owned(), |(_, text)| text);
        let ratio = ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}"));
        table.row([what.to_owned(), text(old), text(new), ratio]);
    };
    let time = |time: Duration| (time.as_secs_f64(), format!("{:.1} min", minutes(time)));
    let count = |count: usize| (count as f64, count.to_string());
    row("release build, wall time", &|it| Some(time(it.release.wall)));
    row("release build, processor time", &|it| Some(time(it.release.processor)));
    row("release build, packages", &|it| Some(count(it.release.packages)));
    row("binary", &|it| Some((it.binary_bytes as f64, format!("{:.1} MB", megabytes(it.binary_bytes)))));
    row("tests, wall time of the build", &|it| Some(time(it.tests.as_ref()?.wall)));
    row("tests, processor time of the build", &|it| Some(time(it.tests.as_ref()?.processor)));
    row("tests, packages", &|it| Some(count(it.tests.as_ref()?.packages)));
    row("tests, programs linked", &|it| Some(count(it.tests.as_ref()?.programs.len())));
    table
}

fn slowest(measured: &Measured) -> Table {
    let mut table = Table::new(&[("crate", Align::Left), ("release build", Align::Right)]);
    for Crate { name, seconds } in measured.release.crates.iter().take(MAX_LISTED) {
        table.row([name.clone(), format!("{seconds:.1} s")]);
    }
    table
}

fn slowest_tests(tests: &[SlowTest]) -> Table {
    let mut table = Table::new(&[("test", Align::Left), ("program", Align::Left), ("time", Align::Right)]);
    for SlowTest { program, name, seconds } in tests.iter().take(MAX_LISTED) {
        table.row([name.clone(), program.clone(), format!("{seconds:.1} s")]);
    }
    table
}

fn markdown(tables: &str, verdicts: &[Verdict], facts: &str, compiler: &str) -> String {
    format!(
        "\
# Build performance

Made by `cargo xtask bench build --write`, which measures, judges and writes this page; do not edit it by hand.

Machine: {facts} rustc {compiler}.

- *release build* is `cargo build --release --package seaworthy` into an empty target folder; *tests* is
  `cargo test --workspace --tests --no-run` into another one. Downloads are made beforehand.
- *packages* are those compiled, build scripts and macros included. *before* is the checkout that `--before` named.
- The time of a crate is that of its compiler process, all its targets added up, while another one ran on the second core.
- The time of a test is its own, beside the other tests of its program.

{tables}## Limits

{}",
        page::verdicts(verdicts).markdown()
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Build, Measured, judge, markdown, numbers, page};

    fn measured(minutes: u64, binary_bytes: u64) -> Measured {
        let release = Build {
            wall: Duration::from_secs(60 * minutes),
            processor: Duration::from_secs(100 * minutes),
            packages: 400,
            programs: Vec::new(),
            crates: Vec::new(),
        };
        Measured { commit: "abc".to_owned(), release, binary_bytes, tests: None }
    }

    #[test]
    fn limits_are_judged() {
        let words = |minutes, bytes| judge(&measured(minutes, bytes)).iter().map(|it| it.word()).collect::<Vec<_>>();
        assert_eq!(words(7, 45_000_000), ["PASS", "PASS"]);
        assert_eq!(words(8, 45_000_001), ["FAIL", "FAIL"]);
    }

    #[test]
    fn page_compares_both_checkouts_and_leaves_out_what_was_not_measured() {
        let (before, after) = (measured(12, 77_000_000), measured(6, 44_000_000));
        let table = numbers(Some(&before), &after).markdown();
        for part in ["12.0 min", "6.0 min", "0.50", "77.0 MB", "0.57", "–"] {
            assert!(table.contains(part), "no {part} in:\n{table}");
        }
        let text = markdown(&table, &judge(&after), "a machine.", "1.95.0");
        assert!(text.contains("`cargo xtask bench build --write`") && text.contains("PASS"), "{text}");
        assert!(!numbers(None, &after).plain().contains("12.0"), "{}", page::verdicts(&judge(&after)).plain());
    }
}
