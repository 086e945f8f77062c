//! Worker: the reconcile loop of a controller, which takes one key of its queue at a time while this process leads.

use std::fmt::{Debug, Display};
use std::time::Duration;

use crate::leadership::Leadership;
use crate::queue::Queue;

/// Reconciles objects, one key at a time.
pub trait Controller: Send + Sync {
    type Key: Ord + Clone + Debug + Send + Sync;
    type Error: ReconcileError;

    /// The name in logs, events and metrics; also the field manager.
    const NAME: &'static str;

    /// Reads caches, decides by a pure function, and has the changes made.
    fn reconcile(&self, key: &Self::Key) -> impl Future<Output = Result<Requeue, Self::Error>> + Send;
}

/// The shortest time between two reconciles of a key. Two writers that disagree would otherwise revert each other without a
/// pause, too fast for their caches to catch up.
const MIN_RECONCILE_INTERVAL: Duration = Duration::from_millis(20);

/// When to reconcile a key again, besides when something changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requeue {
    /// Reconcile again after this time: a timeout or a window is part of the decision.
    pub recheck: Option<Duration>,
    /// Do not reconcile again sooner than this, whatever changes: bounds the rate of expensive decisions.
    pub min_interval: Duration,
}

impl Requeue {
    /// Nothing to do until something changes.
    pub const fn on_change() -> Requeue {
        Requeue { recheck: None, min_interval: Duration::ZERO }
    }

    /// Reconcile again after this time.
    pub const fn after(time: Duration) -> Requeue {
        Requeue { recheck: Some(time), min_interval: Duration::ZERO }
    }
}

/// When a failed reconcile is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryPolicy {
    /// Soon: what was read had changed meanwhile.
    Soon,
    /// After a growing delay.
    Backoff,
    /// When something changes: retrying cannot help.
    OnChange,
}

/// An error of a controller.
pub trait ReconcileError: Display + Send {
    /// A word for metrics and events, the same for all errors of a sort.
    fn category(&self) -> &'static str;
    fn retry(&self) -> RetryPolicy;
}

/// Observes the reconcile loop, for metrics.
pub trait ReconcileObserver: Send + Sync {
    /// A key was reconciled; `outcome` is `ok` or the category of the error.
    fn reconciled(&self, controller: &'static str, outcome: &'static str, took: Duration);
}

/// Runs the controller for as long as it is polled; acts only while `leadership` holds.
pub async fn run<C: Controller>(
    controller: &C,
    queue: &Queue<C::Key>,
    leadership: &Leadership,
    observer: &dyn ReconcileObserver,
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
        reconcile_key(controller, queue, &key, observer).await;
    }
}

/// Reconciles one key and returns it to the queue as the outcome requires.
pub async fn reconcile_key<C: Controller>(
    controller: &C,
    queue: &Queue<C::Key>,
    key: &C::Key,
    observer: &dyn ReconcileObserver,
) {
    let start = tokio::time::Instant::now();
    let result = controller.reconcile(key).await;
    let outcome = match result {
        Ok(requeue) => {
            queue.done(key, requeue.min_interval.max(MIN_RECONCILE_INTERVAL));
            if let Some(delay) = requeue.recheck {
                queue.mark_after(key.clone(), delay);
            }
            "ok"
        }
        Err(error) => {
            let category = error.category();
            match error.retry() {
                // Also a conflict is retried with a delay, or two writers that disagree would spin.
                retry @ (RetryPolicy::Soon | RetryPolicy::Backoff) => {
                    let delay = queue.failed(key.clone());
                    // A conflict is normal operation: it is decided again on the new state.
                    if retry == RetryPolicy::Soon {
                        tracing::info!(controller = C::NAME, ?key, %error, retry_in = ?delay, "conflict, retrying");
                    } else {
                        tracing::warn!(controller = C::NAME, ?key, %error, retry_in = ?delay, "reconcile failed");
                    }
                }
                RetryPolicy::OnChange => {
                    queue.done(key, Duration::ZERO);
                    tracing::warn!(controller = C::NAME, ?key, %error, "reconcile failed; retrying when something changes");
                }
            }
            category
        }
    };
    observer.reconciled(C::NAME, outcome, start.elapsed());
}
