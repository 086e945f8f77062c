//! What a cache holds, and what of the news it believes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use kube::Resource;

use crate::cache::{Delta, Key};

/// The objects of one kind, as they were last heard of.
pub(crate) struct Holdings<K> {
    pub(crate) objects: BTreeMap<Key, Arc<K>>,
    /// The list under way, until it is whole.
    listed: Option<BTreeMap<Key, Arc<K>>>,
    /// What was written since that list was asked for.
    written: BTreeSet<Key>,
    /// The identities of objects that are gone, the latest last: the answer to a write of ours may come after the watch has
    /// told that its object is gone, and must not bring it back.
    gone: VecDeque<String>,
}

/// How many identities are remembered: many times what can be written at a time.
const REMEMBERED: usize = 4096;

impl<K> Default for Holdings<K> {
    fn default() -> Self {
        Holdings { objects: BTreeMap::new(), listed: None, written: BTreeSet::new(), gone: VecDeque::new() }
    }
}

impl<K: Resource> Holdings<K> {
    /// A new list is asked for.
    pub(crate) fn begin_list(&mut self) {
        self.listed = Some(BTreeMap::new());
        self.written.clear();
    }

    /// The list has this object.
    pub(crate) fn list(&mut self, object: K) {
        self.listed.get_or_insert_default().insert(Key::of(&object), Arc::new(object));
    }

    /// The answer to a write of ours.
    pub(crate) fn wrote(&mut self, object: K) -> Option<Delta<K>> {
        if self.is_gone(&object) {
            return None;
        }
        if self.listed.is_some() {
            self.written.insert(Key::of(&object));
        }
        self.apply(object)
    }

    /// The object is like this.
    pub(crate) fn apply(&mut self, object: K) -> Option<Delta<K>> {
        let key = Key::of(&object);
        let before = self.objects.get(&key).cloned();
        if before.as_deref().is_some_and(|before| !is_news(before, &object)) {
            return None;
        }
        let after = Arc::new(object);
        self.objects.insert(key, Arc::clone(&after));
        Some(Delta { before, after: Some(after) })
    }

    fn is_gone(&self, object: &K) -> bool {
        let is_held = self.objects.get(&Key::of(object)).is_some_and(|held| held.meta().uid == object.meta().uid);
        !is_held && object.meta().uid.as_ref().is_some_and(|uid| self.gone.contains(uid))
    }

    fn forget(&mut self, object: &K) {
        self.gone.extend(object.meta().uid.clone());
        let surplus = self.gone.len().saturating_sub(REMEMBERED);
        self.gone.drain(..surplus);
    }

    /// The object is gone.
    pub(crate) fn delete(&mut self, object: &K) -> Option<Delta<K>> {
        self.forget(object);
        let key = Key::of(object);
        // Another one is held where the object was made again before we heard of its end.
        let is_another = |held: &K| match (revision(held), revision(object)) {
            (Some(held), Some(gone)) => held > gone,
            _ => held.meta().uid != object.meta().uid,
        };
        if self.objects.get(&key).is_none_or(|held| is_another(held)) {
            return None;
        }
        let before = self.objects.remove(&key);
        Some(Delta { before, after: None })
    }

    /// The list is whole.
    pub(crate) fn end_list(&mut self) -> Vec<Delta<K>> {
        let Some(listed) = self.listed.take() else { return Vec::new() };
        let gone: Vec<Key> = self.objects.keys().filter(|key| !listed.contains_key(*key)).cloned().collect();
        for held in gone.iter().filter_map(|key| self.objects.get(key).cloned()).collect::<Vec<_>>() {
            self.forget(&held);
        }
        let mut deltas: Vec<Delta<K>> =
            gone.iter().map(|key| Delta { before: self.objects.remove(key), after: None }).collect();
        for (key, after) in listed {
            let before = self.objects.get(&key).cloned();
            let is_written = self.written.contains(&key);
            let stays = |before: &K| match is_written {
                true => !is_news(before, &*after),
                false => is_same(before, &*after),
            };
            if before.as_deref().is_some_and(stays) {
                continue;
            }
            self.objects.insert(key, Arc::clone(&after));
            deltas.push(Delta { before, after: Some(after) });
        }
        self.written.clear();
        deltas
    }
}

/// The revision as a number, so that later is greater. Kubernetes promises that since 1.35; before it was so as well.
pub(crate) fn revision<K: Resource>(object: &K) -> Option<u64> {
    object.meta().resource_version.as_deref()?.parse().ok()
}

/// Whether both are the same object in the same state.
fn is_same<K: Resource>(one: &K, other: &K) -> bool {
    let (one, other) = (one.meta(), other.meta());
    one.uid == other.uid && one.resource_version == other.resource_version
}

/// Whether what was heard is later than what is held. Revisions that are no numbers tell only whether it is something else:
/// that is taken in rather than missed.
fn is_news<K: Resource>(held: &K, heard: &K) -> bool {
    match (revision(held), revision(heard)) {
        (Some(held), Some(heard)) => held < heard,
        _ => !is_same(held, heard),
    }
}
