//! Node writes: what is decided in workload clusters is performed beside the controller, so that a cluster that is slow to answer
//! holds up pools of no other.
//!
//! At most one decision of a pool is performed at a time. The pool is decided on again after a growing delay if a write failed, and
//! at once if the Nodes of a deleted pool were deleted or another decision came meanwhile. Otherwise the Nodes' own events do that.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::StatusCode;
use kube::Error;
use seaworthy_api::cluster::v1beta2::MachinePool;
use seaworthy_change::{Action, Decision};
use seaworthy_plan::machinepool::NodeDeletion;
use seaworthy_runtime::write_error::WriteErrorCause;
use seaworthy_runtime::{Applier, Key, ReconcileError as _, WriteError};
use tokio::time::Instant;

use crate::metrics::MachinePoolMetrics;
use crate::pool_queue::PoolQueue;
use crate::task_guard::TaskGuard;

/// The delay after a first failure, which as a rule is a heartbeat of the Node in between; each further one doubles it.
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(100);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(60);

pub struct NodeWrites {
    queue: Arc<PoolQueue>,
    metrics: Arc<MachinePoolMetrics>,
    pools: Mutex<HashMap<Key, PoolWrites>>,
}

/// The last decision of a pool.
#[derive(Debug, Default)]
struct PoolWrites {
    /// The pool's uid: one that was created again under its name is another pool.
    uid: Option<String>,
    running: Option<TaskGuard>,
    /// Whether another decision came while it was being performed.
    is_outdated: bool,
    /// What became of it, if it deleted the Nodes of a deleted pool.
    deletion: Option<Result<(), String>>,
    failures: u32,
    /// The earliest time of the next one, after a failure.
    not_before: Option<Instant>,
}

impl NodeWrites {
    pub fn new(queue: Arc<PoolQueue>, metrics: Arc<MachinePoolMetrics>) -> NodeWrites {
        NodeWrites { queue, metrics, pools: Mutex::default() }
    }

    /// Performs a decision, unless one of this pool is being performed.
    pub fn perform(
        self: &Arc<Self>,
        pool: &MachinePool,
        applier: &Applier,
        decision: Decision<'static, ()>,
        is_deletion: bool,
    ) {
        let key = Key::of(pool);
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let writes = pools.entry(key.clone()).or_default();
        if writes.uid != pool.metadata.uid {
            *writes = PoolWrites { uid: pool.metadata.uid.clone(), ..PoolWrites::default() };
        }
        if writes.running.is_some() {
            writes.is_outdated = true;
            return;
        }
        let delay = writes.not_before.map(|time| time.saturating_duration_since(Instant::now()));
        if let Some(delay) = delay.filter(|delay| !delay.is_zero()) {
            self.queue.mark_after(key, delay);
            return;
        }
        let (this, applier, uid) = (Arc::downgrade(self), applier.clone(), writes.uid.clone());
        writes.running = Some(TaskGuard::spawn(async move {
            let outcome = applier.perform(&decision).await;
            let deletions = decision.changes().filter(|change| change.action == Action::Delete);
            let deleted = deletions.filter(|change| outcome.is_done(&change.object)).count();
            if let Some(this) = this.upgrade() {
                this.metrics.retired_nodes.inc_by(u64::try_from(deleted).unwrap_or_default());
                this.finish(&key, uid.as_deref(), outcome.failures.first().map(failure), is_deletion);
            }
        }));
    }

    /// Reads what became of the last deletion of the pool's Nodes.
    pub fn with_deletion<T>(&self, pool: &MachinePool, read: impl FnOnce(NodeDeletion<'_>) -> T) -> T {
        let deletion = {
            let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
            let writes = pools.get(&Key::of(pool)).filter(|writes| writes.uid == pool.metadata.uid);
            writes.and_then(|writes| writes.deletion.clone())
        };
        read(match &deletion {
            None => NodeDeletion::NotTried,
            Some(Ok(())) => NodeDeletion::Accepted,
            Some(Err(reason)) => NodeDeletion::Failed(reason),
        })
    }

    /// The pool is gone.
    pub fn forget(&self, pool: &Key) {
        let forgotten = self.pools.lock().unwrap_or_else(PoisonError::into_inner).remove(pool);
        drop(forgotten);
    }

    fn finish(&self, pool: &Key, uid: Option<&str>, failure: Option<String>, is_deletion: bool) {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        // One that was forgotten meanwhile is gone.
        let Some(writes) = pools.get_mut(pool).filter(|writes| writes.uid.as_deref() == uid) else { return };
        // The task that runs this ends by itself: it waits for nothing any more.
        writes.running = None;
        let is_outdated = std::mem::take(&mut writes.is_outdated);
        let delay = match &failure {
            None => {
                writes.failures = 0;
                (is_deletion || is_outdated).then_some(Duration::ZERO)
            }
            Some(failure) => {
                let delay = FIRST_RETRY_DELAY.saturating_mul(1 << writes.failures.min(16)).min(MAX_RETRY_DELAY);
                writes.failures = writes.failures.saturating_add(1);
                tracing::warn!(?pool, failure, retry_in = ?delay, "cannot write Nodes");
                Some(delay)
            }
        };
        writes.not_before = delay.map(|delay| Instant::now() + delay);
        writes.deletion = is_deletion.then_some(failure.map_or(Ok(()), Err));
        drop(pools);
        if let Some(delay) = delay {
            self.queue.mark_after(pool.clone(), delay);
        }
    }
}

/// Why a write failed, for conditions: of an answer its code alone, since a server may repeat what it was sent.
fn failure(error: &WriteError) -> String {
    let object = &error.object;
    match &error.cause {
        WriteErrorCause::Api(Error::Api(status)) => {
            let code =
                StatusCode::from_u16(status.code).map_or_else(|_| "an error".to_owned(), |code| code.to_string());
            format!("cannot {} {object}: it answers {code}", error.verb)
        }
        _ => format!("cannot {} {object}: {}", error.verb, error.category()),
    }
}
