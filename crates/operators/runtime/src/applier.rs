//! Applier: performs decisions; controllers write to the API through nothing else.
//!
//! - [`Applier::perform`] performs the stages of a decision in order. It works on any kind: a change names its object by
//!   group, version, kind and name.
//! - Server-side apply under the controller's own field manager for what the controller owns; a merge patch bound to the
//!   revision that was decided on where the API keeps a list whole (a Node's taints, a pool's conditions).
//! - The response to every write is passed to the cache of its kind. After a conflict the object is read again: deciding on the
//!   same state would be refused again.
//! - What is gone needs no change any more: that is a failure only where later changes rest on it. The watch reports it, and a
//!   decision follows.
//! - Events are written when the changes before them have been made, after all writes: an API that is slow to take events
//!   holds up no write.
//! - Nothing is written without leadership, and every write is counted with its outcome.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use kube::api::GetParams;
use kube::core::{ClusterResourceScope, Request};
use kube::{Client, Resource};
use seaworthy_change::{Action, Change, Decision, Deferred, Event, Flow, ObjectRef, Purpose, Stage, WrittenObjects};
use serde::de::DeserializeOwned;

use crate::cache_set::CacheSet;
use crate::events::Events;
use crate::leadership::Leadership;
use crate::metrics::{Metrics, WriteLabels};
use crate::request;
use crate::worker::ReconcileError as _;
use crate::write_error::{REQUEST_TIMEOUT, WriteError, WriteErrorCause, WriteVerb};

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
pub struct DecisionOutcome {
    /// The writes that were not made.
    pub failures: Vec<WriteError>,
    /// The pods that were evicted.
    pub evicted: Vec<ObjectRef>,
    /// The objects that were to be changed and do not exist any more.
    pub gone: Vec<ObjectRef>,
    /// The stage that a failure ended the decision at; later stages were not begun.
    pub stopped_at: Option<Purpose>,
}

impl DecisionOutcome {
    /// Whether the object exists and no change of it failed; in a stage that was begun, they were made.
    pub fn is_done(&self, object: &ObjectRef) -> bool {
        let key = object.key();
        !self.failures.iter().any(|failure| failure.object.key() == key) && !self.gone.contains(&key)
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

enum ObjectChanges<'a> {
    Listed(Vec<&'a Change>),
    Deferred(&'a Deferred<'a>),
}

/// How far a decision has been performed.
#[derive(Default)]
struct Performed {
    outcome: DecisionOutcome,
    /// Shared by the changes that are made at the same time.
    written: Mutex<WrittenObjects>,
    /// The events whose turn has come.
    events: Vec<(ObjectRef, Event)>,
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

    /// Reads a cluster-scoped object as it is now, for a decision that must not rely on a cache. The cache of its kind, if
    /// there is one, is updated.
    ///
    /// # Errors
    ///
    /// If it cannot be read. `None` if it does not exist.
    pub async fn read<K>(&self, name: &str) -> Result<Option<K>, WriteError>
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope> + DeserializeOwned,
    {
        let object = ObjectRef::named::<K>(name);
        let response = self.get(&object).await?;
        let read = |response: String| serde_json::from_str(&response).map_err(kube::Error::SerdeError);
        response.map(read).transpose().map_err(|error| WriteError {
            verb: WriteVerb::Read,
            object: Box::new(object),
            cause: error.into(),
        })
    }

    /// Performs a decision: its stages in order, then its events.
    pub fn perform<'a, R: Sync>(&'a self, decision: &'a Decision<'a, R>) -> BoxFuture<'a, DecisionOutcome> {
        let perform = async move {
            let mut performed = Performed::default();
            for stage in &decision.stages {
                if self.perform_stage(stage, &mut performed).await.is_break() {
                    performed.outcome.stopped_at = Some(stage.purpose);
                    break;
                }
            }
            for (object, event) in performed.events {
                self.events.emit(&object, &event).await;
            }
            performed.outcome
        };
        perform.boxed()
    }

    /// Performs a single change.
    ///
    /// # Errors
    ///
    /// If it was not made.
    pub async fn change(&self, change: Change) -> Result<(), WriteError> {
        self.perform(&Decision::of([Stage::sequence(Purpose::Write, [change])])).await.result()
    }

    /// Performs one stage. Breaks if a failure ends the decision.
    async fn perform_stage(&self, stage: &Stage<'_>, performed: &mut Performed) -> ControlFlow<()> {
        if stage.flow == Flow::PerObject {
            self.perform_per_object(stage, performed).await;
            return ControlFlow::Continue(());
        }
        for change in stage.all() {
            let outcome = self.make_change(&change, stage.purpose, &performed.written).await;
            if self.record(performed, &change, outcome, stage.flow) && stage.flow == Flow::Sequence {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    /// Records the outcome of a change. Returns whether it failed.
    fn record(&self, performed: &mut Performed, change: &Change, outcome: Result<(), WriteError>, flow: Flow) -> bool {
        let error = match (outcome, &change.action) {
            (Ok(()), Action::Emit(event)) => {
                let object = locked(&performed.written).current(&change.object, Purpose::Announce);
                let uid = object.uid.clone().or_else(|| self.caches.uid(&object));
                performed.events.push((ObjectRef { uid, ..object }, event.clone()));
                return false;
            }
            (Ok(()), Action::Evict) => {
                performed.outcome.evicted.push(change.object.clone());
                return false;
            }
            (Ok(()), _) => return false,
            // A PodDisruptionBudget does not allow it now, which is its purpose. The next decision tries again.
            (Err(error), Action::Evict) if error.is_too_many_requests() => return false,
            (Err(error), _) if error.is_gone() && flow != Flow::Sequence => {
                performed.outcome.gone.push(change.object.key());
                return false;
            }
            (Err(error), _) => error,
        };
        performed.outcome.failures.push(error);
        true
    }

    async fn perform_per_object(&self, stage: &Stage<'_>, performed: &mut Performed) {
        let mut objects: BTreeMap<ObjectRef, Vec<&Change>> = BTreeMap::new();
        for change in &stage.changes {
            // With room for one: nearly every object is changed once, and there may be thousands.
            match objects.entry(change.object.key()) {
                Entry::Vacant(entry) => drop(entry.insert(vec![change])),
                Entry::Occupied(mut entry) => entry.get_mut().push(change),
            }
        }
        let listed = objects.into_values().map(ObjectChanges::Listed);
        let mut rest = listed.chain(stage.deferred.iter().map(ObjectChanges::Deferred));
        // Shared by the groups that run, which are of different objects.
        let written = std::mem::take(&mut performed.written);
        let mut running = FuturesUnordered::new();
        loop {
            running.extend(rest.by_ref().take(MAX_CONCURRENT_WRITES - running.len()).map(|group| {
                // Boxed here, where the lifetimes are known that the compiler needs to see that it is `Send`.
                self.perform_group(group, stage.purpose, &written).boxed()
            }));
            let Some(outcomes) = running.next().await else { break };
            for (change, outcome) in outcomes {
                self.record(performed, &change, outcome, stage.flow);
            }
        }
        drop(running);
        performed.written = written;
    }

    /// Makes the changes of one object, up to the first that fails.
    async fn perform_group<'c>(
        &self,
        group: ObjectChanges<'c>,
        purpose: Purpose,
        written: &Mutex<WrittenObjects>,
    ) -> Vec<(Cow<'c, Change>, Result<(), WriteError>)> {
        let changes: Vec<Cow<'c, Change>> = match group {
            ObjectChanges::Listed(changes) => changes.into_iter().map(Cow::Borrowed).collect(),
            ObjectChanges::Deferred(deferred) => deferred.build().into_iter().map(Cow::Owned).collect(),
        };
        let mut outcomes = Vec::with_capacity(changes.len());
        for change in changes {
            let outcome = self.make_change(&change, purpose, written).await;
            let has_failed = outcome.is_err();
            outcomes.push((change, outcome));
            if has_failed {
                break;
            }
        }
        outcomes
    }

    /// Makes one change. Events are recorded and written later.
    async fn make_change(
        &self,
        change: &Change,
        purpose: Purpose,
        written: &Mutex<WrittenObjects>,
    ) -> Result<(), WriteError> {
        if matches!(change.action, Action::Emit(_)) {
            return Ok(());
        }
        let object = locked(written).current(&change.object, purpose);
        let verb = request::verb(&change.action);
        let request = request::build(&object, &change.action, self.manager);
        let result = match (self.leadership.holds(), request) {
            (false, _) => Err(WriteErrorCause::NotLeading),
            (true, Err(invalid)) => Err(WriteErrorCause::Invalid(invalid)),
            (true, Ok(request)) => self.send(request).await,
        };
        let result = result.map_err(|cause| WriteError { verb, object: Box::new(object.clone()), cause });
        let outcome = result.as_ref().map_or_else(|error| error.category(), |_| "ok");
        self.metrics.count_write(WriteLabels {
            controller: self.manager,
            kind: object.resource.kind.clone().into_owned(),
            verb: verb.as_str(),
            outcome,
        });
        match result {
            // The response to a deletion is a Status, or an object that is about to be deleted: the watch reports the result.
            Ok(_) if matches!(change.action, Action::Delete | Action::Evict) => Ok(()),
            Ok(response) => {
                if let Some(version) = self.caches.record_write(&object, &response) {
                    locked(written).record(&change.action, &object, version);
                }
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

    /// Reads an object again that another writer has changed. The watch would update its cache too, but later: until then
    /// every decision would be refused again.
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
        let response = match request {
            Ok(request) => self.send(request).await,
            Err(error) => Err(error.into()),
        };
        match response.map_err(|cause| WriteError { verb: WriteVerb::Read, object: Box::new(object.clone()), cause }) {
            Ok(response) => {
                self.caches.record_write(object, &response);
                Ok(Some(response))
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn send(&self, request: http::Request<Vec<u8>>) -> Result<String, WriteErrorCause> {
        match tokio::time::timeout(REQUEST_TIMEOUT, self.client.request_text(request)).await {
            Ok(response) => response.map_err(WriteErrorCause::Api),
            Err(_) => Err(WriteErrorCause::Timeout),
        }
    }
}

fn locked(written: &Mutex<WrittenObjects>) -> MutexGuard<'_, WrittenObjects> {
    written.lock().unwrap_or_else(PoisonError::into_inner)
}
