//! The one place that writes to the API.
//!
//! - Server-side apply, under the controller's own field manager, for what the controller owns.
//! - A merge patch bound to the revision that was seen, where the API keeps a list whole (a Node's taints, a pool's
//!   conditions) and so cannot tell owners apart: a write over somebody else's change is refused, not made.
//! - Nothing is written without leadership, and every write is counted with what came of it.

use std::fmt::{self, Debug, Display};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, EvictParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::leadership::Leadership;
use crate::metrics::{Metrics, WriteLabels};
use crate::words;
use crate::worker::{Failure, Retry};

/// How long a request may take. One that hangs would otherwise hold up everything after it.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is done with writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// They are made.
    #[default]
    Apply,
    /// The API server checks them and makes none.
    DryRun,
}

/// Writes for one controller.
#[derive(Clone)]
pub struct Applier {
    client: Client,
    manager: &'static str,
    leadership: Leadership,
    metrics: Arc<Metrics>,
    mode: Mode,
}

/// How something is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Read, as a part of writing.
    Read,
    /// Made.
    Create,
    /// Server-side apply.
    Apply,
    /// Replaced as a whole.
    Replace,
    /// Merge patch at a known revision.
    Patch,
    /// Deletion.
    Delete,
    /// Eviction of a pod.
    Evict,
}

impl Verb {
    fn as_str(self) -> &'static str {
        match self {
            Verb::Read => "read",
            Verb::Create => "create",
            Verb::Apply => "apply",
            Verb::Replace => "replace",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
            Verb::Evict => "evict",
        }
    }
}

impl Display for Verb {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// A write that was not made.
#[derive(Debug, thiserror::Error)]
#[error("cannot {verb} {kind} {name}: {cause}")]
pub struct WriteError {
    /// How it was to be written.
    pub verb: Verb,
    /// Its kind.
    pub kind: String,
    /// Its name, with the namespace before it where there is one.
    pub name: String,
    /// Why not.
    pub cause: Cause,
}

/// Why a write was not made.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// Another process leads.
    #[error("this process does not lead any more")]
    NotLeading,
    /// The API server does not answer. The write may have been made all the same, or may be made later.
    #[error("no answer within {} s", PATIENCE.as_secs())]
    NoAnswer,
    /// The API server refused it, or could not be reached.
    #[error("{}", words::of_error(.0))]
    Api(#[from] kube::Error),
}

impl WriteError {
    /// What the API server said, if it answered.
    fn code(&self) -> Option<u16> {
        match &self.cause {
            Cause::Api(kube::Error::Api(status)) => Some(status.code),
            _ => None,
        }
    }

    /// Somebody else wrote first.
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }

    /// There is no such object any more.
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// For an eviction: a PodDisruptionBudget does not allow it now.
    pub fn is_too_many_requests(&self) -> bool {
        self.code() == Some(429)
    }
}

impl Failure for WriteError {
    fn category(&self) -> &'static str {
        match (&self.cause, self.code()) {
            (Cause::NotLeading, _) => "not-leading",
            (_, Some(401 | 403)) => "forbidden",
            (_, Some(404)) => "not-found",
            (_, Some(409)) => "conflict",
            (_, Some(400 | 413 | 415 | 422)) => "invalid",
            (_, Some(429)) => "too-many-requests",
            _ => "unavailable",
        }
    }

    fn retry(&self) -> Retry {
        match self.code() {
            Some(404 | 409) => Retry::Soon,
            _ => Retry::Backoff,
        }
    }
}

impl Applier {
    /// Writes as `manager`, while `leadership` holds.
    pub fn new(client: Client, manager: &'static str, leadership: Leadership, metrics: Arc<Metrics>) -> Applier {
        Applier { client, manager, leadership, metrics, mode: Mode::Apply }
    }

    /// The same, with another mode.
    #[must_use]
    pub fn with_mode(mut self, mode: Mode) -> Applier {
        self.mode = mode;
        self
    }

    /// Writes of a controller with another field manager.
    #[must_use]
    pub fn managed_by(&self, manager: &'static str) -> Applier {
        Applier { manager, ..self.clone() }
    }

    /// The client, for what is read at the moment of acting.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Reads an object of the whole cluster as it is now, for a write that must not rest on a cache.
    pub async fn read<K: Written>(&self, name: &str) -> Result<Option<K>, WriteError> {
        let found = in_time(K::api(&self.client, None).get_opt(name)).await;
        found.map_err(|cause| WriteError {
            verb: Verb::Read,
            kind: K::kind(&()).into_owned(),
            name: name.to_owned(),
            cause,
        })
    }

    /// Brings about that what this manager owns of the object is just this.
    pub async fn apply<K: Written + Serialize>(&self, object: &K) -> Result<K, WriteError> {
        let (api, name) = (K::api(&self.client, object.meta().namespace.as_deref()), object.name_any());
        self.write(Verb::Apply, object, || async move {
            let body = typed::<K>(serde_json::to_value(object).map_err(kube::Error::SerdeError)?);
            api.patch(&name, &self.applying(), &Patch::Apply(&body)).await
        })
        .await
    }

    /// The same for the object's status.
    pub async fn apply_status<K: Written + Serialize>(&self, object: &K) -> Result<K, WriteError> {
        let (api, name) = (K::api(&self.client, object.meta().namespace.as_deref()), object.name_any());
        self.write(Verb::Apply, object, || async move {
            let mut body = typed::<K>(serde_json::to_value(object).map_err(kube::Error::SerdeError)?);
            if let Value::Object(body) = &mut body {
                body.remove("spec");
            }
            api.patch_status(&name, &self.applying(), &Patch::Apply(&body)).await
        })
        .await
    }

    /// Makes an object that must not be there yet.
    pub async fn create<K: Written + Serialize>(&self, object: &K) -> Result<K, WriteError> {
        let api = K::api(&self.client, object.meta().namespace.as_deref());
        let params = PostParams { dry_run: self.is_dry(), field_manager: Some(self.manager.to_owned()) };
        self.write(Verb::Create, object, || async move { api.create(&params, object).await }).await
    }

    /// Replaces an object that is wholly ours, provided that it still has the revision it carries.
    pub async fn replace<K: Written + Serialize>(&self, object: &K) -> Result<K, WriteError> {
        let (api, name) = (K::api(&self.client, object.meta().namespace.as_deref()), object.name_any());
        let params = PostParams { dry_run: self.is_dry(), field_manager: Some(self.manager.to_owned()) };
        self.write(Verb::Replace, object, || async move { api.replace(&name, &params, object).await }).await
    }

    /// Changes what was seen, provided that it is still as it was seen.
    pub async fn patch<K: Written>(&self, seen: &K, patch: Value) -> Result<K, WriteError> {
        let (api, name) = (K::api(&self.client, seen.meta().namespace.as_deref()), seen.name_any());
        let patch = at_revision(seen, patch);
        let params = PatchParams { force: false, ..self.applying() };
        self.write(Verb::Patch, seen, || async move { api.patch(&name, &params, &Patch::Merge(&patch)).await }).await
    }

    /// Changes the status of what was seen, provided that it is still as it was seen.
    pub async fn patch_status<K: Written>(&self, seen: &K, patch: Value) -> Result<K, WriteError> {
        let (api, name) = (K::api(&self.client, seen.meta().namespace.as_deref()), seen.name_any());
        let patch = at_revision(seen, patch);
        let params = PatchParams { force: false, ..self.applying() };
        let write = || async move { api.patch_status(&name, &params, &Patch::Merge(&patch)).await };
        self.write(Verb::Patch, seen, write).await
    }

    /// Deletes the object that was seen, not one that has its name since. What is gone already is fine.
    pub async fn delete<K: Written>(&self, seen: &K) -> Result<(), WriteError> {
        let (api, name) = (K::api(&self.client, seen.meta().namespace.as_deref()), seen.name_any());
        let preconditions = Preconditions { uid: seen.uid(), resource_version: None };
        let params =
            DeleteParams { dry_run: self.is_dry(), preconditions: Some(preconditions), ..DeleteParams::background() };
        let result = self.write(Verb::Delete, seen, || async move { api.delete(&name, &params).await.map(drop) }).await;
        match result {
            Err(error) if error.is_not_found() => Ok(()),
            result => result,
        }
    }

    /// Evicts a pod, the budgets of its PodDisruptionBudgets permitting. What is gone already is fine.
    pub async fn evict(&self, pod: &Pod) -> Result<(), WriteError> {
        let (api, name) = (Pod::api(&self.client, pod.meta().namespace.as_deref()), pod.name_any());
        let preconditions = Preconditions { uid: pod.uid(), resource_version: None };
        let params = EvictParams {
            delete_options: Some(DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() }),
            post_options: PostParams { dry_run: self.is_dry(), field_manager: Some(self.manager.to_owned()) },
        };
        let result = self.write(Verb::Evict, pod, || async move { api.evict(&name, &params).await.map(drop) }).await;
        match result {
            Err(error) if error.is_not_found() => Ok(()),
            result => result,
        }
    }

    fn is_dry(&self) -> bool {
        self.mode == Mode::DryRun
    }

    fn applying(&self) -> PatchParams {
        // Forced: a field that a controller owns is the controller's, whoever wrote it last.
        PatchParams { dry_run: self.is_dry(), ..PatchParams::apply(self.manager).force() }
    }

    async fn write<K, T, F>(&self, verb: Verb, object: &K, write: impl FnOnce() -> F) -> Result<T, WriteError>
    where
        K: Resource<DynamicType = ()>,
        F: Future<Output = Result<T, kube::Error>>,
    {
        let result = if self.leadership.holds() { in_time(write()).await } else { Err(Cause::NotLeading) };
        let kind = K::kind(&()).into_owned();
        let result = result.map_err(|cause| {
            let name = match object.meta().namespace.as_deref() {
                Some(namespace) => format!("{namespace}/{}", object.name_any()),
                None => object.name_any(),
            };
            WriteError { verb, kind: kind.clone(), name, cause }
        });
        let outcome = result.as_ref().map_or_else(|error| error.category(), |_| "ok");
        self.metrics.wrote(WriteLabels { controller: self.manager, kind, verb: verb.as_str(), outcome });
        result
    }
}

async fn in_time<T>(request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Cause> {
    match tokio::time::timeout(PATIENCE, request).await {
        Ok(answer) => answer.map_err(Cause::Api),
        Err(_) => Err(Cause::NoAnswer),
    }
}

/// A kind that is written: it knows where its objects live.
pub trait Written: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned {
    /// The API for its objects, in this namespace where it has one.
    fn api(client: &Client, namespace: Option<&str>) -> Api<Self>;
}

/// Where the objects of a scope live.
pub trait Reach<K> {
    /// The API for them.
    fn api(client: &Client, namespace: Option<&str>) -> Api<K>;
}

impl<K: Resource<DynamicType = (), Scope = ClusterResourceScope>> Reach<K> for ClusterResourceScope {
    fn api(client: &Client, _: Option<&str>) -> Api<K> {
        Api::all(client.clone())
    }
}

impl<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>> Reach<K> for NamespaceResourceScope {
    fn api(client: &Client, namespace: Option<&str>) -> Api<K> {
        Api::namespaced(client.clone(), namespace.unwrap_or("default"))
    }
}

impl<K> Written for K
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    K::Scope: Reach<K>,
{
    fn api(client: &Client, namespace: Option<&str>) -> Api<Self> {
        <K::Scope as Reach<K>>::api(client, namespace)
    }
}

/// What apply needs and what a typed object may lack: its type; and what it must not have.
fn typed<K: Resource<DynamicType = ()>>(mut body: Value) -> Value {
    if let Value::Object(object) = &mut body {
        object.insert("apiVersion".to_owned(), json!(K::api_version(&())));
        object.insert("kind".to_owned(), json!(K::kind(&())));
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            for key in ["managedFields", "creationTimestamp", "generation"] {
                metadata.remove(key);
            }
        }
    }
    body
}

fn at_revision<K: Resource>(seen: &K, mut patch: Value) -> Value {
    if let (Value::Object(patch), Some(revision)) = (&mut patch, &seen.meta().resource_version) {
        let metadata = patch.entry("metadata").or_insert_with(|| json!({}));
        if let Value::Object(metadata) = metadata {
            metadata.insert("resourceVersion".to_owned(), json!(revision));
        }
    }
    patch
}
