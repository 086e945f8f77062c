//! The applier: the one place that writes to the API.
//!
//! - [`Applier::perform`] takes a decision and performs its stages in order. It knows no kind: a change names its object by
//!   group, version, kind and name.
//! - Server-side apply under the controller's own field manager for what the controller owns; a merge patch bound to the
//!   revision that was decided on where the API keeps a list whole (a Node's taints, a pool's conditions).
//! - The answer to every write goes to the cache of its kind. After a conflict the object is read again: deciding on the
//!   same state would be refused again.
//! - Nothing is written without leadership, and every write is counted with its outcome.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use kube::api::GetParams;
use kube::core::Request;
use kube::{Client, Resource};
use seaworthy_change::{Action, Change, Decision, Deferred, Flow, ObjectRef, Purpose, Scope, Stage};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::cache_set::CacheSet;
use crate::events::Events;
use crate::leadership::Leadership;
use crate::metrics::{Metrics, WriteLabels};
use crate::request;
use crate::worker::Failure as _;
use crate::write_error::{Cause, REQUEST_TIMEOUT, Verb, WriteError};

/// How many objects are written at the same time.
const MAX_CONCURRENT_WRITES: usize = 16;

/// Writes for one controller.
#[derive(Clone)]
pub struct Applier {
    client: Client,
    manager: &'static str,
    leadership: Leadership,
    metrics: Arc<Metrics>,
    caches: CacheSet,
    events: Events,
}

/// The outcome of a decision.
#[derive(Debug, Default)]
#[must_use]
pub struct Performed {
    /// The writes that were not made.
    pub failures: Vec<WriteError>,
    /// The pods that were evicted.
    pub evicted: Vec<ObjectRef>,
    /// The stage that a failure ended the decision at; later stages were not begun.
    pub stopped_at: Option<Purpose>,
}

impl Performed {
    /// Whether no change of this object failed; in a stage that was begun, they were made.
    pub fn is_done(&self, object: &ObjectRef) -> bool {
        let key = object.key();
        !self.failures.iter().any(|failure| failure.object.key() == key)
    }

    /// The first failure, if there is one.
    ///
    /// # Errors
    ///
    /// The first failure.
    pub fn result(self) -> Result<(), WriteError> {
        match self.failures.into_iter().next() {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }
}

/// The changes of one object.
enum Group<'a> {
    Listed(Vec<&'a Change>),
    Deferred(&'a Deferred<'a>),
}

/// What a decision has written so far: later changes of the same object build on it.
#[derive(Default)]
struct Written(Mutex<BTreeMap<ObjectRef, Identity>>);

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Identity {
    uid: Option<String>,
    resource_version: Option<String>,
}

#[derive(Deserialize)]
struct Answer {
    metadata: Identity,
}

impl Written {
    /// The object in the state that the decision left it in.
    fn current(&self, object: &ObjectRef) -> ObjectRef {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match known.get(&object.key()) {
            Some(found) => ObjectRef {
                uid: object.uid.clone().or_else(|| found.uid.clone()),
                resource_version: found.resource_version.clone(),
                ..object.clone()
            },
            None => object.clone(),
        }
    }

    fn note(&self, object: &ObjectRef, answer: &str) {
        if let Ok(answer) = serde_json::from_str::<Answer>(answer) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(object.key(), answer.metadata);
        }
    }
}

impl Applier {
    /// Writes as `manager`, while `leadership` holds.
    pub fn new(
        client: Client,
        manager: &'static str,
        leadership: Leadership,
        metrics: Arc<Metrics>,
        caches: CacheSet,
    ) -> Applier {
        let events = Events::new(client.clone(), manager, leadership.clone());
        Applier { client, manager, leadership, metrics, caches, events }
    }

    /// Reads an object of the whole cluster as it is now, for a decision that must not rest on a cache. The cache of its
    /// kind, if there is one, takes it in.
    ///
    /// # Errors
    ///
    /// If it cannot be read; that it does not exist is `None`.
    pub async fn read<K>(&self, name: &str) -> Result<Option<K>, WriteError>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
        K::Scope: Scope,
    {
        let object = ObjectRef::named::<K>(name);
        let answer = self.get(&object).await?;
        let read = |answer: String| serde_json::from_str(&answer).map_err(kube::Error::SerdeError);
        answer.map(read).transpose().map_err(|error| WriteError {
            verb: Verb::Read,
            object: Box::new(object),
            cause: error.into(),
        })
    }

    /// Performs a decision: its stages in order.
    pub fn perform<'a, R: Sync>(&'a self, decision: &'a Decision<'a, R>) -> BoxFuture<'a, Performed> {
        self.perform_stages(&decision.stages).boxed()
    }

    /// Performs a single change.
    ///
    /// # Errors
    ///
    /// If it was not made.
    pub async fn change(&self, change: Change) -> Result<(), WriteError> {
        self.one(&change, &Written::default()).await
    }

    async fn perform_stages(&self, stages: &[Stage<'_>]) -> Performed {
        let (mut performed, written) = (Performed::default(), Written::default());
        for stage in stages {
            match stage.flow {
                Flow::Sequence | Flow::Each => {
                    for change in stage.all() {
                        let outcome = self.one(&change, &written).await;
                        if performed.note(change, outcome) && stage.flow == Flow::Sequence {
                            performed.stopped_at = Some(stage.purpose);
                            return performed;
                        }
                    }
                }
                Flow::PerObject => self.perform_per_object(stage, &written, &mut performed).await,
            }
        }
        performed
    }

    async fn perform_per_object(&self, stage: &Stage<'_>, written: &Written, performed: &mut Performed) {
        let mut objects: BTreeMap<ObjectRef, Vec<&Change>> = BTreeMap::new();
        for change in &stage.changes {
            // With room for one: nearly every object is changed once, and there may be thousands.
            match objects.entry(change.object.key()) {
                Entry::Vacant(entry) => drop(entry.insert(vec![change])),
                Entry::Occupied(mut entry) => entry.get_mut().push(change),
            }
        }
        let listed = objects.into_values().map(Group::Listed);
        let mut rest = listed.chain(stage.deferred.iter().map(Group::Deferred));
        let mut running = FuturesUnordered::new();
        loop {
            running.extend(rest.by_ref().take(MAX_CONCURRENT_WRITES - running.len()).map(|group| {
                // Boxed here, where the lifetimes are known that the compiler needs to see that it is `Send`.
                self.perform_group(group, written).boxed()
            }));
            let Some(outcomes) = running.next().await else { return };
            for (change, outcome) in outcomes {
                performed.note(change, outcome);
            }
        }
    }

    async fn perform_group(&self, group: Group<'_>, written: &Written) -> Vec<(Change, Result<(), WriteError>)> {
        match group {
            Group::Listed(changes) => self.in_order(changes.into_iter().cloned().collect(), written).await,
            Group::Deferred(deferred) => self.in_order(deferred.build(), written).await,
        }
    }

    /// Makes the changes of one object, up to the first that fails.
    async fn in_order(&self, changes: Vec<Change>, written: &Written) -> Vec<(Change, Result<(), WriteError>)> {
        let mut outcomes = Vec::new();
        for change in changes {
            let outcome = self.one(&change, written).await;
            let has_failed = outcome.is_err();
            outcomes.push((change, outcome));
            if has_failed {
                break;
            }
        }
        outcomes
    }

    async fn one(&self, change: &Change, written: &Written) -> Result<(), WriteError> {
        let object = written.current(&change.object);
        if let Action::Emit(event) = &change.action {
            let uid = object.uid.clone().or_else(|| self.caches.uid(&object));
            self.events.emit(&ObjectRef { uid, ..object }, event).await;
            return Ok(());
        }
        let verb = request::verb(&change.action);
        let request = request::of(&object, &change.action, self.manager);
        let result = match (self.leadership.holds(), request) {
            (false, _) => Err(Cause::NotLeading),
            (true, Err(invalid)) => Err(Cause::Invalid(invalid)),
            (true, Ok(request)) => self.send(request).await,
        };
        let result = result.map_err(|cause| WriteError { verb, object: Box::new(object.clone()), cause });
        let outcome = result.as_ref().map_or_else(|error| error.category(), |_| "ok");
        self.metrics.wrote(WriteLabels {
            controller: self.manager,
            kind: object.resource.kind.clone().into_owned(),
            verb: verb.as_str(),
            outcome,
        });
        match result {
            // The answer to a deletion is a Status, or an object that is about to go: the watch has the truth.
            Ok(_) if matches!(change.action, Action::Delete | Action::Evict) => Ok(()),
            Ok(answer) => {
                written.note(&object, &answer);
                self.caches.wrote(&object, &answer);
                Ok(())
            }
            Err(error) if error.is_not_found() && matches!(change.action, Action::Delete | Action::Evict) => Ok(()),
            Err(error) => {
                if error.is_conflict() && !matches!(change.action, Action::Delete | Action::Evict) {
                    self.refresh(&object).await;
                }
                Err(error)
            }
        }
    }

    /// Reads an object again that another writer has changed. Its cache would learn of it, but later: until then every
    /// decision would be refused again.
    async fn refresh(&self, object: &ObjectRef) {
        if self.caches.holds(&object.resource) {
            // A failure is left to the watch.
            let _ = self.get(object).await;
        }
    }

    async fn get(&self, object: &ObjectRef) -> Result<Option<String>, WriteError> {
        let request = Request::new(object.resource.path(object.namespace.as_deref()))
            .get(&object.name, &GetParams::default())
            .map_err(kube::Error::BuildRequest);
        let answer = match request {
            Ok(request) => self.send(request).await,
            Err(error) => Err(error.into()),
        };
        match answer.map_err(|cause| WriteError { verb: Verb::Read, object: Box::new(object.clone()), cause }) {
            Ok(answer) => {
                self.caches.wrote(object, &answer);
                Ok(Some(answer))
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn send(&self, request: http::Request<Vec<u8>>) -> Result<String, Cause> {
        match tokio::time::timeout(REQUEST_TIMEOUT, self.client.request_text(request)).await {
            Ok(answer) => answer.map_err(Cause::Api),
            Err(_) => Err(Cause::Timeout),
        }
    }
}

impl Performed {
    /// Notes the outcome of a change; whether it failed.
    fn note(&mut self, change: Change, outcome: Result<(), WriteError>) -> bool {
        match outcome {
            Ok(()) => {
                if matches!(change.action, Action::Evict) {
                    self.evicted.push(change.object);
                }
                false
            }
            // A PodDisruptionBudget does not allow it now: that is its purpose. It is tried again by the next decision.
            Err(error) if matches!(change.action, Action::Evict) && error.is_too_many_requests() => false,
            Err(error) => {
                self.failures.push(error);
                true
            }
        }
    }
}
