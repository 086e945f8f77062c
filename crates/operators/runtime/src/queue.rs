//! Work queue: the keys that are to be reconciled, each with its time.
//!
//! A key is in the queue once, however often it is marked. One that fails is retried with a growing delay; one that is marked
//! while it is being reconciled is reconciled again. Time is tokio's, so a test can hold it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// The delay after a first failure; each further one doubles it.
const INITIAL_RETRY_DELAY: Duration = Duration::from_millis(50);
/// A minute bounds the writes and the logs of a key that keeps failing.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(60);
/// A change ends the delay, but not before this. Without it, two writers that disagree would fail at once on each other's
/// changes.
const MIN_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Keys with the time from which they may be reconciled.
#[derive(Debug)]
pub struct Queue<Key> {
    state: Mutex<State<Key>>,
    changed: Notify,
}

#[derive(Debug)]
struct State<Key> {
    due: Schedule<Key>,
    failures: BTreeMap<Key, u32>,
    /// The earliest time, whatever marks the key: a busy pool is decided on at a bounded rate.
    not_before: Schedule<Key>,
}

/// Keys, each with a time; found by either.
#[derive(Debug)]
struct Schedule<Key> {
    times: BTreeMap<Arc<Key>, Instant>,
    /// The same by time, so that the earliest of many is not searched for.
    keys: BTreeSet<(Instant, Arc<Key>)>,
}

impl<Key: Ord> Schedule<Key> {
    fn get(&self, key: &Key) -> Option<Instant> {
        self.times.get(key).copied()
    }

    fn set(&mut self, key: Key, time: Instant) {
        self.remove(&key);
        let key = Arc::new(key);
        self.keys.insert((time, Arc::clone(&key)));
        self.times.insert(key, time);
    }

    fn remove(&mut self, key: &Key) -> Option<Arc<Key>> {
        let (key, time) = self.times.remove_entry(key)?;
        self.keys.remove(&(time, Arc::clone(&key)));
        Some(key)
    }

    fn first(&self) -> Option<(Instant, Arc<Key>)> {
        self.keys.first().cloned()
    }

    /// Removes the keys whose time has passed.
    fn remove_passed(&mut self, now: Instant) {
        while let Some((_, key)) = self.first().filter(|(time, _)| *time <= now) {
            self.remove(&key);
        }
    }
}

impl<Key> Default for Schedule<Key> {
    fn default() -> Self {
        Schedule { times: BTreeMap::new(), keys: BTreeSet::new() }
    }
}

impl<Key> Default for Queue<Key> {
    fn default() -> Self {
        let state = State { due: Schedule::default(), failures: BTreeMap::new(), not_before: Schedule::default() };
        Queue { state: Mutex::new(state), changed: Notify::new() }
    }
}

impl<Key: Ord + Clone> State<Key> {
    /// Keeps this key from being reconciled before `earliest`. Entries whose time has passed are removed, so that keys of
    /// deleted objects leave nothing behind.
    fn delay_until(&mut self, key: &Key, earliest: Instant) {
        self.not_before.remove_passed(Instant::now());
        self.not_before.set(key.clone(), earliest);
        if self.due.get(key).is_some_and(|due| due < earliest) {
            self.due.set(key.clone(), earliest);
        }
    }
}

impl<Key: Ord + Clone> Queue<Key> {
    /// Has this key reconciled as soon as possible.
    pub fn mark(&self, key: Key) {
        self.mark_at(key, Instant::now());
    }

    /// Has this key reconciled after a delay, or sooner if it is marked again.
    pub fn mark_after(&self, key: Key, delay: Duration) {
        self.mark_at(key, Instant::now() + delay);
    }

    fn mark_at(&self, key: Key, time: Instant) {
        self.with(|state| {
            let time = state.not_before.get(&key).map_or(time, |earliest| earliest.max(time));
            if state.due.get(&key).is_none_or(|due| due > time) {
                state.due.set(key, time);
            }
        });
        self.changed.notify_one();
    }

    /// Waits for the next key whose time has come.
    pub async fn next(&self) -> Key {
        loop {
            let next = self.with(|state| {
                let (due, key) = state.due.first()?;
                if due > Instant::now() {
                    return Some(Err(due));
                }
                state.due.remove(&key);
                Some(Ok(key))
            });
            match next {
                Some(Ok(key)) => return Arc::unwrap_or_clone(key),
                Some(Err(due)) => tokio::select! {
                    () = sleep_until(due) => {}
                    () = self.changed.notified() => {}
                },
                None => self.changed.notified().await,
            }
        }
    }

    /// The key was reconciled; the next time is `min_interval` from now at the earliest.
    pub fn done(&self, key: &Key, min_interval: Duration) {
        self.with(|state| {
            state.failures.remove(key);
            if min_interval.is_zero() {
                state.not_before.remove(key);
            } else {
                state.delay_until(key, Instant::now() + min_interval);
            }
        });
    }

    /// The key failed: it is retried after a delay that grows with every failure in a row. Returns the delay.
    pub fn failed(&self, key: Key) -> Duration {
        let delay = self.with(|state| {
            let failures = state.failures.entry(key.clone()).or_default();
            let delay = INITIAL_RETRY_DELAY.saturating_mul(1 << (*failures).min(16)).min(MAX_RETRY_DELAY);
            *failures = failures.saturating_add(1);
            state.delay_until(&key, Instant::now() + delay.min(MIN_RETRY_DELAY));
            delay
        });
        self.mark_after(key, delay);
        delay
    }

    /// How many keys are queued.
    pub fn depth(&self) -> usize {
        self.with(|state| state.due.times.len())
    }

    fn with<T>(&self, with: impl FnOnce(&mut State<Key>) -> T) -> T {
        with(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn key_marked_often_is_reconciled_once() {
        let queue = Queue::default();
        queue.mark("a");
        queue.mark("a");
        assert_eq!(queue.next().await, "a");
        assert_eq!(queue.next().now_or_never(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn key_marked_while_it_is_reconciled_is_queued_again() {
        let queue = Queue::default();
        queue.mark("a");
        let key = queue.next().await;
        queue.mark("a");
        queue.done(&key, Duration::ZERO);
        assert_eq!(queue.next().now_or_never(), Some("a"));
    }

    #[tokio::test(start_paused = true)]
    async fn delay_of_failures_doubles_up_to_a_minute() {
        let queue = Queue::default();
        let waits: Vec<Duration> = (0..13).map(|_| queue.failed("a")).collect();
        assert_eq!(waits[..3], [50, 100, 200].map(Duration::from_millis));
        assert_eq!(waits[11..], [MAX_RETRY_DELAY; 2]);
        queue.done(&"a", Duration::ZERO);
        assert_eq!(queue.failed("a"), INITIAL_RETRY_DELAY);
    }

    #[tokio::test(start_paused = true)]
    async fn change_ends_the_delay_of_a_failure_after_a_minimum() {
        let queue = Queue::default();
        for _ in 0..10 {
            queue.failed("a");
        }
        queue.mark("a");
        let start = Instant::now();
        assert_eq!(queue.next().await, "a");
        assert_eq!(start.elapsed(), MIN_RETRY_DELAY);
        queue.failed("b");
        queue.mark("b");
        assert_eq!(queue.next().now_or_never(), None);
        let start = Instant::now();
        assert_eq!(queue.next().await, "b");
        assert_eq!(start.elapsed(), INITIAL_RETRY_DELAY);
    }

    #[tokio::test(start_paused = true)]
    async fn minimum_interval_holds_against_any_mark() {
        let queue = Queue::default();
        queue.done(&"a", Duration::from_secs(1));
        queue.mark("a");
        assert_eq!(queue.next().now_or_never(), None);
        let start = Instant::now();
        assert_eq!(queue.next().await, "a");
        assert_eq!(start.elapsed(), Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn earliest_comes_first() {
        let queue = Queue::default();
        queue.mark_after("late", Duration::from_secs(9));
        queue.mark_after("soon", Duration::from_secs(3));
        assert_eq!(queue.next().await, "soon");
        assert_eq!(queue.next().await, "late");
    }

    #[tokio::test(start_paused = true)]
    async fn keys_that_are_never_marked_again_leave_nothing_behind() {
        let queue = Queue::default();
        for key in 0..1000 {
            queue.mark(key);
            assert_eq!(queue.next().await, key);
            queue.done(&key, Duration::from_millis(20));
            tokio::time::advance(Duration::from_millis(30)).await;
        }
        let held =
            queue.with(|state| (state.not_before.times.len(), state.not_before.keys.len(), state.failures.len()));
        assert_eq!(held, (1, 1, 0));
        assert_eq!(queue.depth(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn many_keys_are_returned_in_the_order_of_their_times_and_each_once() {
        let queue = Queue::default();
        // Marked at one time, then moved to an earlier one, in another order.
        for key in 0..500_u64 {
            queue.mark_after(key, Duration::from_secs(1000));
            queue.mark_after(key, Duration::from_secs(1 + (key * 7919) % 500));
        }
        let mut came = Vec::new();
        for _ in 0..500 {
            came.push((queue.next().await * 7919) % 500);
        }
        assert_eq!(came, (0..500).collect::<Vec<_>>());
        assert_eq!(queue.next().now_or_never(), None);
        assert!(queue.with(|state| state.due.keys.is_empty()));
    }
}
