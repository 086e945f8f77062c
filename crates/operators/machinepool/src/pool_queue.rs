//! Pool queue: the pools that are to be reconciled, divided among several workers.
//!
//! A pool has always the same worker, so that it is never reconciled twice at a time; a write that takes long holds up the pools of
//! one worker only.

use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::time::Duration;

use seaworthy_runtime::{Key, Queue};

/// How many pools are reconciled at a time.
const WORKERS: usize = 16;

#[derive(Debug)]
pub struct PoolQueue([Queue<Key>; WORKERS]);

impl Default for PoolQueue {
    fn default() -> Self {
        PoolQueue(std::array::from_fn(|_| Queue::default()))
    }
}

impl PoolQueue {
    /// Has a pool reconciled as soon as possible.
    pub fn mark(&self, pool: Key) {
        self.of(&pool).mark(pool);
    }

    /// Has a pool reconciled after a delay, or sooner if it is marked again.
    pub fn mark_after(&self, pool: Key, delay: Duration) {
        self.of(&pool).mark_after(pool, delay);
    }

    /// The queue of each worker.
    pub fn workers(&self) -> impl Iterator<Item = &Queue<Key>> {
        self.0.iter()
    }

    fn of(&self, pool: &Key) -> &Queue<Key> {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(pool);
        // Less than the number of workers, so it fits.
        &self.0[usize::try_from(hash % WORKERS as u64).unwrap_or_default()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_are_divided_and_each_stays_with_its_worker() {
        let queue = PoolQueue::default();
        let pool = |nth: usize| Key { namespace: "a".to_owned(), name: format!("p{nth}") };
        for nth in (0..1000).chain(0..1000) {
            queue.mark(pool(nth));
        }
        let depths: Vec<usize> = queue.workers().map(Queue::depth).collect();
        assert_eq!(depths.iter().sum::<usize>(), 1000);
        assert!(depths.iter().all(|depth| *depth > 20), "{depths:?}");
    }
}
