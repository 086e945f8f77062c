//! [`Watch`]: a position in the events of a resource, without a buffer.

use std::sync::Arc;

use tokio::sync::watch;

use crate::store::Shared;
use crate::{Event, ReadError, WatchError};

/// Events that a watcher has not seen before.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The events in order of revision. Never empty.
    pub events: Vec<Arc<Event>>,
    /// The watcher has now seen everything up to this revision: the value for a bookmark.
    pub revision: u64,
}

/// A position in the events of one resource, or of all.
///
/// Nothing is buffered for it. If events that it has not seen leave the window, it gets [`WatchError::Expired`] from then
/// on. Dropping the future of [`Watch::next`] loses nothing.
#[derive(Debug)]
pub struct Watch {
    shared: Arc<Shared>,
    resource: Option<Arc<str>>,
    position: u64,
    notifications: watch::Receiver<()>,
}

impl Watch {
    /// Limit of events in a batch, so that a long catch-up neither holds the lock nor fills the memory.
    pub const MAX_BATCH_EVENTS: usize = 512;

    pub(crate) fn new(shared: Arc<Shared>, resource: Option<Arc<str>>, from: u64) -> Result<Self, ReadError> {
        let notifications = {
            let mut state = shared.write();
            if from > state.revision {
                return Err(ReadError::Future { newest: state.revision });
            }
            let feed = state.feed_or_new(resource.as_ref());
            if let Err(oldest) = feed.after(from) {
                return Err(ReadError::Expired { oldest });
            }
            feed.subscribe()
        };
        Ok(Watch { shared, resource, position: from, notifications })
    }

    /// Waits for events that this watcher has not seen, and returns them.
    pub async fn next(&mut self) -> Result<Batch, WatchError> {
        loop {
            // Marked as seen before the check: an event between the check and the wait notifies again.
            self.notifications.borrow_and_update();
            if let Some(batch) = self.try_next()? {
                return Ok(batch);
            }
            if self.notifications.changed().await.is_err() {
                return Err(WatchError::Closed);
            }
        }
    }

    /// The events that this watcher has not seen, if there are any now.
    pub fn try_next(&mut self) -> Result<Option<Batch>, WatchError> {
        let state = self.shared.read();
        // A feed is never removed, so the one of the subscription exists.
        let Some(feed) = state.feed(self.resource.as_deref()) else { return Err(WatchError::Closed) };
        let unseen = feed.after(self.position).map_err(|oldest| WatchError::Expired { oldest })?;
        let is_all = unseen.len() <= Self::MAX_BATCH_EVENTS;
        let events: Vec<_> = unseen.take(Self::MAX_BATCH_EVENTS).cloned().collect();
        self.position = match events.last() {
            Some(last) if !is_all => last.revision(),
            Some(_) | None => state.revision,
        };
        if !events.is_empty() {
            return Ok(Some(Batch { events, revision: self.position }));
        }
        if state.is_closed { Err(WatchError::Closed) } else { Ok(None) }
    }

    /// The newest revision up to which this watcher has seen everything: the value for a bookmark now.
    pub fn progress(&mut self) -> u64 {
        let state = self.shared.read();
        let is_all_seen = state
            .feed(self.resource.as_deref())
            .is_some_and(|feed| feed.after(self.position).is_ok_and(|mut unseen| unseen.next().is_none()));
        if is_all_seen {
            self.position = state.revision;
        }
        self.position
    }
}
