//! Waiting for the drain controller: what for, since when, and for how long that is as it should be (server-and-daemon.md, B21).

use std::time::Duration;

use crate::clock::Moment;

/// How long pods may take to leave.
const DRAIN: Duration = Duration::from_secs(60 * 60);
/// How long it may take until pods may come again.
const UNCORDON: Duration = Duration::from_secs(10 * 60);

/// What the drain controller was asked for, and when. A daemon that starts anew counts from its start.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    wish: String,
    since: Moment,
    /// Whether the node has failed at something else, and says why until there is more to be said than that its pods leave.
    has_failed: bool,
}

impl Waiting {
    pub(crate) fn new(wish: &str, since: Moment, has_failed: bool) -> Self {
        Waiting { wish: wish.to_owned(), since, has_failed }
    }

    /// Whether it is this that is waited for.
    pub(crate) fn is_for(&self, wish: &str) -> bool {
        self.wish == wish
    }

    /// Whether it is pods that are to leave; otherwise they may come again.
    pub(crate) fn is_drain(&self) -> bool {
        self.wish.starts_with("drain-")
    }

    /// What is waited for; nothing if that is not said. It stays the same for as long as it is waited for.
    pub(crate) fn reason(&self) -> String {
        if self.has_failed && self.is_drain() {
            return String::new();
        }
        let what = if self.is_drain() { "its pods to leave" } else { "pods to be let in again" };
        format!("waits for {what} since {}: {} was asked of the drain controller", self.since, self.wish)
    }

    /// The event and the reason of a wait that takes too long.
    ///
    /// Differs: it is waited on, because a drain that takes longer than an hour may still end, and upstream asks for the same
    /// again.
    pub(crate) fn failure(&self, now: Moment) -> Option<(&'static str, String)> {
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
