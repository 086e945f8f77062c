//! The result as tables: for the terminal, and for the page in `docs/`.

use super::fleet::Fleet;
use crate::bench::limits::Verdict;
use crate::bench::page;
use crate::table::{Align, Table};

/// The command that makes the page; it stands on the page.
const COMMAND: &str = "cargo xtask bench rollout --write";

/// What each fleet cost.
pub fn costs(fleets: &[Fleet]) -> Table {
    let mut table = Table::new(&[
        ("nodes", Align::Right),
        ("take s", Align::Right),
        ("join s", Align::Right),
        ("CPU s", Align::Right),
        ("roll-out s", Align::Right),
        ("CPU s", Align::Right),
        ("CPU ms per node", Align::Right),
        ("decisions", Align::Right),
        ("biggest pool", Align::Right),
        ("p50 ms", Align::Right),
        ("max ms", Align::Right),
        ("MB before", Align::Right),
        ("MB after", Align::Right),
        ("peak MB", Align::Right),
        ("idle CPU", Align::Right),
        ("idle writes", Align::Right),
    ]);
    let megabytes = |bytes: u64| format!("{:.0}", bytes as f64 / 1e6);
    for fleet in fleets {
        let decisions = &fleet.decisions;
        table.row([
            fleet.nodes.to_string(),
            format!("{}", fleet.takes_ms as f64 / 1e3),
            format!("{:.1}", fleet.filled.wall_ms as f64 / 1e3),
            format!("{:.1}", fleet.filled.cpu_ms as f64 / 1e3),
            format!("{:.1}", fleet.wall_ms as f64 / 1e3),
            format!("{:.1}", fleet.cpu_ms as f64 / 1e3),
            format!("{:.2}", fleet.cpu_ms_per_node()),
            decisions.count.to_string(),
            decisions.biggest_pool.to_string(),
            format!("{:.1}", decisions.p50_micros as f64 / 1e3),
            format!("{:.1}", decisions.max_micros as f64 / 1e3),
            megabytes(fleet.filled.resident_bytes),
            megabytes(fleet.resident_bytes),
            megabytes(fleet.peak_bytes),
            format!("{:.2} %", fleet.idle_cores() * 100.0),
            fleet.idle.writes.to_string(),
        ]);
    }
    table
}

/// What was written for each node, by the plane and by the node itself.
pub fn writes(fleets: &[Fleet]) -> Table {
    let mut table = Table::new(&[
        ("nodes", Align::Right),
        ("take s", Align::Right),
        ("Node", Align::Right),
        ("MachineConfigNode", Align::Right),
        ("its status", Align::Right),
        ("all else", Align::Right),
        ("plane", Align::Right),
        ("of these refused", Align::Right),
        ("node itself", Align::Right),
    ]);
    for fleet in fleets {
        let sum = |is: &dyn Fn(&str) -> bool| -> u64 {
            fleet.plane_writes.iter().filter(|(what, _)| is(what)).map(|(_, count)| count).sum()
        };
        let per_node = |count: u64| format!("{:.2}", count as f64 / fleet.nodes as f64);
        let own = ["PATCH nodes", "PATCH machineconfignodes", "PATCH machineconfignodes/status"];
        let mut cells = vec![fleet.nodes.to_string(), format!("{}", fleet.takes_ms as f64 / 1e3)];
        cells.extend(own.map(|own| per_node(sum(&|what| what == own))));
        cells.extend([
            per_node(sum(&|what| !own.contains(&what))),
            format!("{:.2}", fleet.plane_writes_per_node()),
            sum(&|what| what.ends_with("refused")).to_string(),
            format!("{:.2}", fleet.machine_writes_per_node()),
        ]);
        table.row(cells);
    }
    table
}

/// The whole page.
pub fn markdown(fleets: &[Fleet], judged: &[Verdict], machine: &str, compiler: &str) -> String {
    let kilobytes = fleets.iter().map(|fleet| fleet.node_bytes).max().unwrap_or(0) as f64 / 1e3;
    format!(
        "\
# Roll-out performance

Made by `{COMMAND}`, which measures, judges and writes this page; do not edit it by hand.

Machine: {machine} Release build with rustc {compiler}.

- Each fleet is one process of its own: the embedded API server in memory, all controllers, and nodes that follow their
  orders. There are four pools, with 50, 25, 15 and 10 % of the nodes and a `maxUnavailable` of 10 % each. A node is
  {kilobytes:.1} KB as the server stores it.
- Two MachineConfigs are created, so that all four pools get a new target. *roll-out* ends when the last pool says that all its nodes
  run it. *CPU* is the time of all threads until nothing is written any more: server, controllers, and the nodes' own
  requests. All nodes are one task, which has no typed client, so that their share is the server's work for them.
- *join* is the time from the first node that is added until each is counted and has its MachineConfigNode.
- *take* is how long a node needs from its order to its end. Nodes that take no time say one thing (done), the others
  two (working, done).
- *decisions* are all those of the roll-out; *p50* and *max* are of those about the biggest pool, from looking into the
  caches, with all nodes of the cluster in them, to the list of changes.
- Memory is what is resident, in millions of bytes: before the roll-out, after it, and at its peak since the start.
- *idle* is the time after the roll-out, without any change: the part of one core that is used, and the writes.

## Costs

{}
## Writes

For each node; *all else* is the pools' share, events and rendering. *refused* are counted once each: a conflict is met by
deciding again.

{}
## Targets

{}",
        costs(fleets).markdown(),
        writes(fleets).markdown(),
        page::verdicts(judged).markdown()
    )
}
