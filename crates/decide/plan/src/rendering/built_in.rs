//! Built-in pools: `master` and `worker`, which a cluster with a ControllerConfig always has.

use std::sync::Arc;

use seaworthy_api::machineconfiguration::{ControllerConfig, MachineConfigPool};
use seaworthy_api::vocabulary::seaworthy::BUILT_IN;
use seaworthy_generate::base::ROLES;

use super::name_of;

/// A built-in pool that is about to be created again; `None` where there is none. Before the base was generated for the
/// first time there are no built-in pools to wait for.
pub fn missing_pool(
    controller_config: Option<&ControllerConfig>,
    pools: &[Arc<MachineConfigPool>],
) -> Option<&'static str> {
    controller_config.filter(|found| found.metadata.deletion_timestamp.is_none() && found.status.is_some())?;
    ROLES.into_iter().find(|role| !pools.iter().any(|pool| name_of(&pool.metadata) == *role && !is_held(pool)))
}

/// Whether a pool is built in and exists: those who wait for a missing one look again when this changes.
pub fn is_present(pool: &MachineConfigPool) -> bool {
    ROLES.contains(&name_of(&pool.metadata)) && !is_held(pool)
}

/// Whether a pool was deleted and is held by our finalizer until what it had is saved.
pub fn is_held(pool: &MachineConfigPool) -> bool {
    pool.metadata.deletion_timestamp.is_some() && BUILT_IN.is_on(&pool.metadata)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pool(name: &str, metadata: Value) -> Arc<MachineConfigPool> {
        let mut pool: MachineConfigPool = serde_json::from_value(json!({"metadata": metadata, "spec": {}})).unwrap();
        pool.metadata.name = Some(name.to_owned());
        Arc::new(pool)
    }

    fn deleted(finalizer: &str) -> Value {
        json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [finalizer]})
    }

    #[test]
    fn pool_that_is_created_again_is_missing_and_where_there_is_no_base_none_is() {
        let generated = ControllerConfig { status: Some(Default::default()), ..ControllerConfig::default() };
        let (master, worker) = (pool("master", json!({})), pool("worker", json!({})));
        let both = [Arc::clone(&master), worker];
        assert_eq!(missing_pool(Some(&generated), &both), None);
        assert_eq!(missing_pool(Some(&generated), &both[..1]), Some("worker"));
        let held = pool("worker", deleted(BUILT_IN.as_str()));
        assert_eq!(missing_pool(Some(&generated), &[master, held]), Some("worker"));
        assert_eq!(missing_pool(Some(&ControllerConfig::default()), &[]), None, "the base was never generated");
        assert_eq!(missing_pool(None, &[]), None);
    }

    #[test]
    fn pool_that_only_others_hold_is_not_missing() {
        assert!(is_present(&pool("worker", json!({}))));
        assert!(!is_present(&pool("worker", deleted(BUILT_IN.as_str()))));
        assert!(is_present(&pool("worker", deleted("example.com/theirs"))));
        assert!(!is_present(&pool("infra", json!({}))), "no controller waits for it");
    }
}
