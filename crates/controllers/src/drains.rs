//! What the drain controller knows of drains under way, for the MachineConfigNodes that tell of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The nodes that are being drained, and what is in the way. It can be worked out anew at any time.
#[derive(Clone, Default)]
pub struct Drains {
    under_way: Arc<Mutex<BTreeMap<String, Option<Arc<str>>>>>,
}

impl Drains {
    /// What is in the way of drains, by node.
    pub fn hindrances(&self) -> BTreeMap<String, Arc<str>> {
        let found = |(node, said): (&String, &Option<Arc<str>>)| Some((node.clone(), Arc::clone(said.as_ref()?)));
        self.lock().iter().filter_map(found).collect()
    }

    /// The nodes that are being drained.
    pub fn nodes(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    /// Takes down that a drain is under way, and what is in its way. Says whether that is new.
    pub fn note(&self, node: &str, hindrance: Option<&str>) -> bool {
        let mut under_way = self.lock();
        let known = under_way.entry(node.to_owned()).or_default();
        let is_new = known.as_deref() != hindrance;
        if is_new {
            *known = hindrance.map(Arc::from);
        }
        is_new
    }

    /// Takes down that a drain is over. Says whether something was in its way.
    pub fn forget(&self, node: &str) -> bool {
        self.lock().remove(node).flatten().is_some()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Option<Arc<str>>>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
