//! Parallel work on all cores: `map` for many items, `two_steps` for a few large ones.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZero;
use std::sync::{Mutex, PoisonError, mpsc};

/// How many items a thread takes at a time: with fewer, threads wait for each other; with more, one thread is left alone
/// with the last ones.
pub const BATCH: usize = 16;

/// The results of a function for each item, in order, computed on all cores.
///
/// A thread takes `batch` items at a time, and what the iterator does to find them is done by the same threads.
pub fn map<T: Send, R: Send>(
    items: impl Iterator<Item = T> + Send,
    batch: usize,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let cores = cores();
    // Below this many things a thread costs more than it saves.
    if cores == 1 || items.size_hint().1.is_some_and(|most| most <= batch) {
        return items.map(work).collect();
    }
    let source = Mutex::new((0, items));
    let worker = || {
        let mut done: Vec<(usize, Vec<R>)> = Vec::new();
        loop {
            let (nth, taken) = {
                let mut source = lock(&source);
                source.0 += 1;
                (source.0, source.1.by_ref().take(batch).collect::<Vec<T>>())
            };
            if taken.is_empty() {
                return done;
            }
            done.push((nth, taken.into_iter().map(&work).collect()));
        }
    };
    let mut results = std::thread::scope(|scope| {
        let others: Vec<_> = (1..cores).map(|_| scope.spawn(worker)).collect();
        let mut results = worker();
        results.extend(others.into_iter().flat_map(joined));
        results
    });
    results.sort_by_key(|(nth, _)| *nth);
    results.into_iter().flat_map(|(_, results)| results).collect()
}

/// Two steps for each of a few items of which each is much work. Results are handed over in order, each as soon as it is
/// there, while the threads go on with the rest.
///
/// The second step of one item runs beside the first step of another: three items keep two cores busy, which they would
/// not if the steps were one, or if one step waited for all of the other.
pub fn two_steps<'i, T: Sync, M: Send, R: Send, E>(
    items: &'i [T],
    first: impl Fn(&'i T) -> M + Sync,
    second: impl Fn(M) -> R + Sync,
    mut hand_over: impl FnMut(R) -> Result<(), E>,
) -> Result<(), E> {
    let cores = cores();
    if cores == 1 || items.len() < 2 {
        return items.iter().try_for_each(|item| hand_over(second(first(item))));
    }
    enum Step<M> {
        First(usize),
        Second(usize, M),
    }
    let steps: Mutex<VecDeque<Step<M>>> = Mutex::new((0..items.len()).map(Step::First).collect());
    std::thread::scope(|scope| {
        let (sender, results) = mpsc::channel();
        for _ in 0..cores.min(items.len()) {
            let (steps, first, second, sender) = (&steps, &first, &second, sender.clone());
            // A thread that finds no step may end: the thread that runs a first step takes the second one too.
            scope.spawn(move || {
                while let Some(step) = { lock(steps).pop_front() } {
                    match step {
                        Step::First(at) => {
                            let between = first(&items[at]);
                            lock(steps).push_back(Step::Second(at, between));
                        }
                        // The receiver is gone if handing over has failed.
                        Step::Second(at, between) => drop(sender.send((at, second(between)))),
                    }
                }
            });
        }
        drop(sender);
        let mut waiting = BTreeMap::new();
        let mut next = 0;
        for (at, result) in results {
            waiting.insert(at, result);
            while let Some(result) = waiting.remove(&next) {
                if let Err(error) = hand_over(result) {
                    lock(&steps).clear();
                    return Err(error);
                }
                next += 1;
            }
        }
        Ok(())
    })
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// A thread that panicked while it held the lock takes the program down anyway.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a thread computed. A panic in it goes on in the caller, as it would without threads.
fn joined<R>(thread: std::thread::ScopedJoinHandle<'_, R>) -> R {
    match thread.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items() {
        let expected: Vec<usize> = (0..1000).map(|i| i * 2).collect();
        for batch in [1, 3, BATCH, 999, 1000, 2000] {
            assert_eq!(map(0..1000, batch, |i| i * 2), expected);
        }
        assert_eq!(map(0..0, 1, |i: usize| i), Vec::<usize>::new());
    }

    #[test]
    fn results_of_two_steps_are_handed_over_in_the_order_of_the_items() {
        for count in [0, 1, 2, 3, 100] {
            let items: Vec<usize> = (0..count).collect();
            let mut results = Vec::new();
            let hand_over = |result| {
                results.push(result);
                Ok::<(), ()>(())
            };
            let done = two_steps(&items, |i| i * 2, |doubled| doubled + 1, hand_over);
            assert_eq!(done, Ok(()));
            assert_eq!(results, items.iter().map(|i| i * 2 + 1).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_result_that_cannot_be_handed_over_ends_the_work() {
        let items: Vec<usize> = (0..100).collect();
        let mut taken = 0;
        let done = two_steps(
            &items,
            |i| *i,
            |i| i,
            |i| {
                taken += 1;
                if i == 3 { Err("full") } else { Ok(()) }
            },
        );
        assert_eq!((done, taken), (Err("full"), 4));
    }
}
