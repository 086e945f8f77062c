//! Decisions of a node: what it does next, and which steps that takes. Everything but [`observed::observe`] is pure.

pub mod booted;
pub(crate) mod disruption;
pub mod extensions;
pub mod kernel_arguments;
pub mod observed;
pub(crate) mod refusal;
pub mod steps;
pub mod target;

use seaworthy_api::vocabulary::machineconfiguration::State;

use crate::order::Order;

/// What a node does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    /// It is where it should be and has said so.
    Nothing,
    /// The drain controller is asked for something.
    Ask(String),
    /// The drain controller has been asked and is not done.
    Wait(String),
    /// The update begins.
    Update,
    /// It is where it should be and has not said so.
    SayDone,
}

/// What the node knows of itself.
#[derive(Clone, Copy, Debug)]
pub struct Standing<'a> {
    /// The configuration that the disk is in, and its image. It goes before what the cluster believes.
    pub disk: (&'a str, Option<&'a str>),
    /// The configuration that is wanted, and its image.
    pub desired: (&'a str, Option<&'a str>),
    /// Whether the update is done in any case: somebody on the machine wants it, or what is booted is something else.
    pub is_anyway: bool,
    /// Whether the pods leave for this update.
    pub needs_drain: bool,
}

/// What a node does next.
///
/// Differs: a drain that was asked for an order that is no longer there is not waited for, because a revert must not wait for
/// what it reverts. Uncordoning is asked for only after a drain, because a node that somebody else has cordoned stays so.
pub fn decide(order: &Order, standing: Standing<'_>) -> Move {
    let asked = order.desired_drain.as_deref().unwrap_or_default();
    let done = order.last_applied_drain.as_deref().unwrap_or_default();
    let request = |verb: &str| format!("{verb}-{}", standing.desired.0);
    let until = |wish: String, then: Move| match (done == wish, asked == wish) {
        (true, true) => then,
        (false, true) => Move::Wait(wish),
        (_, false) => Move::Ask(wish),
    };
    if standing.disk != standing.desired || standing.is_anyway {
        return if standing.needs_drain && !order.is_single {
            until(request("drain"), Move::Update)
        } else {
            Move::Update
        };
    }
    let is_said = order.state == Some(State::Done)
        && order.current.as_ref().is_some_and(|current| current.name == standing.disk.0);
    let end = if is_said { Move::Nothing } else { Move::SayDone };
    let is_drained = asked.starts_with("drain-") || done.starts_with("drain-");
    if is_drained || asked != done { until(request("uncordon"), end) } else { end }
}
