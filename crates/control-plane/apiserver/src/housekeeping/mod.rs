//! Built-in controllers. After a write and before its answer, definitions are accepted and access rules are reloaded.
//! In the background, garbage is collected, namespaces are deleted and history is compacted.
//!
//! ```text
//! events ─▶ reconciler: follow ─▶ work queue ─▶ process: decide ─▶ executor: the same verbs as clients ─▶ events
//!                  │                               │
//!                  ├─ owner graph                  ├─ garbage: objects whose owners are deleted
//!                  └─ terminating namespaces       ├─ namespaces: the content of namespaces, in order
//!                                                  └─ retention: compaction and expiry of Events
//! ```

mod aggregation;
mod defaults;
mod definitions;
mod executor;
mod garbage;
mod namespaces;
mod owner_graph;
mod owner_refs;
mod reconciler;
mod reference_index;
mod retention;
mod work_queue;

pub use reconciler::Reconciler;

use std::time::Duration;

use jiff::Timestamp;
use seaworthy_store::{Key, Watch, WatchError};
use tokio::task::JoinHandle;

use crate::server::{RBAC, Server};

use reconciler::StoreClosed;

pub const DEFINITIONS: &str = "apiextensions.k8s.io/customresourcedefinitions";

/// How long events are collected before they are processed: under load, many are processed together.
const EVENT_BATCH_DELAY: Duration = Duration::from_millis(10);

/// The longest time between two passes, because time and changes of the registry are not events.
const MAX_IDLE_INTERVAL: Duration = Duration::from_secs(30);

/// The background task of housekeeping. It ends when this is dropped.
#[derive(Debug)]
pub struct Housekeeping {
    task: JoinHandle<()>,
}

impl Housekeeping {
    /// Stops the task and waits for its end.
    pub async fn stop(mut self) {
        self.task.abort();
        // The task was aborted; unfinished work is done at the next start.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Housekeeping {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Creates the default objects, and completes what an earlier run may have left unfinished.
    pub async fn prepare(&self) -> Result<(), seaworthy_store::CommitError> {
        defaults::ensure(self).await?;
        definitions::settle(self).await;
        aggregation::settle(self).await;
        self.refresh_registry();
        self.index_custom_resources().await;
        self.refresh_policy();
        self.refresh_admission();
        Ok(())
    }

    /// Applies the consequences of a write before it is answered: the client of the write can rely on them.
    pub(crate) async fn follow_up(&self, key: &Key) {
        let resource = &*key.resource;
        // A terminating definition is deleted with the last of its objects.
        let is_last = || {
            let registry = self.registry();
            let is_terminating = registry.of_storage(resource).is_some_and(|resource| resource.is_terminating());
            is_terminating && self.store().count(resource) == 0
        };
        if resource == DEFINITIONS || is_last() {
            definitions::settle(self).await;
            self.refresh_registry_and_indexes().await;
        } else if resource.starts_with(RBAC) {
            if self.refresh_policy_of(key) {
                aggregation::settle(self).await;
            }
        } else if resource.starts_with("admissionregistration.k8s.io/") {
            self.refresh_admission();
        }
    }

    /// Starts housekeeping in the background. Needs a tokio runtime.
    pub fn start(&self) -> Housekeeping {
        Housekeeping { task: tokio::spawn(run_in_background(self.clone())) }
    }

    /// Runs housekeeping until nothing is left to do now.
    ///
    /// Works with and without the background task: tests need neither to start it nor to wait for it.
    pub async fn settle(&self) {
        // With a closed store nothing is left to do.
        let _ = self.reconcile(true).await;
    }

    /// One pass of housekeeping. Returns when the next one is due without any event.
    async fn reconcile(&self, retry_all: bool) -> Result<Option<Timestamp>, StoreClosed> {
        let mut slot = self.reconciler().lock().await;
        // Taken out while it works: if this future is dropped, the next pass starts from the store, not from a
        // half-updated state.
        let mut reconciler = slot.take().unwrap_or_else(|| Reconciler::new(self));
        if retry_all {
            reconciler.wake_all();
        }
        reconciler.run(self).await?;
        let due = reconciler.next_due();
        *slot = Some(reconciler);
        Ok(due)
    }

    /// A watch of all events from now on.
    fn event_watch(&self) -> Watch {
        loop {
            if let Ok(event_watch) = self.store().watch_all(self.store().revision()) {
                return event_watch;
            }
        }
    }
}

async fn run_in_background(server: Server) {
    let mut event_watch = server.event_watch();
    while let Ok(due) = server.reconcile(false).await {
        let now = server.clock().now();
        let pause = due.and_then(|due| Duration::try_from(due.duration_since(now)).ok()).unwrap_or(MAX_IDLE_INTERVAL);
        tokio::select! {
            () = tokio::time::sleep(pause.clamp(EVENT_BATCH_DELAY, MAX_IDLE_INTERVAL)) => {}
            event = event_watch.next() => match event {
                Ok(_) => tokio::time::sleep(EVENT_BATCH_DELAY).await,
                Err(WatchError::Expired { .. }) => event_watch = server.event_watch(),
                Err(WatchError::Closed) => return,
            }
        }
    }
}
