//! Work queue of the reconciler: each item once, failed items with a growing delay.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use seaworthy_store::Key;

/// An item to check.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WorkItem {
    /// An object with owners: check its owners.
    Dependent(Key),
    /// A terminating owner, by uid: check whether its finalizer can be removed.
    Owner(String),
    /// A terminating namespace, by name.
    Namespace(Arc<str>),
}

/// The queued items, first in first out.
#[derive(Debug, Default)]
pub struct WorkQueue {
    ready: VecDeque<WorkItem>,
    /// Everything in `ready`.
    known: HashSet<WorkItem>,
    later: BTreeSet<(Timestamp, WorkItem)>,
    /// Everything in `later`.
    due: HashMap<WorkItem, Timestamp>,
    failures: HashMap<WorkItem, u32>,
}

impl WorkQueue {
    /// Failures in a row that are retried without a delay.
    const IMMEDIATE_RETRIES: u32 = 5;
    const MAX_RETRY_DELAY: SignedDuration = SignedDuration::from_secs(300);

    /// Adds an item, unless it is queued already.
    pub fn add(&mut self, work: WorkItem) {
        if self.known.insert(work.clone()) {
            self.ready.push_back(work);
        }
    }

    /// Takes up to `count` items.
    pub fn take(&mut self, count: usize) -> Vec<WorkItem> {
        let taken: Vec<WorkItem> = self.ready.drain(..count.min(self.ready.len())).collect();
        for work in &taken {
            self.known.remove(work);
        }
        taken
    }

    /// Resets the failure count of an item.
    pub fn succeeded(&mut self, work: &WorkItem) {
        self.failures.remove(work);
    }

    /// Queues a failed item again: at first without a delay, since most failures are conflicts with concurrent writes.
    pub fn failed(&mut self, work: WorkItem, now: Timestamp) {
        let failures = self.failures.entry(work.clone()).or_default();
        *failures = failures.saturating_add(1);
        let beyond = failures.saturating_sub(Self::IMMEDIATE_RETRIES);
        if beyond == 0 {
            return self.add(work);
        }
        let wait = SignedDuration::from_secs(1 << (beyond - 1).min(16)).min(Self::MAX_RETRY_DELAY);
        self.add_later(work, now + wait);
    }

    /// Schedules an item, replacing its earlier schedule.
    pub fn add_later(&mut self, work: WorkItem, due: Timestamp) {
        if let Some(before) = self.due.insert(work.clone(), due) {
            self.later.remove(&(before, work.clone()));
        }
        self.later.insert((due, work));
    }

    /// Queues the scheduled items that are due.
    pub fn wake(&mut self, now: Timestamp) {
        while self.later.first().is_some_and(|(due, _)| *due <= now) {
            if let Some((_, work)) = self.later.pop_first() {
                self.due.remove(&work);
                self.add(work);
            }
        }
    }

    /// Queues all scheduled items.
    pub fn wake_all(&mut self) {
        self.wake(Timestamp::MAX);
    }

    /// When the next scheduled item is due.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.later.first().map(|(due, _)| *due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(name: &str) -> WorkItem {
        WorkItem::Namespace(name.into())
    }

    #[test]
    fn thing_is_looked_at_once_however_often_it_is_added() {
        let mut queue = WorkQueue::default();
        queue.add(work("a"));
        queue.add(work("b"));
        queue.add(work("a"));
        assert_eq!(queue.take(9), [work("a"), work("b")]);
        queue.add(work("a"));
        assert_eq!(queue.take(9), [work("a")]);
    }

    #[test]
    fn retry_delay_grows_up_to_a_limit() {
        let (mut queue, now) = (WorkQueue::default(), Timestamp::UNIX_EPOCH);
        for _ in 0..WorkQueue::IMMEDIATE_RETRIES {
            queue.failed(work("a"), now);
            assert_eq!(queue.take(9), [work("a")]);
        }
        let mut waits = Vec::new();
        for _ in 0..20 {
            queue.failed(work("a"), now);
            assert_eq!(queue.take(9), []);
            waits.push(queue.next_due().unwrap().as_second());
            queue.wake_all();
            assert_eq!(queue.take(9), [work("a")]);
        }
        assert_eq!(waits[..4], [1, 2, 4, 8]);
        assert_eq!(waits[19], 300);
    }

    #[test]
    fn success_makes_a_thing_start_over() {
        let (mut queue, now) = (WorkQueue::default(), Timestamp::UNIX_EPOCH);
        for _ in 0..=WorkQueue::IMMEDIATE_RETRIES {
            queue.failed(work("a"), now);
        }
        queue.wake_all();
        queue.take(9);
        queue.succeeded(&work("a"));
        queue.failed(work("a"), now);
        assert_eq!(queue.take(9), [work("a")]);
    }
}
