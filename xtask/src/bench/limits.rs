//! Limits of rendering, and the verdicts on measured numbers.
//!
//! Time is judged against a plain parse of the same bytes on the same machine in the same minute, so that the
//! verdict does not depend on how fast the machine is.

use std::time::Duration;

use super::input::Fleet;
use super::measurement::{Measurement, Parses};

/// The whole process, reading and writing included, may take this many times the plain parse. One parse is the
/// floor for anything that looks at every byte; the rest is for merging, hashing and writing.
const MAX_TIME_FACTOR: f64 = 3.0;

/// Peak memory: this many times the input, for the bytes themselves, the parsed form and the output.
const MAX_MEMORY_FACTOR: u64 = 4;

/// What a process may need for itself, whatever the input.
const BASE_MEMORY_BYTES: u64 = 20_000_000;

/// Time per MachineConfig may grow this much from the first of [`GROWTH_FLEETS`] to the second: cache misses and a deeper
/// index, but nothing that is quadratic.
const MAX_GROWTH_FACTOR: f64 = 1.3;

/// The two sizes whose time per MachineConfig is compared.
const GROWTH_FLEETS: (Fleet, Fleet) = (Fleet::new(3, 50), Fleet::new(3, 800));

/// Everything measured for one fleet.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its size.
    pub fleet: Fleet,
    /// Bytes of the input file.
    pub input_bytes: u64,
    /// The plain parses.
    pub parse: Parses,
    /// The program.
    pub render: Measurement,
}

/// One limit, held or not.
#[derive(Debug, PartialEq)]
pub struct Verdict {
    /// What is limited.
    pub what: String,
    /// Measured in relation to its base.
    pub ratio: f64,
    /// The most that the ratio may be.
    pub limit: f64,
}

impl Row {
    /// Whole process against a plain parse.
    pub fn time_ratio(&self, parse: Duration) -> f64 {
        self.render.nanoseconds as f64 / (parse.as_nanos() as f64).max(1.0)
    }

    /// Microseconds for each MachineConfig.
    pub fn micros_per_config(&self) -> f64 {
        self.render.nanoseconds as f64 / 1000.0 / self.fleet.total() as f64
    }

    /// The most memory allowed, in bytes.
    pub fn memory_limit(&self) -> u64 {
        self.input_bytes * MAX_MEMORY_FACTOR + BASE_MEMORY_BYTES
    }
}

impl Verdict {
    /// Whether the limit is held.
    pub fn is_held(&self) -> bool {
        self.ratio <= self.limit
    }

    /// `PASS` or `FAIL`.
    pub fn word(&self) -> &'static str {
        if self.is_held() { "PASS" } else { "FAIL" }
    }
}

/// Judges all rows; the growth needs both of its sizes.
pub fn judge(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for row in rows {
        verdicts.push(Verdict {
            what: format!("{}: time of the process / time of the plain parse", row.fleet.name()),
            ratio: row.time_ratio(row.parse.system),
            limit: MAX_TIME_FACTOR,
        });
    }
    for row in rows {
        verdicts.push(Verdict {
            what: format!(
                "{}: peak memory / ({MAX_MEMORY_FACTOR} × input + {} MB)",
                row.fleet.name(),
                BASE_MEMORY_BYTES / 1_000_000
            ),
            ratio: row.render.peak_bytes as f64 / row.memory_limit() as f64,
            limit: 1.0,
        });
    }
    let (small, large) = GROWTH_FLEETS;
    let find = |fleet: Fleet| rows.iter().find(|row| row.fleet == fleet);
    if let (Some(from), Some(to)) = (find(small), find(large)) {
        verdicts.push(Verdict {
            what: format!("time per MachineConfig, {} / {}", large.name(), small.name()),
            ratio: to.micros_per_config() / from.micros_per_config(),
            limit: MAX_GROWTH_FACTOR,
        });
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{GROWTH_FLEETS, Row, judge};
    use crate::bench::input::Fleet;
    use crate::bench::measurement::{Measurement, Parses};

    fn row(fleet: Fleet, parse_ms: u64, render_ms: u64, peak_bytes: u64) -> Row {
        Row {
            fleet,
            input_bytes: 1_000_000,
            parse: Parses { system: Duration::from_millis(parse_ms), mimalloc: Duration::from_millis(parse_ms / 2) },
            render: Measurement { nanoseconds: render_ms * 1_000_000, peak_bytes },
        }
    }

    fn held(rows: &[Row]) -> Vec<bool> {
        judge(rows).iter().map(super::Verdict::is_held).collect()
    }

    #[test]
    fn limits_are_inclusive() {
        assert_eq!(held(&[row(Fleet::new(30, 50), 10, 30, 24_000_000)]), [true, true]);
    }

    #[test]
    fn slow_run_and_big_run_are_distinguished() {
        assert_eq!(held(&[row(Fleet::new(30, 50), 10, 31, 24_000_000)]), [false, true]);
        assert_eq!(held(&[row(Fleet::new(30, 50), 10, 30, 24_000_001)]), [true, false]);
    }

    #[test]
    fn growth_per_config_is_limited() {
        let (small, large) = GROWTH_FLEETS;
        let growth = |large_ms| {
            let rows = [row(small, 10, 10, 0), row(large, 1000, large_ms, 0)];
            judge(&rows).pop().unwrap()
        };
        assert!(growth(208).is_held(), "16 times the configs in 20.8 times the time");
        assert!(!growth(209).is_held());
        assert_eq!(growth(209).word(), "FAIL");
    }
}
