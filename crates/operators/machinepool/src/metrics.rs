//! Metrics of pools and of the connections to workload clusters.
//!
//! Differs: these are the controller's own, because upstream has only those that kube-state-metrics reads from the objects.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use seaworthy_runtime::{Key, MetricSet};

/// Bucket bounds of the time until a pool is Running, in seconds: from a change of the replicas of a pool whose machines are
/// there, to machines that take an hour.
const RUNNING_BUCKETS: [f64; 10] = [1.0, 5.0, 15.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 2400.0, 3600.0];

/// A pool.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PoolLabels {
    pub namespace: String,
    pub pool: String,
}

impl PoolLabels {
    pub fn of(key: &Key) -> PoolLabels {
        PoolLabels { namespace: key.namespace.clone(), pool: key.name.clone() }
    }
}

/// A workload cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ClusterLabels {
    pub namespace: String,
    pub cluster: String,
}

impl ClusterLabels {
    pub fn of(key: &Key) -> ClusterLabels {
        ClusterLabels { namespace: key.namespace.clone(), cluster: key.name.clone() }
    }
}

/// The metrics of the operator.
pub struct MachinePoolMetrics {
    pub seconds_to_running: Histogram,
    pub missing_nodes: Family<PoolLabels, Gauge>,
    pub retired_nodes: Counter,
    pub cluster_connected: Family<ClusterLabels, Gauge>,
}

impl MetricSet for MachinePoolMetrics {
    fn register(registry: &mut Registry) -> Self {
        let metrics = MachinePoolMetrics {
            seconds_to_running: Histogram::new(RUNNING_BUCKETS),
            missing_nodes: Family::default(),
            retired_nodes: Counter::default(),
            cluster_connected: Family::default(),
        };
        registry.register(
            "seaworthy_machinepool_running_seconds",
            "Time until a pool is Running: since its creation, or since it was Running last",
            metrics.seconds_to_running.clone(),
        );
        registry.register(
            "seaworthy_machinepool_missing_nodes",
            "Machines of the pool that have no Node",
            metrics.missing_nodes.clone(),
        );
        registry.register(
            "seaworthy_machinepool_retired_nodes",
            "Nodes that were deleted because their machine or their pool is gone",
            metrics.retired_nodes.clone(),
        );
        registry.register(
            "seaworthy_machinepool_cluster_connected",
            "Whether the workload cluster is connected: 1 if its Nodes are watched, otherwise 0",
            metrics.cluster_connected.clone(),
        );
        metrics
    }
}

impl MachinePoolMetrics {
    /// Removes every value of a pool or a cluster: an operator that is stopped knows nothing of them.
    pub fn clear(&self) {
        self.missing_nodes.clear();
        self.cluster_connected.clear();
    }
}
