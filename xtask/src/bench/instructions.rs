//! `cargo xtask bench instructions`: counts the instructions of the hot paths, which noise on the machine does not
//! change, and compares them with `xtask/instructions.json`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;

use super::baseline::Baseline;
use super::input::{Dialect, Fleet, ignition_config};
use super::{binary, machine};
use crate::step::{Outcome, Run};
use crate::table::{Align, Table};
use crate::tool::{Availability, Toolbox, VALGRIND};
use crate::workspace::Workspace;

/// Below the workspace's root.
const RECORD: &str = "xtask/instructions.json";

const NEXT: &str = "if the change is intended, run `cargo xtask bench instructions --write`";

/// What `cargo xtask bench instructions` takes.
#[derive(Args)]
pub struct InstructionsArgs {
    /// Record the counts in xtask/instructions.json.
    #[arg(long, conflicts_with = "binary")]
    write: bool,
    /// Count this program's instructions instead of a release build of seaworthy.
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
}

/// One hot path: the arguments, and whether it prints a result. Paths are relative to the folder with the inputs,
/// so that the place of the checkout does not count.
struct Case {
    name: &'static str,
    args: &'static [&'static str],
    is_silent: bool,
}

const CASES: &[Case] = &[
    Case { name: "render", args: &["render", "-f", "render-3x50.json", "-o", "json"], is_silent: false },
    Case {
        name: "render from Ignition 2.2",
        args: &["render", "-f", "render-3x20-v2.json", "-o", "json"],
        is_silent: false,
    },
    Case {
        name: "convert 3.5 to 3.1",
        args: &["ignition", "convert", "--to", "3.1.0", "-f", "ignition-v3.json"],
        is_silent: false,
    },
    Case {
        name: "convert 2.2 to 3.5",
        args: &["ignition", "convert", "--to", "3.5.0", "-f", "ignition-v2.json"],
        is_silent: false,
    },
    Case { name: "lint", args: &["lint", "-f", "render-3x50.json"], is_silent: true },
];

/// The command.
pub fn run(workspace: &Workspace, args: &InstructionsArgs) -> Result<bool> {
    let mut tools = Toolbox::new(false);
    let valgrind = match tools.ensure(&VALGRIND) {
        Availability::At(path) => path,
        Availability::Missing(reason) if args.write => bail!("valgrind: {reason}"),
        Availability::Missing(reason) => {
            println!("Skipped: instructions: valgrind {reason}");
            return Ok(true);
        }
    };
    if args.write {
        let fresh = count(workspace, &valgrind, None)?;
        fresh.save(&workspace.root.join(RECORD))?;
        println!("{}wrote {RECORD}", report(&fresh, &fresh));
        return Ok(true);
    }
    match compare(workspace, &valgrind, args.binary.as_deref())? {
        Outcome::Passed => Ok(true),
        Outcome::Failed(what) => {
            println!("{what}");
            Ok(false)
        }
        Outcome::Skipped(reason) => {
            println!("Skipped: instructions: {reason}");
            Ok(true)
        }
    }
}

/// The step of the test command.
pub fn step(run: &mut Run<'_>) -> Result<Outcome> {
    match run.tools.ensure(&VALGRIND) {
        Availability::At(valgrind) => compare(run.workspace, &valgrind, None),
        Availability::Missing(reason) => Ok(Outcome::Skipped(format!("valgrind: {reason}"))),
    }
}

/// The build of the step; `None` if it will be skipped, or fail without one.
pub fn build(run: &mut Run<'_>) -> Option<Command> {
    let Availability::At(_) = run.tools.ensure(&VALGRIND) else { return None };
    let recorded = Baseline::load(&run.workspace.root.join(RECORD)).ok()??;
    let (rustc, platform) = machine::compiler().ok()?;
    recorded.mismatch(&rustc, &platform).is_none().then(|| binary::product_build(run.workspace))
}

fn compare(workspace: &Workspace, valgrind: &Path, given: Option<&Path>) -> Result<Outcome> {
    let Some(recorded) = Baseline::load(&workspace.root.join(RECORD))? else {
        return Ok(Outcome::Failed(format!("{RECORD} not found: run `cargo xtask bench instructions --write`")));
    };
    let (rustc, platform) = machine::compiler()?;
    // Asked before the build, which takes minutes.
    if let Some(reason) = recorded.mismatch(&rustc, &platform) {
        return Ok(Outcome::Skipped(format!("{RECORD} was {reason}")));
    }
    let fresh = count(workspace, valgrind, given)?;
    print!("{}", report(&recorded, &fresh));
    let worse = fresh.instructions.iter().filter(|(case, count)| recorded.compare(case, **count).is_failure()).count();
    Ok(match worse {
        0 => Outcome::Passed,
        _ => Outcome::Failed(format!("{worse} hot paths execute more instructions; {NEXT}")),
    })
}

fn report(recorded: &Baseline, fresh: &Baseline) -> String {
    let mut table = Table::new(&[
        ("hot path", Align::Left),
        ("instructions", Align::Right),
        ("recorded", Align::Right),
        ("change", Align::Right),
        ("verdict", Align::Left),
    ]);
    for (case, count) in &fresh.instructions {
        let before = recorded.instructions.get(case).map_or_else(String::new, u64::to_string);
        let [change, verdict] = recorded.compare(case, *count).cells();
        table.row([case.clone(), count.to_string(), before, change, verdict]);
    }
    table.plain()
}

/// Writes the inputs and runs every case.
pub(super) fn count(workspace: &Workspace, valgrind: &Path, given: Option<&Path>) -> Result<Baseline> {
    let program = binary::product(workspace, given)?;
    let folder = workspace.scratch("bench/instructions")?;
    let fleets = [Fleet::new(3, 50), Fleet { pools: 3, configs: 20, dialect: Dialect::V2 }];
    for fleet in fleets {
        fleet.write(&folder.join(format!("render-{}.json", fleet.name())))?;
    }
    for (name, dialect) in [("ignition-v3.json", Dialect::V3), ("ignition-v2.json", Dialect::V2)] {
        let path = folder.join(name);
        fs::write(&path, ignition_config(50, dialect)).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let (rustc, platform) = machine::compiler()?;
    let mut fresh = Baseline { rustc, platform, ..Baseline::default() };
    for case in CASES {
        let counted = case.count(valgrind, &program, &folder)?;
        fresh.instructions.insert(case.name.to_owned(), counted);
    }
    Ok(fresh)
}

impl Case {
    fn count(&self, valgrind: &Path, program: &Path, folder: &Path) -> Result<u64> {
        const PROFILE: &str = "callgrind.out";
        let mut command = Command::new(valgrind);
        command.args(["--tool=callgrind", "--quiet"]);
        command.arg(format!("--callgrind-out-file={PROFILE}")).arg(program).args(self.args);
        // The environment is part of what a process reads at its start: none, then, but what makes output plain.
        command.current_dir(folder).env_clear().env("LC_ALL", "C").env("NO_COLOR", "1");
        let output =
            command.stdin(Stdio::null()).output().with_context(|| format!("cannot start {}", valgrind.display()))?;
        if !output.status.success() {
            bail!(
                "`{}` ended with {}:\n{}",
                self.args.join(" "),
                output.status,
                String::from_utf8_lossy(&output.stderr).trim_end()
            );
        }
        ensure!(
            self.is_silent || !output.stdout.is_empty(),
            "`{}` printed nothing, so there is nothing to count",
            self.args.join(" ")
        );
        let profile = folder.join(PROFILE);
        let text = fs::read(&profile).with_context(|| format!("cannot read {}", profile.display()))?;
        total(&String::from_utf8_lossy(&text)).with_context(|| format!("{} has no total", profile.display()))
    }
}

/// The sum over all functions in a callgrind profile.
fn total(profile: &str) -> Option<u64> {
    let line = profile.lines().rev().find_map(|line| line.strip_prefix("totals:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{CASES, report, total};
    use crate::bench::baseline::Baseline;

    #[test]
    fn total_is_read_from_a_profile() {
        assert_eq!(total("version: 1\nsummary: 7\n\nfn=(1) main\n1 7\n\ntotals: 1234567\n"), Some(1_234_567));
        assert_eq!(total("version: 1\n"), None);
    }

    #[test]
    fn names_of_cases_are_unique() {
        let mut names: Vec<_> = CASES.iter().map(|case| case.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CASES.len());
    }

    #[test]
    fn report_shows_old_and_new() {
        let counts = |count| Baseline { instructions: [("render".to_owned(), count)].into(), ..Baseline::default() };
        assert_eq!(
            report(&counts(1000), &counts(1100)),
            "hot path  instructions  recorded    change  verdict\n\
             render            1100      1000  +10.00 %  FAIL\n"
        );
    }
}
