//! Baseline: the recorded instruction counts, and the comparison with new ones.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

/// Counts may differ by this share. The same build on the same input differs by far less; what remains is the
/// seeds of hash maps, and string routines that the C library chooses by processor.
const TOLERANCE: f64 = 0.03;

/// What is recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Baseline {
    /// The compiler that built the program: another one makes other instructions.
    pub rustc: String,
    /// The platform, for the same reason.
    pub platform: String,
    /// The count of each case.
    pub instructions: BTreeMap<String, u64>,
}

/// A fresh count beside the recorded one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Comparison {
    /// As recorded, give or take the tolerance.
    Same(f64),
    /// Fewer than recorded, beyond the tolerance.
    Better(f64),
    /// More than recorded, beyond the tolerance.
    Worse(f64),
    /// Nothing is recorded for the case.
    Unknown,
}

impl Baseline {
    /// The recorded counts; `None` when there is no record.
    pub fn load(path: &Path) -> Result<Option<Self>> {
        match fs::read(path) {
            Ok(bytes) => {
                serde_json::from_slice(&bytes).map(Some).with_context(|| format!("cannot read {}", path.display()))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// Records the counts.
    pub fn save(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Why fresh counts of this compiler and platform cannot be compared with the recorded ones.
    pub fn mismatch(&self, rustc: &str, platform: &str) -> Option<String> {
        (self.rustc != rustc || self.platform != platform).then(|| {
            format!(
                "recorded with rustc {} for {}, but this is rustc {rustc} for {platform}",
                self.rustc, self.platform
            )
        })
    }

    /// Compares one case.
    pub fn compare(&self, case: &str, count: u64) -> Comparison {
        let Some(recorded) = self.instructions.get(case) else {
            return Comparison::Unknown;
        };
        let ratio = count as f64 / (*recorded as f64).max(1.0);
        if ratio > 1.0 + TOLERANCE {
            Comparison::Worse(ratio)
        } else if ratio < 1.0 - TOLERANCE {
            Comparison::Better(ratio)
        } else {
            Comparison::Same(ratio)
        }
    }
}

impl Comparison {
    /// Whether the bench fails on it.
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Worse(_) | Self::Unknown)
    }

    /// For the table: the change, and the verdict.
    pub fn cells(self) -> [String; 2] {
        let change = |ratio: f64| format!("{:+.2} %", (ratio - 1.0) * 100.0);
        match self {
            Self::Same(ratio) => [change(ratio), "PASS".to_owned()],
            Self::Better(ratio) => [change(ratio), "PASS (better: record it)".to_owned()],
            Self::Worse(ratio) => [change(ratio), "FAIL".to_owned()],
            Self::Unknown => [String::new(), "FAIL (not recorded)".to_owned()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Baseline, Comparison};

    fn baseline() -> Baseline {
        Baseline {
            rustc: "1.95.0".to_owned(),
            platform: "x86_64-unknown-linux-gnu".to_owned(),
            instructions: [("render".to_owned(), 1000)].into(),
        }
    }

    #[test]
    fn three_percent_more_pass_and_a_little_over_fails() {
        assert_eq!(baseline().compare("render", 1030), Comparison::Same(1.03));
        assert!(baseline().compare("render", 1031).is_failure());
    }

    #[test]
    fn fewer_instructions_never_fail() {
        assert_eq!(baseline().compare("render", 500), Comparison::Better(0.5));
        assert!(!baseline().compare("render", 500).is_failure());
    }

    #[test]
    fn case_without_a_record_fails() {
        assert!(baseline().compare("lint", 1).is_failure());
    }

    #[test]
    fn other_compiler_is_not_compared() {
        assert_eq!(baseline().mismatch("1.95.0", "x86_64-unknown-linux-gnu"), None);
        let reason = baseline().mismatch("1.96.0", "x86_64-unknown-linux-gnu").unwrap();
        assert!(reason.contains("1.95.0") && reason.contains("1.96.0"), "{reason}");
    }

    #[test]
    fn record_reads_back() {
        let text = serde_json::to_string(&baseline()).unwrap();
        assert_eq!(serde_json::from_str::<Baseline>(&text).unwrap(), baseline());
    }
}
