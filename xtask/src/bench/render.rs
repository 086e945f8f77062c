//! `cargo xtask bench render`: generates fleets, measures the program on them, and checks the limits.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use clap::Args;

use super::input::Fleet;
use super::limits::{Row, judge};
use super::measurement::{Measurement, Parses, Probe};
use super::{binary, machine, page};
use crate::workspace::Workspace;

/// The sizes that the limits are about.
pub(super) const FLEETS: &[Fleet] = &[Fleet::new(3, 50), Fleet::new(3, 200), Fleet::new(3, 800), Fleet::new(30, 50)];

/// Where `--write` puts the result, below the workspace's root.
const PAGE: &str = "docs/evidence/bench-render.md";

/// What `cargo xtask bench render` takes.
#[derive(Args)]
pub struct RenderArgs {
    /// Rewrite docs/evidence/bench-render.md.
    #[arg(long, conflicts_with = "binary")]
    write: bool,
    /// Measure this program instead of a release build of seaworthy.
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// How many rounds; the best of each number counts.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

struct Candidate {
    fleet: Fleet,
    input: PathBuf,
    input_bytes: u64,
    best: Option<(Parses, Measurement)>,
}

/// Measures and reports; false when a limit is missed.
pub fn run(workspace: &Workspace, args: &RenderArgs) -> Result<bool> {
    let probe = Probe {
        program: binary::release(workspace, "xtask", "xtask")?,
        parser: binary::release(workspace, "xtask", "parse-mimalloc")?,
    };
    let program = binary::product(workspace, args.binary.as_deref())?;
    let folder = workspace.scratch("bench")?;
    let mut candidates = Vec::new();
    for fleet in FLEETS {
        let input = folder.join(format!("render-{}.json", fleet.name()));
        let input_bytes = fleet.write(&input)?;
        check(&program, fleet, &input)?;
        candidates.push(Candidate { fleet: *fleet, input, input_bytes, best: None });
    }
    for round in 1..=args.rounds {
        eprintln!("round {round} of {}", args.rounds);
        for candidate in &mut candidates {
            let render = probe.command(&command(&program, &candidate.input))?;
            let parse = probe.parse(&candidate.input)?;
            candidate.best = Some(match candidate.best {
                Some((best_parse, best)) => (best_parse.best(parse), best.best(render)),
                None => (parse, render),
            });
        }
    }
    let rows: Vec<Row> = candidates
        .iter()
        .filter_map(|it| {
            let (parse, render) = it.best?;
            Some(Row { fleet: it.fleet, input_bytes: it.input_bytes, parse, render })
        })
        .collect();
    let verdicts = judge(&rows);
    println!("{}", machine::facts());
    println!("\n{}\n{}\n", page::numbers(&rows).plain(), page::PLAIN_PARSE);
    println!("{}", page::verdicts(&verdicts).plain());
    if args.write {
        let (compiler, _) = machine::compiler()?;
        let text = page::markdown(&rows, &verdicts, &machine::facts(), &compiler, args.rounds);
        let path = workspace.root.join(PAGE);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        println!("wrote {PAGE}");
    }
    Ok(verdicts.iter().all(super::limits::Verdict::is_held))
}

pub(super) fn command(program: &Path, input: &Path) -> Vec<OsString> {
    let args: [&OsString; 5] = [&"render".into(), &"-f".into(), &input.into(), &"-o".into(), &"json".into()];
    std::iter::once(program.as_os_str().to_owned()).chain(args.into_iter().cloned()).collect()
}

/// One run that is not timed, to see that the program does the work.
fn check(program: &Path, fleet: &Fleet, input: &Path) -> Result<()> {
    let output = input.with_extension("out.json");
    let words = command(program, input);
    let mut child = Command::new(&words[0]);
    child.args(&words[1..]).stdin(Stdio::null()).stderr(Stdio::piped());
    child.stdout(File::create(&output).with_context(|| format!("cannot write {}", output.display()))?);
    let ended = child.output().with_context(|| format!("cannot start {}", program.display()))?;
    if !ended.status.success() {
        let stderr = String::from_utf8_lossy(&ended.stderr);
        let last: Vec<&str> = stderr.lines().rev().take(5).collect();
        bail!(
            "{} render of {} ended with {}; its last lines:\n{}",
            program.display(),
            fleet.name(),
            ended.status,
            last.into_iter().rev().collect::<Vec<_>>().join("\n")
        );
    }
    let bytes = fs::read(&output).with_context(|| format!("cannot read {}", output.display()))?;
    fleet.check_rendered(&bytes).with_context(|| format!("{} rendered {} wrongly", program.display(), fleet.name()))
}
