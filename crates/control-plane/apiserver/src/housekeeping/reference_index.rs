//! Index of owner references: one set of pairs, because most owners have one dependent.

use std::collections::BTreeSet;
use std::sync::Arc;

use seaworthy_store::Key;

/// Pairs of a uid and the key of an object that refers to it.
#[derive(Debug, Default)]
pub struct ReferenceIndex(BTreeSet<(Arc<str>, Key)>);

impl ReferenceIndex {
    pub fn insert(&mut self, uid: &str, key: &Key) {
        // References to the same uid share one allocation.
        let uid = self.pairs(uid).next().map_or_else(|| Arc::from(uid), |(known, _)| Arc::clone(known));
        self.0.insert((uid, key.clone()));
    }

    pub fn remove(&mut self, uid: &str, key: &Key) {
        self.0.remove(&(Arc::from(uid), key.clone()));
    }

    /// The objects that refer to a uid, in order.
    pub fn of(&self, uid: &str) -> impl Iterator<Item = &Key> {
        self.pairs(uid).map(|(_, key)| key)
    }

    /// Whether there is a reference to a uid.
    pub fn has(&self, uid: &str) -> bool {
        self.pairs(uid).next().is_some()
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn pairs(&self, uid: &str) -> impl Iterator<Item = &(Arc<str>, Key)> {
        let uid: Arc<str> = Arc::from(uid);
        // No key sorts before the empty one.
        self.0.range((Arc::clone(&uid), Key::new("", "", ""))..).take_while(move |(found, _)| *found == uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_found_by_whom_they_name_and_by_nothing_else() {
        let mut links = ReferenceIndex::default();
        let key = |name: &str| Key::new("core/pods", "n", name);
        for (uid, name) in [("b", "2"), ("a", "9"), ("b", "1"), ("bb", "3"), ("b", "1")] {
            links.insert(uid, &key(name));
        }
        assert_eq!(links.of("b").cloned().collect::<Vec<_>>(), [key("1"), key("2")]);
        assert!(links.has("a") && links.has("bb") && !links.has("") && !links.has("c"));
        links.remove("b", &key("1"));
        links.remove("b", &key("2"));
        assert!(!links.has("b") && links.has("bb"));
    }
}
