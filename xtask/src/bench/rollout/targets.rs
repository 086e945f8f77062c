//! Targets of a roll-out, and the verdicts on measured numbers.

use super::fleet::FleetReport;
use crate::bench::limits::Verdict;

/// All writes of the plane for one node, MachineConfigNode and the pool's share included.
const MAX_WRITES_PER_NODE: f64 = 6.0;
/// The pool that the limit on decisions is about, and the limit in milliseconds. The fleet of that pool has as many nodes
/// again in others.
const MAX_DECISION_TIME: (u64, f64) = (5000, 50.0);
/// The fleet that the limit on memory is about, and the limit in millions of bytes, server and controllers together.
const MAX_MEMORY: (u64, f64) = (10_000, 250.0);
/// The two fleets whose CPU time per node is compared, and how much it may grow.
const MAX_GROWTH: (u64, u64, f64) = (1000, 10_000, 1.3);

/// Judges what was measured.
pub fn judge(fleets: &[FleetReport]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let mut at_most = |what: String, ratio: f64, limit: f64| verdicts.push(Verdict { what, ratio, limit });
    for fleet in fleets {
        at_most(
            format!("{}: controller writes per node", fleet.name()),
            fleet.plane_writes_per_node(),
            MAX_WRITES_PER_NODE,
        );
        at_most(format!("{}: writes while idle", fleet.name()), fleet.idle.writes as f64, 0.0);
    }
    let (pool, limit) = MAX_DECISION_TIME;
    for fleet in fleets.iter().filter(|fleet| fleet.decisions.biggest_pool == pool) {
        let what = format!("{}: decision about a pool of {pool}, ms at p50", fleet.name());
        at_most(what, fleet.decisions.p50_micros as f64 / 1e3, limit);
    }
    let (nodes, limit) = MAX_MEMORY;
    for fleet in fleets.iter().filter(|fleet| fleet.nodes == nodes) {
        at_most(format!("{}: peak memory, MB", fleet.name()), fleet.peak_bytes as f64 / 1e6, limit);
    }
    let (few, many, limit) = MAX_GROWTH;
    let cost = |nodes: u64| fleets.iter().find(|fleet| fleet.nodes == nodes && fleet.takes_ms == 0);
    if let Some((few, many)) = cost(few).zip(cost(many)) {
        let what = format!("CPU time per node, {} / {}", many.name(), few.name());
        at_most(what, many.cpu_ms_per_node() / few.cpu_ms_per_node(), limit);
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::{FleetReport, judge};

    fn fleet(nodes: u64, cpu_ms: u64, writes: u64, idle_writes: u64) -> FleetReport {
        let report = serde_json::json!({
            "nodes": nodes, "takesMs": 0, "nodeBytes": 4000,
            "filled": {"wallMs": 1, "cpuMs": 1, "residentBytes": 1},
            "wallMs": 1, "cpuMs": cpu_ms, "planeWrites": {"PATCH nodes": writes}, "machineWrites": {},
            "decisions": {"count": 9, "biggestPool": nodes / 2, "p50Micros": 50_000, "maxMicros": 90_000},
            "peakBytes": 250_000_000_u64, "residentBytes": 1,
            "idle": {"wallMs": 1000, "cpuMs": 0, "writes": idle_writes},
        });
        serde_json::from_value(report).unwrap()
    }

    fn missed(fleets: &[FleetReport]) -> Vec<String> {
        judge(fleets).into_iter().filter(|verdict| !verdict.is_held()).map(|verdict| verdict.what).collect()
    }

    #[test]
    fn limits_are_inclusive() {
        let fleets = [fleet(1000, 1000, 6000, 0), fleet(10_000, 13_000, 60_000, 0)];
        assert_eq!(missed(&fleets), [""; 0]);
        assert_eq!(judge(&fleets).len(), 7, "four of both, three of the big one");
    }

    #[test]
    fn each_miss_is_named() {
        assert_eq!(missed(&[fleet(100, 1, 601, 0)]), ["100 nodes: controller writes per node"]);
        assert_eq!(missed(&[fleet(100, 1, 600, 1)]), ["100 nodes: writes while idle"]);
        let grown = [fleet(1000, 1000, 6000, 0), fleet(10_000, 13_001, 60_000, 0)];
        assert_eq!(missed(&grown), ["CPU time per node, 10000 nodes / 1000 nodes"]);
    }
}
