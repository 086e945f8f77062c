//! Which of a pool's configurations new machines get.

use seaworthy_api::machineconfiguration::MachineConfigPool;

/// The name of the rendered MachineConfig for new machines of a pool; `None` while it has none.
///
/// The newest one as soon as one machine has proven it, and before that the last one that the whole pool has reached: a
/// new machine is no place to try something out, nor is it tied to what others have left behind.
///
/// Differs: upstream believes the count as it stands. A count that is older than the pool's newest configuration is of
/// machines with the one before, and proves nothing.
pub fn chosen(pool: &MachineConfigPool) -> Option<&str> {
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
        assert_eq!(chosen(&of(json!(6))), Some("old"));
        assert_eq!(chosen(&of(json!(7))), Some("new"));
        assert_eq!(chosen(&of(Value::Null)), Some("new"), "whoever does not say it is believed, as upstream does");
        assert_eq!(chosen(&pool(json!({"updatedMachineCount": 3, "observedGeneration": 6}))), None);
    }
}
