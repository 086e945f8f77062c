//! What is to be looked at again, and when.
//!
//! A key is in the queue once, however often it is marked. One that fails comes back later and later; one that is marked
//! while it is being looked at is looked at again. Time is tokio's, so a test can hold it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// The wait after a first failure; each further one doubles it.
const FIRST_RETRY: Duration = Duration::from_millis(50);
/// The longest wait between two tries. A minute bounds the writes and the log of what cannot be done.
const LAST_RETRY: Duration = Duration::from_secs(60);
/// A change ends the wait, but not before this. Two who see differently change things for each other: without it each of
/// them fails at once on what the other has just done.
const LEAST_RETRY: Duration = Duration::from_secs(1);

/// Keys with the time from which they may be looked at.
#[derive(Debug)]
pub struct Queue<Key> {
    state: Mutex<State<Key>>,
    changed: Notify,
}

#[derive(Debug)]
struct State<Key> {
    due: Timetable<Key>,
    failures: BTreeMap<Key, u32>,
    /// No sooner than this, whoever marks the key: a busy pool is decided on at a bounded rate.
    not_before: Timetable<Key>,
}

/// Keys, each with a time; found by either.
#[derive(Debug)]
struct Timetable<Key> {
    times: BTreeMap<Arc<Key>, Instant>,
    /// The same by time, so that the earliest of many is not searched for.
    keys: BTreeSet<(Instant, Arc<Key>)>,
}

impl<Key: Ord> Timetable<Key> {
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

    /// Drops what is over by now.
    fn pass(&mut self, now: Instant) {
        while let Some((_, key)) = self.first().filter(|(time, _)| *time <= now) {
            self.remove(&key);
        }
    }
}

impl<Key> Default for Timetable<Key> {
    fn default() -> Self {
        Timetable { times: BTreeMap::new(), keys: BTreeSet::new() }
    }
}

impl<Key> Default for Queue<Key> {
    fn default() -> Self {
        let state = State { due: Timetable::default(), failures: BTreeMap::new(), not_before: Timetable::default() };
        Queue { state: Mutex::new(state), changed: Notify::new() }
    }
}

impl<Key: Ord + Clone> State<Key> {
    /// Whatever is asked of this key waits until then. What others waited for and is over is forgotten, so that keys which
    /// are gone for good leave nothing behind.
    fn rest_until(&mut self, key: &Key, floor: Instant) {
        self.not_before.pass(Instant::now());
        self.not_before.set(key.clone(), floor);
        if self.due.get(key).is_some_and(|due| due < floor) {
            self.due.set(key.clone(), floor);
        }
    }
}

impl<Key: Ord + Clone> Queue<Key> {
    /// Have this looked at as soon as possible.
    pub fn mark(&self, key: Key) {
        self.mark_at(key, Instant::now());
    }

    /// Have this looked at after a while, or sooner if something else asks for it.
    pub fn mark_after(&self, key: Key, wait: Duration) {
        self.mark_at(key, Instant::now() + wait);
    }

    fn mark_at(&self, key: Key, time: Instant) {
        self.with(|state| {
            let time = state.not_before.get(&key).map_or(time, |floor| floor.max(time));
            if state.due.get(&key).is_none_or(|due| due > time) {
                state.due.set(key, time);
            }
        });
        self.changed.notify_one();
    }

    /// The next key whose time has come. Waits for one.
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

    /// It was looked at, with success; whatever is asked of it next waits at least `rest`.
    pub fn done(&self, key: &Key, rest: Duration) {
        self.with(|state| {
            state.failures.remove(key);
            if rest.is_zero() {
                state.not_before.remove(key);
            } else {
                state.rest_until(key, Instant::now() + rest);
            }
        });
    }

    /// It failed: it comes back after a wait that grows with every failure in a row. Says how long.
    pub fn failed(&self, key: Key) -> Duration {
        let wait = self.with(|state| {
            let failures = state.failures.entry(key.clone()).or_default();
            let wait = FIRST_RETRY.saturating_mul(1 << (*failures).min(16)).min(LAST_RETRY);
            *failures = failures.saturating_add(1);
            state.rest_until(&key, Instant::now() + wait.min(LEAST_RETRY));
            wait
        });
        self.mark_after(key, wait);
        wait
    }

    /// How many keys wait.
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
    async fn key_marked_often_is_looked_at_once() {
        let queue = Queue::default();
        queue.mark("a");
        queue.mark("a");
        assert_eq!(queue.next().await, "a");
        assert_eq!(queue.next().now_or_never(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn key_marked_while_it_is_looked_at_comes_again() {
        let queue = Queue::default();
        queue.mark("a");
        let key = queue.next().await;
        queue.mark("a");
        queue.done(&key, Duration::ZERO);
        assert_eq!(queue.next().now_or_never(), Some("a"));
    }

    #[tokio::test(start_paused = true)]
    async fn failures_wait_twice_as_long_each_time_up_to_a_minute() {
        let queue = Queue::default();
        let waits: Vec<Duration> = (0..13).map(|_| queue.failed("a")).collect();
        assert_eq!(waits[..3], [50, 100, 200].map(Duration::from_millis));
        assert_eq!(waits[11..], [LAST_RETRY; 2]);
        queue.done(&"a", Duration::ZERO);
        assert_eq!(queue.failed("a"), FIRST_RETRY);
    }

    #[tokio::test(start_paused = true)]
    async fn change_ends_the_wait_of_a_failure_but_for_a_rest() {
        let queue = Queue::default();
        for _ in 0..10 {
            queue.failed("a");
        }
        queue.mark("a");
        let start = Instant::now();
        assert_eq!(queue.next().await, "a");
        assert_eq!(start.elapsed(), LEAST_RETRY);
        queue.failed("b");
        queue.mark("b");
        assert_eq!(queue.next().now_or_never(), None);
        let start = Instant::now();
        assert_eq!(queue.next().await, "b");
        assert_eq!(start.elapsed(), FIRST_RETRY);
    }

    #[tokio::test(start_paused = true)]
    async fn rest_holds_against_any_mark() {
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
    async fn keys_that_never_come_again_leave_nothing_behind() {
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
    async fn many_keys_come_in_the_order_of_their_times_and_each_once() {
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
