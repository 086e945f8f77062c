//! Decisions of a node: what it does next, and which steps that takes. Everything but [`observed::observe`] is pure.

pub mod boot_state;
pub(crate) mod disruption;
pub mod extensions;
pub mod kernel_arguments;
pub mod observed;
pub(crate) mod refusal;
pub mod steps;
pub mod target;

use seaworthy_api::vocabulary::machineconfiguration::State;

use crate::order::Order;

/// The next action of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextAction {
    /// The node runs its desired configuration, and has reported that.
    Nothing,
    /// Send this request to the drain controller.
    RequestDrain(String),
    /// This request was sent to the drain controller, which has not done it yet.
    WaitForDrain(String),
    Update,
    /// The node runs its desired configuration, and has not reported that yet.
    ReportDone,
}

/// Facts about the node itself that the decision depends on.
#[derive(Clone, Copy, Debug)]
pub struct DecisionInputs<'a> {
    /// The configuration that the disk is in, and its image. It takes precedence over the Node's annotations.
    pub disk: (&'a str, Option<&'a str>),
    /// The desired configuration, and its image.
    pub desired: (&'a str, Option<&'a str>),
    /// Whether the update is done in any case: it is forced, or what is booted is another configuration.
    pub must_update: bool,
    pub needs_drain: bool,
}

/// Decides the next action of a node.
///
/// Differs: a drain that was requested for an earlier order is not waited for, because a reverted order must not wait for the
/// order that it reverts. Uncordoning is requested only after a drain, because a node that was cordoned by a user stays so.
pub fn decide(order: &Order, inputs: DecisionInputs<'_>) -> NextAction {
    let requested = order.desired_drain.as_deref().unwrap_or_default();
    let done = order.last_applied_drain.as_deref().unwrap_or_default();
    let request = |verb: &str| format!("{verb}-{}", inputs.desired.0);
    let after = |request: String, then: NextAction| match (done == request, requested == request) {
        (true, true) => then,
        (false, true) => NextAction::WaitForDrain(request),
        (_, false) => NextAction::RequestDrain(request),
    };
    if inputs.disk != inputs.desired || inputs.must_update {
        return if inputs.needs_drain && !order.is_single {
            after(request("drain"), NextAction::Update)
        } else {
            NextAction::Update
        };
    }
    let is_reported =
        order.state == Some(State::Done) && order.current.as_ref().is_some_and(|current| current.name == inputs.disk.0);
    let end = if is_reported { NextAction::Nothing } else { NextAction::ReportDone };
    let is_drained = requested.starts_with("drain-") || done.starts_with("drain-");
    if is_drained || requested != done { after(request("uncordon"), end) } else { end }
}
