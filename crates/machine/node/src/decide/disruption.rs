//! Disruption of an update: what it does to the running node, and which actions put it into effect.

use seaworthy_plan::disruption::{Action, Cause, Disruption, Level, Rule, least_disruption};

use crate::decide::target::TargetState;
use crate::order::Order;
use crate::update::failed_update::FailedUpdate;

/// The disruption of an update. `boot` is the reason for a reboot independent of the changes; `failed` is an earlier failure of it.
pub(crate) fn disruption_of(
    from: &TargetState,
    to: &TargetState,
    order: &Order,
    boot: Option<String>,
    failed: Option<&FailedUpdate>,
) -> Disruption {
    if let Some(why) = boot {
        return reboot(why);
    }
    match failed {
        Some(failed) if !failed.is_final => reboot(failed.why.clone()),
        _ => {
            let disruption = least_disruption(&from.spec, &to.spec, order.policies.as_deref());
            if from.image() != to.image() && disruption.level != Level::Reboot {
                return reboot("image".to_owned());
            }
            disruption
        }
    }
}

fn reboot(what: String) -> Disruption {
    Disruption {
        level: Level::Reboot,
        actions: vec![Action::Reboot],
        causes: vec![Cause { what, rule: Rule::AtBoot, actions: vec![Action::Reboot] }],
    }
}

/// The actions that no policy requests, only the built-in knowledge of a file.
pub(crate) fn known_actions(disruption: Option<&Disruption>) -> Vec<Action> {
    let Some(disruption) = disruption else { return Vec::new() };
    let (known, by_policy): (Vec<_>, Vec<_>) =
        disruption.causes.iter().partition(|cause| matches!(cause.rule, Rule::Known(_)));
    let is_requested = |action: &Action| by_policy.iter().any(|cause| cause.actions.contains(action));
    known.into_iter().flat_map(|cause| cause.actions.clone()).filter(|action| !is_requested(action)).collect()
}
