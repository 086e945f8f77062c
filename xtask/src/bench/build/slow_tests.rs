//! Slow tests, by the harness's own clock.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::bench::binary::TestProgram;
use crate::process;

/// Longer than any test takes that ends.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(25 * 60);

/// A test with its time.
#[derive(Clone, Debug, PartialEq)]
pub struct SlowTest {
    pub program: String,
    pub name: String,
    pub seconds: f64,
}

/// Runs all test programs and sorts their tests, slowest first. A test that fails or cannot run here takes its time too: whether
/// tests pass is for `cargo xtask test` to report.
pub fn run(programs: &[TestProgram]) -> Result<Vec<SlowTest>> {
    let mut tests = Vec::new();
    for program in programs {
        eprintln!("{}: {}", program.package, program.path.display());
        let mut command = Command::new(&program.path);
        command.args(["-Zunstable-options", "--report-time"]).current_dir(&program.folder);
        // The option is unstable; the harness takes it with this variable, and no build sees it.
        command.env("RUSTC_BOOTSTRAP", "1").env("CARGO_MANIFEST_DIR", &program.folder);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = child.with_context(|| format!("cannot start {}", program.path.display()))?;
        let has_ended = process::read_lines(&mut child, SILENCE_TIMEOUT, |line| {
            let line = String::from_utf8_lossy(line);
            tests.extend(time(&line).map(|(name, seconds)| SlowTest {
                program: format!("{} {}", program.package, program.name),
                name: name.to_owned(),
                seconds,
            }));
            Ok(())
        })?;
        match has_ended {
            true => drop(child.wait()?),
            false => process::end_with_descendants(&mut child)?,
        }
    }
    tests.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    Ok(tests)
}

/// The name and the seconds of `test a::b ... ok <0.123s>`.
fn time(line: &str) -> Option<(&str, f64)> {
    let (name, verdict) = line.trim().strip_prefix("test ")?.rsplit_once(" ... ")?;
    let (_, time) = verdict.split_once(" <")?;
    Some((name, time.strip_suffix("s>")?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::time;

    #[test]
    fn time_is_read_from_the_line_of_a_test() {
        assert_eq!(time("test a::b ... ok <0.125s>\n"), Some(("a::b", 0.125)));
        assert_eq!(time("test a::b - should panic ... ok <2.000s>"), Some(("a::b - should panic", 2.0)));
        assert_eq!(time("test a ... FAILED <1.5s>"), Some(("a", 1.5)));
        for line in ["test a ... ok", "test a ... ignored", "running 3 tests", "test a ... ok <fast>"] {
            assert_eq!(time(line), None, "{line}");
        }
    }
}
