//! Owner graph: dependents by the uid of their owner, updated with each event.
//!
//! Contains only objects that have owners or that are being deleted with a deletion mode. An event costs as much as it
//! affects: a deleted owner touches its dependents once; everything else touches its own references.

use std::collections::{BTreeSet, HashMap, HashSet};

use seaworthy_store::Key;

use super::owner_refs::{DeletionMode, OwnerRefs};
use super::reference_index::ReferenceIndex;
use super::work_queue::WorkItem;

/// Objects and their owners.
#[derive(Debug, Default)]
pub struct OwnerGraph {
    /// Objects that have owners, or that are being deleted with a deletion mode.
    owner_refs: HashMap<Key, OwnerRefs>,
    /// Dependents by the uid of their owner.
    dependents: ReferenceIndex,
    /// Dependents that block a foreground deletion, by the uid of their owner.
    blockers: ReferenceIndex,
    /// Owners that are being deleted with a deletion mode, by uid.
    terminating: HashMap<String, (Key, DeletionMode)>,
    /// Deleted owners that still have dependents: absent even if their kind is no longer served.
    gone: HashSet<String>,
}

impl OwnerGraph {
    /// The most objects that a search for a cycle visits.
    const MAX_CYCLE_SEARCH: usize = 4096;

    /// Stores the state of an object. Returns the work that follows from the change.
    pub fn set(&mut self, key: &Key, owner_refs: OwnerRefs) -> Vec<WorkItem> {
        let mut works = Vec::new();
        let old = match self.owner_refs.get(key) {
            Some(old) if *old == owner_refs => return works,
            // Another object with the same name.
            Some(old) if old.uid != owner_refs.uid => {
                let uid = old.uid.clone();
                works.extend(self.remove(key, &uid));
                None
            }
            _ => self.owner_refs.remove(key),
        };
        self.relink(key, old.as_ref(), Some(&owner_refs), &mut works);
        match owner_refs.deletion_mode() {
            None => {
                self.terminating.remove(&owner_refs.uid);
            }
            Some(deletion_mode) => {
                let before = self.terminating.insert(owner_refs.uid.clone(), (key.clone(), deletion_mode));
                if before.is_none_or(|(_, before)| before != deletion_mode) {
                    works.extend(self.dependents_of(&owner_refs.uid).cloned().map(WorkItem::Dependent));
                    works.push(WorkItem::Owner(owner_refs.uid.clone()));
                }
            }
        }
        if !owner_refs.owners().is_empty() {
            works.push(WorkItem::Dependent(key.clone()));
        }
        if !owner_refs.owners().is_empty() || owner_refs.deletion_mode().is_some() {
            self.owner_refs.insert(key.clone(), owner_refs);
        }
        works
    }

    /// Removes a deleted object. Returns the work that follows.
    pub fn remove(&mut self, key: &Key, uid: &str) -> Vec<WorkItem> {
        let mut works = Vec::new();
        if self.owner_refs.get(key).is_some_and(|owner_refs| owner_refs.uid == uid) {
            let old = self.owner_refs.remove(key);
            self.relink(key, old.as_ref(), None, &mut works);
        }
        self.terminating.remove(uid);
        if self.dependents.has(uid) {
            self.gone.insert(uid.to_owned());
            works.extend(self.dependents_of(uid).cloned().map(WorkItem::Dependent));
        }
        works
    }

    /// Replaces the references of an object, and queues owners that have no blocking dependents left.
    fn relink(&mut self, key: &Key, old: Option<&OwnerRefs>, new: Option<&OwnerRefs>, works: &mut Vec<WorkItem>) {
        let (old_owners, old_blocked) = references(old);
        let (new_owners, new_blocked) = references(new);
        for uid in old_owners.difference(&new_owners) {
            self.dependents.remove(uid, key);
            if !self.dependents.has(uid) {
                self.gone.remove(*uid);
            }
        }
        for uid in old_blocked.difference(&new_blocked) {
            self.blockers.remove(uid, key);
        }
        for uid in new_owners.difference(&old_owners) {
            self.dependents.insert(uid, key);
        }
        for uid in new_blocked.difference(&old_blocked) {
            self.blockers.insert(uid, key);
        }
        let left: BTreeSet<&&str> =
            old_owners.difference(&new_owners).chain(old_blocked.difference(&new_blocked)).collect();
        works.extend(
            left.into_iter().filter(|uid| self.released(uid).is_some()).map(|uid| WorkItem::Owner((*uid).to_owned())),
        );
    }

    /// The dependents of an owner.
    pub fn dependents_of(&self, uid: &str) -> impl Iterator<Item = &Key> {
        self.dependents.of(uid)
    }

    /// Whether an owner has dependents.
    pub fn has_dependents(&self, uid: &str) -> bool {
        self.dependents.has(uid)
    }

    /// Whether an owner was deleted.
    pub fn is_gone(&self, uid: &str) -> bool {
        self.gone.contains(uid)
    }

    /// The key and deletion mode of a terminating owner that waits for no dependents any more.
    pub fn released(&self, uid: &str) -> Option<(&Key, DeletionMode)> {
        let (key, deletion_mode) = self.terminating.get(uid)?;
        let waits_for = match deletion_mode {
            DeletionMode::Foreground => &self.blockers,
            DeletionMode::Orphan => &self.dependents,
        };
        (!waits_for.has(uid)).then_some((key, *deletion_mode))
    }

    /// Whether an object in foreground deletion waits for itself through others in foreground deletion.
    pub fn is_in_cycle(&self, key: &Key, uid: &str) -> bool {
        let mut seen = HashSet::new();
        let mut open = vec![uid];
        while let Some(uid) = open.pop() {
            if !matches!(self.terminating.get(uid), Some((_, DeletionMode::Foreground))) {
                continue;
            }
            for blocker in self.blockers.of(uid) {
                if blocker == key {
                    return true;
                }
                if seen.len() < Self::MAX_CYCLE_SEARCH && seen.insert(blocker) {
                    open.extend(self.owner_refs.get(blocker).map(|owner_refs| owner_refs.uid.as_str()));
                }
            }
        }
        false
    }
}

/// The owners of an object, and those whose deletion it blocks.
fn references(owner_refs: Option<&OwnerRefs>) -> (BTreeSet<&str>, BTreeSet<&str>) {
    let (mut owners, mut blocked) = (BTreeSet::new(), BTreeSet::new());
    for owner in owner_refs.map(OwnerRefs::owners).unwrap_or_default() {
        owners.insert(owner.uid.as_str());
        if owner.blocks() {
            blocked.insert(owner.uid.as_str());
        }
    }
    (owners, blocked)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::owner_refs::tests::owner_refs;
    use super::*;

    fn key(name: &str) -> Key {
        Key::new("core/configmaps", "n", name)
    }

    /// An object whose uid is its name, with these owners, all of them blocked.
    fn owned(name: &str, owners: &[&str], finalizer: Option<&str>) -> OwnerRefs {
        let owners: Vec<_> = owners
            .iter()
            .map(|uid| {
                json!({"apiVersion": "v1", "kind": "ConfigMap", "name": uid, "uid": uid, "blockOwnerDeletion": true})
            })
            .collect();
        let mut metadata = json!({"uid": name, "ownerReferences": owners});
        if let Some(finalizer) = finalizer {
            metadata["finalizers"] = json!([finalizer]);
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        owner_refs(metadata)
    }

    const FOREGROUND: Option<&str> = Some("foregroundDeletion");

    #[test]
    fn owner_that_goes_brings_up_its_dependents_and_is_remembered_while_they_refer_to_it() {
        let mut owner_graph = OwnerGraph::default();
        assert_eq!(owner_graph.set(&key("a"), owned("a", &["o"], None)), [WorkItem::Dependent(key("a"))]);
        assert_eq!(owner_graph.remove(&key("o"), "o"), [WorkItem::Dependent(key("a"))]);
        assert!(owner_graph.is_gone("o"));
        assert_eq!(owner_graph.set(&key("a"), owned("a", &[], None)), []);
        assert!(!owner_graph.is_gone("o") && owner_graph.owner_refs.is_empty() && owner_graph.dependents.is_empty());
    }

    #[test]
    fn change_that_concerns_no_reference_brings_nothing_up() {
        let mut owner_graph = OwnerGraph::default();
        owner_graph.set(&key("a"), owned("a", &["o"], None));
        assert_eq!(owner_graph.set(&key("a"), owned("a", &["o"], None)), []);
        assert_eq!(owner_graph.set(&key("o"), owned("o", &[], None)), []);
    }

    #[test]
    fn owner_in_the_foreground_is_released_by_its_last_blocker() {
        let mut owner_graph = OwnerGraph::default();
        owner_graph.set(&key("a"), owned("a", &["o"], None));
        owner_graph.set(&key("b"), owned("b", &["o"], None));
        let begun = owner_graph.set(&key("o"), owned("o", &[], FOREGROUND));
        assert_eq!(
            begun,
            [WorkItem::Dependent(key("a")), WorkItem::Dependent(key("b")), WorkItem::Owner("o".to_owned())]
        );
        assert_eq!(owner_graph.released("o"), None);
        assert_eq!(owner_graph.remove(&key("a"), "a"), []);
        assert_eq!(owner_graph.remove(&key("b"), "b"), [WorkItem::Owner("o".to_owned())]);
        assert_eq!(owner_graph.released("o"), Some((&key("o"), DeletionMode::Foreground)));
    }

    #[test]
    fn circle_is_found_once_all_of_it_waits() {
        let mut owner_graph = OwnerGraph::default();
        owner_graph.set(&key("a"), owned("a", &["c"], FOREGROUND));
        owner_graph.set(&key("b"), owned("b", &["a"], FOREGROUND));
        assert!(!owner_graph.is_in_cycle(&key("b"), "b"));
        owner_graph.set(&key("c"), owned("c", &["b"], FOREGROUND));
        assert!(["a", "b", "c"].iter().all(|name| owner_graph.is_in_cycle(&key(name), name)));
    }

    #[test]
    fn object_that_owns_itself_is_a_circle() {
        let mut owner_graph = OwnerGraph::default();
        owner_graph.set(&key("a"), owned("a", &["a"], FOREGROUND));
        assert_eq!(owner_graph.released("a"), None);
        assert!(owner_graph.is_in_cycle(&key("a"), "a"));
    }

    #[test]
    fn other_object_by_the_same_name_is_another_one() {
        let mut owner_graph = OwnerGraph::default();
        owner_graph.set(&key("x"), owned("first", &["o"], None));
        owner_graph.set(&key("d"), owned("d", &["first"], None));
        let works = owner_graph.set(&key("x"), owned("second", &["o"], None));
        assert_eq!(works, [WorkItem::Dependent(key("d")), WorkItem::Dependent(key("x"))]);
        assert!(owner_graph.is_gone("first"));
    }
}
