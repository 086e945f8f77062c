//! Work on many things at once.

use std::num::NonZero;

/// Below this many things a thread costs more than it saves.
const WORTHWHILE: usize = 16;

/// The results of a function for each item, in order, computed on all cores.
pub fn map<'i, T: Sync, R: Send>(items: &'i [T], work: impl Fn(&'i T) -> R + Sync) -> Vec<R> {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    if cores == 1 || items.len() < WORTHWHILE {
        return items.iter().map(work).collect();
    }
    split(items, items.len().div_ceil(cores), &work)
}

/// As [`map`], for few items of which each is much work.
pub fn map_few<'i, T: Sync, R: Send>(items: &'i [T], work: impl Fn(&'i T) -> R + Sync) -> Vec<R> {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    if cores == 1 || items.len() < 2 {
        return items.iter().map(work).collect();
    }
    let next = std::sync::atomic::AtomicUsize::new(0);
    let mut results: Vec<(usize, R)> = std::thread::scope(|scope| {
        let worker = || {
            let mut done = Vec::new();
            loop {
                let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                match items.get(at) {
                    Some(item) => done.push((at, work(item))),
                    None => return done,
                }
            }
        };
        let threads: Vec<_> = (0..cores.min(items.len())).map(|_| scope.spawn(worker)).collect();
        threads.into_iter().flat_map(joined).collect()
    });
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

fn split<'i, T: Sync, R: Send>(items: &'i [T], size: usize, work: &(impl Fn(&'i T) -> R + Sync)) -> Vec<R> {
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            items.chunks(size).map(|chunk| scope.spawn(move || chunk.iter().map(work).collect::<Vec<R>>())).collect();
        threads.into_iter().flat_map(joined).collect()
    })
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
        let items: Vec<usize> = (0..1000).collect();
        let expected: Vec<usize> = items.iter().map(|i| i * 2).collect();
        assert_eq!(map(&items, |i| i * 2), expected);
        assert_eq!(map_few(&items, |i| i * 2), expected);
        assert_eq!(map(&items[..3], |i| i * 2), expected[..3]);
    }
}
