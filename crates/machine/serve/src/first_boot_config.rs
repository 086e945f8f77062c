//! First-boot config: which of a pool's rendered MachineConfigs new machines get.

use seaworthy_api::machineconfiguration::MachineConfigPool;

/// The name of the rendered MachineConfig for new machines of a pool; `None` while it has none.
///
/// The newest one as soon as one machine runs it, and before that the last one that the whole pool has reached: a config is
/// not tried first on a new machine, nor does a new machine get one that others have already left.
///
/// Differs: upstream uses the count as it is. A count that is older than the pool's newest configuration is of machines
/// with the one before, and proves nothing.
pub fn config_name(pool: &MachineConfigPool) -> Option<&str> {
    let status = pool.status.as_ref();
    let observed = status.and_then(|status| status.observed_generation);
    let is_current = observed.is_none_or(|observed| Some(observed) == pool.metadata.generation);
    let count = status.and_then(|status| status.updated_machine_count);
    let is_proven = is_current && count.is_some_and(|count| count > 0);
    let configuration = match is_proven {
        true => pool.spec.configuration.as_ref(),
        false => status.and_then(|status| status.configuration.as_ref()),
    };
    configuration?.name.as_deref().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pool(status: Value) -> MachineConfigPool {
        let object = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "MachineConfigPool",
            "metadata": {"name": "worker", "generation": 7},
            "spec": {"configuration": {"name": "new"}},
            "status": status,
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn count_of_machines_with_the_former_configuration_proves_nothing() {
        let of = |observed: Value| {
            pool(json!({"configuration": {"name": "old"}, "updatedMachineCount": 3, "observedGeneration": observed}))
        };
        assert_eq!(config_name(&of(json!(6))), Some("old"));
        assert_eq!(config_name(&of(json!(7))), Some("new"));
        assert_eq!(
            config_name(&of(Value::Null)),
            Some("new"),
            "a status without a generation is current, as it is upstream"
        );
        assert_eq!(config_name(&pool(json!({"updatedMachineCount": 3, "observedGeneration": 6}))), None);
    }
}
