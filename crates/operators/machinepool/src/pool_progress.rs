//! Pool progress: since when each pool is not Running, to measure how long it takes.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use seaworthy_api::cluster::v1beta2::MachinePool;
use seaworthy_api::vocabulary::cluster::MachinePoolPhase;
use seaworthy_runtime::Key;

/// The pools that are not Running. A process that takes over measures from then on, but for pools without a status.
#[derive(Debug, Default)]
pub struct PoolProgress(Mutex<HashMap<Key, Timestamp>>);

impl PoolProgress {
    /// Takes in the phase of a pool. Returns how many seconds it was not Running, if that is over.
    pub fn observe(&self, key: &Key, pool: &MachinePool, phase: MachinePoolPhase, now: Timestamp) -> Option<f64> {
        let mut since = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if phase == MachinePoolPhase::Running {
            let begin = since.remove(key)?;
            return Some(now.duration_since(begin).as_secs_f64().max(0.0));
        }
        let created = pool.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let begin = created.filter(|_| pool.status.is_none()).unwrap_or(now);
        since.entry(key.clone()).or_insert(begin);
        None
    }

    /// The pool is gone.
    pub fn forget(&self, key: &Key) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn time_to_running_counts_from_the_creation_and_from_the_last_time() {
        let progress = PoolProgress::default();
        let key = Key { namespace: "a".to_owned(), name: "p".to_owned() };
        let pool: MachinePool = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "a", "creationTimestamp": "1970-01-01T00:00:10Z"},
            "spec": {"clusterName": "c", "template": {"spec": {
                "clusterName": "c", "bootstrap": {}, "infrastructureRef": {"apiGroup": "g", "kind": "K", "name": "n"},
            }}},
        }))
        .unwrap();
        let observe = |phase, second| progress.observe(&key, &pool, phase, Timestamp::from_second(second).unwrap());
        assert_eq!(observe(MachinePoolPhase::Pending, 12), None);
        assert_eq!(observe(MachinePoolPhase::ScalingUp, 20), None);
        assert_eq!(observe(MachinePoolPhase::Running, 40), Some(30.0));
        assert_eq!(observe(MachinePoolPhase::Running, 50), None);
    }
}
