//! Metrics of a process in Prometheus' format: those of the reconcile loop, and a registry for the sets of operators.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::worker::ReconcileObserver;

/// Bucket bounds of the duration of one reconcile, in seconds: from the smallest pool to an API server that hangs.
const DURATION_BUCKETS: [f64; 9] = [0.0005, 0.002, 0.01, 0.05, 0.2, 1.0, 5.0, 20.0, 60.0];

/// An operator by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OperatorLabel {
    pub operator: &'static str,
}

/// One reconcile of one controller.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ReconcileLabels {
    pub controller: &'static str,
    /// `ok` or the category of the error.
    pub outcome: &'static str,
}

/// One write of one controller.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct WriteLabels {
    pub controller: &'static str,
    pub kind: String,
    /// `apply`, `patch`, `delete`, `evict`.
    pub verb: &'static str,
    /// `ok`, or the category of the error.
    pub outcome: &'static str,
}

/// A controller by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ControllerLabel {
    pub controller: &'static str,
}

/// Metrics that belong to one operator.
pub trait MetricSet: Send + Sync + 'static {
    /// Registers the families. Called once per process.
    fn register(registry: &mut Registry) -> Self;
}

/// The metrics of a process: those of every controller, and the sets of its operators.
pub struct Metrics {
    registry: Mutex<Registry>,
    sets: Mutex<BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    /// Whether an operator runs.
    pub operator_available: Family<OperatorLabel, Gauge>,
    reconciles: Family<ReconcileLabels, Counter>,
    seconds: Family<ControllerLabel, Histogram>,
    writes: Family<WriteLabels, Counter<u64, AtomicU64>>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let operator_available = Family::default();
        registry.register(
            "seaworthy_operator_available",
            "Whether the operator runs: 1 if its definitions are served and its caches are filled, otherwise 0",
            operator_available.clone(),
        );
        let reconciles = Family::default();
        registry.register("seaworthy_reconciles", "Reconciles of each controller by outcome", reconciles.clone());
        let seconds = Family::<_, _, fn() -> Histogram>::new_with_constructor(|| Histogram::new(DURATION_BUCKETS));
        registry.register("seaworthy_reconcile_seconds", "Duration of one reconcile", seconds.clone());
        let writes = Family::default();
        registry.register("seaworthy_writes", "Writes of each controller by kind and outcome", writes.clone());
        Metrics {
            registry: Mutex::new(registry),
            sets: Mutex::default(),
            operator_available,
            reconciles,
            seconds,
            writes,
        }
    }
}

impl Metrics {
    /// The metrics of an operator, registered when they are first asked for.
    pub fn set<T: MetricSet>(&self) -> Arc<T> {
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Ok(found)) = sets.get(&TypeId::of::<T>()).map(|found| Arc::clone(found).downcast::<T>()) {
            return found;
        }
        let set = Arc::new(T::register(&mut self.registry.lock().unwrap_or_else(PoisonError::into_inner)));
        sets.insert(TypeId::of::<T>(), Arc::clone(&set) as _);
        set
    }

    /// Counts a write that was made or refused.
    pub fn count_write(&self, labels: WriteLabels) {
        self.writes.get_or_create(&labels).inc();
    }

    /// All metrics in Prometheus' text format.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut page = String::new();
        text::encode(&mut page, &self.registry.lock().unwrap_or_else(PoisonError::into_inner))?;
        Ok(page)
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Metrics")
    }
}

impl ReconcileObserver for Metrics {
    fn reconciled(&self, controller: &'static str, outcome: &'static str, took: Duration) {
        self.reconciles.get_or_create(&ReconcileLabels { controller, outcome }).inc();
        self.seconds.get_or_create(&ControllerLabel { controller }).observe(took.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_names_what_was_counted() {
        let metrics = Metrics::default();
        metrics.reconciled("render", "ok", Duration::from_millis(3));
        let page = metrics.encode().unwrap();
        assert!(page.contains("seaworthy_reconciles_total{controller=\"render\",outcome=\"ok\"} 1\n"), "{page}");
        assert!(page.contains("seaworthy_reconcile_seconds_bucket{le=\"0.01\",controller=\"render\"} 1\n"), "{page}");
    }

    struct Boats(Gauge);

    impl MetricSet for Boats {
        fn register(registry: &mut Registry) -> Self {
            let boats = Gauge::default();
            registry.register("boats", "Boats", boats.clone());
            Boats(boats)
        }
    }

    #[test]
    fn set_of_an_operator_is_registered_once() {
        let metrics = Metrics::default();
        metrics.set::<Boats>().0.set(1);
        metrics.set::<Boats>().0.inc();
        let page = metrics.encode().unwrap();
        assert_eq!(page.lines().filter(|line| line.starts_with("boats")).collect::<Vec<_>>(), ["boats 2"], "{page}");
    }
}
