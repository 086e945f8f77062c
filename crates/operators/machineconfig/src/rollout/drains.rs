//! What the drain controller knows of drains under way, for the MachineConfigNodes that tell of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

/// The nodes that are being drained, and what is in the way. It can be worked out anew at any time.
#[derive(Clone, Default)]
pub struct Drains {
    under_way: Arc<Mutex<BTreeMap<String, Drain>>>,
}

#[derive(Default)]
struct Drain {
    /// What is in its way.
    hindrance: Option<Arc<str>>,
    /// When a pod was let go last, or when it was first looked at.
    moved: Option<Timestamp>,
}

impl Drains {
    /// What is in the way of drains, by node.
    pub fn hindrances(&self) -> BTreeMap<String, Arc<str>> {
        let found = |(node, drain): (&String, &Drain)| Some((node.clone(), Arc::clone(drain.hindrance.as_ref()?)));
        self.lock().iter().filter_map(found).collect()
    }

    /// The nodes that are being drained.
    pub fn nodes(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    /// When a drain last got on, as far as this process knows. One that it looks at for the first time has just got on, unless
    /// it is known to be blocked.
    pub fn moved(&self, node: &str, is_blocked: bool, now: Timestamp) -> Option<Timestamp> {
        let first = || Drain { hindrance: None, moved: (!is_blocked).then_some(now) };
        self.lock().entry(node.to_owned()).or_insert_with(first).moved
    }

    /// Takes down that a pod was let go.
    pub fn evicted(&self, node: &str, now: Timestamp) {
        self.lock().entry(node.to_owned()).or_default().moved = Some(now);
    }

    /// Takes down what is in the way of a drain. Says whether that is new.
    pub fn note(&self, node: &str, hindrance: Option<&str>) -> bool {
        let mut under_way = self.lock();
        let known = &mut under_way.entry(node.to_owned()).or_default().hindrance;
        let is_new = known.as_deref() != hindrance;
        if is_new {
            *known = hindrance.map(Arc::from);
        }
        is_new
    }

    /// Takes down that a drain is over. Says whether something was in its way.
    pub fn forget(&self, node: &str) -> bool {
        self.lock().remove(node).is_some_and(|drain| drain.hindrance.is_some())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Drain>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drain_gets_on_when_it_is_found_and_with_every_pod_that_leaves() {
        let drains = Drains::default();
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        assert_eq!(drains.moved("w1", false, at(1)), Some(at(1)));
        assert_eq!(drains.moved("w1", false, at(2)), Some(at(1)), "to look is not to get on");
        drains.evicted("w1", at(3));
        assert_eq!(drains.moved("w1", false, at(4)), Some(at(3)));
        assert_eq!(drains.moved("w2", true, at(4)), None, "whoever led before has found it blocked");
        assert!(drains.note("w1", Some("a")) && !drains.note("w1", Some("a")));
        assert_eq!(drains.moved("w1", false, at(5)), Some(at(3)));
        assert!(drains.forget("w1") && !drains.forget("w1"));
        assert_eq!(drains.moved("w1", false, at(6)), Some(at(6)));
    }
}
