//! Measurement of one run of a program, and of one parse, each in a small process of its own.
//!
//! A child starts out with its parent's peak memory, so the parent must be small: these run in a release build of
//! xtask that does nothing else, never in the runner, which holds whole inputs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::sys::resource::{UsageWho, getrusage};
use serde::{Deserialize, Serialize};

use crate::workspace::stdout_of;

/// What one run of a program cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measurement {
    /// From start to end of the process, in nanoseconds.
    pub nanoseconds: u64,
    /// The most memory it ever had, in bytes.
    pub peak_bytes: u64,
}

/// Times of a plain parse of the same bytes, each in a new process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parses {
    /// With the system's allocator, as in a program that only parses.
    pub system: Duration,
    /// With the allocator that the product uses.
    pub mimalloc: Duration,
}

/// The programs that measure.
pub struct Probe {
    /// The release build of xtask.
    pub program: PathBuf,
    /// The release build of the parser with the product's allocator.
    pub parser: PathBuf,
}

impl Parses {
    /// The better of two runs, each time by itself.
    pub fn best(self, other: Self) -> Self {
        Self { system: self.system.min(other.system), mimalloc: self.mimalloc.min(other.mimalloc) }
    }
}

impl Measurement {
    /// The better of two runs, each number by itself: noise only ever adds.
    pub fn best(self, other: Self) -> Self {
        Self { nanoseconds: self.nanoseconds.min(other.nanoseconds), peak_bytes: self.peak_bytes.min(other.peak_bytes) }
    }
}

impl Probe {
    /// Runs a command once.
    pub fn command(&self, command: &[OsString]) -> Result<Measurement> {
        let mut probe = Command::new(&self.program);
        probe.args(["bench", "measure", "--"]).args(command);
        Ok(serde_json::from_slice(&stdout_of(&mut probe)?)?)
    }

    /// Parses a file once with each allocator, in new processes, as the program does. A second parse in the same process would find its
    /// memory already there, or not, by the allocator's whim: measured, that is half the time or all of it.
    pub fn parse(&self, file: &Path) -> Result<Parses> {
        let time = |command: &mut Command| -> Result<Duration> {
            Ok(Duration::from_nanos(serde_json::from_slice(&stdout_of(command.arg(file))?)?))
        };
        Ok(Parses {
            system: time(Command::new(&self.program).args(["bench", "parse-value"]))?,
            mimalloc: time(&mut Command::new(&self.parser))?,
        })
    }
}

/// `bench measure`: prints a [`Measurement`] as JSON.
pub fn measure(command: &[OsString]) -> Result<bool> {
    let [program, args @ ..] = command else { bail!("no command was given") };
    let mut child = Command::new(program);
    child.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let begun = Instant::now();
    let status = child.status().with_context(|| format!("cannot start {}", program.to_string_lossy()))?;
    let took = begun.elapsed();
    if !status.success() {
        bail!("{} ended with {status}", program.to_string_lossy());
    }
    // This process has had one child only, so the most of all children is that child's. Linux counts in KiB.
    let peak = getrusage(UsageWho::RUSAGE_CHILDREN).context("getrusage")?.max_rss();
    let measurement = Measurement {
        nanoseconds: nanoseconds(took),
        peak_bytes: u64::try_from(peak).context("negative peak memory")? * 1024,
    };
    println!("{}", serde_json::to_string(&measurement)?);
    Ok(true)
}

/// Half a millennium fits.
fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::Measurement;

    #[test]
    fn best_takes_each_number_by_itself() {
        let a = Measurement { nanoseconds: 5, peak_bytes: 10 };
        let b = Measurement { nanoseconds: 7, peak_bytes: 8 };
        assert_eq!(a.best(b), Measurement { nanoseconds: 5, peak_bytes: 8 });
    }
}
