//! Targets of the API server, and the verdicts on measured numbers.
//!
//! Speed is judged against the real server on the same machine in the same run, so the verdict does not depend on how
//! fast the machine is. Memory and start have limits of their own.

use super::workload::{MANY_CONNECTIONS, Operation, Results};

/// Reads and durable writes: at least so many times the real server's.
const MIN_SPEEDUP: f64 = 3.0;
/// From the start of the process until it is ready.
const MAX_START_MS: f64 = 300.0;
/// Memory before anything is stored.
const MAX_IDLE_MB: f64 = 30.0;
/// Memory with all objects.
const MAX_FILLED_MB: f64 = 150.0;
/// Time of one operation with ten times the objects.
const MAX_GROWTH: f64 = 1.2;

/// One target, reached or not.
#[derive(Debug, PartialEq)]
pub struct Verdict {
    /// What is judged.
    pub what: String,
    /// What was measured; none if there is no real server to compare with.
    pub measured: Option<f64>,
    /// What is wanted.
    pub wanted: Bound,
}

/// Which side of a bound is good.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// This or more.
    AtLeast(f64),
    /// This or less.
    AtMost(f64),
}

impl Verdict {
    /// Whether the target is missed. What was not measured is not missed.
    pub fn is_missed(&self) -> bool {
        self.measured.is_some_and(|measured| match self.wanted {
            Bound::AtLeast(bound) => measured < bound,
            Bound::AtMost(bound) => measured > bound,
        })
    }

    /// `PASS`, `FAIL` or `SKIPPED`.
    pub fn word(&self) -> &'static str {
        match self.measured {
            None => "SKIPPED",
            Some(_) if self.is_missed() => "FAIL",
            Some(_) => "PASS",
        }
    }
}

/// Judges our server, against the real one where there is one.
pub fn judge(ours: &Results, real: Option<&Results>) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let compared = [
        (Operation::Create, MANY_CONNECTIONS),
        (Operation::CreateCustom, MANY_CONNECTIONS),
        (Operation::StatusPatch, MANY_CONNECTIONS),
        (Operation::Apply, MANY_CONNECTIONS),
        (Operation::Get, 1),
        (Operation::Get, MANY_CONNECTIONS),
        (Operation::List, 1),
        (Operation::List, MANY_CONNECTIONS),
    ];
    for (operation, connections) in compared {
        verdicts.push(Verdict {
            what: format!("{}, {}: rate / the real one's", operation.name(), connected(connections)),
            measured: speedup(ours, real, operation, connections),
            wanted: Bound::AtLeast(MIN_SPEEDUP),
        });
    }
    let absolute = [
        ("start, ms", ours.start.as_secs_f64() * 1e3, MAX_START_MS),
        ("memory idle, MB", ours.idle.now as f64 / 1e6, MAX_IDLE_MB),
        ("memory with all objects, MB", ours.filled.now as f64 / 1e6, MAX_FILLED_MB),
        ("time of a get with 10 × the objects / before", ours.growth.get, MAX_GROWTH),
        ("time of a status patch with 10 × the objects / before", ours.growth.patch, MAX_GROWTH),
    ];
    for (what, measured, bound) in absolute {
        verdicts.push(Verdict { what: what.to_owned(), measured: Some(measured), wanted: Bound::AtMost(bound) });
    }
    verdicts
}

/// Our rate in relation to the real one's.
pub fn speedup(ours: &Results, real: Option<&Results>, operation: Operation, connections: usize) -> Option<f64> {
    Some(ours.find(operation, connections)?.rate() / real?.find(operation, connections)?.rate())
}

/// `1 connection` or `32 connections`.
pub fn connected(connections: usize) -> String {
    format!("{connections} connection{}", if connections == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::{Bound, Verdict};

    fn word(measured: Option<f64>, wanted: Bound) -> &'static str {
        Verdict { what: String::new(), measured, wanted }.word()
    }

    #[test]
    fn bounds_are_inclusive() {
        assert_eq!(word(Some(3.0), Bound::AtLeast(3.0)), "PASS");
        assert_eq!(word(Some(2.99), Bound::AtLeast(3.0)), "FAIL");
        assert_eq!(word(Some(300.0), Bound::AtMost(300.0)), "PASS");
        assert_eq!(word(Some(300.1), Bound::AtMost(300.0)), "FAIL");
    }

    #[test]
    fn what_was_not_measured_is_neither_reached_nor_missed() {
        assert_eq!(word(None, Bound::AtLeast(3.0)), "SKIPPED");
    }
}
