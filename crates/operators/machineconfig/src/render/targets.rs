//! What pools should target, as the render controller has it, for those who give orders in the same process.
//!
//! A pool's target stands in its spec, where anybody may write. What somebody else has written there is put back at once, and
//! until then no node is sent anywhere for it: it would boot for nothing, and once more to come back.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::ResourceExt as _;
use seaworthy_api::machineconfiguration::MachineConfigPool;

use seaworthy_plan::rendering::targeted;

/// What pools should target, by their names. Cloning shares it.
#[derive(Clone, Default)]
pub struct Targets(Arc<Mutex<BTreeMap<String, String>>>);

impl Targets {
    /// The pool should target this rendered MachineConfig.
    pub fn want(&self, pool: &str, config: &str) {
        self.known().insert(pool.to_owned(), config.to_owned());
    }

    /// Nobody knows what the pool should target: what stands there counts.
    pub fn forget(&self, pool: &str) {
        self.known().remove(pool);
    }

    /// Whether the pool targets what it should, as far as anybody knows. Nobody does where rendering is somebody else's work.
    pub fn agree(&self, pool: &MachineConfigPool) -> bool {
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
    fn what_somebody_else_has_written_is_no_target_as_long_as_it_is_known_what_is() {
        let pool = |config: &str| -> MachineConfigPool {
            serde_json::from_value(
                json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
                "metadata": {"name": "worker"}, "spec": {"configuration": {"name": config}}}),
            )
            .unwrap()
        };
        let targets = Targets::default();
        assert!(targets.agree(&pool("a")));
        targets.want("worker", "b");
        assert!(!targets.agree(&pool("a")) && targets.agree(&pool("b")));
        targets.forget("worker");
        assert!(targets.agree(&pool("a")));
    }
}
