//! Active drains: the drains in progress and their blockers, which MachineConfigNodes report.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

/// The nodes that are being drained, and their blockers. Kept in memory: it can be computed again at any time.
#[derive(Clone, Default)]
pub struct ActiveDrains {
    drains: Arc<Mutex<BTreeMap<String, Drain>>>,
}

#[derive(Default)]
struct Drain {
    blocker: Option<Arc<str>>,
    /// When a pod was last evicted, or when the drain was first seen.
    last_progress: Option<Timestamp>,
}

impl ActiveDrains {
    /// The blockers of drains, by node.
    pub fn blockers(&self) -> BTreeMap<String, Arc<str>> {
        let found = |(node, drain): (&String, &Drain)| Some((node.clone(), Arc::clone(drain.blocker.as_ref()?)));
        self.lock().iter().filter_map(found).collect()
    }

    pub fn nodes(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    /// When a drain last made progress, as far as this process knows. A drain that it sees for the first time counts as having
    /// made progress now, unless it is known to be blocked.
    pub fn last_progress(&self, node: &str, is_blocked: bool, now: Timestamp) -> Option<Timestamp> {
        let first = || Drain { blocker: None, last_progress: (!is_blocked).then_some(now) };
        self.lock().entry(node.to_owned()).or_insert_with(first).last_progress
    }

    /// Records that a pod was evicted.
    pub fn record_eviction(&self, node: &str, now: Timestamp) {
        self.lock().entry(node.to_owned()).or_default().last_progress = Some(now);
    }

    /// Records the blocker of a drain. Returns whether it has changed.
    pub fn set_blocker(&self, node: &str, blocker: Option<&str>) -> bool {
        let mut drains = self.lock();
        let known = &mut drains.entry(node.to_owned()).or_default().blocker;
        let is_new = known.as_deref() != blocker;
        if is_new {
            *known = blocker.map(Arc::from);
        }
        is_new
    }

    /// Removes a drain that is finished. Returns whether it had a blocker.
    pub fn finish(&self, node: &str) -> bool {
        self.lock().remove(node).is_some_and(|drain| drain.blocker.is_some())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Drain>> {
        self.drains.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drain_makes_progress_when_it_is_first_seen_and_with_every_eviction() {
        let drains = ActiveDrains::default();
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        assert_eq!(drains.last_progress("w1", false, at(1)), Some(at(1)));
        assert_eq!(drains.last_progress("w1", false, at(2)), Some(at(1)), "a check is no progress");
        drains.record_eviction("w1", at(3));
        assert_eq!(drains.last_progress("w1", false, at(4)), Some(at(3)));
        assert_eq!(drains.last_progress("w2", true, at(4)), None, "the previous leader has found it blocked");
        assert!(drains.set_blocker("w1", Some("a")) && !drains.set_blocker("w1", Some("a")));
        assert_eq!(drains.last_progress("w1", false, at(5)), Some(at(3)));
        assert!(drains.finish("w1") && !drains.finish("w1"));
        assert_eq!(drains.last_progress("w1", false, at(6)), Some(at(6)));
    }
}
