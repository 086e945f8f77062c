//! Gauges: metrics of pools and nodes, removed when the pool or the node is deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use seaworthy_api::machineconfiguration::MachineConfigPoolStatus;
use seaworthy_plan::fleet::NodeView;

use crate::metrics::{NodeLabel, NodeStateLabels, PoolGauges, PoolLabel, PoolMetrics};

/// Sets the gauges of pools and nodes, and removes those of deleted ones.
pub struct Gauges {
    metrics: Arc<PoolMetrics>,
    shown: Mutex<Shown>,
}

#[derive(Default)]
struct Shown {
    /// The labels of each pool's nodes.
    states: BTreeMap<String, BTreeMap<String, NodeStateLabels>>,
    alerts: BTreeSet<String>,
}

impl Gauges {
    pub fn new(metrics: Arc<PoolMetrics>) -> Gauges {
        Gauges { metrics, shown: Mutex::default() }
    }

    /// Sets the gauges of a pool and all of its nodes, and removes those of nodes that have left it.
    pub fn set(&self, pool: &str, nodes: &[&NodeView<'_>], status: Option<&MachineConfigPoolStatus>) {
        let Some(status) = status else { return };
        let metrics = &self.metrics;
        let label = PoolLabel { pool: pool.to_owned() };
        let set = |family: &PoolGauges, count: Option<i32>| {
            family.get_or_create(&label).set(i64::from(count.unwrap_or_default()));
        };
        set(&metrics.machines, status.machine_count);
        set(&metrics.updated, status.updated_machine_count);
        set(&metrics.degraded, status.degraded_machine_count);
        set(&metrics.unavailable, status.unavailable_machine_count);
        let mut shown = self.shown();
        let states = shown.states.entry(pool.to_owned()).or_default();
        for node in nodes {
            let labels = NodeStateLabels {
                node: node.name.to_owned(),
                pool: pool.to_owned(),
                state: node.state.map(|state| state.as_str()).unwrap_or_default().to_owned(),
                reason: node.reason.to_owned(),
            };
            if states.get(node.name) == Some(&labels) {
                continue;
            }
            metrics.node_state.get_or_create(&labels).set(1);
            if let Some(old) = states.insert(node.name.to_owned(), labels) {
                metrics.node_state.remove(&old);
            }
        }
        if states.len() > nodes.len() {
            let here: BTreeSet<&str> = nodes.iter().map(|node| node.name).collect();
            for (_, gone) in states.extract_if(.., |node, _| !here.contains(node.as_str())) {
                metrics.node_state.remove(&gone);
            }
        }
    }

    /// Removes the gauges of a pool and of its nodes.
    pub fn remove_pool(&self, pool: &str) {
        let metrics = &self.metrics;
        let label = PoolLabel { pool: pool.to_owned() };
        for family in [&metrics.machines, &metrics.updated, &metrics.degraded, &metrics.unavailable] {
            family.remove(&label);
        }
        for gone in self.shown().states.remove(pool).into_iter().flatten() {
            metrics.node_state.remove(&gone.1);
        }
    }

    /// Sets the alert for these nodes and no others: a custom pool selects them without effect.
    pub fn set_alerts(&self, nodes: BTreeSet<String>) {
        let mut shown = self.shown();
        for node in shown.alerts.difference(&nodes) {
            self.metrics.pool_alert.remove(&NodeLabel { node: node.clone() });
        }
        for node in &nodes {
            self.metrics.pool_alert.get_or_create(&NodeLabel { node: node.clone() }).set(1);
        }
        shown.alerts = nodes;
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use seaworthy_runtime::Metrics;
    use serde_json::json;

    use super::*;

    fn count(gauges: &Gauges, pool: &str, nodes: &[(&str, &str)]) {
        let nodes: Vec<Node> = nodes
            .iter()
            .map(|(name, state)| {
                let annotations = json!({"machineconfiguration.openshift.io/state": state});
                serde_json::from_value(json!({"metadata": {"name": name, "annotations": annotations}})).unwrap()
            })
            .collect();
        let views: Vec<NodeView<'_>> = nodes.iter().map(|node| NodeView::of(node, None)).collect();
        let count = i32::try_from(nodes.len()).ok();
        let status = MachineConfigPoolStatus { machine_count: count, ..MachineConfigPoolStatus::default() };
        gauges.set(pool, &views.iter().collect::<Vec<_>>(), Some(&status));
    }

    /// The lines of a metric, without its name.
    fn shown(metrics: &Metrics, name: &str) -> Vec<String> {
        let page = metrics.encode().unwrap();
        let mut lines: Vec<String> =
            page.lines().filter_map(|line| line.strip_prefix(name)).map(str::to_owned).collect();
        lines.sort();
        lines
    }

    fn state(node: &str, pool: &str, state: &str) -> String {
        format!("{{node=\"{node}\",pool=\"{pool}\",state=\"{state}\",reason=\"\"}} 1")
    }

    #[test]
    fn gauges_of_deleted_nodes_and_pools_are_removed() {
        let metrics = Metrics::default();
        let gauges = Gauges::new(metrics.set());
        count(&gauges, "worker", &[("w0", "Done"), ("w1", "Working")]);
        count(&gauges, "infra", &[("i0", "Done")]);
        let shown_states = || shown(&metrics, "mco_state");
        assert_eq!(
            shown_states(),
            [state("i0", "infra", "Done"), state("w0", "worker", "Done"), state("w1", "worker", "Working")]
        );
        // One has changed its state, one its pool, one is deleted.
        count(&gauges, "worker", &[("w1", "Done")]);
        count(&gauges, "infra", &[("w0", "Done")]);
        assert_eq!(shown_states(), [state("w0", "infra", "Done"), state("w1", "worker", "Done")]);
        assert_eq!(shown(&metrics, "mco_machine_count{"), ["pool=\"infra\"} 1", "pool=\"worker\"} 1"]);
        gauges.remove_pool("infra");
        assert_eq!(shown_states(), [state("w1", "worker", "Done")]);
        assert_eq!(shown(&metrics, "mco_machine_count{"), ["pool=\"worker\"} 1"]);
    }

    #[test]
    fn alert_ends_with_its_cause() {
        let metrics = Metrics::default();
        let gauges = Gauges::new(metrics.set());
        gauges.set_alerts(["m0", "m1"].map(str::to_owned).into());
        gauges.set_alerts(["m1"].map(str::to_owned).into());
        assert_eq!(shown(&metrics, "mcc_pool_alert{"), ["node=\"m1\"} 1"]);
        gauges.set_alerts(BTreeSet::new());
        assert_eq!(shown(&metrics, "mcc_pool_alert{"), [""; 0]);
    }
}
