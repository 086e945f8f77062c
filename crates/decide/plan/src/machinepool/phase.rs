//! Phase: how far a pool is, from the four facts that decide it.

use seaworthy_api::cluster::v1beta2::{MachinePool, MachinePoolStatus};
use seaworthy_api::vocabulary::cluster::{MachinePoolPhase, annotation};
use seaworthy_api::words::Open;

/// The replicas of a pool that does not say how many: one.
///
/// Differs: upstream leaves the phase of such a pool as it is, although its own default is one.
pub fn desired_replicas(pool: &MachinePool) -> i32 {
    pool.spec.replicas.unwrap_or(1)
}

/// Whether something else sets the pool's replicas.
pub fn is_autoscaled(pool: &MachinePool) -> bool {
    annotation::REPLICAS_MANAGED_BY.of(&pool.metadata).is_some_and(|by| by != "false")
}

/// The phase of a pool with this status; what it was stays where nothing decides it.
///
/// Compat: later rows win, as upstream's do, so that `Provisioned` is seen only while the provider is not ready.
pub fn next(pool: &MachinePool, status: &MachinePoolStatus) -> Open<MachinePoolPhase> {
    if pool.metadata.deletion_timestamp.is_some() {
        return MachinePoolPhase::Deleting.into();
    }
    let initialization = status.initialization.as_ref();
    let is_provisioned = initialization.and_then(|found| found.infrastructure_provisioned).unwrap_or_default();
    let has_bootstrap = initialization.and_then(|found| found.bootstrap_data_secret_created).unwrap_or_default();
    let old = status.deprecated.as_ref().and_then(|deprecated| deprecated.v1beta1.as_ref());
    let ready = old.and_then(|old| old.ready_replicas).unwrap_or_default();
    let desired = desired_replicas(pool);
    let has_nodes = status.node_refs.as_ref().is_some_and(|refs| !refs.is_empty());
    if is_provisioned {
        let phase = match (is_autoscaled(pool), desired.cmp(&ready)) {
            (_, std::cmp::Ordering::Equal) => MachinePoolPhase::Running,
            (true, _) => MachinePoolPhase::Scaling,
            (false, std::cmp::Ordering::Greater) => MachinePoolPhase::ScalingUp,
            (false, std::cmp::Ordering::Less) => MachinePoolPhase::ScalingDown,
        };
        return phase.into();
    }
    if has_nodes {
        return MachinePoolPhase::Provisioned.into();
    }
    if has_bootstrap {
        return MachinePoolPhase::Provisioning.into();
    }
    let found = status.phase.clone().filter(|phase| !phase.as_str().is_empty());
    found.unwrap_or(Open::Known(MachinePoolPhase::Pending))
}
