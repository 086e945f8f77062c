//! Cache state: the objects that a cache holds, and which events change them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use kube::Resource;

use crate::cache::{Delta, Key};

/// The objects of one kind, as they were last observed.
pub(crate) struct CacheState<K> {
    pub(crate) objects: BTreeMap<Key, Arc<K>>,
    /// The list in progress, until it is complete.
    listed: Option<BTreeMap<Key, Arc<K>>>,
    /// What was written since that list was requested.
    written: BTreeSet<Key>,
    /// The uids of deleted objects, the latest last: the response to a write of this process may arrive after the deletion
    /// event of its object, and must not restore it.
    deleted_uids: VecDeque<String>,
}

/// Many times what can be written at a time.
const MAX_DELETED_UIDS: usize = 4096;

impl<K> Default for CacheState<K> {
    fn default() -> Self {
        CacheState { objects: BTreeMap::new(), listed: None, written: BTreeSet::new(), deleted_uids: VecDeque::new() }
    }
}

impl<K: Resource> CacheState<K> {
    pub(crate) fn begin_list(&mut self) {
        self.listed = Some(BTreeMap::new());
        self.written.clear();
    }

    pub(crate) fn list(&mut self, object: K) {
        self.listed.get_or_insert_default().insert(Key::of(&object), Arc::new(object));
    }

    /// Applies the response to a write of this process.
    pub(crate) fn record_write(&mut self, object: K) -> Option<Delta<K>> {
        if self.was_deleted(&object) {
            return None;
        }
        if self.listed.is_some() {
            self.written.insert(Key::of(&object));
        }
        self.apply(object)
    }

    pub(crate) fn apply(&mut self, object: K) -> Option<Delta<K>> {
        let key = Key::of(&object);
        let before = self.objects.get(&key).cloned();
        if before.as_deref().is_some_and(|before| !is_newer(before, &object)) {
            return None;
        }
        let after = Arc::new(object);
        self.objects.insert(key, Arc::clone(&after));
        Some(Delta { before, after: Some(after) })
    }

    fn was_deleted(&self, object: &K) -> bool {
        let is_held = self.objects.get(&Key::of(object)).is_some_and(|held| held.meta().uid == object.meta().uid);
        !is_held && object.meta().uid.as_ref().is_some_and(|uid| self.deleted_uids.contains(uid))
    }

    fn record_deletion(&mut self, object: &K) {
        self.deleted_uids.extend(object.meta().uid.clone());
        let surplus = self.deleted_uids.len().saturating_sub(MAX_DELETED_UIDS);
        self.deleted_uids.drain(..surplus);
    }

    pub(crate) fn delete(&mut self, object: &K) -> Option<Delta<K>> {
        self.record_deletion(object);
        let key = Key::of(object);
        // Another object is held where it was created again before its deletion event arrived.
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

    /// The list is complete: applies it.
    pub(crate) fn end_list(&mut self) -> Vec<Delta<K>> {
        let Some(listed) = self.listed.take() else { return Vec::new() };
        let gone: Vec<Key> = self.objects.keys().filter(|key| !listed.contains_key(*key)).cloned().collect();
        for held in gone.iter().filter_map(|key| self.objects.get(key).cloned()).collect::<Vec<_>>() {
            self.record_deletion(&held);
        }
        let mut deltas: Vec<Delta<K>> =
            gone.iter().map(|key| Delta { before: self.objects.remove(key), after: None }).collect();
        for (key, after) in listed {
            let before = self.objects.get(&key).cloned();
            let is_written = self.written.contains(&key);
            let stays = |before: &K| match is_written {
                true => !is_newer(before, &*after),
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

/// The resource version as a number, so that later is greater. Kubernetes guarantees that since 1.35, and it held before.
pub(crate) fn revision<K: Resource>(object: &K) -> Option<u64> {
    object.meta().resource_version.as_deref()?.parse().ok()
}

/// Whether both are the same object in the same state.
fn is_same<K: Resource>(one: &K, other: &K) -> bool {
    let (one, other) = (one.meta(), other.meta());
    one.uid == other.uid && one.resource_version == other.resource_version
}

/// Whether `received` is newer than `held`. Revisions that are no numbers can only be compared for equality: a different one
/// counts as newer, so that no change is missed.
fn is_newer<K: Resource>(held: &K, received: &K) -> bool {
    match (revision(held), revision(received)) {
        (Some(held), Some(received)) => held < received,
        _ => !is_same(held, received),
    }
}
