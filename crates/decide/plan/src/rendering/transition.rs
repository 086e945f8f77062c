//! Transitions between two targets: whether nodes that run the present one can take over the next.

use seaworthy_api::machineconfiguration::MachineConfig;
use seaworthy_api::vocabulary::machineconfiguration::RenderReason;
use seaworthy_ignition::Node;

use super::name_of;
use crate::disruption::reconcilable::{self, ConfigSide, ConfigSource, irreconcilable};
use crate::rendering::condition::RenderFailure;

/// Refuses to return to a rendered MachineConfig that nodes which run the present target could not take over.
///
/// # Errors
///
/// The reason, with every field that cannot change.
pub fn check_return(current: Option<&MachineConfig>, to: &MachineConfig) -> Result<(), RenderFailure> {
    let config = to.spec.config.as_ref().map(Node::from_json);
    let new = ConfigSide { config: config.as_ref(), is_fips: to.spec.fips.unwrap_or_default() };
    check_reconcilable(current, name_of(&to.metadata), new, &[])
}

/// Refuses what nodes that run the present target could not take over.
///
/// # Errors
///
/// The reason, with every field that cannot change and the MachineConfig that sets it.
pub fn check_reconcilable(
    current: Option<&MachineConfig>,
    name: &str,
    new: ConfigSide<'_>,
    sources: &[ConfigSource<'_>],
) -> Result<(), RenderFailure> {
    // Where the targeted one is gone there is nothing to compare with.
    let Some(current) = current.filter(|current| name_of(&current.metadata) != name) else { return Ok(()) };
    let config = current.spec.config.as_ref().map(Node::from_json);
    let old = ConfigSide { config: config.as_ref(), is_fips: current.spec.fips.unwrap_or_default() };
    match irreconcilable(old, new, &[], sources).as_slice() {
        [] => Ok(()),
        found => {
            let message = reconcilable::message(name_of(&current.metadata), found);
            Err(RenderFailure { reason: RenderReason::Irreconcilable, message })
        }
    }
}
