//! Wait for the drain controller: the pending request, since when it is pending, and when that is reported as a failure.

use std::time::Duration;

use seaworthy_api::vocabulary::machineconfiguration::{NodeEvent, State};

use crate::clock::ClockReading;
use crate::decide::NextAction;
use crate::failure::Failure;
use crate::order::{NextAttempt, Order};

/// A drain that takes longer is reported as a failure.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(60 * 60);
/// Uncordoning that takes longer is reported as a failure.
const UNCORDON_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// The request to the drain controller that is not done, if any. A daemon that restarts counts from its start.
#[derive(Clone, Debug, Default)]
pub(crate) struct DrainWait(Option<PendingRequest>);

impl DrainWait {
    /// Follows the node's next action; returns the state and the reason to report while it waits. A wait that takes too long is a
    /// failure.
    pub(crate) fn update(
        &mut self,
        next: &NextAction,
        order: &Order,
        now: ClockReading,
    ) -> Result<(State, String), Failure> {
        let last = self.0.take();
        // A failure of another wait ends with that wait.
        let has_failed = order.working_state() != State::Working
            && last.as_ref().is_none_or(|pending| pending.failure(now).is_none());
        self.0 = match next {
            NextAction::RequestDrain(request) => Some(PendingRequest::new(request, now, has_failed)),
            NextAction::WaitForDrain(request) => {
                let known = last.filter(|pending| pending.request == *request);
                Some(known.unwrap_or_else(|| PendingRequest::new(request, now, has_failed)))
            }
            _ => None,
        };
        let Some(pending) = &self.0 else { return Ok((State::Working, String::new())) };
        if let Some((event, reason)) = pending.failure(now) {
            return Err(Failure { event, next_attempt: NextAttempt::OnChange, ..Failure::degraded(reason) });
        }
        // Once the node is uncordoned, its earlier failure is over.
        let state = if pending.is_drain() { order.working_state() } else { State::Working };
        Ok((state, pending.reason()))
    }
}

#[derive(Clone, Debug)]
struct PendingRequest {
    request: String,
    since: ClockReading,
    /// The node has failed otherwise, and keeps that reason during the drain.
    has_failed: bool,
}

impl PendingRequest {
    fn new(request: &str, since: ClockReading, has_failed: bool) -> Self {
        PendingRequest { request: request.to_owned(), since, has_failed }
    }

    /// Whether the request is a drain; otherwise it is to uncordon.
    fn is_drain(&self) -> bool {
        self.request.starts_with("drain-")
    }

    /// The reason to report, the same throughout the wait; empty if an earlier one is kept.
    fn reason(&self) -> String {
        if self.has_failed && self.is_drain() {
            return String::new();
        }
        let what = if self.is_drain() { "its pods to leave" } else { "the node to be uncordoned" };
        format!("waiting for {what} since {}: requested {} from the drain controller", self.since, self.request)
    }

    /// The event and the reason of a wait that takes too long.
    ///
    /// Differs: the wait continues, because a drain that takes longer than an hour may still end, and upstream requests the same
    /// again.
    fn failure(&self, now: ClockReading) -> Option<(NodeEvent, String)> {
        let (timeout, event, verb, after, hint) = match self.is_drain() {
            true => (
                DRAIN_TIMEOUT,
                NodeEvent::FailedToDrain,
                "drain",
                "1 hour",
                "the controllers' events about this node name the pods",
            ),
            false => (
                UNCORDON_TIMEOUT,
                NodeEvent::FailedToUncordon,
                "uncordon",
                "10 minutes",
                "check that the controllers run",
            ),
        };
        (now.since(self.since) >= timeout).then(|| {
            let (request, since) = (&self.request, self.since);
            let reason = format!(
                "failed to {verb} the node: requested {request} from the drain controller at {since}, and it is not done after \
                 {after}; {hint}; the daemon continues when it is done, or when the order changes"
            );
            (event, reason)
        })
    }
}
