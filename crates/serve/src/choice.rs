//! Which of a pool's configurations new machines get.

use seaworthy_api::machineconfiguration::MachineConfigPool;

/// The name of the rendered MachineConfig for new machines of a pool; `None` while it has none.
///
/// The newest one as soon as one machine has proven it, and before that the last one that the whole pool has reached: a
/// new machine is no place to try something out, nor is it tied to what others have left behind.
pub fn chosen(pool: &MachineConfigPool) -> Option<&str> {
    let status = pool.status.as_ref();
    let is_proven = status.and_then(|status| status.updated_machine_count).is_some_and(|count| count > 0);
    let configuration = match is_proven {
        true => pool.spec.configuration.as_ref(),
        false => status.and_then(|status| status.configuration.as_ref()),
    };
    configuration?.name.as_deref().filter(|name| !name.is_empty())
}
