//! What the server does by itself. After a write and before its answer: definitions come into force, access rules are
//! read anew. In the background: garbage goes, namespaces end, history is forgotten.
//!
//! ```text
//! events ─▶ keeper: follow ─▶ queue ─▶ look: decide ─▶ hand: the same verbs as clients ─▶ events
//!                  │                     │
//!                  ├─ kinship            ├─ garbage: what becomes of an object when its owners go
//!                  └─ leaving            ├─ namespaces: what goes with a namespace, and in which order
//!                                        └─ retention: how long history and Events are kept
//! ```

mod aggregation;
mod defaults;
mod definitions;
mod garbage;
mod hand;
mod keeper;
mod kinship;
mod links;
mod namespaces;
mod retention;
mod ties;
mod work;

pub use keeper::Keeper;

use std::time::Duration;

use jiff::Timestamp;
use seaworthy_store::{Key, Watch, WatchError};
use tokio::task::JoinHandle;

use crate::server::{RBAC, Server};

use keeper::Closed;

/// Where definitions are stored.
pub const DEFINITIONS: &str = "apiextensions.k8s.io/customresourcedefinitions";

/// How long events gather before they are followed: under load, many share the price of looking.
const GATHER: Duration = Duration::from_millis(10);

/// The longest time without a look, because not everything is an event: the clock is none, nor is what is served.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The work in the background. It ends when this is dropped.
#[derive(Debug)]
pub struct Housekeeping {
    task: JoinHandle<()>,
}

impl Housekeeping {
    /// Ends it, and waits until it did.
    pub async fn stop(mut self) {
        self.task.abort();
        // It was told to end, and whatever it was about to do is done at the next start.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Housekeeping {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Makes what must always be there, and finishes what a former run may have left half done.
    pub async fn prepare(&self) -> Result<(), seaworthy_store::CommitError> {
        defaults::ensure(self).await?;
        definitions::settle(self).await;
        aggregation::settle(self).await;
        self.refresh_registry();
        self.index_custom().await;
        self.refresh_policy();
        self.refresh_admission();
        Ok(())
    }

    /// Follows a write to a resource, before it is answered: who reads the answer can rely on its consequences.
    pub(crate) async fn follow_up(&self, key: &Key) {
        let resource = &*key.resource;
        // A definition on its way out goes with the last of its objects.
        let is_last = || {
            let registry = self.registry();
            let is_terminating = registry.of_storage(resource).is_some_and(|resource| resource.is_terminating());
            is_terminating && self.store().count(resource) == 0
        };
        if resource == DEFINITIONS || is_last() {
            definitions::settle(self).await;
            self.renew_registry().await;
        } else if resource.starts_with(RBAC) {
            if self.refresh_policy_of(key) {
                aggregation::settle(self).await;
            }
        } else if resource.starts_with("admissionregistration.k8s.io/") {
            self.refresh_admission();
        }
    }

    /// Keeps the objects in order from now on, in the background. Needs a runtime to run on.
    pub fn start(&self) -> Housekeeping {
        Housekeeping { task: tokio::spawn(keep_in_order(self.clone())) }
    }

    /// Puts everything in order that can be now, and returns when nothing is left to do.
    ///
    /// With or without work in the background: tests need neither to start it nor to wait for it.
    pub async fn settle(&self) {
        // A closed store is as settled as it will ever be.
        let _ = self.tidy(true).await;
    }

    /// Does what there is to do, and says when there is something to do next even if nothing happens.
    async fn tidy(&self, is_impatient: bool) -> Result<Option<Timestamp>, Closed> {
        let mut slot = self.keeper().lock().await;
        // Taken out while it works: if that is cut off, the next one begins with what is stored, not with what was left.
        let mut keeper = slot.take().unwrap_or_else(|| Keeper::new(self));
        if is_impatient {
            keeper.wake_all();
        }
        keeper.run(self).await?;
        let due = keeper.next_due();
        *slot = Some(keeper);
        Ok(due)
    }

    /// From now on, each event once.
    fn bell(&self) -> Watch {
        loop {
            if let Ok(bell) = self.store().watch_all(self.store().revision()) {
                return bell;
            }
        }
    }
}

async fn keep_in_order(server: Server) {
    let mut bell = server.bell();
    while let Ok(due) = server.tidy(false).await {
        let now = server.world().now();
        let pause = due.and_then(|due| Duration::try_from(due.duration_since(now)).ok()).unwrap_or(LONGEST_PAUSE);
        tokio::select! {
            () = tokio::time::sleep(pause.clamp(GATHER, LONGEST_PAUSE)) => {}
            rung = bell.next() => match rung {
                Ok(_) => tokio::time::sleep(GATHER).await,
                Err(WatchError::Expired { .. }) => bell = server.bell(),
                Err(WatchError::Closed) => return,
            }
        }
    }
}
