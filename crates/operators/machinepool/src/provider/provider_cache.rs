//! Provider cache: the objects of one kind of a provider, kept current by one watch for all pools.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt as _;
use futures::future::{BoxFuture, FutureExt as _};
use kube::core::ApiResource;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource as _};
use seaworthy_change::{ObjectVersion, ResourceType};
use seaworthy_runtime::{AnyCache, Cache, Delta, Key, WatchedObject, client_error};

use super::provider_definition::ReadAs;
use super::provider_object::ProviderObject;

pub struct ProviderCache {
    read_as: ReadAs,
    objects: Cache<ProviderObject>,
    /// Why there is no first list yet.
    failure: Mutex<Option<String>>,
    /// Called when the first list is complete, and when it fails for another reason than before.
    on_state: Box<dyn Fn() + Send + Sync>,
}

impl ProviderCache {
    /// `on_change` is called for each change of an object, `on_state` when it becomes known whether the kind can be read.
    pub fn new(
        read_as: ReadAs,
        on_change: impl Fn(&Delta<ProviderObject>) + Send + Sync + 'static,
        on_state: impl Fn() + Send + Sync + 'static,
    ) -> ProviderCache {
        let objects = Cache::default();
        objects.listen(on_change);
        ProviderCache { read_as, objects, failure: Mutex::default(), on_state: Box::new(on_state) }
    }

    pub fn read_as(&self) -> &ReadAs {
        &self.read_as
    }

    pub fn is_synced(&self) -> bool {
        self.objects.is_synced()
    }

    /// Why there is no first list yet; `None` while it is being read.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn get(&self, key: &Key) -> Option<Arc<ProviderObject>> {
        self.objects.get(key)
    }

    /// The objects for which `keep` holds.
    pub fn filter(&self, keep: impl Fn(&ProviderObject) -> bool) -> Vec<Arc<ProviderObject>> {
        self.objects.filter(keep)
    }

    fn set_failure(&self, reason: Option<String>) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if *failure == reason {
            return;
        }
        *failure = reason;
        drop(failure);
        (self.on_state)();
    }

    fn apply(&self, event: watcher::Event<WatchedObject<ProviderObject>>) {
        let kind = &self.read_as.resource.kind;
        let readable = |object: WatchedObject<ProviderObject>| match object {
            WatchedObject::Readable(object) => Some(object),
            WatchedObject::Unreadable { metadata, error } => {
                let (namespace, name) = (metadata.namespace, metadata.name);
                tracing::warn!(%kind, ?namespace, ?name, error, "cannot read object; ignoring it");
                None
            }
        };
        let event = match event {
            watcher::Event::Apply(object) => readable(object).map(watcher::Event::Apply),
            watcher::Event::Delete(object) => readable(object).map(watcher::Event::Delete),
            watcher::Event::InitApply(object) => readable(object).map(watcher::Event::InitApply),
            watcher::Event::Init => Some(watcher::Event::Init),
            watcher::Event::InitDone => Some(watcher::Event::InitDone),
        };
        let was_synced = self.is_synced();
        if let Some(event) = event {
            self.objects.apply_event(event);
        }
        if !was_synced && self.is_synced() {
            self.set_failure(None);
            (self.on_state)();
        }
    }

    async fn run(self: Arc<Self>, client: Client) {
        let api: Api<WatchedObject<ProviderObject>> = Api::all_with(client, &api_resource(&self.read_as.resource));
        let mut events = std::pin::pin!(watcher(api, watcher::Config::default()).default_backoff());
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.apply(event),
                Err(error) => {
                    let error = client_error::watch_summary(&error);
                    tracing::warn!(kind = %self.read_as.resource.kind, error, "watch failed; retrying");
                    if !self.is_synced() {
                        self.set_failure(Some(error));
                    }
                }
            }
        }
    }
}

impl AnyCache for ProviderCache {
    fn resource(&self) -> ResourceType {
        self.read_as.resource.clone()
    }

    fn uid(&self, key: &Key) -> Option<String> {
        self.get(key)?.meta().uid.clone()
    }

    fn record_write_json(&self, response: &str) -> Result<ObjectVersion, serde_json::Error> {
        let object: ProviderObject = serde_json::from_str(response)?;
        let metadata = object.meta();
        let version = ObjectVersion { uid: metadata.uid.clone(), resource_version: metadata.resource_version.clone() };
        self.objects.record_write(object);
        Ok(version)
    }

    fn watch(self: Arc<Self>, client: &Client) -> BoxFuture<'static, ()> {
        self.run(client.clone()).boxed()
    }

    fn wait_synced(&self) -> BoxFuture<'_, ()> {
        self.objects.synced().boxed()
    }
}

impl fmt::Debug for ProviderCache {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ProviderCache").field("read_as", &self.read_as).finish_non_exhaustive()
    }
}

fn api_resource(resource: &ResourceType) -> ApiResource {
    ApiResource {
        group: resource.group.clone().into_owned(),
        version: resource.version.clone().into_owned(),
        api_version: resource.api_version().into_owned(),
        kind: resource.kind.clone().into_owned(),
        plural: resource.plural.clone().into_owned(),
    }
}
