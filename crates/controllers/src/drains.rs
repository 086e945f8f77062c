//! What the drain controller knows of drains under way, for the MachineConfigNodes that tell of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use seaworthy_plan::eviction::Evictions;

/// What keeps the pods of nodes that are being drained. It can be worked out anew at any time.
#[derive(Clone, Default)]
pub struct Drains {
    under_way: Arc<Mutex<BTreeMap<String, Arc<Evictions>>>>,
}

impl Drains {
    /// What becomes of the pods of all nodes that are being drained, by node.
    pub fn all(&self) -> BTreeMap<String, Arc<Evictions>> {
        self.lock().clone()
    }

    /// The nodes that are being drained.
    pub fn nodes(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    /// Takes down what was found; `None` when the drain is over. Says whether that is new.
    pub fn note(&self, node: &str, found: Option<Evictions>) -> bool {
        let mut under_way = self.lock();
        match found {
            None => under_way.remove(node).is_some(),
            Some(found) => {
                let is_new = under_way.get(node).is_none_or(|old| **old != found);
                under_way.insert(node.to_owned(), Arc::new(found));
                is_new
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<Evictions>>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
