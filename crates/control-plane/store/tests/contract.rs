//! Contract tests of all engines, and of the store on each of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{LogStorage, bodies, body, delete, indexer, key, put};
use bytes::Bytes;
use rstest::rstest;
use seaworthy_store::{
    Body, Change, CommitError, CompactError, Engine, EventKind, EventWindow, Expect, Key, ReadError, Row, RowKind,
    Store, Tags, WatchError, Watermarks,
};

const UNBOUNDED: EventWindow =
    EventWindow { max_events: usize::MAX, soft_max_bytes: usize::MAX, min_events: 1, max_bytes: usize::MAX };

/// How many of the latest events a watcher may still ask for.
fn kept(store: &Store) -> u64 {
    (0..store.revision()).take_while(|back| store.watch("core/pods", store.revision() - back - 1).is_ok()).count()
        as u64
}

fn row(revision: u64, name: &str, text: &'static str) -> Row {
    Row {
        revision,
        kind: RowKind::Put,
        created_revision: revision,
        key: key(name),
        body: Bytes::from_static(text.as_bytes()),
    }
}

fn rows(engine: &mut dyn Engine) -> Vec<Row> {
    let mut rows = Vec::new();
    engine
        .load(&mut |row| {
            rows.push(row);
            Ok(())
        })
        .unwrap();
    rows
}

#[rstest]
fn a_new_log_is_empty(#[values(LogStorage::disk(), LogStorage::memory())] storage: LogStorage) {
    let mut engine = storage.engine();
    assert_eq!(engine.watermarks().unwrap(), Watermarks { revision: 0, compacted: 0 });
    assert_eq!(rows(&mut *engine), []);
}

#[rstest]
fn rows_come_back_in_order_after_a_restart(#[values(LogStorage::disk(), LogStorage::memory())] storage: LogStorage) {
    let all = [row(1, "a", "one"), row(2, "b", ""), Row { kind: RowKind::Delete, ..row(3, "a", "three") }];
    let mut engine = storage.engine();
    rows(&mut *engine);
    engine.append(&all[..2]).unwrap();
    engine.append(&all[2..]).unwrap();
    assert_eq!(rows(&mut *engine), all);
    drop(engine);
    let mut engine = storage.engine();
    assert_eq!(engine.watermarks().unwrap(), Watermarks { revision: 3, compacted: 0 });
    assert_eq!(rows(&mut *engine), all);
}

#[rstest]
fn compaction_removes_the_given_rows_and_keeps_the_watermarks(
    #[values(LogStorage::disk(), LogStorage::memory())] storage: LogStorage,
) {
    let mut engine = storage.engine();
    engine.append(&[row(1, "a", "1"), row(2, "a", "2"), row(3, "a", "3")]).unwrap();
    let watermarks = Watermarks { revision: 3, compacted: 3 };
    engine.compact(watermarks, &[1, 3, 99]).unwrap();
    assert_eq!(rows(&mut *engine), [row(2, "a", "2")]);
    drop(engine);
    let mut engine = storage.engine();
    assert_eq!(engine.watermarks().unwrap(), watermarks);
    assert_eq!(rows(&mut *engine), [row(2, "a", "2")]);
    engine.append(&[row(4, "a", "4")]).unwrap();
    assert_eq!(engine.watermarks().unwrap().revision, 4);
}

#[rstest]
#[tokio::test]
async fn a_body_gets_its_revision_and_keeps_its_creation(
    #[values(LogStorage::disk(), LogStorage::memory())] storage: LogStorage,
) {
    let store = storage.store();
    let pod = key("a");
    let first = store.commit(vec![put(&pod, Expect::Absent, "new")]).await.unwrap();
    assert_eq!((first.revision, bodies(&first.records)), (1, vec!["new@1".to_owned()]));
    store.commit(vec![put(&key("b"), Expect::Any, "other")]).await.unwrap();
    store.commit(vec![put(&pod, Expect::Revision(1), "newer")]).await.unwrap();
    store.close().await;
    for store in [store, storage.store()] {
        let found = store.get(&pod).unwrap();
        assert_eq!((found.revision, found.created_revision, &*found.body()), (3, 1, &b"newer@3"[..]));
        assert_eq!((found.tags.label("text"), found.tags.field("name")), (Some("newer"), Some("a")));
    }
}

#[rstest]
#[tokio::test]
async fn an_unmet_expectation_names_what_was_found(
    #[values(LogStorage::disk(), LogStorage::memory())] storage: LogStorage,
) {
    let store = storage.store();
    let pod = key("a");
    store.commit(vec![put(&pod, Expect::Absent, "x")]).await.unwrap();
    for (change, there) in [
        (put(&pod, Expect::Absent, "y"), Some(1)),
        (put(&pod, Expect::Revision(7), "y"), Some(1)),
        (put(&key("b"), Expect::Revision(1), "y"), None),
        (delete(&pod, Expect::Revision(7), "y"), Some(1)),
        (delete(&pod, Expect::Absent, "y"), Some(1)),
        (delete(&key("b"), Expect::Any, "y"), None),
        (delete(&key("b"), Expect::Absent, "y"), None),
    ] {
        match store.commit(vec![change.clone()]).await {
            Err(CommitError::Conflict { key, found, .. }) => {
                assert_eq!((&key, found.map(|found| found.revision)), (change.key(), there));
            }
            other => panic!("{change:?}: {other:?}"),
        }
    }
    assert_eq!(store.revision(), 1);
    let message = store.commit(vec![put(&pod, Expect::Revision(7), "y")]).await.unwrap_err().to_string();
    assert_eq!(message, "core/pods default/a: expected revision 7, found revision 1");
}

#[rstest]
#[tokio::test]
async fn a_commit_is_made_as_a_whole_or_not_at_all(
    #[values(LogStorage::disk(), LogStorage::memory())] storage: LogStorage,
) {
    let store = storage.store();
    let (a, b) = (key("a"), key("b"));
    store.commit(vec![put(&a, Expect::Absent, "1")]).await.unwrap();
    let refused = vec![
        put(&a, Expect::Revision(1), "2"),
        delete(&a, Expect::Revision(2), "3"),
        put(&b, Expect::Absent, "4"),
        put(&b, Expect::Absent, "5"),
    ];
    assert!(matches!(store.commit(refused).await, Err(CommitError::Conflict { .. })));
    assert_eq!((store.revision(), store.get(&b)), (1, None));
    // Later changes of a commit see the earlier ones.
    let made = vec![
        put(&a, Expect::Revision(1), "2"),
        delete(&a, Expect::Revision(2), "3"),
        put(&a, Expect::Absent, "4"),
        put(&b, Expect::Absent, "5"),
    ];
    let done = store.commit(made).await.unwrap();
    assert_eq!((done.revision, bodies(&done.records)), (5, ["2@2", "3@3", "4@4", "5@5"].map(str::to_owned).to_vec()));
    assert_eq!(store.get(&a).unwrap().created_revision, 4);
    assert_eq!(store.commit(vec![]).await.unwrap().revision, 5);
    store.close().await;
    assert_eq!(bodies(&storage.store().list("core/pods", None).records), ["4@4", "5@5"]);
}

#[rstest]
#[tokio::test]
async fn what_cannot_be_stored_is_refused_by_name(
    #[values(LogStorage::disk(), LogStorage::memory())] storage: LogStorage,
) {
    let store = storage.store();
    for key in [Key::new("", "", "a"), Key::new("r", "", ""), Key::new("r", "n".repeat(Key::MAX_PART_BYTES + 1), "a")] {
        let refused = store.commit(vec![put(&key, Expect::Any, "")]).await;
        assert!(matches!(refused, Err(CommitError::Invalid { .. })), "{refused:?}");
    }
    let outside = Change::Put { key: key("a"), expected: Expect::Any, body: Body::new("abc", 4) };
    let message = store.commit(vec![outside]).await.unwrap_err().to_string();
    assert_eq!(message, "core/pods default/a: revision offset 4 is outside the body of 3 bytes");
    assert_eq!(store.revision(), 0);
    let longest = Key::new("r", "n".repeat(Key::MAX_PART_BYTES), "a");
    store.commit(vec![put(&longest, Expect::Any, "")]).await.unwrap();
    store.close().await;
    assert!(storage.store().get(&longest).is_some());
}

#[rstest]
#[tokio::test]
async fn lists_are_in_order_and_keep_to_their_namespace(
    #[values(LogStorage::disk(), LogStorage::memory())] storage: LogStorage,
) {
    let store = storage.store();
    // Neighbours that share prefixes, in an order that is not theirs.
    for (resource, namespace, name) in [
        ("r", "b", "x"),
        ("r", "a", "z"),
        ("rs", "a", "x"),
        ("r", "ab", "x"),
        ("r", "a", "x"),
        ("r", "", "x"),
        ("q", "a", "x"),
    ] {
        let text = format!("{resource}.{namespace}.{name}");
        store.commit(vec![put(&Key::new(resource, namespace, name), Expect::Absent, &text)]).await.unwrap();
    }
    let texts = |namespace| bodies(&store.list("r", namespace).records);
    assert_eq!(texts(None), ["r..x@6", "r.a.x@5", "r.a.z@2", "r.ab.x@4", "r.b.x@1"]);
    assert_eq!(texts(Some("a")), ["r.a.x@5", "r.a.z@2"]);
    assert_eq!(texts(Some("")), ["r..x@6"]);
    assert_eq!(texts(Some("c")), [""; 0]);
    assert_eq!((store.list("r", None).revision, store.list("nothing", None).records.len()), (7, 0));
}

#[rstest]
#[tokio::test]
async fn pages_are_of_one_moment_while_objects_change(
    #[values(LogStorage::disk(), LogStorage::memory())] storage: LogStorage,
) {
    let store = storage.store();
    let all: Vec<Change> = ["a", "b", "c", "d", "e"].map(|name| put(&key(name), Expect::Absent, name)).into();
    store.commit(all).await.unwrap();
    let page = |after: Option<&str>| store.list_at("core/pods", None, 5, after.map(key).as_ref(), 2).unwrap();
    let first = page(None);
    assert_eq!((bodies(&first.records), first.remaining), (vec!["a@1".to_owned(), "b@2".to_owned()], 3));
    let changes = vec![
        delete(&key("c"), Expect::Any, "gone"),
        put(&key("bb"), Expect::Absent, "late"),
        put(&key("d"), Expect::Any, "changed"),
        put(&key("d"), Expect::Any, "changed again"),
        delete(&key("b"), Expect::Any, "gone"),
    ];
    store.commit(changes).await.unwrap();
    let second = page(Some("b"));
    assert_eq!((bodies(&second.records), second.remaining), (vec!["c@3".to_owned(), "d@4".to_owned()], 1));
    let third = page(Some("d"));
    assert_eq!((bodies(&third.records), third.remaining, third.revision), (vec!["e@5".to_owned()], 0, 5));
    let future = store.list_at("core/pods", None, 11, None, 2).unwrap_err();
    assert_eq!(future, ReadError::Future { newest: 10 });
}

#[rstest]
#[tokio::test]
async fn events_have_kind_state_and_previous_state(
    #[values(LogStorage::disk(), LogStorage::memory())] storage: LogStorage,
) {
    let store = storage.store();
    let pod = key("a");
    store.commit(vec![put(&pod, Expect::Absent, "1")]).await.unwrap();
    store.commit(vec![put(&Key::new("core/nodes", "", "n"), Expect::Absent, "node")]).await.unwrap();
    store.commit(vec![put(&pod, Expect::Any, "2")]).await.unwrap();
    store.commit(vec![delete(&pod, Expect::Any, "last")]).await.unwrap();
    store.close().await;
    for store in [store, storage.store()] {
        let batch = store.watch("core/pods", 0).unwrap().next().await.unwrap();
        let seen: Vec<_> = batch
            .events
            .iter()
            .map(|event| (event.kind, bodies([&event.record]).remove(0), bodies(event.previous.as_ref())))
            .collect();
        let text = str::to_owned;
        assert_eq!(
            seen,
            [
                (EventKind::Created, text("1@1"), vec![]),
                (EventKind::Updated, text("2@3"), vec![text("1@1")]),
                (EventKind::Deleted, text("last@4"), vec![text("2@3")]),
            ]
        );
        assert_eq!((batch.revision, batch.events[2].record.created_revision), (4, 1));
        let all = store.watch_all(0).unwrap().next().await.unwrap();
        assert_eq!(all.events.iter().map(|event| event.revision()).collect::<Vec<_>>(), [1, 2, 3, 4]);
    }
}

#[rstest]
#[tokio::test]
async fn a_line_is_encoded_once_for_all_watchers(
    #[values(LogStorage::disk(), LogStorage::memory())] storage: LogStorage,
) {
    let store = storage.store();
    store.commit(vec![put(&key("a"), Expect::Absent, "1")]).await.unwrap();
    let (mut one, mut two) = (store.watch("core/pods", 0).unwrap(), store.watch_all(0).unwrap());
    let (one, two) = (one.next().await.unwrap(), two.next().await.unwrap());
    assert_eq!(one.events[0].line(|event| event.record.body()), "1@1");
    assert_eq!(two.events[0].line(|_| panic!("encoded twice")), "1@1");
}

#[rstest]
#[tokio::test]
async fn progress_passes_by_the_events_of_others_but_not_ones_own(
    #[values(LogStorage::disk(), LogStorage::memory())] storage: LogStorage,
) {
    let store = storage.store();
    let mut watch = store.watch("core/pods", 0).unwrap();
    store.commit(vec![put(&Key::new("core/nodes", "", "n"), Expect::Absent, "node")]).await.unwrap();
    assert_eq!(watch.progress(), 1);
    store.commit(vec![put(&key("a"), Expect::Absent, "1")]).await.unwrap();
    assert_eq!(watch.progress(), 1);
    assert_eq!(watch.next().await.unwrap().revision, 2);
    assert_eq!((watch.progress(), watch.try_next().unwrap().is_none()), (2, true));
    assert_eq!(store.watch("core/pods", 3).unwrap_err(), ReadError::Future { newest: 2 });
}

#[rstest]
#[tokio::test]
async fn a_watcher_that_fell_behind_is_cut_off_and_others_are_not(
    #[values(LogStorage::disk(), LogStorage::memory())] storage: LogStorage,
) {
    let store = storage.store_with(EventWindow { max_events: 3, ..UNBOUNDED });
    let node = Key::new("core/nodes", "", "n");
    let (mut slow, mut idle) = (store.watch("core/pods", 0).unwrap(), store.watch("core/nodes", 0).unwrap());
    let mut quick = store.watch("core/pods", 0).unwrap();
    for text in ["1", "2", "3", "4"] {
        store.commit(vec![put(&key("a"), Expect::Any, text)]).await.unwrap();
        assert_eq!(quick.next().await.unwrap().events.len(), 1);
    }
    assert_eq!(slow.next().await.unwrap_err(), WatchError::Expired { oldest: 1 });
    assert_eq!(slow.next().await.unwrap_err(), WatchError::Expired { oldest: 1 });
    // Its resource lost nothing, however old its position is.
    assert!(idle.try_next().unwrap().is_none());
    store.commit(vec![put(&node, Expect::Absent, "node")]).await.unwrap();
    assert_eq!(idle.next().await.unwrap().events.len(), 1);
    assert_eq!(store.watch("core/pods", 1).unwrap_err(), ReadError::Expired { oldest: 2 });
    assert_eq!(store.list_at("core/pods", None, 1, None, 9).unwrap_err(), ReadError::Expired { oldest: 2 });
    assert_eq!(bodies(&store.list_at("core/pods", None, 2, None, 9).unwrap().records), ["2@2"]);
}

#[rstest]
#[tokio::test]
async fn the_window_is_bounded_in_bytes_and_keeps_the_newest_event(
    #[values(LogStorage::disk(), LogStorage::memory())] storage: LogStorage,
) {
    let store = storage.store_with(EventWindow { soft_max_bytes: 10_000, ..UNBOUNDED });
    let mut watch = store.watch("core/pods", 0).unwrap();
    for _ in 0..3 {
        // Too large to be packed.
        store.commit(vec![put(&key("a"), Expect::Any, &"x".repeat(70_000))]).await.unwrap();
        assert_eq!(watch.next().await.unwrap().events.len(), 1);
    }
    assert_eq!(store.watch("core/pods", 1).unwrap_err(), ReadError::Expired { oldest: 2 });
    for _ in 0..100 {
        store.commit(vec![put(&key("b"), Expect::Any, &"x".repeat(100))]).await.unwrap();
    }
    let kept = kept(&store);
    assert!((5..=30).contains(&kept), "{kept} events of some hundred bytes in 10,000");
}

#[rstest]
#[tokio::test]
async fn large_bodies_leave_the_fewest_events_up_to_a_hard_bound(
    #[values(LogStorage::disk(), LogStorage::memory())] storage: LogStorage,
) {
    // Too large to be packed, so each event keeps the body before it.
    let size = 70_000;
    let store =
        storage.store_with(EventWindow { soft_max_bytes: 5_000, min_events: 20, max_bytes: 15 * size, ..UNBOUNDED });
    for _ in 0..10 {
        store.commit(vec![put(&key("a"), Expect::Any, &"x".repeat(size))]).await.unwrap();
    }
    assert_eq!(kept(&store), 10, "all of them, although they are more than 5,000 bytes");
    for _ in 0..30 {
        store.commit(vec![put(&key("a"), Expect::Any, &"x".repeat(size))]).await.unwrap();
    }
    assert_eq!(kept(&store), 14, "no more than fit into the hard bound");
    for _ in 0..60 {
        store.commit(vec![put(&key("b"), Expect::Any, &"x".repeat(100))]).await.unwrap();
    }
    assert_eq!(kept(&store), 20, "the min_events that are kept");
}

#[rstest]
#[tokio::test]
async fn compaction_keeps_objects_and_later_history(
    #[values(LogStorage::disk(), LogStorage::memory())] storage: LogStorage,
) {
    let store = storage.store();
    for text in ["1", "2", "3"] {
        store.commit(vec![put(&key("a"), Expect::Any, text)]).await.unwrap();
    }
    store.commit(vec![put(&key("b"), Expect::Any, "b")]).await.unwrap();
    store.commit(vec![delete(&key("b"), Expect::Any, "gone")]).await.unwrap();
    store.commit(vec![put(&key("a"), Expect::Any, "6")]).await.unwrap();
    assert!(matches!(store.compact(7).await, Err(CompactError::Future { revision: 7, newest: 6 })));
    store.compact(5).await.unwrap();
    store.compact(2).await.unwrap();
    store.close().await;
    let mut left = Vec::new();
    storage
        .engine()
        .load(&mut |row| {
            left.push(row.revision);
            Ok(())
        })
        .unwrap();
    assert_eq!(left, [3, 6]);
    for store in [store, storage.store()] {
        assert_eq!(store.watch("core/pods", 4).unwrap_err(), ReadError::Expired { oldest: 5 });
        let batch = store.watch("core/pods", 5).unwrap().next().await.unwrap();
        assert_eq!(bodies(batch.events[0].previous.as_ref()), ["3@3"]);
        assert_eq!(bodies(&store.list_at("core/pods", None, 5, None, 9).unwrap().records), ["3@3"]);
        assert_eq!(store.get(&key("a")).unwrap().created_revision, 1);
    }
}

#[rstest]
#[tokio::test]
async fn revisions_do_not_come_back_when_the_newest_rows_are_compacted(
    #[values(LogStorage::disk(), LogStorage::memory())] storage: LogStorage,
) {
    let store = storage.store();
    store.commit(vec![put(&key("a"), Expect::Any, "1")]).await.unwrap();
    store.commit(vec![delete(&key("a"), Expect::Any, "2")]).await.unwrap();
    store.compact(2).await.unwrap();
    store.close().await;
    let store = storage.store();
    assert_eq!((store.revision(), store.list("core/pods", None).records.len()), (2, 0));
    assert_eq!(store.commit(vec![put(&key("a"), Expect::Absent, "3")]).await.unwrap().revision, 3);
}

#[rstest]
#[tokio::test]
async fn large_compactions_are_done_in_steps_and_finish(
    #[values(LogStorage::disk(), LogStorage::memory())] storage: LogStorage,
) {
    let store = storage.store();
    let changes = (0..2000).map(|n| put(&key("a"), Expect::Any, &n.to_string())).collect();
    store.commit(changes).await.unwrap();
    store.compact(2000).await.unwrap();
    store.close().await;
    let mut left = Vec::new();
    storage
        .engine()
        .load(&mut |row| {
            left.push(row.revision);
            Ok(())
        })
        .unwrap();
    assert_eq!(left, [2000]);
}

#[rstest]
#[tokio::test]
async fn a_compaction_that_was_cut_short_is_finished_by_the_next(
    #[values(LogStorage::disk(), LogStorage::memory())] storage: LogStorage,
) {
    let mut engine = storage.engine();
    let gone = Row { kind: RowKind::Delete, ..row(4, "b", "4@4") };
    engine.append(&[row(1, "a", "1@1"), row(2, "a", "2@2"), row(3, "b", "3@3"), gone]).unwrap();
    engine.compact(Watermarks { revision: 4, compacted: 4 }, &[]).unwrap();
    drop(engine);
    let store = storage.store();
    assert_eq!(bodies(&store.list("core/pods", None).records), ["2@2"]);
    assert_eq!(store.watch("core/pods", 3).unwrap_err(), ReadError::Expired { oldest: 4 });
    store.compact(1).await.unwrap();
    store.close().await;
    assert_eq!(rows(&mut *storage.engine()), [row(2, "a", "2@2")]);
}

#[rstest]
#[tokio::test]
async fn a_closed_store_reads_but_does_not_write(
    #[values(LogStorage::disk(), LogStorage::memory())] storage: LogStorage,
) {
    let store = storage.store();
    let mut watch = store.watch("core/pods", 0).unwrap();
    store.commit(vec![put(&key("a"), Expect::Any, "1")]).await.unwrap();
    store.close().await;
    store.close().await;
    assert!(matches!(store.commit(vec![]).await, Err(CommitError::Closed)));
    assert!(matches!(store.compact(0).await, Err(CompactError::Closed)));
    store.reindex("core/pods").await;
    assert!(store.get(&key("a")).is_some());
    assert_eq!(watch.next().await.unwrap().events.len(), 1);
    assert_eq!(watch.next().await.unwrap_err(), WatchError::Closed);
}

#[rstest]
#[tokio::test]
async fn dropping_the_last_handle_ends_watches_and_frees_the_place(
    #[values(LogStorage::disk(), LogStorage::memory())] storage: LogStorage,
) {
    let store = storage.store();
    let mut watch = store.watch("core/pods", 0).unwrap();
    let waiting = tokio::spawn(async move { watch.next().await.map(|_| ()) });
    tokio::task::yield_now().await;
    drop(store);
    assert_eq!(waiting.await.unwrap(), Err(WatchError::Closed));
    storage.store();
}

#[tokio::test]
async fn reindexing_gives_new_tags_to_objects_and_events_alike() {
    let knows_more = Arc::new(AtomicBool::new(false));
    let seen = knows_more.clone();
    let indexer = Arc::new(move |key: &Key, bytes: &[u8]| {
        if seen.load(Ordering::SeqCst) { Tags::new([], [("spec.new", "yes")]) } else { indexer()(key, bytes) }
    });
    let store = Store::in_memory(indexer, EventWindow::default()).unwrap();
    store.commit(vec![put(&key("a"), Expect::Any, "1"), put(&key("a"), Expect::Any, "2")]).await.unwrap();
    store
        .commit(vec![Change::Put { key: Key::new("other", "", "o"), expected: Expect::Any, body: body("o") }])
        .await
        .unwrap();
    let mut watch = store.watch("core/pods", 2).unwrap();
    knows_more.store(true, Ordering::SeqCst);
    store.reindex("core/pods").await;
    let tags = |key| store.get(&key).unwrap().tags.field("spec.new").is_some();
    assert_eq!((tags(key("a")), tags(Key::new("other", "", "o"))), (true, false));
    assert_eq!((store.revision(), watch.try_next().unwrap().is_none()), (3, true));
    for mut watch in [store.watch("core/pods", 0).unwrap(), store.watch_all(0).unwrap()] {
        let events = watch.next().await.unwrap().events;
        assert_eq!(events[1].record.tags.field("spec.new"), Some("yes"));
        assert_eq!(events[1].previous.as_ref().unwrap().tags.field("spec.new"), Some("yes"));
        assert!(Arc::ptr_eq(&events[0].record, events[1].previous.as_ref().unwrap()));
        assert!(Arc::ptr_eq(&events[1].record, &store.get(&key("a")).unwrap()));
    }
    assert_eq!(store.list("core/pods", None).records[0].tags.field("spec.new"), Some("yes"));
}

#[tokio::test]
async fn a_writer_that_panics_ends_watches_and_commits_but_not_reads() {
    let is_broken = Arc::new(AtomicBool::new(false));
    let seen = is_broken.clone();
    let indexer = Arc::new(move |_: &Key, _: &[u8]| {
        assert!(!seen.load(Ordering::SeqCst), "an indexer with a mistake in it");
        Tags::default()
    });
    let store = Store::in_memory(indexer, EventWindow::default()).unwrap();
    store.commit(vec![put(&key("a"), Expect::Any, "1")]).await.unwrap();
    let mut watch = store.watch("core/pods", 1).unwrap();
    is_broken.store(true, Ordering::SeqCst);
    store.reindex("core/pods").await;
    is_broken.store(false, Ordering::SeqCst);
    assert_eq!(watch.next().await.unwrap_err(), WatchError::Closed);
    assert!(matches!(store.commit(vec![]).await, Err(CommitError::Closed)));
    assert!(store.get(&key("a")).is_some());
}

#[rstest]
#[tokio::test]
async fn all_objects_of_all_resources_are_those_of_one_moment(
    #[values(LogStorage::disk(), LogStorage::memory())] storage: LogStorage,
) {
    let store = storage.store();
    let (pod, gone, node) = (key("a"), key("b"), Key::new("core/nodes", "", "n"));
    let changes =
        vec![put(&pod, Expect::Absent, "a"), put(&gone, Expect::Absent, "b"), put(&node, Expect::Absent, "n")];
    store.commit(changes).await.unwrap();
    store.commit(vec![delete(&gone, Expect::Any, "b")]).await.unwrap();
    let all = store.all();
    let mut found = bodies(&all.records);
    found.sort_unstable();
    assert_eq!((all.revision, found), (4, vec!["a@1".to_owned(), "n@3".to_owned()]));
    let mut watch = store.watch_all(all.revision).unwrap();
    store.commit(vec![put(&gone, Expect::Absent, "c")]).await.unwrap();
    assert_eq!(watch.next().await.unwrap().events[0].revision(), 5);
}
