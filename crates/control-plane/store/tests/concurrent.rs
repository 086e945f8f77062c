//! Many writers, readers and watchers at once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use crate::common::{LogStorage, bodies, indexer, key, put};
use rstest::rstest;
use seaworthy_store::{
    CommitError, Engine, EngineError, Event, EventKind, EventWindow, Expect, Key, MemoryLog, Row, Store, Watermarks,
};

/// An engine that blocks in every append until the test releases it, and reports when it is there.
struct Gated {
    memory: MemoryLog,
    arrived: Sender<Vec<u64>>,
    go: Receiver<Result<(), EngineError>>,
}

impl Engine for Gated {
    fn watermarks(&mut self) -> Result<Watermarks, EngineError> {
        self.memory.watermarks()
    }

    fn load(&mut self, visit: &mut dyn FnMut(Row) -> Result<(), EngineError>) -> Result<(), EngineError> {
        self.memory.load(visit)
    }

    fn append(&mut self, rows: &[Row]) -> Result<(), EngineError> {
        self.arrived.send(rows.iter().map(|row| row.revision).collect()).unwrap();
        self.go.recv().unwrap()?;
        self.memory.append(rows)
    }

    fn compact(&mut self, watermarks: Watermarks, superseded: &[u64]) -> Result<(), EngineError> {
        self.memory.compact(watermarks, superseded)
    }
}

fn gated() -> (Store, Receiver<Vec<u64>>, Sender<Result<(), EngineError>>) {
    let (arrived, arrivals) = channel();
    let (release, go) = channel();
    let engine = Gated { memory: MemoryLog::new(), arrived, go };
    (Store::with_engine(engine, indexer(), EventWindow::default()).unwrap(), arrivals, release)
}

/// Sends commits without waiting for them; each is polled once, in order, so that they queue in order.
async fn send(store: &Store, names: &[&str]) -> Vec<tokio::task::JoinHandle<Result<u64, CommitError>>> {
    let mut tasks = Vec::new();
    for name in names {
        let (store, change) = (store.clone(), put(&key(name), Expect::Absent, name));
        tasks.push(tokio::spawn(async move { store.commit(vec![change]).await.map(|done| done.revision) }));
        tokio::task::yield_now().await;
    }
    tasks
}

#[tokio::test]
async fn commits_that_wait_share_one_append() {
    let (store, arrivals, go) = gated();
    let mut tasks = send(&store, &["a"]).await;
    assert_eq!(arrivals.recv().unwrap(), [1]);
    tasks.extend(send(&store, &["b", "c", "d", "b", "e"]).await);
    go.send(Ok(())).unwrap();
    // The second "b" is refused by the first one, which is in the same group.
    assert_eq!(arrivals.recv().unwrap(), [2, 3, 4, 5]);
    go.send(Ok(())).unwrap();
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.unwrap());
    }
    let revisions: Vec<_> = answers.iter().map(|answer| answer.as_ref().ok().copied()).collect();
    assert_eq!(revisions, [Some(1), Some(2), Some(3), Some(4), None, Some(5)]);
    let conflict = answers.swap_remove(4).unwrap_err();
    assert!(matches!(&conflict, CommitError::Conflict { found: Some(found), .. } if found.revision == 2), "{conflict}");
    assert!(arrivals.try_recv().is_err());
}

#[tokio::test]
async fn nothing_shows_before_it_is_durable() {
    let (store, arrivals, go) = gated();
    let mut watch = store.watch("core/pods", 0).unwrap();
    let mut tasks = send(&store, &["a"]).await;
    arrivals.recv().unwrap();
    assert_eq!((store.get(&key("a")), store.revision(), store.list("core/pods", None).records.len()), (None, 0, 0));
    assert!(watch.try_next().unwrap().is_none());
    assert!(!tasks[0].is_finished());
    go.send(Ok(())).unwrap();
    assert_eq!(tasks.remove(0).await.unwrap().unwrap(), 1);
    assert!(store.get(&key("a")).is_some());
    assert_eq!(watch.try_next().unwrap().unwrap().events.len(), 1);
}

#[tokio::test]
async fn a_failing_append_refuses_its_whole_group_and_nothing_else() {
    let (store, arrivals, go) = gated();
    let mut tasks = send(&store, &["a"]).await;
    arrivals.recv().unwrap();
    // The second "b" has no conflict to report, since the first one does not come about either.
    tasks.extend(send(&store, &["b", "c", "b"]).await);
    go.send(Ok(())).unwrap();
    assert_eq!(arrivals.recv().unwrap(), [2, 3]);
    go.send(Err(EngineError::Io(std::io::ErrorKind::StorageFull.into()))).unwrap();
    assert_eq!(tasks.remove(0).await.unwrap().unwrap(), 1);
    for task in tasks {
        let error = task.await.unwrap().unwrap_err();
        assert!(matches!(error, CommitError::Unavailable { is_full: true, .. }), "{error}");
    }
    assert_eq!(bodies(&store.list("core/pods", None).records), ["a@1"]);
    let mut tasks = send(&store, &["b"]).await;
    assert_eq!(arrivals.recv().unwrap(), [2]);
    go.send(Ok(())).unwrap();
    assert_eq!(tasks.remove(0).await.unwrap().unwrap(), 2);
}

#[tokio::test]
async fn a_caller_that_gives_up_does_not_stop_its_commit() {
    let (store, arrivals, go) = gated();
    let tasks = send(&store, &["a"]).await;
    arrivals.recv().unwrap();
    tasks[0].abort();
    go.send(Ok(())).unwrap();
    let mut watch = store.watch("core/pods", 0).unwrap();
    assert_eq!(watch.next().await.unwrap().events.len(), 1);
}

/// Counts the appends of another engine.
struct Counted(Box<dyn Engine>, Arc<AtomicUsize>);

impl Engine for Counted {
    fn watermarks(&mut self) -> Result<Watermarks, EngineError> {
        self.0.watermarks()
    }

    fn load(&mut self, visit: &mut dyn FnMut(Row) -> Result<(), EngineError>) -> Result<(), EngineError> {
        self.0.load(visit)
    }

    fn append(&mut self, rows: &[Row]) -> Result<(), EngineError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.append(rows)
    }

    fn compact(&mut self, watermarks: Watermarks, superseded: &[u64]) -> Result<(), EngineError> {
        self.0.compact(watermarks, superseded)
    }
}

const WRITERS: usize = 16;
const COMMITS: usize = 25;
const RESOURCES: [&str; 2] = ["core/nodes", "core/pods"];

/// Each writer adds to counters that all share, half of them in each resource; a conflict is tried again.
async fn write(store: Store, writer: usize) {
    for n in 0..COMMITS {
        let key = Key::new(RESOURCES[(writer + n) % 2], "", format!("counter-{}", n % 3));
        loop {
            let found = store.get(&key);
            let (expected, count) = match &found {
                Some(found) => {
                    (Expect::Revision(found.revision), bodies([found])[0].split('@').next().unwrap().parse().unwrap())
                }
                None => (Expect::Absent, 0),
            };
            match store.commit(vec![put(&key, expected, &(count + 1).to_string())]).await {
                Ok(done) => {
                    assert!(store.get(&key).unwrap().revision >= done.revision, "acknowledged and not visible");
                    break;
                }
                Err(CommitError::Conflict { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
    }
}

/// Follows one resource, or all, until it has seen everything.
async fn follow(store: Store, resource: Option<&'static str>, events: usize) -> Vec<Arc<Event>> {
    let mut watch = match resource {
        Some(resource) => store.watch(resource, 0).unwrap(),
        None => store.watch_all(0).unwrap(),
    };
    let mut seen = Vec::new();
    while seen.len() < events {
        let batch = watch.next().await.unwrap();
        assert!(batch.revision >= batch.events.last().unwrap().revision());
        seen.extend(batch.events);
    }
    assert!(watch.try_next().unwrap().is_none());
    seen
}

/// Lists a resource, then watches from there, and so knows every state.
async fn mirror(store: Store, last: u64) -> BTreeMap<Key, u64> {
    let listed = store.list("core/pods", None);
    let mut objects: BTreeMap<Key, u64> =
        listed.records.iter().map(|record| (record.key.clone(), record.revision)).collect();
    assert!(objects.values().all(|revision| *revision <= listed.revision));
    // All resources, since the very last event may be one of the other.
    let mut watch = store.watch_all(listed.revision).unwrap();
    while watch.progress() < last {
        for event in watch.next().await.unwrap().events {
            assert!(event.revision() > listed.revision);
            if &*event.record.key.resource == "core/pods" {
                let before = objects.insert(event.record.key.clone(), event.revision());
                assert_eq!(before, event.previous.as_ref().map(|previous| previous.revision));
            }
        }
    }
    objects
}

#[rstest]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_watcher_sees_every_event_once_in_order(
    #[values(LogStorage::disk(), LogStorage::memory())] storage: LogStorage,
) {
    let appends = Arc::new(AtomicUsize::new(0));
    let store =
        Store::with_engine(Counted(storage.engine(), appends.clone()), indexer(), EventWindow::default()).unwrap();
    let total = WRITERS * COMMITS;
    let of_resource = |resource: usize| {
        (0..WRITERS).flat_map(|writer| (0..COMMITS).map(move |n| writer + n)).filter(|n| n % 2 == resource).count()
    };
    let followers: Vec<_> = (0..12)
        .map(|n| match n % 3 {
            2 => tokio::spawn(follow(store.clone(), None, total)),
            n => tokio::spawn(follow(store.clone(), Some(RESOURCES[n]), of_resource(n))),
        })
        .collect();
    let writers: Vec<_> = (0..WRITERS).map(|writer| tokio::spawn(write(store.clone(), writer))).collect();
    // Started while the writers write.
    let mirrors: Vec<_> = (0..4)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                tokio::task::yield_now().await;
                mirror(store, total as u64).await
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(store.revision(), total as u64);
    for (n, follower) in followers.into_iter().enumerate() {
        let events = follower.await.unwrap();
        let revisions: Vec<u64> = events.iter().map(|event| event.revision()).collect();
        assert!(revisions.is_sorted_by(|one, other| one < other));
        if n % 3 == 2 {
            assert_eq!(revisions, (1..=total as u64).collect::<Vec<_>>());
        } else {
            assert!(events.iter().all(|event| &*event.record.key.resource == RESOURCES[n % 3]));
        }
        let mut objects: BTreeMap<&Key, u64> = BTreeMap::new();
        for event in &events {
            let before = objects.insert(&event.record.key, event.revision());
            assert_eq!(before, event.previous.as_ref().map(|previous| previous.revision));
            assert_eq!(event.kind == EventKind::Created, before.is_none());
        }
    }
    let last: BTreeMap<Key, u64> =
        store.list("core/pods", None).records.iter().map(|record| (record.key.clone(), record.revision)).collect();
    for mirror in mirrors {
        assert_eq!(mirror.await.unwrap(), last);
    }
    // No update was lost, and commits shared appends.
    let counts: usize = RESOURCES
        .iter()
        .flat_map(|resource| bodies(&store.list(resource, None).records))
        .map(|body| body.split('@').next().unwrap().parse::<usize>().unwrap())
        .sum();
    assert_eq!(counts, total);
    if matches!(storage, LogStorage::Disk(_)) {
        assert!(appends.load(Ordering::Relaxed) < total, "{appends:?} appends for {total} commits");
    }
}

#[test]
fn handles_and_watches_can_be_sent_and_shared() {
    fn check<T: Send + Sync + 'static>() {}
    check::<Store>();
    check::<seaworthy_store::Watch>();
    check::<Mutex<Store>>();
}
