//! What the API holds of one kind, as this process knows it: one watch per kind, shared by every controller.
//!
//! - A cache does not go back while a watch goes on: an event older than what is held is passed over. So a controller that
//!   hands in the answer to its own write ([`Cache::wrote`]) never decides on the state before it.
//! - A new list is the truth, older or not: a server may have been restored from a backup. Only what was written while the
//!   list was being made may be ahead of it.
//! - Listeners are told while the change is made, with the object before and after it; they only mark what is to be looked
//!   at again, so nothing is buffered for them.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, PoisonError, RwLock};

use futures::StreamExt as _;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::checked::Checked;
use crate::client_error;
use crate::holdings::Holdings;

/// Names an object among those of its kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Its namespace; empty for what belongs to the whole cluster.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Key {
    /// The key of something that belongs to the whole cluster.
    pub fn cluster(name: impl Into<String>) -> Key {
        Key { namespace: String::new(), name: name.into() }
    }

    /// The key of this object.
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
    /// Both sides, as far as there are any: what a mapping to other objects has to look at.
    pub fn sides(&self) -> impl Iterator<Item = &Arc<K>> {
        self.before.iter().chain(&self.after)
    }
}

/// What to do when an object changes.
type Listener<K> = Box<dyn Fn(&Delta<K>) + Send + Sync>;

/// Makes an object smaller before it is held.
type Slim<K> = Box<dyn Fn(&mut K) + Send + Sync>;

/// All objects of one kind.
pub struct Cache<K> {
    state: RwLock<Holdings<K>>,
    listeners: RwLock<Vec<Listener<K>>>,
    synced: watch::Sender<bool>,
    slim: Slim<K>,
}

impl<K> Default for Cache<K> {
    fn default() -> Self {
        Cache::slimmed(|_| {})
    }
}

impl<K> Cache<K> {
    /// `slim` makes every object smaller before it is held: it takes what nobody here reads, or shares what others say too.
    pub fn slimmed(slim: impl Fn(&mut K) + Send + Sync + 'static) -> Self {
        Cache {
            state: RwLock::default(),
            listeners: RwLock::new(Vec::new()),
            synced: watch::Sender::new(false),
            slim: Box::new(slim),
        }
    }
}

impl<K: Resource> Cache<K> {
    /// Has `listener` told of every change from now on, and of all that is there already.
    pub fn listen(&self, listener: impl Fn(&Delta<K>) + Send + Sync + 'static) {
        // The lock is held over both, so that no change falls between them.
        let mut listeners = self.listeners.write().unwrap_or_else(PoisonError::into_inner);
        for object in self.all() {
            listener(&Delta { before: None, after: Some(object) });
        }
        listeners.push(Box::new(listener));
    }

    /// The object with this key.
    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.read(|objects| objects.get(key).cloned())
    }

    /// The object of the whole cluster with this name.
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

    /// Waits until the first list is whole. A decision made before would take what is missing for gone.
    pub async fn synced(&self) {
        // The sender lives in self, so waiting cannot fail.
        let _ = self.synced.subscribe().wait_for(|synced| *synced).await;
    }

    /// Whether the first list is whole.
    pub fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Takes in the answer to a write of ours, ahead of the watch.
    pub fn wrote(&self, mut object: K) {
        self.strip(&mut object);
        self.change(|state| state.wrote(object).into_iter().collect());
    }

    /// Takes in what the watch says.
    pub fn follow(&self, event: watcher::Event<K>) {
        let is_whole = matches!(event, watcher::Event::InitDone);
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
        if is_whole {
            self.synced.send_replace(true);
        }
    }

    /// An object that is held costs memory for as long as it is there.
    fn strip(&self, object: &mut K) {
        object.meta_mut().managed_fields = None;
        (self.slim)(object);
    }

    fn change(&self, change: impl FnOnce(&mut Holdings<K>) -> Vec<Delta<K>>) {
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
    /// Keeps the cache true for as long as it is polled. Errors of the watch are logged and tried again; an object that
    /// cannot be read is logged, and what was held of it stays.
    pub async fn run(self: Arc<Self>, api: Api<Checked<K>>, config: watcher::Config) {
        let mut events = std::pin::pin!(watcher(api, config).default_backoff());
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    if let Some(event) = self.sound(event) {
                        self.follow(event);
                    }
                }
                Err(error) => {
                    let error = client_error::watch_summary(&error);
                    tracing::warn!(kind = %K::kind(&()), error, "the watch broke off and is tried again");
                }
            }
        }
    }

    fn sound(&self, event: watcher::Event<Checked<K>>) -> Option<watcher::Event<K>> {
        let read = |object: Checked<K>| match object {
            Checked::Sound(mut object) => {
                self.strip(&mut object);
                Some(object)
            }
            Checked::Unreadable { metadata, error } => {
                let key = Key {
                    namespace: metadata.namespace.clone().unwrap_or_default(),
                    name: metadata.name.clone().unwrap_or_default(),
                };
                tracing::warn!(kind = %K::kind(&()), ?key, error, "the object cannot be read and is passed over");
                self.get(&key).map(Arc::unwrap_or_clone)
            }
        };
        Some(match event {
            watcher::Event::Apply(object) => watcher::Event::Apply(read(object)?),
            watcher::Event::InitApply(object) => watcher::Event::InitApply(read(object)?),
            watcher::Event::Delete(object) => {
                let revision = object.meta().resource_version.clone();
                let mut gone = read(object)?;
                // What was held stands in for what cannot be read; that it is gone is certain.
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
    use kube::core::ObjectMeta;
    use watcher::Event;

    use super::*;
    use crate::holdings::revision;

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
        cache.follow(Event::Init);
        objects.into_iter().for_each(|object| cache.follow(Event::InitApply(object)));
        cache.follow(Event::InitDone);
        cache
    }

    #[test]
    fn list_is_seen_when_it_is_whole() {
        let cache = Cache::default();
        cache.follow(Event::Init);
        cache.follow(Event::InitApply(map("a", 1)));
        assert!(!cache.is_synced());
        assert_eq!(held(&cache), []);
        cache.follow(Event::InitDone);
        assert!(cache.is_synced());
        assert_eq!(held(&cache), [("a".to_owned(), 1)]);
    }

    fn with_uid(revision: u64, uid: &str) -> ConfigMap {
        let mut object = map("a", revision);
        object.metadata.uid = Some(uid.to_owned());
        object
    }

    fn relist(cache: &Cache<ConfigMap>, objects: impl IntoIterator<Item = ConfigMap>) {
        cache.follow(Event::Init);
        objects.into_iter().for_each(|object| cache.follow(Event::InitApply(object)));
        cache.follow(Event::InitDone);
    }

    #[test]
    fn list_of_a_restored_server_is_the_truth() {
        let cache = listed([map("a", 8), map("b", 5)]);
        cache.wrote(map("a", 9));
        let heard = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&heard);
        cache.listen(move |delta| told.lock().unwrap().extend(delta.after.as_deref().and_then(revision)));
        heard.lock().unwrap().clear();
        relist(&cache, [map("a", 3), map("b", 5)]);
        assert_eq!(held(&cache), [("a".to_owned(), 3), ("b".to_owned(), 5)]);
        assert_eq!(*heard.lock().unwrap(), [3], "what is as it was is not told");
        cache.follow(Event::Apply(map("a", 4)));
        assert_eq!(held(&cache)[0], ("a".to_owned(), 4), "it goes on from there");
        cache.follow(Event::Apply(map("a", 2)));
        assert_eq!(held(&cache)[0], ("a".to_owned(), 4), "a late event changes nothing");
    }

    #[test]
    fn listed_object_with_another_identity_takes_the_place_of_what_is_held() {
        let cache = listed([with_uid(7, "first")]);
        relist(&cache, [with_uid(7, "second")]);
        assert_eq!(cache.all()[0].metadata.uid.as_deref(), Some("second"));
        relist(&cache, [with_uid(5, "first")]);
        assert_eq!(cache.all()[0].metadata.uid.as_deref(), Some("first"));
        assert_eq!(held(&cache), [("a".to_owned(), 5)]);
    }

    #[test]
    fn revisions_that_are_no_numbers_are_the_same_or_not() {
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
        cache.follow(Event::Apply(named("x", "first")));
        assert_eq!(*count.lock().unwrap(), 1, "the same is no news");
        cache.follow(Event::Apply(named("a", "first")));
        assert_eq!(shown(&cache), ["a"]);
        relist(&cache, [named("b", "first")]);
        assert_eq!(shown(&cache), ["b"]);
        cache.follow(Event::Delete(named("c", "other")));
        assert_eq!(shown(&cache), ["b"], "that was another one");
        cache.follow(Event::Delete(named("c", "first")));
        assert_eq!(shown(&cache), [""; 0]);
    }

    #[test]
    fn late_answer_to_a_write_does_not_bring_back_what_is_gone() {
        let cache = listed([with_uid(1, "first")]);
        cache.follow(Event::Delete(with_uid(5, "first")));
        cache.wrote(with_uid(4, "first"));
        assert_eq!(held(&cache), []);
        // Another one with its name is another one.
        cache.wrote(with_uid(7, "second"));
        assert_eq!(held(&cache), [("a".to_owned(), 7)]);
        // Gone is also what a new list lacks.
        cache.follow(Event::Init);
        cache.follow(Event::InitDone);
        cache.wrote(with_uid(8, "second"));
        assert_eq!(held(&cache), []);
    }

    #[test]
    fn own_write_is_seen_at_once_and_the_watch_does_not_take_it_back() {
        let cache = listed([map("a", 1)]);
        cache.wrote(map("a", 5));
        cache.follow(Event::Apply(map("a", 3)));
        assert_eq!(held(&cache), [("a".to_owned(), 5)]);
        cache.follow(Event::Apply(map("a", 6)));
        assert_eq!(held(&cache), [("a".to_owned(), 6)]);
    }

    #[test]
    fn own_write_is_slimmed_as_the_watch_is() {
        let cache = Cache::<ConfigMap>::slimmed(|map| map.data = None);
        let mut fat = map("a", 1);
        fat.data = Some(Default::default());
        fat.metadata.managed_fields = Some(Vec::new());
        cache.wrote(fat);
        assert_eq!(*cache.all()[0], map("a", 1));
    }

    #[test]
    fn older_list_does_not_take_an_own_write_back() {
        let cache = listed([map("a", 1)]);
        cache.follow(Event::Init);
        cache.follow(Event::InitApply(map("a", 1)));
        cache.wrote(map("a", 5));
        cache.follow(Event::InitDone);
        assert_eq!(held(&cache), [("a".to_owned(), 5)]);
    }

    #[test]
    fn what_a_new_list_lacks_is_gone() {
        let cache = listed([map("a", 1), map("b", 2)]);
        let gone = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&gone);
        cache.listen(move |delta| {
            heard.lock().unwrap().push((delta.before.as_ref().map(|object| object.name_any()), delta.after.is_some()));
        });
        gone.lock().unwrap().clear();
        cache.follow(Event::Init);
        cache.follow(Event::InitApply(map("b", 2)));
        cache.follow(Event::InitDone);
        assert_eq!(held(&cache), [("b".to_owned(), 2)]);
        assert_eq!(*gone.lock().unwrap(), [(Some("a".to_owned()), false)]);
    }

    #[test]
    fn late_word_of_a_deletion_does_not_remove_the_successor() {
        let cache = listed([map("a", 1)]);
        cache.wrote(map("a", 7));
        cache.follow(Event::Delete(map("a", 4)));
        assert_eq!(held(&cache), [("a".to_owned(), 7)]);
        cache.follow(Event::Delete(map("a", 9)));
        assert_eq!(held(&cache), []);
    }

    #[test]
    fn late_listener_is_told_of_what_is_there() {
        let cache = listed([map("a", 1)]);
        let told = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&told);
        cache.listen(move |delta| heard.lock().unwrap().push((delta.before.is_some(), delta.after.is_some())));
        assert_eq!(*told.lock().unwrap(), [(false, true)]);
    }

    #[test]
    fn listener_gets_both_sides_of_a_change() {
        let cache = listed([map("a", 1)]);
        let sides = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&sides);
        cache.listen(move |delta| heard.lock().unwrap().push(delta.sides().count()));
        cache.follow(Event::Apply(map("a", 2)));
        cache.follow(Event::Apply(map("b", 3)));
        cache.follow(Event::Apply(map("b", 3)));
        let told = sides.lock().unwrap();
        assert_eq!(*told, [1, 2, 1], "what is there, a change, another one; and nothing of what changes nothing");
    }
}
