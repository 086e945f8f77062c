//! [`Feed`]: the recent events of one resource, or of all, kept once and read by every watcher at its own position.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::watch;

use crate::Event;

/// Events in order of revision, and a notification of new ones.
#[derive(Debug)]
pub(crate) struct Feed {
    events: VecDeque<Arc<Event>>,
    /// The newest revision that was dropped. A watcher that has not seen it has missed an event.
    dropped: u64,
    notifier: watch::Sender<()>,
}

impl Feed {
    /// A feed without the events up to `dropped`.
    pub(crate) fn new(dropped: u64) -> Self {
        Feed { events: VecDeque::new(), dropped, notifier: watch::Sender::new(()) }
    }

    pub(crate) fn push(&mut self, event: Arc<Event>) {
        self.events.push_back(event);
    }

    pub(crate) fn drop_oldest(&mut self) -> Option<Arc<Event>> {
        let event = self.events.pop_front()?;
        self.dropped = event.revision();
        Some(event)
    }

    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    pub(crate) fn oldest(&self) -> Option<&Arc<Event>> {
        self.events.front()
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The events after `revision` in order; if some of them were dropped, the oldest revision to start from.
    pub(crate) fn after(&self, revision: u64) -> Result<impl ExactSizeIterator<Item = &Arc<Event>>, u64> {
        if revision < self.dropped {
            return Err(self.dropped);
        }
        let seen = self.events.partition_point(|event| event.revision() <= revision);
        Ok(self.events.range(seen..))
    }

    /// Replaces events by ones of the same revisions.
    pub(crate) fn replace(&mut self, with: impl Fn(&Arc<Event>) -> Option<Arc<Event>>) {
        for event in &mut self.events {
            if let Some(other) = with(event) {
                *event = other;
            }
        }
    }

    /// Wakes all subscribers.
    pub(crate) fn notify(&self) {
        self.notifier.send_replace(());
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<()> {
        self.notifier.subscribe()
    }
}
