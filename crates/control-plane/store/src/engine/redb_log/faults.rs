//! Fault injection: every write, resize and sync of a disk fails in turn, followed by a power cut.
//!
//! After each failure, nothing that was acknowledged may be missing, nothing that was refused may be visible, and the next
//! commit must succeed, on the running disk and on the disk as the power cut left it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use redb::StorageBackend;
use rstest::rstest;

use super::{RedbLog, initialise};
use crate::{Body, Change, CommitError, EventWindow, Expect, Indexer, Key, OpenError, Store, Tags};

const PAGE: usize = 4096;

/// A disk in memory that knows what would survive a power cut.
#[derive(Clone, Debug, Default)]
struct Disk(Arc<Mutex<DiskState>>);

#[derive(Clone, Debug, Default)]
struct DiskState {
    /// What reads see.
    seen: Vec<u8>,
    /// What was synced.
    durable: Vec<u8>,
    /// Pages written since they were last synced.
    dirty: BTreeSet<usize>,
    calls: usize,
    fault: Option<Fault>,
}

/// Fails the calls `at..at + lasts`, counted over writes, resizes and syncs.
#[derive(Clone, Copy, Debug)]
struct Fault {
    at: usize,
    lasts: usize,
    /// A failing write leaves half of its bytes.
    tears: bool,
}

/// What a power cut does to pages that were not synced.
#[derive(Clone, Copy, Debug)]
enum PowerCut {
    LosesAll,
    KeepsAll,
    KeepsEverySecond,
}

impl Disk {
    fn new() -> Self {
        let disk = Disk::default();
        initialise(disk.clone()).unwrap();
        disk.state().calls = 0;
        disk
    }

    fn state(&self) -> MutexGuard<'_, DiskState> {
        self.0.lock().unwrap()
    }

    fn store(&self) -> Result<Store, OpenError> {
        let disk = self.clone();
        let engine = RedbLog::with_opener(Box::new(move || Ok(Box::new(disk.clone())))).map_err(OpenError::Engine)?;
        let indexer: Indexer = Arc::new(|_, _| Tags::default());
        Store::with_engine(engine, indexer, EventWindow::default())
    }

    /// The disk after a power cut now.
    fn after(&self, cut: PowerCut) -> Disk {
        let state = self.state();
        let mut left = state.durable.clone();
        let kept: Vec<usize> = match cut {
            PowerCut::LosesAll => Vec::new(),
            PowerCut::KeepsAll => state.dirty.iter().copied().collect(),
            PowerCut::KeepsEverySecond => state.dirty.iter().copied().step_by(2).collect(),
        };
        if !kept.is_empty() {
            left.resize(state.seen.len(), 0);
        }
        for page in kept {
            copy_page(&state.seen, &mut left, page);
        }
        Disk(Arc::new(Mutex::new(DiskState { seen: left.clone(), durable: left, ..DiskState::default() })))
    }
}

fn copy_page(from: &[u8], to: &mut [u8], page: usize) {
    let start = page * PAGE;
    let end = (start + PAGE).min(from.len());
    if start < end {
        to[start..end].copy_from_slice(&from[start..end]);
    }
}

impl DiskState {
    /// Counts a call, and returns the fault if the call must fail.
    fn call(&mut self) -> Option<Fault> {
        let call = self.calls;
        self.calls += 1;
        self.fault.filter(|fault| (fault.at..fault.at + fault.lasts).contains(&call))
    }

    fn put(&mut self, offset: usize, bytes: &[u8]) {
        self.seen[offset..offset + bytes.len()].copy_from_slice(bytes);
        self.dirty.extend(offset / PAGE..(offset + bytes.len()).div_ceil(PAGE));
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state().seen.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let (state, offset) = (self.state(), offset as usize);
        let found = state.seen.get(offset..offset + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(found);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut state = self.state();
        if state.call().is_some() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.seen.resize(length as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.state();
        let dirty = std::mem::take(&mut state.dirty);
        if state.call().is_some() {
            // As Linux does it: what could not be written is forgotten, but still shown to reads. The pages count as
            // clean from now on, so the next sync does not write them either.
            return Err(io::Error::other("sync failed"));
        }
        let DiskState { seen, durable, .. } = &mut *state;
        durable.resize(seen.len(), 0);
        for page in dirty {
            copy_page(seen, durable, page);
        }
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        match state.call() {
            Some(Fault { tears, .. }) => {
                if tears {
                    state.put(offset as usize, &bytes[..bytes.len() / 2]);
                }
                Err(io::ErrorKind::StorageFull.into())
            }
            None => {
                state.put(offset as usize, bytes);
                Ok(())
            }
        }
    }
}

/// The objects as `resource/name: body`, and the revision.
type Seen = (u64, BTreeMap<String, String>);

fn seen(store: &Store) -> Seen {
    let snapshot = store.list("r", None);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let objects = snapshot.records.iter().map(|record| (record.key.to_string(), text(&record.body()))).collect();
    (snapshot.revision, objects)
}

fn put(name: &str, text: &str) -> Change {
    Change::Put { key: Key::new("r", "", name), expected: Expect::Any, body: Body::new(text.to_owned(), 0) }
}

fn delete(name: &str) -> Change {
    Change::Delete { key: Key::new("r", "", name), expected: Expect::Any, body: Body::new("gone", 0) }
}

/// Commits of several changes: an append to one page, a deletion, large bodies over many pages.
fn commits() -> Vec<Vec<Change>> {
    let large = "x".repeat(3000);
    let many = |text: &str| (0..6).map(|n| put(&format!("many-{n}"), text)).collect::<Vec<_>>();
    vec![
        vec![put("a", "one"), put("b", "two")],
        vec![put("a", "three"), delete("b"), put("c", "four")],
        many(&large),
        vec![put("d", &large.repeat(4)), delete("a")],
        many("small"),
        vec![put("e", "last")],
    ]
}

/// What a commit makes of a state.
fn after(before: &Seen, changes: &[Change]) -> Seen {
    let (mut revision, mut objects) = before.clone();
    for change in changes {
        revision += 1;
        match change {
            Change::Put { key, body, .. } => {
                let text = format!("{revision}{}", str::from_utf8(&body.bytes).unwrap());
                objects.insert(key.to_string(), text);
            }
            Change::Delete { key, .. } => {
                objects.remove(&key.to_string());
            }
        }
    }
    (revision, objects)
}

const CUTS: [PowerCut; 3] = [PowerCut::LosesAll, PowerCut::KeepsAll, PowerCut::KeepsEverySecond];

/// Opens the disk that a power cut left: it must hold one of the `allowed` states, and take a commit.
async fn check_power_cut(disk: &Disk, allowed: &[Seen], what: &str) {
    for cut in CUTS {
        let left = disk.after(cut);
        let store = left.store().unwrap_or_else(|error| panic!("{what}, {cut:?}: {error}"));
        let found = seen(&store);
        assert!(allowed.contains(&found), "{what}, {cut:?}: found {found:?}, allowed {allowed:?}");
        let next = vec![put("after", "cut")];
        store.commit(next.clone()).await.unwrap();
        assert_eq!(seen(&store), after(&found, &next), "{what}, {cut:?}");
    }
}

/// Runs the workload with a fault; returns whether the fault was reached.
async fn run(fault: Fault) -> bool {
    let what = format!("{fault:?}");
    let disk = Disk::new();
    disk.state().fault = Some(fault);
    let store = disk.store().unwrap();
    let mut known = seen(&store);
    for (n, changes) in commits().into_iter().enumerate() {
        // After a refusal something shorter is written instead, so that rows left behind would stand out.
        let mut waiting = vec![changes];
        let mut refused = Vec::new();
        while let Some(changes) = waiting.pop() {
            let wanted = after(&known, &changes);
            let Err(error) = store.commit(changes.clone()).await else {
                assert_eq!(seen(&store), wanted, "{what}");
                known = wanted;
                if !refused.is_empty() {
                    // What was acknowledged is there, and nothing that was refused before it.
                    check_power_cut(&disk, std::slice::from_ref(&known), &what).await;
                }
                continue;
            };
            assert!(matches!(error, CommitError::Unavailable { .. }), "{what}: {error}");
            assert_eq!(seen(&store), known, "{what}: a refused commit shows");
            // Until a commit succeeds, what was refused may turn out to be there, and then all of it.
            refused.push(wanted);
            let allowed: Vec<Seen> = refused.iter().chain([&known]).cloned().collect();
            check_power_cut(&disk, &allowed, &what).await;
            assert!(refused.len() <= fault.lasts, "{what}: still refused after the fault was over");
            waiting.extend([changes, vec![put("instead", "shorter")]]);
        }
        if n == 3 {
            let mut tries = 0;
            while store.compact(known.0 - 2).await.is_err() {
                tries += 1;
                assert!(tries <= fault.lasts, "{what}: still not compacted after the fault was over");
            }
        }
    }
    drop(store);
    check_power_cut(&disk, std::slice::from_ref(&known), &what).await;
    disk.state().fault = None;
    assert_eq!(seen(&disk.store().unwrap()), known, "{what}: after an orderly restart");
    disk.0.lock().unwrap().calls > fault.at
}

#[rstest]
#[case::once(1, false)]
#[case::torn(1, true)]
#[case::several(3, false)]
fn every_failing_call_leaves_all_or_nothing(#[case] lasts: usize, #[case] tears: bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    // How many calls there are without a fault, so that the loop below is known to have met all of them.
    let disk = Disk::new();
    let calls = runtime.block_on(async {
        let store = disk.store().unwrap();
        for changes in commits() {
            store.commit(changes).await.unwrap();
        }
        drop(store);
        disk.state().calls
    });
    assert!(calls > 50, "{calls} calls");
    for at in (0..calls).step_by(lasts) {
        assert!(runtime.block_on(run(Fault { at, lasts, tears })), "call {at} of {calls} was not reached");
    }
}

#[tokio::test]
async fn a_disk_that_stays_full_refuses_writes_serves_reads_and_recovers() {
    let disk = Disk::new();
    let store = disk.store().unwrap();
    store.commit(vec![put("a", "one")]).await.unwrap();
    let known = seen(&store);
    disk.state().fault = Some(Fault { at: 0, lasts: usize::MAX, tears: false });
    for _ in 0..5 {
        let error = store.commit(vec![put("b", "two")]).await.unwrap_err();
        assert!(matches!(error, CommitError::Unavailable { .. }), "{error}");
        assert!(store.compact(1).await.is_err());
        assert_eq!(seen(&store), known);
    }
    assert_eq!(store.commit(vec![]).await.unwrap().revision, 1, "nothing to write, nothing to fail");
    disk.state().fault = None;
    assert_eq!(store.commit(vec![put("b", "two")]).await.unwrap().revision, 2);
    let known = seen(&store);
    drop(store);
    assert_eq!(seen(&disk.store().unwrap()), known);
}

#[tokio::test]
async fn a_full_disk_is_distinguished_from_a_broken_one() {
    let disk = Disk::new();
    let store = disk.store().unwrap();
    let fails_next = |disk: &Disk| {
        let mut state = disk.state();
        state.fault = Some(Fault { at: state.calls, lasts: 1, tears: false });
    };
    fails_next(&disk);
    let full = store.commit(vec![put("a", "")]).await.unwrap_err();
    assert!(matches!(full, CommitError::Unavailable { is_full: true, .. }), "{full}");
}

#[tokio::test]
async fn a_file_that_was_replaced_meanwhile_is_not_written_to() {
    let disk = Disk::new();
    let store = disk.store().unwrap();
    store.commit(vec![put("a", "one")]).await.unwrap();
    let fault = Fault { at: disk.state().calls, lasts: 1, tears: false };
    disk.state().fault = Some(fault);
    assert!(store.commit(vec![put("b", "two")]).await.is_err());
    let other = Disk::new().state().clone();
    *disk.state() = other.clone();
    let error = store.commit(vec![put("b", "two")]).await.unwrap_err().to_string();
    assert!(error.contains("the log ends at revision 0 although 1 was written"), "{error}");
    assert!(disk.state().seen == other.seen);
}
