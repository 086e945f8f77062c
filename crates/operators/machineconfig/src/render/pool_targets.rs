//! Pool targets: the targets that the render controller has set, for the roll-out controller of the same process.
//!
//! A pool's target is in its spec, which other clients can edit. The render controller reverts such edits at once; until then
//! no node is ordered to the edited target, since it would reboot twice for nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::ResourceExt as _;
use seaworthy_api::machineconfiguration::MachineConfigPool;

use seaworthy_plan::rendering::targeted;

/// The targets of pools, by pool. Cloning shares them.
#[derive(Clone, Default)]
pub struct PoolTargets(Arc<Mutex<BTreeMap<String, String>>>);

impl PoolTargets {
    pub fn set(&self, pool: &str, config: &str) {
        self.known().insert(pool.to_owned(), config.to_owned());
    }

    /// The target is not known any more: the one in the pool's spec counts.
    pub fn forget(&self, pool: &str) {
        self.known().remove(pool);
    }

    /// Whether the pool has the target that was set. Also if none is known, as in a process without the render controller.
    pub fn matches(&self, pool: &MachineConfigPool) -> bool {
        self.known().get(&pool.name_any()).is_none_or(|wanted| targeted(pool) == Some(wanted.as_str()))
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn edited_target_does_not_match_while_the_right_one_is_known() {
        let pool = |config: &str| -> MachineConfigPool {
            serde_json::from_value(
                json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
                "metadata": {"name": "worker"}, "spec": {"configuration": {"name": config}}}),
            )
            .unwrap()
        };
        let targets = PoolTargets::default();
        assert!(targets.matches(&pool("a")));
        targets.set("worker", "b");
        assert!(!targets.matches(&pool("a")) && targets.matches(&pool("b")));
        targets.forget("worker");
        assert!(targets.matches(&pool("a")));
    }
}
