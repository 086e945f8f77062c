//! Does the housekeeping: follows what happens, looks at what that concerns, and puts it in order.
//!
//! Everything it knows is worked out from the stored objects at the start and from the events since. So it can be
//! dropped at any time and made again, and nothing is lost.

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

use super::garbage::{self, Reason, Situation, Verdict};
use super::hand::{Act, Deed};
use super::kinship::Kinship;
use super::namespaces::{self, Leaving, NAMESPACES, Step};
use super::retention::{EVENTS, History, Sweep, is_expired};
use super::ties::Ties;
use super::work::{Queue, Work};

/// Changes that are under way at once: they share the price of a sync.
const BATCH: usize = 256;

/// How often a namespace that waits for its content tells what is left.
const REPORT: SignedDuration = SignedDuration::from_secs(15);

/// The store was closed: there is nothing left to keep in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed;

/// Keeps the stored objects in order.
pub struct Keeper {
    watch: Watch,
    registry: Arc<Registry>,
    kinship: Kinship,
    leaving: Leaving,
    /// Objects that are left alone although an owner may be gone, and why.
    left: BTreeMap<Key, Reason>,
    queue: Queue,
    history: History,
    sweep: Sweep,
    tally: Tally,
}

/// What was done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Events that were followed, the objects at the start included.
    pub events: u64,
    /// Things that were looked at.
    pub looks: u64,
    /// Objects that were read for that.
    pub reads: u64,
    /// Changes that were tried.
    pub deeds: u64,
}

impl Keeper {
    /// Looks at everything that is stored.
    pub fn new(server: &Server) -> Keeper {
        let (snapshot, watch) = loop {
            let snapshot = server.store().all();
            // Between the two, more may happen than the store remembers; then there is a newer start.
            if let Ok(watch) = server.store().watch_all(snapshot.revision) {
                break (snapshot, watch);
            }
        };
        let mut keeper = Keeper {
            watch,
            registry: server.registry(),
            kinship: Kinship::default(),
            leaving: Leaving::default(),
            left: BTreeMap::new(),
            queue: Queue::default(),
            history: History::default(),
            sweep: Sweep::default(),
            tally: Tally::default(),
        };
        for record in &snapshot.records {
            keeper.follow(server, record, EventKind::Updated);
        }
        keeper
    }

    /// Does everything that there is to do now.
    pub async fn run(&mut self, server: &Server) -> Result<(), Closed> {
        loop {
            self.keep_time(server).await;
            self.catch_up(server)?;
            self.queue.wake(server.world().now());
            let works = self.queue.take(BATCH);
            if works.is_empty() {
                debug!(tally = ?self.tally, left = self.left.len(), "everything is in order");
                return Ok(());
            }
            self.look(server, works).await;
        }
    }

    /// Tries again what failed, whenever it is due.
    pub fn wake_all(&mut self) {
        self.queue.wake_all();
    }

    /// When there is something to do next even if nothing happens.
    pub fn next_due(&self) -> Option<Timestamp> {
        [self.history.due(), self.sweep.due(), self.queue.next_due()].into_iter().flatten().min()
    }

    /// Follows all events that it has not seen.
    fn catch_up(&mut self, server: &Server) -> Result<(), Closed> {
        let registry = server.registry();
        if !Arc::ptr_eq(&registry, &self.registry) {
            self.registry = registry;
            for (key, reason) in &self.left {
                match reason {
                    Reason::UnknownKind { api_version, kind } if self.registry.of_kind(api_version, kind).is_some() => {
                        self.queue.add(Work::Dependent(key.clone()));
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
                    let Keeper { history, sweep, .. } = std::mem::replace(self, Keeper::new(server));
                    (self.history, self.sweep) = (history, sweep);
                }
                Err(WatchError::Closed) => return Err(Closed),
            }
        }
    }

    fn follow(&mut self, server: &Server, record: &Record, kind: EventKind) {
        self.tally.events += 1;
        let key = &record.key;
        let ties = Ties::of(record);
        let content = || namespaces::content(&key.name, server.store(), &self.registry);
        if let Some(work) = self.leaving.follow(key, kind, ties.is_deleting(), content) {
            self.queue.add(work);
        }
        let works = match kind {
            EventKind::Deleted => {
                self.left.remove(key);
                self.kinship.remove(key, &ties.uid)
            }
            EventKind::Created | EventKind::Updated => self.kinship.set(key, ties),
        };
        for work in works {
            self.queue.add(work);
        }
    }

    /// Looks at these things, and does what follows.
    async fn look(&mut self, server: &Server, works: Vec<Work>) {
        let mut deeds = Vec::new();
        for work in works {
            self.tally.looks += 1;
            let deed = match &work {
                Work::Dependent(key) => self.judge_dependent(server, key),
                Work::Owner(uid) => self.judge_owner(server, uid),
                Work::Namespace(name) => {
                    let result = self.clear_namespace(server, name).await;
                    self.note(server, work, result);
                    continue;
                }
            };
            match deed {
                Some(deed) => deeds.push((work, deed)),
                None => self.queue.succeeded(&work),
            }
        }
        self.tally.deeds += deeds.len() as u64;
        for (work, result) in perform(server, deeds).await {
            self.note(server, work, result);
        }
    }

    /// Remembers how something went.
    fn note(&mut self, server: &Server, work: Work, result: Result<(), Failure>) {
        match result {
            Ok(()) => self.queue.succeeded(&work),
            Err(failure) => {
                // A conflict only means that somebody else was faster. Messages may quote the object, so they are not
                // for the log.
                if failure.code != 409 {
                    let Failure { code, reason, .. } = failure;
                    warn!(?work, code, reason, "housekeeping failed, and tries again");
                }
                self.queue.failed(work, server.world().now());
            }
        }
    }

    fn judge_dependent(&mut self, server: &Server, key: &Key) -> Option<Deed> {
        let record = server.store().get(key)?;
        let resource = self.registry.of_storage(&key.resource)?.clone();
        let ties = Ties::of(&record);
        self.tally.reads += 1 + ties.owners().len() as u64;
        let owners = ties.owners().iter();
        let owners: Vec<_> =
            owners.map(|owner| garbage::standing(server.store(), &self.registry, &self.kinship, key, owner)).collect();
        let verdict = garbage::decide(
            &ties,
            Situation {
                owners: &owners,
                has_dependents: self.kinship.has_dependents(&ties.uid),
                is_in_circle: self.kinship.is_in_circle(key, &ties.uid),
            },
        );
        self.left.remove(key);
        let act = match verdict {
            Verdict::Leave(reason) => {
                if matches!(reason, Reason::UnknownKind { .. } | Reason::NamespacedOwner { .. }) {
                    debug!(%key, ?reason, "the owners of an object cannot be told");
                    self.left.insert(key.clone(), reason);
                }
                return None;
            }
            Verdict::Loosen(owners) => Act::Loosen(owners),
            Verdict::Unblock => Act::Unblock,
            Verdict::Delete(propagation) => Act::Delete(propagation, Some(record.revision)),
        };
        Some(Deed { resource, key: key.clone(), uid: ties.uid, act })
    }

    fn judge_owner(&self, server: &Server, uid: &str) -> Option<Deed> {
        let (key, parting) = self.kinship.released(uid)?;
        let resource = self.registry.of_storage(&key.resource)?.clone();
        server.store().get(key)?;
        Some(Deed { resource, key: key.clone(), uid: uid.to_owned(), act: Act::Release(parting) })
    }

    /// Empties a namespace that is on its way out, reports what is left, and lets it go when that is nothing.
    async fn clear_namespace(&mut self, server: &Server, name: &Arc<str>) -> Result<(), Failure> {
        let (store, registry) = (server.store(), self.registry.clone());
        let key = Key::new(NAMESPACES, "", name.clone());
        let (Some(record), Some(resource)) = (store.get(&key), registry.of_storage(NAMESPACES)) else { return Ok(()) };
        let namespace = decode(&record);
        let mut failures = Vec::new();
        let members = self.leaving.members(name, store, &registry);
        self.tally.reads += members.len() as u64;
        match namespaces::decide(&namespace, FINALIZER, &members) {
            Step::Forget => return Ok(()),
            Step::Wait | Step::Finalize => {}
            Step::Delete(members) => {
                self.tally.deeds += members.len() as u64;
                let deeds = members.into_iter().filter_map(|member| {
                    let resource = registry.of_storage(&member.key.resource)?.clone();
                    let act = Act::Delete(Propagation::Background, None);
                    Some(((), Deed { resource, key: member.key, uid: member.uid, act }))
                });
                let results = perform(server, deeds.collect()).await;
                failures.extend(results.into_iter().filter_map(|((), result)| result.err()));
            }
        }
        // What is there now: most of it is gone, and somebody may have been faster than the namespace's end.
        let left = namespaces::members(namespaces::content(name, store, &registry), store, &registry);
        self.tally.reads += left.len() as u64;
        let messages: Vec<String> = failures.iter().map(|failure| failure.message.clone()).collect();
        let uid = Ties::of(&record).uid;
        let deed = |act| Deed { resource: resource.clone(), key: key.clone(), uid: uid.clone(), act };
        let now = server.world().now();
        if let Some(conditions) = namespaces::report(&namespace, &left, &messages, &clock::written(now)) {
            self.tally.deeds += 1;
            deed(Act::Report(conditions)).perform(server).await?;
        }
        if left.is_empty() {
            self.tally.deeds += 1;
            return deed(Act::Finalize(FINALIZER)).perform(server).await;
        }
        self.queue.add_later(Work::Namespace(name.clone()), now + REPORT);
        failures.into_iter().next().map_or(Ok(()), Err)
    }

    /// Forgets history and Events that are old enough.
    async fn keep_time(&mut self, server: &Server) {
        let (store, now) = (server.store(), server.world().now());
        if let Some(revision) = self.history.decide(now, store.revision())
            && let Err(error) = store.compact(revision).await
        {
            warn!(%error, revision, "history is not forgotten, and will be the next time");
        }
        if !self.sweep.decide(now) {
            return;
        }
        let Some(resource) = self.registry.of_storage(EVENTS).cloned() else { return };
        let records = store.list(EVENTS, None).records;
        self.tally.reads += records.len() as u64;
        let expired = records.iter().filter(|record| is_expired(&decode(record), now)).map(|record| {
            // Written again in between, it stays.
            let act = Act::Delete(Propagation::Background, Some(record.revision));
            ((), Deed { resource: resource.clone(), key: record.key.clone(), uid: Ties::of(record).uid, act })
        });
        let expired: Vec<_> = expired.collect();
        self.tally.deeds += expired.len() as u64;
        // What fails is old the next time too.
        perform(server, expired).await;
    }
}

/// Does all of these, many at once, and says how each of them went.
async fn perform<T>(server: &Server, deeds: Vec<(T, Deed)>) -> Vec<(T, Result<(), Failure>)> {
    let mut results = Vec::with_capacity(deeds.len());
    let mut deeds = deeds.into_iter().peekable();
    while deeds.peek().is_some() {
        let under_way: Vec<_> = deeds
            .by_ref()
            .take(BATCH)
            .map(|(what, deed)| {
                let server = server.clone();
                (what, tokio::spawn(async move { deed.perform(&server).await }))
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
    use crate::clock::Still;
    use crate::object;
    use crate::request::options::DeleteOptions;
    use crate::server::Settings;
    use crate::write::delete_object;

    const COUNT: u64 = 5_000;

    async fn server() -> Server {
        let world = Arc::new(Still::at("2026-01-02T03:04:05Z".parse().unwrap()));
        let server = Server::open(Settings::in_memory(world).unwrap()).unwrap();
        server.prepare().await.unwrap();
        server
    }

    async fn store(server: &Server, objects: impl Iterator<Item = (&'static str, Value)>) {
        let changes = objects.map(|(resource, object)| {
            let metadata = &object["metadata"];
            let text = |key: &str| metadata[key].as_str().unwrap_or_default();
            let key = Key::new(resource, text("namespace"), text("name"));
            let encoded = object::encode(object.as_object().unwrap());
            Change::Put { key, expected: Expect::Absent, body: Body::new(encoded.bytes, encoded.hole) }
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

    async fn tally(server: &Server) -> Tally {
        server.keeper().lock().await.as_ref().unwrap().tally
    }

    /// What it takes to delete an owner of [`COUNT`] objects: reads and so on, and commits.
    async fn cost(propagation: Propagation) -> (Tally, u64, usize) {
        let server = server().await;
        let dependents = (0..COUNT).map(|at| config_map(&format!("d{at}"), Some("owner"), &[]));
        store(&server, std::iter::once(config_map("owner", None, &[])).chain(dependents)).await;
        server.settle().await;
        let (before, revision) = (tally(&server).await, server.store().revision());
        let resource = server.registry().of_storage("core/configmaps").unwrap().clone();
        let options = DeleteOptions { propagation: Some(propagation), ..DeleteOptions::default() };
        let key = Key::new("core/configmaps", "default", "owner");
        assert!(delete_object(&server, &resource, &key, &options).await.is_ok());
        server.settle().await;
        let after = tally(&server).await;
        let spent = Tally {
            events: after.events - before.events,
            looks: after.looks - before.looks,
            reads: after.reads - before.reads,
            deeds: after.deeds - before.deeds,
        };
        let left = server.store().list("core/configmaps", Some("default")).records.len();
        (spent, server.store().revision() - revision, left)
    }

    #[tokio::test]
    async fn five_thousand_dependents_cost_a_few_reads_and_one_commit_each() {
        let (spent, commits, left) = cost(Propagation::Background).await;
        assert_eq!((spent.deeds, commits, left), (COUNT, COUNT + 1, 0));
        assert!(spent.looks == COUNT && spent.reads <= 2 * COUNT, "{spent:?}");

        let (spent, commits, left) = cost(Propagation::Foreground).await;
        assert_eq!((spent.deeds, commits, left), (COUNT + 1, COUNT + 2, 0));
        assert!(spent.looks <= COUNT + 2 && spent.reads <= 2 * COUNT, "{spent:?}");

        let (spent, commits, left) = cost(Propagation::Orphan).await;
        assert_eq!((spent.deeds, commits, left as u64), (COUNT + 1, COUNT + 2, COUNT));
        assert!(spent.looks <= 2 * COUNT + 2 && spent.reads <= 3 * COUNT, "{spent:?}");
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
            (records.len() as u64, records.iter().filter(|r| Ties::of(r).is_deleting()).count()),
            (COUNT, 5_000)
        );
        // They let go one by one, and are followed one by one.
        for record in records {
            let body = Body::new(record.body(), record.size());
            let change = Change::Delete { key: record.key.clone(), expected: Expect::Any, body };
            server.store().commit(vec![change]).await.unwrap();
            let mut slot = server.keeper().lock().await;
            assert!(slot.as_mut().unwrap().run(&server).await.is_ok());
        }
        assert_eq!(server.store().get(&key), None);
        let spent = tally(&server).await;
        assert!(spent.reads <= 6 * COUNT && spent.deeds <= COUNT + 8, "{spent:?}");
    }

    #[tokio::test]
    async fn closed_store_ends_the_work() {
        let server = server().await;
        let mut keeper = Keeper::new(&server);
        assert_eq!(keeper.run(&server).await, Ok(()));
        server.store().close().await;
        assert_eq!(keeper.run(&server).await, Err(Closed));
        super::super::keep_in_order(server).await;
    }

    #[tokio::test]
    async fn keeper_that_missed_too_much_begins_anew_and_misses_nothing() {
        let server = server().await;
        let mut keeper = Keeper::new(&server);
        store(&server, [config_map("a", Some("nobody"), &[]), config_map("b", None, &[])].into_iter()).await;
        server.store().compact(server.store().revision()).await.unwrap();
        assert_eq!(keeper.run(&server).await, Ok(()));
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
        let slot = server.keeper().lock().await;
        let left = &slot.as_ref().unwrap().left;
        let reason = Reason::UnknownKind { api_version: "example.com/v1".to_owned(), kind: "ConfigMap".to_owned() };
        assert_eq!(left.iter().collect::<Vec<_>>(), [(&Key::new(resource, "default", "a"), &reason)]);
    }
}
