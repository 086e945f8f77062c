//! Metrics of pools and nodes, under the names that dashboards of the Machine Config Operator know.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use seaworthy_runtime::MetricSet;

/// A pool by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PoolLabel {
    pub pool: String,
}

/// A node by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct NodeLabel {
    pub node: String,
}

/// The state of one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct NodeStateLabels {
    pub node: String,
    pub pool: String,
    pub state: String,
    pub reason: String,
}

/// One number for each pool.
pub type PoolGauges = Family<PoolLabel, Gauge>;

/// The metrics of the operator.
pub struct PoolMetrics {
    /// Nodes that match a custom pool besides the master pool.
    pub pool_alert: Family<NodeLabel, Gauge>,
    /// Pools whose image was overridden by a MachineConfig.
    pub image_override: PoolGauges,
    pub machines: PoolGauges,
    /// Nodes that run the pool's target.
    pub updated: PoolGauges,
    pub degraded: PoolGauges,
    pub unavailable: PoolGauges,
    pub node_state: Family<NodeStateLabels, Gauge>,
    /// Nodes whose drain fails.
    pub drain_error: Family<NodeLabel, Gauge>,
}

impl MetricSet for PoolMetrics {
    fn register(registry: &mut Registry) -> Self {
        macro_rules! family {
            ($name:literal, $help:literal) => {{
                let family = Family::default();
                registry.register($name, $help, family.clone());
                family
            }};
        }
        PoolMetrics {
            pool_alert: family!("mcc_pool_alert", "Nodes in the master and in a custom pool"),
            image_override: family!("os_image_url_override", "Pools whose image a MachineConfig overrides"),
            machines: family!("mco_machine_count", "Nodes of the pool"),
            updated: family!("mco_updated_machine_count", "Nodes that run the pool's target"),
            degraded: family!("mco_degraded_machine_count", "Nodes that have failed"),
            unavailable: family!("mco_unavailable_machine_count", "Nodes that are unavailable"),
            node_state: family!("mco_state", "State of each node"),
            drain_error: family!("mcc_drain_err", "Nodes whose drain fails"),
        }
    }
}

impl PoolMetrics {
    /// Removes every value: an operator that is stopped knows nothing of its pools.
    pub fn clear(&self) {
        for family in [&self.image_override, &self.machines, &self.updated, &self.degraded, &self.unavailable] {
            family.clear();
        }
        self.pool_alert.clear();
        self.node_state.clear();
        self.drain_error.clear();
    }
}
