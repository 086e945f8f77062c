//! Cache sets: the caches of one operator, by resource type.
//!
//! The applier hands the response to every write to the cache of its kind, so a controller never decides on the state before
//! its own write. An operator waits for its own caches and for no others.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, PoisonError, RwLock};

use futures::future::{BoxFuture, FutureExt as _, select_all};
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use seaworthy_change::{ObjectRef, ObjectVersion, ResourceType, Scope};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::cache::{Cache, Key};

/// The response to a write of a kind that no cache holds.
#[derive(Deserialize)]
struct WriteResponse {
    metadata: ObjectVersion,
}

/// A cache of objects of some kind.
pub trait AnyCache: Send + Sync {
    fn resource(&self) -> ResourceType;
    /// The uid of the object with this key, if it is held.
    fn uid(&self, key: &Key) -> Option<String>;
    /// Holds a response of the API server, ahead of the watch. Returns its identity and its resource version.
    ///
    /// # Errors
    ///
    /// If it is not an object of this kind.
    fn record_write_json(&self, response: &str) -> Result<ObjectVersion, serde_json::Error>;
    /// Keeps the cache current for as long as it is polled.
    fn watch(self: Arc<Self>, client: &Client) -> BoxFuture<'static, ()>;
    /// Waits until the first list is complete.
    fn wait_synced(&self) -> BoxFuture<'_, ()>;
}

impl<K> AnyCache for Cache<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    K::Scope: Scope,
{
    fn resource(&self) -> ResourceType {
        ResourceType::of::<K>()
    }

    fn uid(&self, key: &Key) -> Option<String> {
        self.get(key)?.meta().uid.clone()
    }

    fn record_write_json(&self, response: &str) -> Result<ObjectVersion, serde_json::Error> {
        let object: K = serde_json::from_str(response)?;
        let metadata = object.meta();
        let version = ObjectVersion { uid: metadata.uid.clone(), resource_version: metadata.resource_version.clone() };
        self.record_write(object);
        Ok(version)
    }

    fn watch(self: Arc<Self>, client: &Client) -> BoxFuture<'static, ()> {
        self.run(Api::all(client.clone()), watcher::Config::default()).boxed()
    }

    fn wait_synced(&self) -> BoxFuture<'_, ()> {
        self.synced().boxed()
    }
}

/// The caches of one operator. Cloning shares them.
#[derive(Clone, Default)]
pub struct CacheSet {
    own: Arc<[Arc<dyn AnyCache>]>,
    /// Those of kinds that are known at run time only.
    added: Arc<RwLock<BTreeMap<ResourceType, Arc<dyn AnyCache>>>>,
}

impl CacheSet {
    pub fn new(caches: impl IntoIterator<Item = Arc<dyn AnyCache>>) -> CacheSet {
        CacheSet { own: caches.into_iter().collect(), added: Arc::default() }
    }

    /// Adds the cache of a kind that is known at run time only. It is kept current by the code that adds it,
    /// and no operator waits for it.
    pub fn add(&self, cache: Arc<dyn AnyCache>) {
        self.added.write().unwrap_or_else(PoisonError::into_inner).insert(cache.resource(), cache);
    }

    /// Removes a cache that was added.
    pub fn remove(&self, resource: &ResourceType) {
        self.added.write().unwrap_or_else(PoisonError::into_inner).remove(resource);
    }

    /// The resource types that are held, without those that were added.
    pub fn resources(&self) -> impl Iterator<Item = ResourceType> {
        self.own.iter().map(|cache| cache.resource())
    }

    /// Keeps all caches current for as long as it is polled. Ends only if a watch cannot go on.
    pub fn run(&self, client: &Client) -> BoxFuture<'static, ()> {
        if self.own.is_empty() {
            return std::future::pending().boxed();
        }
        select_all(self.own.iter().map(|cache| Arc::clone(cache).watch(client))).map(drop).boxed()
    }

    /// Waits until the first list of every kind is complete.
    pub async fn synced(&self) {
        for cache in self.own.iter() {
            cache.wait_synced().await;
        }
    }

    /// Holds the response to a write in the cache of the object's kind. Returns the version that was written, if it can be read.
    pub(crate) fn record_write(&self, object: &ObjectRef, response: &str) -> Option<ObjectVersion> {
        if let Some(cache) = self.of(&object.resource) {
            match cache.record_write_json(response) {
                Ok(version) => return Some(version),
                Err(error) => {
                    tracing::warn!(%object, %error, "cannot read the API server's response; waiting for the watch");
                }
            }
        }
        serde_json::from_str::<WriteResponse>(response).ok().map(|response| response.metadata)
    }

    /// The uid of an object, if it is held.
    pub(crate) fn uid(&self, object: &ObjectRef) -> Option<String> {
        let namespace = object.namespace.clone().unwrap_or_default();
        self.of(&object.resource)?.uid(&Key { namespace, name: object.name.clone() })
    }

    /// Whether objects of this kind are held.
    pub(crate) fn holds(&self, resource: &ResourceType) -> bool {
        self.of(resource).is_some()
    }

    fn of(&self, resource: &ResourceType) -> Option<Arc<dyn AnyCache>> {
        let own = self.own.iter().find(|cache| cache.resource() == *resource).cloned();
        own.or_else(|| self.added.read().unwrap_or_else(PoisonError::into_inner).get(resource).cloned())
    }
}
