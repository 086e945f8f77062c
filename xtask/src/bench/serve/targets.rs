//! Targets of the Ignition endpoint, and the verdicts on measured numbers.
//!
//! Speed is judged against nginx on the same machine in the same run, so the verdict does not depend on how fast the
//! machine is.

use super::Results;
pub use crate::bench::apiserver::targets::{Bound, Verdict};

/// Requests on connections that stay: at least this part of nginx's.
const MIN_RELATIVE_RATE: f64 = 0.8;
/// Memory with a thousand idle connections, in millions of bytes.
const MAX_IDLE_MB: f64 = 40.0;

/// Judges the endpoint, against nginx where there is one.
pub fn judge(ours: &Results, nginx: Option<&Results>) -> Vec<Verdict> {
    let rate = |results: &Results| results.kept.as_ref().map(|load| load.rate);
    let fleet = ours.fleet.as_ref();
    vec![
        Verdict {
            what: "persistent connections: requests per second / nginx's".to_owned(),
            measured: rate(ours).zip(nginx.and_then(rate)).map(|(ours, theirs)| ours / theirs),
            wanted: Bound::AtLeast(MIN_RELATIVE_RATE),
        },
        Verdict {
            what: "failed requests of wrk".to_owned(),
            measured: ours
                .kept
                .as_ref()
                .zip(ours.one_shot.as_ref())
                .map(|(one, other)| (one.failed + other.failed) as f64),
            wanted: Bound::AtMost(0.0),
        },
        Verdict {
            what: "memory with 1000 idle connections, MB".to_owned(),
            measured: Some(ours.memory.connected.max(ours.memory.served) as f64 / 1e6),
            wanted: Bound::AtMost(MAX_IDLE_MB),
        },
        Verdict {
            what: "machines that boot at once without getting their config".to_owned(),
            measured: fleet.map(|fleet| fleet.failed as f64),
            wanted: Bound::AtMost(0.0),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::super::machines::{BootedFleet, MemoryUse};
    use super::super::wrk::Load;
    use super::{Results, judge};

    fn results(rate: f64, megabytes: u64, failed: usize) -> Results {
        let load = Load { rate, p50: 1.0, p99: 1.0, failed: 0, cpu: 1.0 };
        Results {
            kept: Some(load.clone()),
            one_shot: Some(load),
            memory: MemoryUse { served: megabytes * 1_000_000, ..MemoryUse::default() },
            fleet: Some(BootedFleet { machines: 5000, failed, ..BootedFleet::default() }),
        }
    }

    fn words(ours: &Results, nginx: Option<&Results>) -> Vec<&'static str> {
        judge(ours, nginx).iter().map(super::Verdict::word).collect()
    }

    #[test]
    fn bounds_are_inclusive_and_each_miss_is_named() {
        let nginx = results(1000.0, 5, 0);
        assert_eq!(words(&results(800.0, 40, 0), Some(&nginx)), ["PASS"; 4]);
        assert_eq!(words(&results(799.0, 41, 1), Some(&nginx)), ["FAIL", "PASS", "FAIL", "FAIL"]);
    }

    #[test]
    fn without_nginx_speed_is_not_judged() {
        assert_eq!(words(&results(1.0, 1, 0), None)[0], "SKIPPED");
    }
}
