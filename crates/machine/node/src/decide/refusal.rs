//! Refusal of configurations that cannot be applied to a running machine.

use seaworthy_host::Boot;
use seaworthy_ignition::Node;
use seaworthy_plan::disruption::reconcilable::{ConfigSide, irreconcilable, message};

use crate::decide::extensions;
use crate::decide::target::TargetState;
use crate::failure::Failure;
use crate::order::Order;

/// Refuses a configuration that cannot be applied to a running machine.
pub(crate) fn refuse(from: &TargetState, to: &TargetState, order: &Order, boot: &Boot) -> Result<(), Failure> {
    let trees = [from, to].map(|target| target.spec.config.as_ref().map(Node::from_json));
    let side = |at: usize, target: &TargetState| ConfigSide {
        config: trees[at].as_ref(),
        is_fips: target.spec.fips.unwrap_or_default(),
    };
    let found = irreconcilable(side(0, from), side(1, to), &order.allowed, &[]);
    if !found.is_empty() {
        return Err(Failure::unreconcilable(message(&from.name, &found)));
    }
    if to.spec.fips.unwrap_or_default() != boot.is_fips {
        return Err(Failure::unreconcilable(format!(
            "MachineConfig {}: fips is {}, and the running kernel was installed with {}; it is chosen at installation",
            to.name,
            to.spec.fips.unwrap_or_default(),
            boot.is_fips
        )));
    }
    let unknown = extensions::unknown(&to.extensions);
    if !unknown.is_empty() {
        let all = unknown.join(", ");
        return Err(Failure::unreconcilable(format!("MachineConfig {}: extensions {all} are not known", to.name)));
    }
    Ok(())
}
