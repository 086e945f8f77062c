//! What is to be looked at again, and when.
//!
//! A key is in the queue once, however often it is marked. One that fails comes back later and later; one that is marked
//! while it is being looked at is looked at again. Time is tokio's, so a test can hold it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
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
    due: BTreeMap<Key, Instant>,
    failures: BTreeMap<Key, u32>,
    /// No sooner than this, whoever marks the key: a busy pool is decided on at a bounded rate.
    not_before: BTreeMap<Key, Instant>,
}

impl<Key> Default for Queue<Key> {
    fn default() -> Self {
        let state = State { due: BTreeMap::new(), failures: BTreeMap::new(), not_before: BTreeMap::new() };
        Queue { state: Mutex::new(state), changed: Notify::new() }
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
            let floor = state.not_before.get(&key).copied().unwrap_or(time);
            let time = time.max(floor);
            state.due.entry(key).and_modify(|due| *due = (*due).min(time)).or_insert(time);
        });
        self.changed.notify_one();
    }

    /// The next key whose time has come. Waits for one.
    pub async fn next(&self) -> Key {
        loop {
            let next = self.with(|state| {
                let (key, due) = state.due.iter().min_by_key(|(_, due)| **due)?;
                if *due > Instant::now() {
                    return Some(Err(*due));
                }
                let key = key.clone();
                state.due.remove(&key);
                Some(Ok(key))
            });
            match next {
                Some(Ok(key)) => return key,
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
                return;
            }
            let floor = Instant::now() + rest;
            state.not_before.insert(key.clone(), floor);
            if let Some(due) = state.due.get_mut(key) {
                *due = (*due).max(floor);
            }
        });
    }

    /// It failed: it comes back after a wait that grows with every failure in a row. Says how long.
    pub fn failed(&self, key: Key) -> Duration {
        let wait = self.with(|state| {
            let failures = state.failures.entry(key.clone()).or_default();
            let wait = FIRST_RETRY.saturating_mul(1 << (*failures).min(16)).min(LAST_RETRY);
            *failures += 1;
            let floor = Instant::now() + wait.min(LEAST_RETRY);
            state.not_before.insert(key.clone(), floor);
            if let Some(due) = state.due.get_mut(&key) {
                *due = (*due).max(floor);
            }
            wait
        });
        self.mark_after(key, wait);
        wait
    }

    /// Forgets what is gone for good.
    pub fn forget(&self, key: &Key) {
        self.with(|state| {
            state.failures.remove(key);
            state.not_before.remove(key);
        });
    }

    /// How many keys wait.
    pub fn depth(&self) -> usize {
        self.with(|state| state.due.len())
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
}
