//! What housekeeping still has to look at: each thing once, and what failed again, later and later.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use seaworthy_store::Key;

/// Something to look at.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Work {
    /// An object that has owners: whether they are still there.
    Dependent(Key),
    /// An owner that takes leave, by its uid: whether it may go.
    Owner(String),
    /// A namespace that is on its way out, by its name.
    Namespace(Arc<str>),
}

/// The things to look at, first come first served.
#[derive(Debug, Default)]
pub struct Queue {
    ready: VecDeque<Work>,
    /// Everything in `ready`.
    known: HashSet<Work>,
    later: BTreeSet<(Timestamp, Work)>,
    /// Everything in `later`.
    due: HashMap<Work, Timestamp>,
    failures: HashMap<Work, u32>,
}

impl Queue {
    /// Failures in a row after which a thing has to wait.
    const PATIENCE: u32 = 5;
    /// The longest that it waits.
    const LONGEST_WAIT: SignedDuration = SignedDuration::from_secs(300);

    /// Adds a thing, unless it is there already.
    pub fn add(&mut self, work: Work) {
        if self.known.insert(work.clone()) {
            self.ready.push_back(work);
        }
    }

    /// Takes up to `count` things.
    pub fn take(&mut self, count: usize) -> Vec<Work> {
        let taken: Vec<Work> = self.ready.drain(..count.min(self.ready.len())).collect();
        for work in &taken {
            self.known.remove(work);
        }
        taken
    }

    /// Forgets the failures of a thing that went well.
    pub fn succeeded(&mut self, work: &Work) {
        self.failures.remove(work);
    }

    /// Tries a thing again: the first times at once, since most failures are a matter of who was faster.
    pub fn failed(&mut self, work: Work, now: Timestamp) {
        let failures = self.failures.entry(work.clone()).or_default();
        *failures = failures.saturating_add(1);
        let beyond = failures.saturating_sub(Self::PATIENCE);
        if beyond == 0 {
            return self.add(work);
        }
        let wait = SignedDuration::from_secs(1 << (beyond - 1).min(16)).min(Self::LONGEST_WAIT);
        self.add_later(work, now + wait);
    }

    /// Adds a thing for a later time, instead of the one that it was added for before.
    pub fn add_later(&mut self, work: Work, due: Timestamp) {
        if let Some(before) = self.due.insert(work.clone(), due) {
            self.later.remove(&(before, work.clone()));
        }
        self.later.insert((due, work));
    }

    /// Moves what is due to the things to look at.
    pub fn wake(&mut self, now: Timestamp) {
        while self.later.first().is_some_and(|(due, _)| *due <= now) {
            if let Some((_, work)) = self.later.pop_first() {
                self.due.remove(&work);
                self.add(work);
            }
        }
    }

    /// Moves everything to the things to look at, whenever it is due.
    pub fn wake_all(&mut self) {
        self.wake(Timestamp::MAX);
    }

    /// When something is due next.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.later.first().map(|(due, _)| *due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(name: &str) -> Work {
        Work::Namespace(name.into())
    }

    #[test]
    fn thing_is_looked_at_once_however_often_it_is_added() {
        let mut queue = Queue::default();
        queue.add(work("a"));
        queue.add(work("b"));
        queue.add(work("a"));
        assert_eq!(queue.take(9), [work("a"), work("b")]);
        queue.add(work("a"));
        assert_eq!(queue.take(9), [work("a")]);
    }

    #[test]
    fn what_keeps_failing_waits_longer_and_longer_but_not_for_ever() {
        let (mut queue, now) = (Queue::default(), Timestamp::UNIX_EPOCH);
        for _ in 0..Queue::PATIENCE {
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
        let (mut queue, now) = (Queue::default(), Timestamp::UNIX_EPOCH);
        for _ in 0..=Queue::PATIENCE {
            queue.failed(work("a"), now);
        }
        queue.wake_all();
        queue.take(9);
        queue.succeeded(&work("a"));
        queue.failed(work("a"), now);
        assert_eq!(queue.take(9), [work("a")]);
    }
}
