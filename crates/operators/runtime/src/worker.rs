//! The loop around a controller: what is marked is looked at, one key at a time, while this process leads.

use std::fmt::{Debug, Display};
use std::time::Duration;

use crate::leadership::Leadership;
use crate::queue::Queue;

/// Looks at one object after the other and brings about what should be.
pub trait Controller: Send + Sync {
    /// Names what is looked at.
    type Key: Ord + Clone + Debug + Send + Sync;
    /// What can go wrong.
    type Error: Failure;

    /// Its name in logs, events and metrics; also its field manager.
    const NAME: &'static str;

    /// Looks at this key: reads caches, decides by a pure function, has the changes made.
    fn reconcile(&self, key: &Self::Key) -> impl Future<Output = Result<Next, Self::Error>> + Send;
}

/// The shortest rest after a look. Two who see differently and write against each other would otherwise do so without a
/// pause, and keep themselves from seeing better.
const REST: Duration = Duration::from_millis(20);

/// When to look again, besides when something changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Next {
    /// Look again after this time: a time-out or a window is part of the decision.
    pub recheck: Option<Duration>,
    /// Do not look again sooner than this, whatever changes: what costs much is done at a bounded rate.
    pub rest: Duration,
}

impl Next {
    /// Nothing to do until something changes.
    pub const fn change() -> Next {
        Next { recheck: None, rest: Duration::ZERO }
    }

    /// Look again after this time.
    pub const fn after(time: Duration) -> Next {
        Next { recheck: Some(time), rest: Duration::ZERO }
    }
}

/// How an error is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// At once: what was read had changed meanwhile.
    Soon,
    /// After a wait that grows.
    Backoff,
    /// When something changes: trying again cannot help.
    OnChange,
}

/// What a controller's errors say about themselves.
pub trait Failure: Display + Send {
    /// A word for metrics and events, the same for all errors of a sort.
    fn category(&self) -> &'static str;
    /// When to try again.
    fn retry(&self) -> Retry;
}

/// Counts what the loop does.
pub trait Observer: Send + Sync {
    /// A key was looked at, and this came of it: `ok` or the category of the error.
    fn looked(&self, controller: &'static str, outcome: &'static str, took: Duration);
}

/// Runs the controller for as long as it is polled; acts only while `leadership` holds.
pub async fn run<C: Controller>(
    controller: &C,
    queue: &Queue<C::Key>,
    leadership: &Leadership,
    observer: &dyn Observer,
) {
    leadership.acquired().await;
    loop {
        let key = queue.next().await;
        if !leadership.holds() {
            // Losing it ends the process; until then nothing is written.
            queue.mark(key);
            leadership.acquired().await;
            leadership.lost().await;
            continue;
        }
        look(controller, queue, &key, observer).await;
    }
}

/// Looks at one key and puts it back into the queue as the outcome demands.
pub async fn look<C: Controller>(controller: &C, queue: &Queue<C::Key>, key: &C::Key, observer: &dyn Observer) {
    let start = tokio::time::Instant::now();
    let result = controller.reconcile(key).await;
    let outcome = match result {
        Ok(next) => {
            queue.done(key, next.rest.max(REST));
            if let Some(wait) = next.recheck {
                queue.mark_after(key.clone(), wait);
            }
            "ok"
        }
        Err(error) => {
            let category = error.category();
            match error.retry() {
                // Even what changed under our hands waits a little, or two writers at odds would spin.
                retry @ (Retry::Soon | Retry::Backoff) => {
                    let wait = queue.failed(key.clone());
                    // That somebody else was first is no reason to look: it is decided anew.
                    if retry == Retry::Soon {
                        tracing::info!(controller = C::NAME, ?key, %error, retry_in = ?wait, "decided anew");
                    } else {
                        tracing::warn!(controller = C::NAME, ?key, %error, retry_in = ?wait, "not done");
                    }
                }
                Retry::OnChange => {
                    queue.done(key, Duration::ZERO);
                    tracing::warn!(controller = C::NAME, ?key, %error, "not done; waits for a change");
                }
            }
            category
        }
    };
    observer.looked(C::NAME, outcome, start.elapsed());
}
