//! Wait for the drain controller: what it was asked for, since when, and for how long that is normal.

use std::time::Duration;

use seaworthy_api::vocabulary::machineconfiguration::State;

use crate::clock::Moment;
use crate::decide::Move;
use crate::failure::Failure;
use crate::order::{Again, Order};

/// How long pods may take to leave.
const DRAIN: Duration = Duration::from_secs(60 * 60);
/// How long it may take until pods may come again.
const UNCORDON: Duration = Duration::from_secs(10 * 60);

/// The request to the drain controller that is not done, if any. A daemon that restarts counts from its start.
#[derive(Clone, Debug, Default)]
pub(crate) struct DrainWait(Option<Waiting>);

impl DrainWait {
    /// Follows the node's next move; returns the state and the reason to report while it waits. A wait that takes too long is a
    /// failure.
    pub(crate) fn update(&mut self, next: &Move, order: &Order, now: Moment) -> Result<(State, String), Failure> {
        let last = self.0.take();
        // A failure of another wait ends with that wait.
        let has_failed = order.working_state() != State::Working
            && last.as_ref().is_none_or(|waiting| waiting.failure(now).is_none());
        self.0 = match next {
            Move::Ask(wish) => Some(Waiting::new(wish, now, has_failed)),
            Move::Wait(wish) => {
                let known = last.filter(|waiting| waiting.wish == *wish);
                Some(known.unwrap_or_else(|| Waiting::new(wish, now, has_failed)))
            }
            _ => None,
        };
        let Some(waiting) = &self.0 else { return Ok((State::Working, String::new())) };
        if let Some((event, reason)) = waiting.failure(now) {
            return Err(Failure { event, again: Again::OnChange, ..Failure::degraded(reason) });
        }
        // Once the node may be uncordoned, whatever it failed at is over.
        let state = if waiting.is_drain() { order.working_state() } else { State::Working };
        Ok((state, waiting.reason()))
    }
}

#[derive(Clone, Debug)]
struct Waiting {
    wish: String,
    since: Moment,
    /// The node has failed at something else, and keeps that reason while its pods leave.
    has_failed: bool,
}

impl Waiting {
    fn new(wish: &str, since: Moment, has_failed: bool) -> Self {
        Waiting { wish: wish.to_owned(), since, has_failed }
    }

    /// Whether pods are to leave; otherwise they may come again.
    fn is_drain(&self) -> bool {
        self.wish.starts_with("drain-")
    }

    /// The reason to report, the same throughout the wait; empty if another one is kept.
    fn reason(&self) -> String {
        if self.has_failed && self.is_drain() {
            return String::new();
        }
        let what = if self.is_drain() { "its pods to leave" } else { "pods to be let in again" };
        format!("waits for {what} since {}: {} was asked of the drain controller", self.since, self.wish)
    }

    /// The event and the reason of a wait that takes too long.
    ///
    /// Differs: the wait goes on, because a drain that takes longer than an hour may still end, and upstream asks for the same
    /// again.
    fn failure(&self, now: Moment) -> Option<(&'static str, String)> {
        let (limit, event, verb, after, look) = match self.is_drain() {
            true => {
                (DRAIN, "FailedToDrain", "drain", "1 hour", "the controllers' events about this node name the pods")
            }
            false => (UNCORDON, "FailedToUncordon", "uncordon", "10 minutes", "look whether the controllers run"),
        };
        (now.since(self.since) >= limit).then(|| {
            let (wish, since) = (&self.wish, self.since);
            let reason = format!(
                "failed to {verb} the node: {wish} was asked of the drain controller at {since}, and after {after} it has \
                 not been done; {look}; the daemon goes on when it is done, or when the order changes"
            );
            (event, reason)
        })
    }
}
