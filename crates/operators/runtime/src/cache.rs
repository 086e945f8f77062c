//! Cache: the objects of one kind, kept current by one watch that all controllers share.
//!
//! - A cache does not go back while a watch goes on: an event older than what is held is ignored. So a controller that
//!   hands in the response to its own write ([`Cache::record_write`]) never decides on the state before it.
//! - A new list replaces what is held, older or not: a server may have been restored from a backup. Only what was written
//!   while the list was being made may be ahead of it.
//! - Listeners are called while the change is made, with the object before and after it; they only enqueue keys, so nothing
//!   is buffered for them.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, PoisonError, RwLock};

use futures::StreamExt as _;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::cache_state::CacheState;
use crate::client_error;
use crate::watched_object::WatchedObject;

/// Names an object among those of its kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    pub name: String,
}

impl Key {
    /// The key of a cluster-scoped object.
    pub fn cluster(name: impl Into<String>) -> Key {
        Key { namespace: String::new(), name: name.into() }
    }

    pub fn of<K: Resource>(object: &K) -> Key {
        Key { namespace: object.namespace().unwrap_or_default(), name: object.name_any() }
    }
}

/// One object before and after a change: created, changed or gone.
#[derive(Clone, Debug)]
pub struct Delta<K> {
    /// What was held before.
    pub before: Option<Arc<K>>,
    /// What is held now.
    pub after: Option<Arc<K>>,
}

impl<K> Delta<K> {
    /// Both sides, as far as there are any, for mappings to other objects.
    pub fn sides(&self) -> impl Iterator<Item = &Arc<K>> {
        self.before.iter().chain(&self.after)
    }
}

/// What to do when an object changes.
type Listener<K> = Box<dyn Fn(&Delta<K>) + Send + Sync>;

/// Reduces an object before it is held.
type Transform<K> = Box<dyn Fn(&mut K) + Send + Sync>;

/// All objects of one kind.
pub struct Cache<K> {
    state: RwLock<CacheState<K>>,
    listeners: RwLock<Vec<Listener<K>>>,
    synced: watch::Sender<bool>,
    transform: Transform<K>,
    /// The manager whose applied fields are held with each object.
    manager: Option<&'static str>,
}

impl<K> Default for Cache<K> {
    fn default() -> Self {
        Cache::with_transform(|_| {})
    }
}

impl<K> Cache<K> {
    /// `transform` reduces every object before it is held: it drops what no controller reads, or shares equal texts.
    pub fn with_transform(transform: impl Fn(&mut K) + Send + Sync + 'static) -> Self {
        Cache {
            state: RwLock::default(),
            listeners: RwLock::new(Vec::new()),
            synced: watch::Sender::new(false),
            transform: Box::new(transform),
            manager: None,
        }
    }

    /// Objects are held with the fields that this manager has applied, for a controller that has to remove what it does not apply
    /// any more.
    pub fn with_fields_of(manager: &'static str) -> Self {
        Cache { manager: Some(manager), ..Cache::default() }
    }
}

impl<K: Resource> Cache<K> {
    /// Calls `listener` for every object that is held, and for every change from now on.
    pub fn listen(&self, listener: impl Fn(&Delta<K>) + Send + Sync + 'static) {
        // The lock is held over both, so that no change falls between them.
        let mut listeners = self.listeners.write().unwrap_or_else(PoisonError::into_inner);
        for object in self.all() {
            listener(&Delta { before: None, after: Some(object) });
        }
        listeners.push(Box::new(listener));
    }

    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.read(|objects| objects.get(key).cloned())
    }

    /// The cluster-scoped object with this name.
    pub fn named(&self, name: &str) -> Option<Arc<K>> {
        self.get(&Key::cluster(name))
    }

    /// All objects, by namespace and name.
    pub fn all(&self) -> Vec<Arc<K>> {
        self.read(|objects| objects.values().cloned().collect())
    }

    /// Those objects for which `keep` holds, by namespace and name.
    pub fn filter(&self, keep: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        self.read(|objects| objects.values().filter(|object| keep(object)).cloned().collect())
    }

    /// Waits until the first list is complete. A decision made before would take what is missing for deleted.
    pub async fn synced(&self) {
        // The sender lives in self, so waiting cannot fail.
        let _ = self.synced.subscribe().wait_for(|synced| *synced).await;
    }

    /// Whether the first list is complete.
    pub fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Holds the response to a write of this process, ahead of the watch.
    pub fn record_write(&self, mut object: K) {
        self.reduce(&mut object);
        self.change(|state| state.record_write(object).into_iter().collect());
    }

    /// Applies an event of the watch.
    pub fn apply_event(&self, event: watcher::Event<K>) {
        let is_complete = matches!(event, watcher::Event::InitDone);
        self.change(|state| match event {
            watcher::Event::Apply(object) => state.apply(object).into_iter().collect(),
            watcher::Event::Delete(object) => state.delete(&object).into_iter().collect(),
            watcher::Event::Init => {
                state.begin_list();
                Vec::new()
            }
            watcher::Event::InitApply(object) => {
                state.list(object);
                Vec::new()
            }
            watcher::Event::InitDone => state.end_list(),
        });
        if is_complete {
            self.synced.send_replace(true);
        }
    }

    /// Drops what no controller reads: an object that is held costs memory for as long as it exists.
    fn reduce(&self, object: &mut K) {
        let fields = object.meta_mut().managed_fields.take();
        if let (Some(manager), Some(mut fields)) = (self.manager, fields) {
            fields.retain(|entry| {
                entry.manager.as_deref() == Some(manager) && entry.operation.as_deref() == Some("Apply")
            });
            object.meta_mut().managed_fields = Some(fields);
        }
        (self.transform)(object);
    }

    fn change(&self, change: impl FnOnce(&mut CacheState<K>) -> Vec<Delta<K>>) {
        let listeners = self.listeners.read().unwrap_or_else(PoisonError::into_inner);
        let deltas = change(&mut self.state.write().unwrap_or_else(PoisonError::into_inner));
        for delta in &deltas {
            listeners.iter().for_each(|listener| listener(delta));
        }
    }

    fn read<T>(&self, read: impl FnOnce(&BTreeMap<Key, Arc<K>>) -> T) -> T {
        read(&self.state.read().unwrap_or_else(PoisonError::into_inner).objects)
    }
}

impl<K> Cache<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    /// Keeps the cache current for as long as it is polled. Errors of the watch are logged and retried; an object that cannot
    /// be read is logged, and what was held of it stays.
    pub async fn run(self: Arc<Self>, api: Api<WatchedObject<K>>, config: watcher::Config) {
        let mut events = std::pin::pin!(watcher(api, config).default_backoff());
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    if let Some(event) = self.readable(event) {
                        self.apply_event(event);
                    }
                }
                Err(error) => {
                    let error = client_error::watch_summary(&error);
                    tracing::warn!(kind = %K::kind(&()), error, "watch failed; retrying");
                }
            }
        }
    }

    fn readable(&self, event: watcher::Event<WatchedObject<K>>) -> Option<watcher::Event<K>> {
        let read = |object: WatchedObject<K>| match object {
            WatchedObject::Readable(mut object) => {
                self.reduce(&mut object);
                Some(object)
            }
            WatchedObject::Unreadable { metadata, error } => {
                let key = Key {
                    namespace: metadata.namespace.clone().unwrap_or_default(),
                    name: metadata.name.clone().unwrap_or_default(),
                };
                tracing::warn!(kind = %K::kind(&()), ?key, error, "cannot read object; ignoring it");
                self.get(&key).map(Arc::unwrap_or_clone)
            }
        };
        Some(match event {
            watcher::Event::Apply(object) => watcher::Event::Apply(read(object)?),
            watcher::Event::InitApply(object) => watcher::Event::InitApply(read(object)?),
            watcher::Event::Delete(object) => {
                let revision = object.meta().resource_version.clone();
                let mut gone = read(object)?;
                // The held object replaces the one that cannot be read; that it is deleted is certain.
                gone.meta_mut().resource_version = revision;
                watcher::Event::Delete(gone)
            }
            watcher::Event::Init => watcher::Event::Init,
            watcher::Event::InitDone => watcher::Event::InitDone,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use k8s_openapi::api::core::v1::ConfigMap;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
    use kube::core::ObjectMeta;
    use watcher::Event;

    use super::*;
    use crate::cache_state::revision;

    fn map(name: &str, revision: u64) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some("default".to_owned()),
                resource_version: Some(revision.to_string()),
                ..ObjectMeta::default()
            },
            ..ConfigMap::default()
        }
    }

    fn held(cache: &Cache<ConfigMap>) -> Vec<(String, u64)> {
        cache.all().iter().map(|object| (object.name_any(), revision(&**object).unwrap())).collect()
    }

    fn listed(objects: impl IntoIterator<Item = ConfigMap>) -> Cache<ConfigMap> {
        let cache = Cache::default();
        cache.apply_event(Event::Init);
        objects.into_iter().for_each(|object| cache.apply_event(Event::InitApply(object)));
        cache.apply_event(Event::InitDone);
        cache
    }

    #[test]
    fn list_is_visible_once_it_is_complete() {
        let cache = Cache::default();
        cache.apply_event(Event::Init);
        cache.apply_event(Event::InitApply(map("a", 1)));
        assert!(!cache.is_synced());
        assert_eq!(held(&cache), []);
        cache.apply_event(Event::InitDone);
        assert!(cache.is_synced());
        assert_eq!(held(&cache), [("a".to_owned(), 1)]);
    }

    fn with_uid(revision: u64, uid: &str) -> ConfigMap {
        let mut object = map("a", revision);
        object.metadata.uid = Some(uid.to_owned());
        object
    }

    fn relist(cache: &Cache<ConfigMap>, objects: impl IntoIterator<Item = ConfigMap>) {
        cache.apply_event(Event::Init);
        objects.into_iter().for_each(|object| cache.apply_event(Event::InitApply(object)));
        cache.apply_event(Event::InitDone);
    }

    #[test]
    fn list_of_a_restored_server_replaces_what_is_held() {
        let cache = listed([map("a", 8), map("b", 5)]);
        cache.record_write(map("a", 9));
        let reported = Arc::new(Mutex::new(Vec::new()));
        let report = Arc::clone(&reported);
        cache.listen(move |delta| report.lock().unwrap().extend(delta.after.as_deref().and_then(revision)));
        reported.lock().unwrap().clear();
        relist(&cache, [map("a", 3), map("b", 5)]);
        assert_eq!(held(&cache), [("a".to_owned(), 3), ("b".to_owned(), 5)]);
        assert_eq!(*reported.lock().unwrap(), [3], "what is unchanged is not reported");
        cache.apply_event(Event::Apply(map("a", 4)));
        assert_eq!(held(&cache)[0], ("a".to_owned(), 4), "later events continue from there");
        cache.apply_event(Event::Apply(map("a", 2)));
        assert_eq!(held(&cache)[0], ("a".to_owned(), 4), "a late event changes nothing");
    }

    #[test]
    fn listed_object_with_another_uid_replaces_the_held_one() {
        let cache = listed([with_uid(7, "first")]);
        relist(&cache, [with_uid(7, "second")]);
        assert_eq!(cache.all()[0].metadata.uid.as_deref(), Some("second"));
        relist(&cache, [with_uid(5, "first")]);
        assert_eq!(cache.all()[0].metadata.uid.as_deref(), Some("first"));
        assert_eq!(held(&cache), [("a".to_owned(), 5)]);
    }

    #[test]
    fn revisions_that_are_no_numbers_are_compared_for_equality() {
        let named = |revision: &str, uid: &str| {
            let mut object = with_uid(0, uid);
            object.metadata.resource_version = Some(revision.to_owned());
            object
        };
        let shown = |cache: &Cache<ConfigMap>| -> Vec<String> {
            cache.all().iter().filter_map(|object| object.metadata.resource_version.clone()).collect()
        };
        let cache = listed([named("x", "first")]);
        let count = Arc::new(Mutex::new(0));
        let counted = Arc::clone(&count);
        cache.listen(move |_| *counted.lock().unwrap() += 1);
        cache.apply_event(Event::Apply(named("x", "first")));
        assert_eq!(*count.lock().unwrap(), 1, "the same object is no change");
        cache.apply_event(Event::Apply(named("a", "first")));
        assert_eq!(shown(&cache), ["a"]);
        relist(&cache, [named("b", "first")]);
        assert_eq!(shown(&cache), ["b"]);
        cache.apply_event(Event::Delete(named("c", "other")));
        assert_eq!(shown(&cache), ["b"], "another object was deleted");
        cache.apply_event(Event::Delete(named("c", "first")));
        assert_eq!(shown(&cache), [""; 0]);
    }

    #[test]
    fn late_response_to_a_write_does_not_restore_a_deleted_object() {
        let cache = listed([with_uid(1, "first")]);
        cache.apply_event(Event::Delete(with_uid(5, "first")));
        cache.record_write(with_uid(4, "first"));
        assert_eq!(held(&cache), []);
        // Another object with the same name is held.
        cache.record_write(with_uid(7, "second"));
        assert_eq!(held(&cache), [("a".to_owned(), 7)]);
        // What a new list lacks is deleted too.
        cache.apply_event(Event::Init);
        cache.apply_event(Event::InitDone);
        cache.record_write(with_uid(8, "second"));
        assert_eq!(held(&cache), []);
    }

    #[test]
    fn own_write_is_visible_at_once_and_older_events_do_not_revert_it() {
        let cache = listed([map("a", 1)]);
        cache.record_write(map("a", 5));
        cache.apply_event(Event::Apply(map("a", 3)));
        assert_eq!(held(&cache), [("a".to_owned(), 5)]);
        cache.apply_event(Event::Apply(map("a", 6)));
        assert_eq!(held(&cache), [("a".to_owned(), 6)]);
    }

    #[test]
    fn own_write_is_transformed_as_watched_objects_are() {
        let cache = Cache::<ConfigMap>::with_transform(|map| map.data = None);
        let mut fat = map("a", 1);
        fat.data = Some(Default::default());
        fat.metadata.managed_fields = Some(Vec::new());
        cache.record_write(fat);
        assert_eq!(*cache.all()[0], map("a", 1));
    }

    #[test]
    fn fields_that_a_manager_has_applied_are_held_if_they_are_asked_for() {
        let entry = |manager: &str, operation: &str| ManagedFieldsEntry {
            manager: Some(manager.to_owned()),
            operation: Some(operation.to_owned()),
            ..ManagedFieldsEntry::default()
        };
        let mut written = map("a", 1);
        written.metadata.managed_fields =
            Some(vec![entry("mine", "Apply"), entry("mine", "Update"), entry("other", "Apply")]);
        let cache = Cache::<ConfigMap>::with_fields_of("mine");
        cache.record_write(written);
        assert_eq!(cache.all()[0].metadata.managed_fields, Some(vec![entry("mine", "Apply")]));
    }

    #[test]
    fn older_list_does_not_revert_an_own_write() {
        let cache = listed([map("a", 1)]);
        cache.apply_event(Event::Init);
        cache.apply_event(Event::InitApply(map("a", 1)));
        cache.record_write(map("a", 5));
        cache.apply_event(Event::InitDone);
        assert_eq!(held(&cache), [("a".to_owned(), 5)]);
    }

    #[test]
    fn object_missing_from_a_new_list_is_deleted() {
        let cache = listed([map("a", 1), map("b", 2)]);
        let gone = Arc::new(Mutex::new(Vec::new()));
        let report = Arc::clone(&gone);
        cache.listen(move |delta| {
            report.lock().unwrap().push((delta.before.as_ref().map(|object| object.name_any()), delta.after.is_some()));
        });
        gone.lock().unwrap().clear();
        cache.apply_event(Event::Init);
        cache.apply_event(Event::InitApply(map("b", 2)));
        cache.apply_event(Event::InitDone);
        assert_eq!(held(&cache), [("b".to_owned(), 2)]);
        assert_eq!(*gone.lock().unwrap(), [(Some("a".to_owned()), false)]);
    }

    #[test]
    fn late_deletion_event_does_not_remove_the_successor() {
        let cache = listed([map("a", 1)]);
        cache.record_write(map("a", 7));
        cache.apply_event(Event::Delete(map("a", 4)));
        assert_eq!(held(&cache), [("a".to_owned(), 7)]);
        cache.apply_event(Event::Delete(map("a", 9)));
        assert_eq!(held(&cache), []);
    }

    #[test]
    fn late_listener_is_called_for_held_objects() {
        let cache = listed([map("a", 1)]);
        let reported = Arc::new(Mutex::new(Vec::new()));
        let report = Arc::clone(&reported);
        cache.listen(move |delta| report.lock().unwrap().push((delta.before.is_some(), delta.after.is_some())));
        assert_eq!(*reported.lock().unwrap(), [(false, true)]);
    }

    #[test]
    fn listener_gets_both_sides_of_a_change() {
        let cache = listed([map("a", 1)]);
        let sides = Arc::new(Mutex::new(Vec::new()));
        let report = Arc::clone(&sides);
        cache.listen(move |delta| report.lock().unwrap().push(delta.sides().count()));
        cache.apply_event(Event::Apply(map("a", 2)));
        cache.apply_event(Event::Apply(map("b", 3)));
        cache.apply_event(Event::Apply(map("b", 3)));
        let sides = sides.lock().unwrap();
        assert_eq!(*sides, [1, 2, 1], "the held object, a change, a new object; the last event changes nothing");
    }
}
