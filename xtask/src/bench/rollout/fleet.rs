//! Fleet report: measurements of one fleet, as its process prints them.

use std::collections::BTreeMap;

use serde::Deserialize;

/// One fleet and one roll-out.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FleetReport {
    pub nodes: u64,
    /// How long a node takes to carry out an order.
    pub takes_ms: u64,
    /// A node as the server stores it.
    pub node_bytes: u64,
    /// The nodes joining.
    pub filled: Filled,
    /// From the change to the last pool that says it is updated.
    pub wall_ms: u64,
    /// From the change until nothing is written any more.
    pub cpu_ms: u64,
    /// What the plane wrote for the roll-out, by what it wrote to.
    pub plane_writes: BTreeMap<String, u64>,
    /// What the nodes wrote.
    pub machine_writes: BTreeMap<String, u64>,
    /// How long decisions took.
    pub decisions: Decisions,
    /// The most memory that the process ever had.
    pub peak_bytes: u64,
    /// Its memory at the end.
    pub resident_bytes: u64,
    /// A while without any change.
    pub idle: Idle,
}

/// The nodes joining, until each is counted and has its MachineConfigNode.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Filled {
    /// Time.
    pub wall_ms: u64,
    /// CPU time.
    pub cpu_ms: u64,
    /// Memory then.
    pub resident_bytes: u64,
}

/// How long decisions took.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decisions {
    /// All of them.
    pub count: u64,
    /// The nodes of the biggest pool; the times are of decisions about it.
    pub biggest_pool: u64,
    /// Half of them took no longer.
    pub p50_micros: u64,
    /// None took longer.
    pub max_micros: u64,
}

/// A while without any change.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Idle {
    /// How long.
    pub wall_ms: u64,
    /// CPU time.
    pub cpu_ms: u64,
    /// What the plane wrote.
    pub writes: u64,
}

impl FleetReport {
    pub fn name(&self) -> String {
        match self.takes_ms {
            0 => format!("{} nodes", self.nodes),
            takes => format!("{} nodes that take {} s", self.nodes, takes as f64 / 1e3),
        }
    }

    /// Writes of the plane for each node.
    pub fn plane_writes_per_node(&self) -> f64 {
        self.plane_writes.values().sum::<u64>() as f64 / self.nodes as f64
    }

    /// Writes of the node itself.
    pub fn machine_writes_per_node(&self) -> f64 {
        self.machine_writes.values().sum::<u64>() as f64 / self.nodes as f64
    }

    /// CPU time of the roll-out for each node, in milliseconds.
    pub fn cpu_ms_per_node(&self) -> f64 {
        self.cpu_ms as f64 / self.nodes as f64
    }

    /// The part of one core that an idle fleet takes.
    pub fn idle_cores(&self) -> f64 {
        self.idle.cpu_ms as f64 / self.idle.wall_ms as f64
    }
}
