//! Model test: random commits, compactions, restarts, reads and watches are compared with a simple model.

use std::collections::{BTreeMap, VecDeque};

use crate::common::{LogStorage, body};
use proptest::prelude::*;
use seaworthy_store::{
    Change, CommitError, CompactError, EventKind, EventWindow, Expect, Key, ReadError, Record, Store, Watch, WatchError,
};
use tokio::runtime::Runtime;

/// Small, so that events leave it all the time.
const WINDOW: EventWindow =
    EventWindow { max_events: 9, soft_max_bytes: usize::MAX, min_events: 1, max_bytes: usize::MAX };

const RESOURCES: [&str; 2] = ["apps/daemonsets", "core/pods"];

#[derive(Clone, Debug)]
enum Step {
    Commit(Vec<Edit>),
    /// Up to this percentage of all revisions.
    Compact(u64),
    Restart,
    /// A watch of a resource, or of all, from so many revisions ago.
    Watch(Option<usize>, u64),
    /// Read all pending events of each watch.
    Drain,
}

#[derive(Clone, Debug)]
struct Edit {
    key: Key,
    is_delete: bool,
    expected_revision: ExpectedRevision,
    text: String,
}

#[derive(Clone, Copy, Debug)]
enum ExpectedRevision {
    Any,
    Absent,
    Current,
    Revision(u64),
}

fn edit() -> impl Strategy<Value = Edit> {
    let name = (prop::sample::select(&RESOURCES[..]), prop::sample::select(&["", "a", "ab"][..]), "[xyz]");
    let key = name.prop_map(|(resource, namespace, name)| Key::new(resource, namespace, name));
    let expected_revision = prop_oneof![
        4 => Just(ExpectedRevision::Any),
        2 => Just(ExpectedRevision::Absent),
        4 => Just(ExpectedRevision::Current),
        1 => (0..60u64).prop_map(ExpectedRevision::Revision),
    ];
    (key, prop::bool::weighted(0.3), expected_revision, "[a-z]{0,3}")
        .prop_map(|(key, is_delete, expected_revision, text)| Edit { key, is_delete, expected_revision, text })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => prop::collection::vec(edit(), 0..4).prop_map(Step::Commit),
        2 => (0..=105u64).prop_map(Step::Compact),
        1 => Just(Step::Restart),
        3 => (prop::option::of(0..2usize), 0..14u64).prop_map(|(resource, ago)| Step::Watch(resource, ago)),
        3 => Just(Step::Drain),
    ]
}

/// An object: revision, revision of its creation, body.
type Object = (u64, u64, String);
type Objects = BTreeMap<Key, Object>;

struct ModelEvent {
    revision: u64,
    key: Key,
    kind: EventKind,
    now: Object,
    before: Option<Object>,
}

#[derive(Default)]
struct Model {
    /// The objects at each revision from 0.
    history: Vec<Objects>,
    events_so_far: Vec<ModelEvent>,
    compacted: u64,
    /// Revisions whose events are in the window.
    window: VecDeque<u64>,
    /// History before this was not there at the last start.
    floor: u64,
    watches: Vec<Watched>,
}

struct Watched {
    watch: Watch,
    resource: Option<&'static str>,
    seen: u64,
}

impl Model {
    fn revision(&self) -> u64 {
        self.history.len() as u64 - 1
    }

    fn objects(&self) -> &Objects {
        self.history.last().unwrap()
    }

    /// The oldest revision that a reader of the resource can start from.
    fn oldest(&self, resource: Option<&str>) -> u64 {
        let gone = |model_event: &&ModelEvent| {
            model_event.revision > self.floor
                && !self.window.contains(&model_event.revision)
                && resource.is_none_or(|resource| resource == &*model_event.key.resource)
        };
        self.events_so_far.iter().filter(gone).map(|model_event| model_event.revision).max().unwrap_or(self.floor)
    }

    fn commit(&mut self, edits: &[Edit]) -> (Vec<Change>, bool) {
        let mut objects = self.objects().clone();
        let (mut steps, mut changes, mut is_met) = (Vec::new(), Vec::new(), true);
        let mut revision = self.revision();
        for Edit { key, is_delete, expected_revision, text } in edits {
            let found = objects.get(key).cloned();
            let expected = match expected_revision {
                ExpectedRevision::Any => Expect::Any,
                ExpectedRevision::Absent => Expect::Absent,
                ExpectedRevision::Current => found.as_ref().map_or(Expect::Absent, |found| Expect::Revision(found.0)),
                ExpectedRevision::Revision(revision) => Expect::Revision(*revision),
            };
            let (key, body) = (key.clone(), body(text));
            changes.push(if *is_delete {
                Change::Delete { key: key.clone(), expected, body }
            } else {
                Change::Put { key: key.clone(), expected, body }
            });
            is_met &= match expected {
                Expect::Any => found.is_some() || !is_delete,
                Expect::Absent => found.is_none() && !is_delete,
                Expect::Revision(wanted) => found.as_ref().is_some_and(|found| found.0 == wanted),
            };
            revision += 1;
            let now = (revision, found.as_ref().map_or(revision, |found| found.1), format!("{text}@{revision}"));
            let kind = match (is_delete, &found) {
                (true, _) => EventKind::Deleted,
                (false, None) => EventKind::Created,
                (false, Some(_)) => EventKind::Updated,
            };
            if *is_delete {
                objects.remove(&key)
            } else {
                objects.insert(key.clone(), now.clone())
            };
            steps.push((objects.clone(), ModelEvent { revision, key, kind, now, before: found }));
        }
        if is_met {
            for (objects, model_event) in steps {
                self.remember(model_event.revision);
                self.history.push(objects);
                self.events_so_far.push(model_event);
            }
        }
        (changes, is_met)
    }

    fn remember(&mut self, revision: u64) {
        self.window.push_back(revision);
        if self.window.len() > WINDOW.max_events {
            self.window.pop_front();
        }
    }

    fn restart(&mut self) {
        self.floor = self.compacted;
        self.window.clear();
        for revision in self.compacted + 1..=self.revision() {
            self.remember(revision);
        }
        self.watches.clear();
    }
}

fn object(record: &Record) -> Object {
    (record.revision, record.created_revision, String::from_utf8(record.body().to_vec()).unwrap())
}

fn check_reads(store: &Store, model: &Model) {
    assert_eq!(store.revision(), model.revision());
    for resource in RESOURCES {
        for namespace in [None, Some(""), Some("a"), Some("ab"), Some("b")] {
            let wanted = |objects: &Objects| -> Vec<(Key, Object)> {
                let is_wanted =
                    |key: &Key| &*key.resource == resource && namespace.is_none_or(|name| name == &*key.namespace);
                objects
                    .iter()
                    .filter(|(key, _)| is_wanted(key))
                    .map(|(key, object)| (key.clone(), object.clone()))
                    .collect()
            };
            let listed = store.list(resource, namespace);
            assert_eq!(listed.revision, model.revision());
            let found: Vec<_> = listed.records.iter().map(|record| (record.key.clone(), object(record))).collect();
            assert_eq!(found, wanted(model.objects()));
            for (key, object_then) in &found {
                assert_eq!(object(&store.get(key).unwrap()), *object_then);
            }
            for revision in 0..=model.revision() {
                let limit = 1 + revision as usize % 3;
                let (mut found, mut after) = (Vec::new(), None);
                loop {
                    let page = match store.list_at(resource, namespace, revision, after.as_ref(), limit) {
                        Ok(page) => page,
                        Err(error) => {
                            let oldest = model.oldest(Some(resource));
                            assert_eq!(error, ReadError::Expired { oldest });
                            assert!(revision < oldest);
                            break;
                        }
                    };
                    assert!(revision >= model.oldest(Some(resource)));
                    found.extend(page.records.iter().map(|record| (record.key.clone(), object(record))));
                    let wanted = wanted(&model.history[revision as usize]);
                    assert_eq!(page.remaining, wanted.len() - found.len());
                    if page.remaining == 0 {
                        assert_eq!(found, wanted, "{resource} at {revision}");
                        break;
                    }
                    assert_eq!(page.records.len(), limit);
                    after = found.last().map(|(key, _)| key.clone());
                }
            }
        }
    }
    let future = store.list_at(RESOURCES[0], None, model.revision() + 1, None, 1).unwrap_err();
    assert_eq!(future, ReadError::Future { newest: model.revision() });
}

fn drain(model: &mut Model) {
    let (revision, mut watches) = (model.revision(), std::mem::take(&mut model.watches));
    watches.retain_mut(|Watched { watch, resource, seen }| {
        let oldest = model.oldest(*resource);
        let wanted: Vec<&ModelEvent> = model
            .events_so_far
            .iter()
            .filter(|model_event| model_event.revision > *seen)
            .filter(|model_event| resource.is_none_or(|resource| resource == &*model_event.key.resource))
            .collect();
        let is_expired = *seen < oldest;
        if !is_expired {
            assert_eq!(watch.progress(), if wanted.is_empty() { revision } else { *seen });
        }
        let batch = match watch.try_next() {
            Err(error) => {
                assert_eq!(error, WatchError::Expired { oldest });
                assert!(is_expired);
                return false;
            }
            Ok(batch) => batch,
        };
        assert!(!is_expired);
        *seen = revision;
        let found = batch.map_or(Vec::new(), |batch| {
            assert_eq!(batch.revision, revision);
            batch.events
        });
        assert_eq!(found.len(), wanted.len());
        for (event, model_event) in found.iter().zip(wanted) {
            assert_eq!((event.revision(), &event.record.key), (model_event.revision, &model_event.key));
            assert_eq!((event.kind, object(&event.record)), (model_event.kind, model_event.now.clone()));
            assert_eq!(event.previous.as_deref().map(object), model_event.before);
        }
        true
    });
    model.watches = watches;
}

fn run(storage: &LogStorage, steps: Vec<Step>) {
    let runtime = Runtime::new().unwrap();
    let mut store = storage.store_with(WINDOW);
    let mut model = Model { history: vec![Objects::new()], ..Model::default() };
    for step in steps {
        match step {
            Step::Commit(edits) => {
                let before = model.revision();
                let (changes, is_met) = model.commit(&edits);
                match runtime.block_on(store.commit(changes)) {
                    Ok(done) => {
                        assert!(is_met);
                        assert_eq!(done.revision, model.revision());
                        let revisions: Vec<u64> = done.records.iter().map(|record| record.revision).collect();
                        assert_eq!(revisions, (before + 1..=model.revision()).collect::<Vec<_>>());
                    }
                    Err(error) => {
                        assert!(matches!(error, CommitError::Conflict { .. }), "{error}");
                        assert!(!is_met);
                    }
                }
            }
            Step::Compact(percent) => {
                let revision = (model.revision() * percent).div_ceil(100);
                match runtime.block_on(store.compact(revision)) {
                    Ok(()) => {
                        model.compacted = model.compacted.max(revision);
                        model.window.retain(|kept| *kept > model.compacted);
                    }
                    Err(error) => {
                        assert!(matches!(error, CompactError::Future { .. }), "{error}");
                        assert!(revision > model.revision());
                    }
                }
            }
            Step::Restart => {
                drop(store);
                store = storage.store_with(WINDOW);
                model.restart();
            }
            Step::Watch(resource, ago) => {
                let resource = resource.map(|resource| RESOURCES[resource]);
                let from = model.revision().saturating_sub(ago);
                let watch = match resource {
                    Some(resource) => store.watch(resource, from),
                    None => store.watch_all(from),
                };
                let oldest = model.oldest(resource);
                match watch {
                    Ok(watch) => {
                        assert!(from >= oldest);
                        model.watches.push(Watched { watch, resource, seen: from });
                    }
                    Err(error) => {
                        assert_eq!(error, ReadError::Expired { oldest });
                        assert!(from < oldest);
                    }
                }
            }
            Step::Drain => drain(&mut model),
        }
        check_reads(&store, &model);
    }
    drain(&mut model);
    // What is on disk is what was in memory, and no more rows than the objects and the history need.
    drop(store);
    model.restart();
    check_reads(&storage.store_with(WINDOW), &model);
    let mut rows = Vec::new();
    storage
        .engine()
        .load(&mut |row| {
            rows.push(row.revision);
            Ok(())
        })
        .unwrap();
    let mut wanted: Vec<u64> = model.history[model.compacted as usize].values().map(|object| object.0).collect();
    wanted.sort_unstable();
    wanted.extend(model.compacted + 1..=model.revision());
    assert_eq!(rows, wanted);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_store_in_memory_does_what_the_model_does(steps in prop::collection::vec(step(), 1..40)) {
        run(&LogStorage::memory(), steps);
    }
}

proptest! {
    // Fewer: each commit waits for a disk.
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_store_on_disk_does_what_the_model_does(steps in prop::collection::vec(step(), 1..40)) {
        run(&LogStorage::disk(), steps);
    }
}
