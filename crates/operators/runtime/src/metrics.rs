//! What is counted, for Prometheus: the names that upstream's dashboards know, and the loop's own.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::worker::Observer;

/// Upper bounds of the time that one look takes, in seconds: from the smallest pool to an API server that hangs.
const SECONDS: [f64; 9] = [0.0005, 0.002, 0.01, 0.05, 0.2, 1.0, 5.0, 20.0, 60.0];

/// A pool by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PoolLabel {
    /// The pool.
    pub pool: String,
}

/// A node by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct NodeLabel {
    /// The node.
    pub node: String,
}

/// How one node is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct NodeStateLabels {
    /// The node.
    pub node: String,
    /// Its pool.
    pub pool: String,
    /// Its state.
    pub state: String,
    /// The reason that goes with the state.
    pub reason: String,
}

/// One look of one controller.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct LookLabels {
    /// The controller.
    pub controller: &'static str,
    /// `ok` or the category of the error.
    pub outcome: &'static str,
}

/// One write of one controller.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct WriteLabels {
    /// The controller.
    pub controller: &'static str,
    /// The kind that was written.
    pub kind: String,
    /// How: `apply`, `patch`, `delete`, `evict`.
    pub verb: &'static str,
    /// `ok`, or the category of the error.
    pub outcome: &'static str,
}

/// A controller by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ControllerLabel {
    /// The controller.
    pub controller: &'static str,
}

/// One number for each pool.
pub type PoolGauges = Family<PoolLabel, Gauge>;

/// All that is counted by one process.
pub struct Metrics {
    registry: Registry,
    /// Nodes that match a custom pool besides the master pool.
    pub pool_alert: Family<NodeLabel, Gauge>,
    /// Pools whose image was overridden by a MachineConfig.
    pub image_override: PoolGauges,
    /// Nodes of a pool.
    pub machines: PoolGauges,
    /// Nodes of a pool that run its target.
    pub updated: PoolGauges,
    /// Nodes of a pool that have failed.
    pub degraded: PoolGauges,
    /// Nodes of a pool that are unavailable.
    pub unavailable: PoolGauges,
    /// The state of every node.
    pub node_state: Family<NodeStateLabels, Gauge>,
    /// Nodes whose drain fails.
    pub drain_error: Family<NodeLabel, Gauge>,
    looks: Family<LookLabels, Counter>,
    seconds: Family<ControllerLabel, Histogram>,
    writes: Family<WriteLabels, Counter<u64, AtomicU64>>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        macro_rules! family {
            ($name:literal, $help:literal, $family:expr) => {{
                let family = $family;
                registry.register($name, $help, family.clone());
                family
            }};
        }
        let pool_alert = family!("mcc_pool_alert", "Nodes in the master and in a custom pool", Family::default());
        let image_override =
            family!("os_image_url_override", "Pools whose image a MachineConfig overrides", Family::default());
        let machines = family!("mco_machine_count", "Nodes of the pool", Family::default());
        let updated = family!("mco_updated_machine_count", "Nodes that run the pool's target", Family::default());
        let degraded = family!("mco_degraded_machine_count", "Nodes that have failed", Family::default());
        let unavailable = family!("mco_unavailable_machine_count", "Nodes that are unavailable", Family::default());
        let node_state = family!("mco_state", "State of each node", Family::default());
        let drain_error = family!("mcc_drain_err", "Nodes whose drain fails", Family::default());
        let looks = family!("seaworthy_reconciles", "Looks of each controller by outcome", Family::default());
        let seconds = family!(
            "seaworthy_reconcile_seconds",
            "Time that one look takes",
            Family::<_, _, fn() -> Histogram>::new_with_constructor(|| Histogram::new(SECONDS))
        );
        let writes = family!("seaworthy_writes", "Writes of each controller by kind and outcome", Family::default());
        Metrics {
            registry,
            pool_alert,
            image_override,
            machines,
            updated,
            degraded,
            unavailable,
            node_state,
            drain_error,
            looks,
            seconds,
            writes,
        }
    }
}

impl Metrics {
    /// A write was made or refused.
    pub fn wrote(&self, labels: WriteLabels) {
        self.writes.get_or_create(&labels).inc();
    }

    /// All numbers in Prometheus' text format.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut page = String::new();
        text::encode(&mut page, &self.registry)?;
        Ok(page)
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Metrics")
    }
}

impl Observer for Metrics {
    fn looked(&self, controller: &'static str, outcome: &'static str, took: Duration) {
        self.looks.get_or_create(&LookLabels { controller, outcome }).inc();
        self.seconds.get_or_create(&ControllerLabel { controller }).observe(took.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_names_what_was_counted() {
        let metrics = Metrics::default();
        metrics.looked("render", "ok", Duration::from_millis(3));
        metrics.updated.get_or_create(&PoolLabel { pool: "worker".to_owned() }).set(4);
        let page = metrics.encode().unwrap();
        assert!(page.contains("seaworthy_reconciles_total{controller=\"render\",outcome=\"ok\"} 1\n"), "{page}");
        assert!(page.contains("mco_updated_machine_count{pool=\"worker\"} 4\n"), "{page}");
        assert!(page.contains("seaworthy_reconcile_seconds_bucket{le=\"0.01\",controller=\"render\"} 1\n"), "{page}");
    }
}
