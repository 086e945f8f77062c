//! Housekeeping reconciler: follows the events of the store, checks the affected objects, and executes the resulting
//! actions.
//!
//! Its state is derived from the stored objects at the start and from the events since. So it can be dropped and
//! rebuilt at any time.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use seaworthy_store::{EventKind, Key, Record, Watch, WatchError};
use tracing::{debug, warn};

use crate::builtin::core::namespace::FINALIZER;
use crate::clock;
use crate::request::options::Propagation;
use crate::resource::registry::Registry;
use crate::response::status::Failure;
use crate::server::{Server, decode};

use super::executor::{Action, ActionKind};
use super::garbage::{self, DependencyState, GarbageDecision, LeaveReason};
use super::namespaces::{self, NAMESPACES, NamespaceStep, TerminatingNamespaces};
use super::owner_graph::OwnerGraph;
use super::owner_refs::OwnerRefs;
use super::retention::{EVENTS, EventSweep, HistoryCompaction, is_expired};
use super::work_queue::{WorkItem, WorkQueue};

/// Concurrent actions: they share one sync of the store.
const BATCH_SIZE: usize = 256;

/// How often a terminating namespace reports its remaining content.
const NAMESPACE_REPORT_INTERVAL: SignedDuration = SignedDuration::from_secs(15);

/// The store was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreClosed;

/// The state of housekeeping.
pub struct Reconciler {
    watch: Watch,
    registry: Arc<Registry>,
    owner_graph: OwnerGraph,
    terminating: TerminatingNamespaces,
    /// Objects that are left unchanged because an owner cannot be resolved.
    unresolved: BTreeMap<Key, LeaveReason>,
    queue: WorkQueue,
    history: HistoryCompaction,
    sweep: EventSweep,
    stats: ReconcileStats,
}

/// Counters since the start, for logs and tests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReconcileStats {
    /// Processed events, including the objects at the start.
    pub events: u64,
    /// Processed work items.
    pub checks: u64,
    /// Objects read.
    pub reads: u64,
    /// Executed actions.
    pub actions: u64,
}

impl Reconciler {
    /// Reads all stored objects.
    pub fn new(server: &Server) -> Reconciler {
        let (snapshot, watch) = loop {
            let snapshot = server.store().all();
            // Between the two, more may happen than the store keeps; then start again.
            if let Ok(watch) = server.store().watch_all(snapshot.revision) {
                break (snapshot, watch);
            }
        };
        let mut reconciler = Reconciler {
            watch,
            registry: server.registry(),
            owner_graph: OwnerGraph::default(),
            terminating: TerminatingNamespaces::default(),
            unresolved: BTreeMap::new(),
            queue: WorkQueue::default(),
            history: HistoryCompaction::default(),
            sweep: EventSweep::default(),
            stats: ReconcileStats::default(),
        };
        for record in &snapshot.records {
            reconciler.follow(server, record, EventKind::Updated);
        }
        reconciler
    }

    /// Processes all work that is due now.
    pub async fn run(&mut self, server: &Server) -> Result<(), StoreClosed> {
        loop {
            self.expire(server).await;
            self.catch_up(server)?;
            self.queue.wake(server.clock().now());
            let works = self.queue.take(BATCH_SIZE);
            if works.is_empty() {
                debug!(stats = ?self.stats, left = self.unresolved.len(), "housekeeping is up to date");
                return Ok(());
            }
            self.process(server, works).await;
        }
    }

    /// Makes all delayed work due now.
    pub fn wake_all(&mut self) {
        self.queue.wake_all();
    }

    /// When the next work is due without any event.
    pub fn next_due(&self) -> Option<Timestamp> {
        [self.history.due(), self.sweep.due(), self.queue.next_due()].into_iter().flatten().min()
    }

    /// Processes all new events.
    fn catch_up(&mut self, server: &Server) -> Result<(), StoreClosed> {
        let registry = server.registry();
        if !Arc::ptr_eq(&registry, &self.registry) {
            self.registry = registry;
            for (key, reason) in &self.unresolved {
                match reason {
                    LeaveReason::UnknownKind { api_version, kind }
                        if self.registry.of_kind(api_version, kind).is_some() =>
                    {
                        self.queue.add(WorkItem::Dependent(key.clone()));
                    }
                    _ => {}
                }
            }
        }
        loop {
            match self.watch.try_next() {
                Ok(None) => return Ok(()),
                Ok(Some(batch)) => {
                    for event in batch.events {
                        self.follow(server, &event.record, event.kind);
                    }
                }
                Err(WatchError::Expired { .. }) => {
                    let Reconciler { history, sweep, .. } = std::mem::replace(self, Reconciler::new(server));
                    (self.history, self.sweep) = (history, sweep);
                }
                Err(WatchError::Closed) => return Err(StoreClosed),
            }
        }
    }

    fn follow(&mut self, server: &Server, record: &Record, kind: EventKind) {
        self.stats.events += 1;
        let key = &record.key;
        let owner_refs = OwnerRefs::of(record);
        let content = || namespaces::content(&key.name, server.store(), &self.registry);
        if let Some(work) = self.terminating.follow(key, kind, owner_refs.is_deleting(), content) {
            self.queue.add(work);
        }
        let works = match kind {
            EventKind::Deleted => {
                self.unresolved.remove(key);
                self.owner_graph.remove(key, &owner_refs.uid)
            }
            EventKind::Created | EventKind::Updated => self.owner_graph.set(key, owner_refs),
        };
        for work in works {
            self.queue.add(work);
        }
    }

    /// Checks these items and executes the resulting actions.
    async fn process(&mut self, server: &Server, works: Vec<WorkItem>) {
        let mut actions = Vec::new();
        for work in works {
            self.stats.checks += 1;
            let action = match &work {
                WorkItem::Dependent(key) => self.check_dependent(server, key),
                WorkItem::Owner(uid) => self.check_owner(server, uid),
                WorkItem::Namespace(name) => {
                    let result = self.clear_namespace(server, name).await;
                    self.record_result(server, work, result);
                    continue;
                }
            };
            match action {
                Some(action) => actions.push((work, action)),
                None => self.queue.succeeded(&work),
            }
        }
        self.stats.actions += actions.len() as u64;
        for (work, result) in execute(server, actions).await {
            self.record_result(server, work, result);
        }
    }

    /// Records the result of a work item.
    fn record_result(&mut self, server: &Server, work: WorkItem, result: Result<(), Failure>) {
        match result {
            Ok(()) => self.queue.succeeded(&work),
            Err(failure) => {
                // A conflict only means a concurrent write. Messages may quote the object, so they are not logged.
                if failure.code != 409 {
                    let Failure { code, reason, .. } = failure;
                    warn!(?work, code, reason, "housekeeping failed, retrying");
                }
                self.queue.failed(work, server.clock().now());
            }
        }
    }

    fn check_dependent(&mut self, server: &Server, key: &Key) -> Option<Action> {
        let record = server.store().get(key)?;
        let resource = self.registry.of_storage(&key.resource)?.clone();
        let owner_refs = OwnerRefs::of(&record);
        self.stats.reads += 1 + owner_refs.owners().len() as u64;
        let owners = owner_refs.owners().iter();
        let owners: Vec<_> = owners
            .map(|owner| garbage::owner_state(server.store(), &self.registry, &self.owner_graph, key, owner))
            .collect();
        let decision = garbage::decide(
            &owner_refs,
            DependencyState {
                owners: &owners,
                has_dependents: self.owner_graph.has_dependents(&owner_refs.uid),
                is_in_cycle: self.owner_graph.is_in_cycle(key, &owner_refs.uid),
            },
        );
        self.unresolved.remove(key);
        let kind = match decision {
            GarbageDecision::Leave(reason) => {
                if matches!(reason, LeaveReason::UnknownKind { .. } | LeaveReason::NamespacedOwner { .. }) {
                    debug!(%key, ?reason, "cannot resolve the owners of an object");
                    self.unresolved.insert(key.clone(), reason);
                }
                return None;
            }
            GarbageDecision::RemoveOwners(owners) => ActionKind::RemoveOwners(owners),
            GarbageDecision::Unblock => ActionKind::Unblock,
            GarbageDecision::Delete(propagation) => ActionKind::Delete(propagation, Some(record.revision)),
        };
        Some(Action { resource, key: key.clone(), uid: owner_refs.uid, kind })
    }

    fn check_owner(&self, server: &Server, uid: &str) -> Option<Action> {
        let (key, deletion_mode) = self.owner_graph.released(uid)?;
        let resource = self.registry.of_storage(&key.resource)?.clone();
        server.store().get(key)?;
        Some(Action {
            resource,
            key: key.clone(),
            uid: uid.to_owned(),
            kind: ActionKind::RemoveFinalizer(deletion_mode),
        })
    }

    /// Deletes the content of a terminating namespace, reports what remains, and finalizes it when it is empty.
    async fn clear_namespace(&mut self, server: &Server, name: &Arc<str>) -> Result<(), Failure> {
        let (store, registry) = (server.store(), self.registry.clone());
        let key = Key::new(NAMESPACES, "", name.clone());
        let (Some(record), Some(resource)) = (store.get(&key), registry.of_storage(NAMESPACES)) else { return Ok(()) };
        let namespace = decode(&record);
        let mut failures = Vec::new();
        let members = self.terminating.members(name, store, &registry);
        self.stats.reads += members.len() as u64;
        match namespaces::decide(&namespace, FINALIZER, &members) {
            NamespaceStep::Forget => return Ok(()),
            NamespaceStep::Wait | NamespaceStep::Finalize => {}
            NamespaceStep::Delete(members) => {
                self.stats.actions += members.len() as u64;
                let actions = members.into_iter().filter_map(|member| {
                    let resource = registry.of_storage(&member.key.resource)?.clone();
                    let kind = ActionKind::Delete(Propagation::Background, None);
                    Some(((), Action { resource, key: member.key, uid: member.uid, kind }))
                });
                let results = execute(server, actions.collect()).await;
                failures.extend(results.into_iter().filter_map(|((), result)| result.err()));
            }
        }
        // The remaining content: most was just deleted, and concurrent writes may have changed it.
        let left = namespaces::members(namespaces::content(name, store, &registry), store, &registry);
        self.stats.reads += left.len() as u64;
        let messages: Vec<String> = failures.iter().map(|failure| failure.message.clone()).collect();
        let uid = OwnerRefs::of(&record).uid;
        let action = |kind| Action { resource: resource.clone(), key: key.clone(), uid: uid.clone(), kind };
        let now = server.clock().now();
        if let Some(conditions) = namespaces::report(&namespace, &left, &messages, &clock::rfc3339(now)) {
            self.stats.actions += 1;
            action(ActionKind::SetConditions(conditions)).execute(server).await?;
        }
        if left.is_empty() {
            self.stats.actions += 1;
            return action(ActionKind::Finalize(FINALIZER)).execute(server).await;
        }
        self.queue.add_later(WorkItem::Namespace(name.clone()), now + NAMESPACE_REPORT_INTERVAL);
        failures.into_iter().next().map_or(Ok(()), Err)
    }

    /// Compacts history and deletes expired Events.
    async fn expire(&mut self, server: &Server) {
        let (store, now) = (server.store(), server.clock().now());
        if let Some(revision) = self.history.decide(now, store.revision())
            && let Err(error) = store.compact(revision).await
        {
            warn!(%error, revision, "compaction failed, retrying at the next interval");
        }
        if !self.sweep.decide(now) {
            return;
        }
        let Some(resource) = self.registry.of_storage(EVENTS).cloned() else { return };
        let records = store.list(EVENTS, None).records;
        self.stats.reads += records.len() as u64;
        let expired = records.iter().filter(|record| is_expired(&decode(record), now)).map(|record| {
            // Not if it was written again in between.
            let kind = ActionKind::Delete(Propagation::Background, Some(record.revision));
            ((), Action { resource: resource.clone(), key: record.key.clone(), uid: OwnerRefs::of(record).uid, kind })
        });
        let expired: Vec<_> = expired.collect();
        self.stats.actions += expired.len() as u64;
        // Failures are retried at the next sweep.
        execute(server, expired).await;
    }
}

/// Executes all actions, many at a time, and returns their results.
async fn execute<T>(server: &Server, actions: Vec<(T, Action)>) -> Vec<(T, Result<(), Failure>)> {
    let mut results = Vec::with_capacity(actions.len());
    let mut actions = actions.into_iter().peekable();
    while actions.peek().is_some() {
        let under_way: Vec<_> = actions
            .by_ref()
            .take(BATCH_SIZE)
            .map(|(what, action)| {
                let server = server.clone();
                (what, tokio::spawn(async move { action.execute(&server).await }))
            })
            .collect();
        for (what, task) in under_way {
            let result = task.await.unwrap_or_else(|error| Err(Failure::internal(error)));
            results.push((what, result));
        }
    }
    results
}

#[cfg(test)]
mod tests {
    use seaworthy_store::{Body, Change, Expect};
    use serde_json::{Value, json};

    use super::*;
    use crate::clock::FixedClock;
    use crate::object;
    use crate::request::options::DeleteOptions;
    use crate::server::ServerOptions;
    use crate::write::delete_object;

    const COUNT: u64 = 5_000;

    async fn server() -> Server {
        let clock = Arc::new(FixedClock::at("2026-01-02T03:04:05Z".parse().unwrap()));
        let server = Server::open(ServerOptions::in_memory(clock).unwrap()).unwrap();
        server.prepare().await.unwrap();
        server
    }

    async fn store(server: &Server, objects: impl Iterator<Item = (&'static str, Value)>) {
        let changes = objects.map(|(resource, object)| {
            let metadata = &object["metadata"];
            let text = |key: &str| metadata[key].as_str().unwrap_or_default();
            let key = Key::new(resource, text("namespace"), text("name"));
            Change::Put { key, expected: Expect::Absent, body: object::encode(object.as_object().unwrap()) }
        });
        server.store().commit(changes.collect()).await.unwrap();
    }

    fn config_map(name: &str, owner: Option<&str>, finalizers: &[&str]) -> (&'static str, Value) {
        let mut metadata = json!({"name": name, "namespace": "default", "uid": name, "finalizers": finalizers});
        if let Some(owner) = owner {
            metadata["ownerReferences"] = json!([{
                "apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": owner, "blockOwnerDeletion": true,
            }]);
        }
        ("core/configmaps", json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}))
    }

    async fn stats(server: &Server) -> ReconcileStats {
        server.reconciler().lock().await.as_ref().unwrap().stats
    }

    /// The cost of deleting an owner of [`COUNT`] objects: counters, commits and remaining objects.
    async fn cost(propagation: Propagation) -> (ReconcileStats, u64, usize) {
        let server = server().await;
        let dependents = (0..COUNT).map(|at| config_map(&format!("d{at}"), Some("owner"), &[]));
        store(&server, std::iter::once(config_map("owner", None, &[])).chain(dependents)).await;
        server.settle().await;
        let (before, revision) = (stats(&server).await, server.store().revision());
        let resource = server.registry().of_storage("core/configmaps").unwrap().clone();
        let options = DeleteOptions { propagation: Some(propagation), ..DeleteOptions::default() };
        let key = Key::new("core/configmaps", "default", "owner");
        assert!(delete_object(&server, &resource, &key, &options).await.is_ok());
        server.settle().await;
        let after = stats(&server).await;
        let spent = ReconcileStats {
            events: after.events - before.events,
            checks: after.checks - before.checks,
            reads: after.reads - before.reads,
            actions: after.actions - before.actions,
        };
        let left = server.store().list("core/configmaps", Some("default")).records.len();
        (spent, server.store().revision() - revision, left)
    }

    #[tokio::test]
    async fn five_thousand_dependents_cost_a_few_reads_and_one_commit_each() {
        let (spent, commits, left) = cost(Propagation::Background).await;
        assert_eq!((spent.actions, commits, left), (COUNT, COUNT + 1, 0));
        assert!(spent.checks == COUNT && spent.reads <= 2 * COUNT, "{spent:?}");

        let (spent, commits, left) = cost(Propagation::Foreground).await;
        assert_eq!((spent.actions, commits, left), (COUNT + 1, COUNT + 2, 0));
        assert!(spent.checks <= COUNT + 2 && spent.reads <= 2 * COUNT, "{spent:?}");

        let (spent, commits, left) = cost(Propagation::Orphan).await;
        assert_eq!((spent.actions, commits, left as u64), (COUNT + 1, COUNT + 2, COUNT));
        assert!(spent.checks <= 2 * COUNT + 2 && spent.reads <= 3 * COUNT, "{spent:?}");
    }

    #[tokio::test]
    async fn five_thousand_objects_in_a_namespace_are_read_a_few_times_however_late_they_let_go() {
        let server = server().await;
        let held =
            (0..COUNT).map(|at| config_map(&format!("h{at}"), None, &["example.com/hold"])).map(|(key, mut object)| {
                object["metadata"]["namespace"] = "full".into();
                (key, object)
            });
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "full", "uid": "full"},
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
        });
        store(&server, std::iter::once((NAMESPACES, namespace)).chain(held)).await;
        let resource = server.registry().of_storage(NAMESPACES).unwrap().clone();
        let key = Key::new(NAMESPACES, "", "full");
        assert!(delete_object(&server, &resource, &key, &DeleteOptions::default()).await.is_ok());
        server.settle().await;
        let records = server.store().list("core/configmaps", Some("full")).records;
        assert_eq!(
            (records.len() as u64, records.iter().filter(|r| OwnerRefs::of(r).is_deleting()).count()),
            (COUNT, 5_000)
        );
        // They are removed one by one, with a pass of the reconciler after each.
        for record in records {
            let body = Body::new(record.body(), record.size());
            let change = Change::Delete { key: record.key.clone(), expected: Expect::Any, body };
            server.store().commit(vec![change]).await.unwrap();
            let mut slot = server.reconciler().lock().await;
            assert!(slot.as_mut().unwrap().run(&server).await.is_ok());
        }
        assert_eq!(server.store().get(&key), None);
        let spent = stats(&server).await;
        assert!(spent.reads <= 6 * COUNT && spent.actions <= COUNT + 8, "{spent:?}");
    }

    #[tokio::test]
    async fn closed_store_ends_the_work() {
        let server = server().await;
        let mut reconciler = Reconciler::new(&server);
        assert_eq!(reconciler.run(&server).await, Ok(()));
        server.store().close().await;
        assert_eq!(reconciler.run(&server).await, Err(StoreClosed));
        super::super::run_in_background(server).await;
    }

    #[tokio::test]
    async fn reconciler_with_an_expired_watch_starts_over_and_misses_nothing() {
        let server = server().await;
        let mut reconciler = Reconciler::new(&server);
        store(&server, [config_map("a", Some("missing"), &[]), config_map("b", None, &[])].into_iter()).await;
        server.store().compact(server.store().revision()).await.unwrap();
        assert_eq!(reconciler.run(&server).await, Ok(()));
        let left = server.store().list("core/configmaps", Some("default")).records;
        assert_eq!(left.iter().map(|record| &*record.key.name).collect::<Vec<_>>(), ["b"]);
    }

    #[tokio::test]
    async fn object_whose_owner_has_no_kind_is_left_with_the_reason() {
        let server = server().await;
        let (resource, mut object) = config_map("a", Some("boat"), &[]);
        object["metadata"]["ownerReferences"][0]["apiVersion"] = "example.com/v1".into();
        store(&server, std::iter::once((resource, object))).await;
        server.settle().await;
        let slot = server.reconciler().lock().await;
        let left = &slot.as_ref().unwrap().unresolved;
        let reason =
            LeaveReason::UnknownKind { api_version: "example.com/v1".to_owned(), kind: "ConfigMap".to_owned() };
        assert_eq!(left.iter().collect::<Vec<_>>(), [(&Key::new(resource, "default", "a"), &reason)]);
    }
}
