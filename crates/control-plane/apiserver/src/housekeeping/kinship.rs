//! Who depends on whom, by uid, kept up to date one event at a time.
//!
//! Only objects that have owners or that are taking leave of their dependents are in here. What one event costs grows
//! with what it concerns: an owner that goes touches its dependents, once; everything else touches its own references.

use std::collections::{BTreeSet, HashMap, HashSet};

use seaworthy_store::Key;

use super::links::Links;
use super::ties::{Parting, Ties};
use super::work::Work;

/// Who depends on whom.
#[derive(Debug, Default)]
pub struct Kinship {
    /// Objects that have owners, or that take leave.
    ties: HashMap<Key, Ties>,
    /// Who refers to an owner.
    dependents: Links,
    /// Those of them for which it waits in the foreground.
    blockers: Links,
    /// Owners that are taking leave.
    leaving: HashMap<String, (Key, Parting)>,
    /// Owners that were seen to go and that somebody still refers to: absent even if their kind went with them.
    gone: HashSet<String>,
}

impl Kinship {
    /// The most objects that are looked at in search of a circle.
    const LONGEST_SEARCH: usize = 4096;

    /// Takes over an object's state, and says what to look at because of it.
    pub fn set(&mut self, key: &Key, ties: Ties) -> Vec<Work> {
        let mut works = Vec::new();
        let old = match self.ties.get(key) {
            Some(old) if *old == ties => return works,
            // The name is the same, the object is not.
            Some(old) if old.uid != ties.uid => {
                let uid = old.uid.clone();
                works.extend(self.remove(key, &uid));
                None
            }
            _ => self.ties.remove(key),
        };
        self.relink(key, old.as_ref(), Some(&ties), &mut works);
        match ties.parting() {
            None => {
                self.leaving.remove(&ties.uid);
            }
            Some(parting) => {
                let before = self.leaving.insert(ties.uid.clone(), (key.clone(), parting));
                if before.is_none_or(|(_, before)| before != parting) {
                    works.extend(self.dependents_of(&ties.uid).cloned().map(Work::Dependent));
                    works.push(Work::Owner(ties.uid.clone()));
                }
            }
        }
        if !ties.owners().is_empty() {
            works.push(Work::Dependent(key.clone()));
        }
        if !ties.owners().is_empty() || ties.parting().is_some() {
            self.ties.insert(key.clone(), ties);
        }
        works
    }

    /// Forgets an object that is gone, and says what to look at because of it.
    pub fn remove(&mut self, key: &Key, uid: &str) -> Vec<Work> {
        let mut works = Vec::new();
        if self.ties.get(key).is_some_and(|ties| ties.uid == uid) {
            let old = self.ties.remove(key);
            self.relink(key, old.as_ref(), None, &mut works);
        }
        self.leaving.remove(uid);
        if self.dependents.has(uid) {
            self.gone.insert(uid.to_owned());
            works.extend(self.dependents_of(uid).cloned().map(Work::Dependent));
        }
        works
    }

    /// Exchanges an object's references, and looks after owners for which that was the last one.
    fn relink(&mut self, key: &Key, old: Option<&Ties>, new: Option<&Ties>, works: &mut Vec<Work>) {
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
            left.into_iter().filter(|uid| self.released(uid).is_some()).map(|uid| Work::Owner((*uid).to_owned())),
        );
    }

    /// Who refers to an owner.
    pub fn dependents_of(&self, uid: &str) -> impl Iterator<Item = &Key> {
        self.dependents.of(uid)
    }

    /// Whether anybody refers to an owner.
    pub fn has_dependents(&self, uid: &str) -> bool {
        self.dependents.has(uid)
    }

    /// Whether an owner was seen to go.
    pub fn is_gone(&self, uid: &str) -> bool {
        self.gone.contains(uid)
    }

    /// An owner that took leave of all dependents it waits for: where it is, and what may let go of it.
    pub fn released(&self, uid: &str) -> Option<(&Key, Parting)> {
        let (key, parting) = self.leaving.get(uid)?;
        let waits_for = match parting {
            Parting::Foreground => &self.blockers,
            Parting::Orphan => &self.dependents,
        };
        (!waits_for.has(uid)).then_some((key, *parting))
    }

    /// Whether an object that goes in the foreground waits, by way of others that do, for itself.
    pub fn is_in_circle(&self, key: &Key, uid: &str) -> bool {
        let mut seen = HashSet::new();
        let mut open = vec![uid];
        while let Some(uid) = open.pop() {
            if !matches!(self.leaving.get(uid), Some((_, Parting::Foreground))) {
                continue;
            }
            for blocker in self.blockers.of(uid) {
                if blocker == key {
                    return true;
                }
                if seen.len() < Self::LONGEST_SEARCH && seen.insert(blocker) {
                    open.extend(self.ties.get(blocker).map(|ties| ties.uid.as_str()));
                }
            }
        }
        false
    }
}

/// The owners of an object, and those that wait for it.
fn references(ties: Option<&Ties>) -> (BTreeSet<&str>, BTreeSet<&str>) {
    let (mut owners, mut blocked) = (BTreeSet::new(), BTreeSet::new());
    for owner in ties.map(Ties::owners).unwrap_or_default() {
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

    use super::super::ties::tests::ties;
    use super::*;

    fn key(name: &str) -> Key {
        Key::new("core/configmaps", "n", name)
    }

    /// An object whose uid is its name, owned by these, all of them blocked.
    fn owned(name: &str, owners: &[&str], finalizer: Option<&str>) -> Ties {
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
        ties(metadata)
    }

    const FOREGROUND: Option<&str> = Some("foregroundDeletion");

    #[test]
    fn owner_that_goes_brings_up_its_dependents_and_is_remembered_while_they_refer_to_it() {
        let mut kinship = Kinship::default();
        assert_eq!(kinship.set(&key("a"), owned("a", &["o"], None)), [Work::Dependent(key("a"))]);
        assert_eq!(kinship.remove(&key("o"), "o"), [Work::Dependent(key("a"))]);
        assert!(kinship.is_gone("o"));
        assert_eq!(kinship.set(&key("a"), owned("a", &[], None)), []);
        assert!(!kinship.is_gone("o") && kinship.ties.is_empty() && kinship.dependents.is_empty());
    }

    #[test]
    fn change_that_concerns_no_reference_brings_nothing_up() {
        let mut kinship = Kinship::default();
        kinship.set(&key("a"), owned("a", &["o"], None));
        assert_eq!(kinship.set(&key("a"), owned("a", &["o"], None)), []);
        assert_eq!(kinship.set(&key("o"), owned("o", &[], None)), []);
    }

    #[test]
    fn owner_in_the_foreground_is_released_by_its_last_blocker() {
        let mut kinship = Kinship::default();
        kinship.set(&key("a"), owned("a", &["o"], None));
        kinship.set(&key("b"), owned("b", &["o"], None));
        let begun = kinship.set(&key("o"), owned("o", &[], FOREGROUND));
        assert_eq!(begun, [Work::Dependent(key("a")), Work::Dependent(key("b")), Work::Owner("o".to_owned())]);
        assert_eq!(kinship.released("o"), None);
        assert_eq!(kinship.remove(&key("a"), "a"), []);
        assert_eq!(kinship.remove(&key("b"), "b"), [Work::Owner("o".to_owned())]);
        assert_eq!(kinship.released("o"), Some((&key("o"), Parting::Foreground)));
    }

    #[test]
    fn circle_is_found_once_all_of_it_waits() {
        let mut kinship = Kinship::default();
        kinship.set(&key("a"), owned("a", &["c"], FOREGROUND));
        kinship.set(&key("b"), owned("b", &["a"], FOREGROUND));
        assert!(!kinship.is_in_circle(&key("b"), "b"));
        kinship.set(&key("c"), owned("c", &["b"], FOREGROUND));
        assert!(["a", "b", "c"].iter().all(|name| kinship.is_in_circle(&key(name), name)));
    }

    #[test]
    fn object_that_owns_itself_is_a_circle() {
        let mut kinship = Kinship::default();
        kinship.set(&key("a"), owned("a", &["a"], FOREGROUND));
        assert_eq!(kinship.released("a"), None);
        assert!(kinship.is_in_circle(&key("a"), "a"));
    }

    #[test]
    fn other_object_by_the_same_name_is_another_one() {
        let mut kinship = Kinship::default();
        kinship.set(&key("x"), owned("first", &["o"], None));
        kinship.set(&key("d"), owned("d", &["first"], None));
        let works = kinship.set(&key("x"), owned("second", &["o"], None));
        assert_eq!(works, [Work::Dependent(key("d")), Work::Dependent(key("x"))]);
        assert!(kinship.is_gone("first"));
    }
}
