//! The laws of snapshot stores, for every store; and what only a folder can get wrong.

// The lint's exception for tests does not reach the functions that they share.
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use rstest::rstest;
use seaworthy_fetch::{
    Compression, ContentKind, Digest, FolderSnapshots, MemorySnapshots, Request, Snapshot, SnapshotError, SnapshotKey,
    Snapshots,
};

const PLENTY: u64 = 1 << 20;

fn key(number: u32) -> SnapshotKey {
    let request = Request::resource(format!("https://host/{number}"));
    SnapshotKey::new("99-worker", "hash", &request, None)
}

fn snapshot(content: &[u8]) -> Snapshot {
    let at = SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, 123_456_789);
    Snapshot::new(content, "https://me:SECRET@host/x?sig=SECRET", at)
}

/// Every store, empty, with the given limit; the folder must outlive it.
fn stores(limit: u64) -> (tempfile::TempDir, Vec<Box<dyn Snapshots>>) {
    let folder = tempfile::tempdir().unwrap();
    let files = FolderSnapshots::open(folder.path().join("snapshots"), limit).unwrap();
    let memory = MemorySnapshots::new(limit);
    (folder, vec![Box::new(memory), Box::new(files)])
}

fn folder() -> (tempfile::TempDir, PathBuf, FolderSnapshots) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/snapshots");
    let store = FolderSnapshots::open(&path, PLENTY).unwrap();
    (folder, path, store)
}

fn file(folder: &Path, key: &SnapshotKey) -> PathBuf {
    folder.join(format!("{key}.snapshot"))
}

fn file_names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap();
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
    entries.map(|entry| name(entry).into_string().unwrap()).collect()
}

// === laws of every store ===

#[test]
fn what_is_put_is_got_and_nothing_else() {
    for store in stores(PLENTY).1 {
        assert_eq!(store.get(&key(1)).unwrap(), None);
        for content in [&b""[..], b"content", b"\n\nseal \0\xff"] {
            let key = key(u32::try_from(content.len()).unwrap());
            let kept = store.put(&key, snapshot(content)).unwrap();
            assert_eq!(kept, snapshot(content));
            let got = store.get(&key).unwrap().unwrap();
            assert_eq!(got, snapshot(content));
            assert_eq!(got.digest(), &Digest::sha256(content));
            assert_eq!(got.url(), "https://host/x?sig=…");
        }
        assert_eq!(store.get(&key(99)).unwrap(), None);
    }
}

#[test]
fn the_first_snapshot_of_a_key_stays() {
    for store in stores(PLENTY).1 {
        store.put(&key(1), snapshot(b"first")).unwrap();
        let kept = store.put(&key(1), snapshot(b"second")).unwrap();
        assert_eq!(kept.bytes(), b"first");
        assert_eq!(store.get(&key(1)).unwrap().unwrap().bytes(), b"first");
    }
}

#[test]
fn a_full_store_refuses_and_loses_nothing() {
    let (_folder, stores) = stores(2000);
    for store in stores {
        store.put(&key(1), snapshot(&[1; 600])).unwrap();
        let error = store.put(&key(2), snapshot(&[2; 1500])).unwrap_err();
        assert!(matches!(error, SnapshotError::Full { limit: 2000, .. }), "{error}");
        assert_eq!(store.get(&key(2)).unwrap(), None);
        assert_eq!(store.get(&key(1)).unwrap().unwrap().bytes(), [1; 600]);
        assert_eq!(store.retain(&|_| false).unwrap(), 1);
        store.put(&key(2), snapshot(&[2; 1500])).unwrap();
    }
}

#[test]
fn only_unwanted_snapshots_are_dropped() {
    for store in stores(PLENTY).1 {
        for number in 0..5 {
            store.put(&key(number), snapshot(b"content")).unwrap();
        }
        let wanted = BTreeSet::from([key(1), key(3)]);
        assert_eq!(store.retain(&|key| wanted.contains(key)).unwrap(), 3);
        let left = (0..5).filter(|number| store.get(&key(*number)).unwrap().is_some());
        assert_eq!(left.collect::<Vec<_>>(), [1, 3]);
        assert_eq!(store.retain(&|_| true).unwrap(), 0);
    }
}

#[test]
fn simultaneous_writers_agree_on_one_content() {
    const WRITERS: u8 = 8;
    for store in stores(PLENTY).1 {
        for round in 0..20 {
            let barrier = Barrier::new(WRITERS.into());
            let kept: BTreeSet<Vec<u8>> = std::thread::scope(|scope| {
                let write = |writer: u8| {
                    let (store, barrier) = (&store, &barrier);
                    scope.spawn(move || {
                        barrier.wait();
                        let kept = store.put(&key(round), snapshot(&[writer; 1000]));
                        kept.unwrap().bytes().to_vec()
                    })
                };
                let writers: Vec<_> = (0..WRITERS).map(write).collect();
                writers.into_iter().map(|writer| writer.join().unwrap()).collect()
            });
            assert_eq!(kept.len(), 1);
            let got = store.get(&key(round)).unwrap().unwrap();
            assert!(kept.contains(got.bytes()));
        }
    }
}

// === what only a folder can get wrong ===

#[test]
fn a_folder_keeps_its_snapshots_across_restarts() {
    let (_folder, path, store) = folder();
    store.put(&key(1), snapshot(b"content")).unwrap();
    drop(store);
    let store = FolderSnapshots::open(&path, PLENTY).unwrap();
    assert_eq!(store.get(&key(1)).unwrap(), Some(snapshot(b"content")));
}

#[test]
fn files_are_readable_by_their_owner_only() {
    let (_folder, path, store) = folder();
    store.put(&key(1), snapshot(b"content")).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&path), 0o700);
    assert_eq!(mode(&file(&path, &key(1))), 0o600);
}

#[rstest]
fn a_folder_that_others_can_reach_is_refused_and_left_as_it_is(#[values(0o755, 0o750, 0o701, 0o1777)] mode: u32) {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
    let error = FolderSnapshots::open(folder.path(), PLENTY).unwrap_err();
    assert!(matches!(error, SnapshotError::Exposed { mode: found, .. } if found == mode));
    let after = fs::metadata(folder.path()).unwrap().permissions().mode() & 0o7777;
    assert_eq!(after, mode);
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "").unwrap();
    let error = FolderSnapshots::open(path.join("snapshots"), PLENTY).unwrap_err();
    assert!(error.to_string().contains("file/snapshots"), "{error}");
}

#[test]
fn a_full_folder_is_named_and_may_be_emptied() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshots");
    let store = FolderSnapshots::open(&path, 2000).unwrap();
    store.put(&key(1), snapshot(&[1; 600])).unwrap();
    let message = store.put(&key(2), snapshot(&[2; 1500])).unwrap_err().to_string();
    assert!(message.contains(&format!("in {}; it may be emptied", path.display())), "{message}");
    // By another process, while the store is open.
    fs::remove_file(file(&path, &key(1))).unwrap();
    store.put(&key(2), snapshot(&[2; 1500])).unwrap();
}

#[test]
fn only_what_is_there_counts_towards_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshots");
    let store = FolderSnapshots::open(&path, 10_000).unwrap();
    // The same key again, or in place of a damaged file, takes no more room than once.
    for _ in 0..20 {
        store.put(&key(1), snapshot(&[1; 4000])).unwrap();
        fs::write(file(&path, &key(1)), [0; 4000]).unwrap();
        store.put(&key(1), snapshot(&[1; 4000])).unwrap();
    }
    store.put(&key(2), snapshot(&[2; 4000])).unwrap();
    // What had been there counts after a restart as well.
    for store in [store, FolderSnapshots::open(&path, 10_000).unwrap()] {
        let error = store.put(&key(3), snapshot(&[3; 4000])).unwrap_err();
        let used =
            fs::metadata(file(&path, &key(1))).unwrap().len() + fs::metadata(file(&path, &key(2))).unwrap().len();
        assert!(matches!(error, SnapshotError::Full { used: found, .. } if found == used), "{error}");
    }
}

#[test]
fn no_damage_to_a_file_goes_unnoticed() {
    let (_folder, path, store) = folder();
    store.put(&key(1), snapshot(b"some content")).unwrap();
    let file = file(&path, &key(1));
    let sound = fs::read(&file).unwrap();
    let expect_corrupt = |bytes: &[u8], what: &str| {
        fs::write(&file, bytes).unwrap();
        match store.get(&key(1)) {
            Err(error) => assert!(error.is_corrupt(), "{what}: {error}"),
            Ok(got) => panic!("{what}: {got:?}"),
        }
    };
    for at in 0..sound.len() {
        let mut flipped = sound.clone();
        flipped[at] ^= 1;
        expect_corrupt(&flipped, &format!("bit flipped in byte {at}"));
        expect_corrupt(&sound[..at], &format!("cut off at byte {at}"));
    }
    expect_corrupt(&[&sound[..], b"x"].concat(), "a byte added");
    expect_corrupt(&[&sound[..], &sound[..]].concat(), "twice");
    fs::write(&file, &sound).unwrap();
    assert_eq!(store.get(&key(1)).unwrap(), Some(snapshot(b"some content")));
}

#[test]
fn simultaneous_writers_agree_on_what_replaces_a_damaged_file() {
    for _ in 0..20 {
        let (_root, path, store) = folder();
        store.put(&key(1), snapshot(b"first")).unwrap();
        fs::write(file(&path, &key(1)), "damaged").unwrap();
        let writers = 8;
        let barrier = Barrier::new(writers);
        let kept: BTreeSet<Vec<u8>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..writers)
                .map(|number| {
                    let (path, barrier) = (&path, &barrier);
                    // A store of its own, as a process of its own would have.
                    scope.spawn(move || {
                        let store = FolderSnapshots::open(path, PLENTY).unwrap();
                        barrier.wait();
                        let kept = store.put(&key(1), snapshot(format!("writer {number}").as_bytes())).unwrap();
                        kept.bytes().to_vec()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(kept.len(), 1, "{kept:?}");
        assert_eq!(store.get(&key(1)).unwrap().unwrap().bytes(), kept.first().unwrap().as_slice());
    }
}

#[test]
fn a_damaged_file_is_replaced_by_the_next_put() {
    let (_folder, path, store) = folder();
    store.put(&key(1), snapshot(b"old")).unwrap();
    fs::write(file(&path, &key(1)), "damaged").unwrap();
    assert_eq!(store.put(&key(1), snapshot(b"new")).unwrap().bytes(), b"new");
    assert_eq!(store.get(&key(1)).unwrap().unwrap().bytes(), b"new");
    let mode = fs::metadata(file(&path, &key(1))).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_file_under_another_name_is_not_taken_for_that_key() {
    let (_folder, path, store) = folder();
    store.put(&key(1), snapshot(b"content")).unwrap();
    fs::copy(file(&path, &key(1)), file(&path, &key(2))).unwrap();
    assert!(store.get(&key(2)).unwrap_err().is_corrupt());
}

#[test]
fn what_is_no_plain_file_is_not_read() {
    let (_folder, path, store) = folder();
    symlink("/dev/zero", file(&path, &key(1))).unwrap();
    fs::create_dir(file(&path, &key(2))).unwrap();
    for number in [1, 2] {
        assert!(store.get(&key(number)).unwrap_err().is_corrupt());
    }
}

#[test]
fn writing_leaves_nothing_behind_and_what_a_crash_left_is_cleared() {
    let (_folder, path, store) = folder();
    store.put(&key(1), snapshot(b"content")).unwrap();
    store.put(&key(1), snapshot(b"again")).unwrap();
    let sound = BTreeSet::from([format!("{}.snapshot", key(1))]);
    assert_eq!(file_names(&path), sound);
    let left = path.join(format!("{}.1.0.unfinished", key(2)));
    fs::write(&left, "half a snap").unwrap();
    FolderSnapshots::open(&path, PLENTY).unwrap();
    assert_eq!(file_names(&path), sound);
}

#[test]
fn what_a_living_writer_is_writing_is_not_cleared() {
    let (_folder, path, _store) = folder();
    let unfinished = path.join(format!("{}.1.0.unfinished", key(2)));
    let writer = fs::File::create(&unfinished).unwrap();
    writer.try_lock().unwrap();
    FolderSnapshots::open(&path, PLENTY).unwrap();
    assert!(unfinished.exists());
    drop(writer);
    FolderSnapshots::open(&path, PLENTY).unwrap();
    assert!(!unfinished.exists());
}

#[test]
fn files_that_are_not_snapshots_are_left_alone() {
    let (_folder, path, store) = folder();
    for name in ["notes.txt", "not-a-key.snapshot"] {
        fs::write(path.join(name), "mine").unwrap();
    }
    assert_eq!(store.retain(&|_| false).unwrap(), 0);
    assert_eq!(file_names(&path).len(), 2);
}

// === keys ===

#[test]
fn a_key_never_changes_its_spelling() {
    // Snapshots of an earlier release must be found again: this value may only change together
    // with the version in the documented format.
    let mut request = Request::config("https://host/config.ign");
    request.headers = vec![("X-Token".into(), "value".into())];
    request.compression = Some(Compression::Gzip);
    request.verification = Some(Digest::sha256(b""));
    let key = SnapshotKey::new("99-worker", "hash", &request, Some("1"));
    assert_eq!(key.to_string(), "775f5eee348f284ae8dbe9d523068d6a2cc59a4008362a8926bb37a486630b7c");
    assert_eq!(SnapshotKey::parse(&key.to_string()), Some(key));
    assert_eq!(SnapshotKey::parse(&key.to_string().to_uppercase()), None);
}

/// Everything that a key is made of.
type Parts = (String, String, String, bool, bool, Option<u8>, Option<String>, Vec<(String, String)>);

fn parts() -> impl Strategy<Value = Parts> {
    // Short texts over few letters, so that differing parts often collide when strung together.
    let text = || "[ab]{0,2}";
    (
        text(),
        text(),
        text(),
        any::<bool>(),
        any::<bool>(),
        proptest::option::of(0u8..2),
        // An empty mark is the same as none.
        proptest::option::of("[ab]{1,2}"),
        proptest::collection::vec((text(), text()), 0..3),
    )
}

fn key_of(parts: &Parts) -> SnapshotKey {
    let (name, hash, url, is_config, is_packed, verification, refresh, headers) = parts;
    let mut request = Request::resource(url.as_str());
    if *is_config {
        request.accept = ContentKind::Config;
    }
    request.compression = is_packed.then_some(Compression::Gzip);
    request.verification = verification.map(|byte| Digest::sha256(&[byte]));
    request.headers.clone_from(headers);
    SnapshotKey::new(name, hash, &request, refresh.as_deref())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn keys_are_equal_exactly_when_all_their_parts_are(one in parts(), other in parts()) {
        prop_assert_eq!(key_of(&one), key_of(&one.clone()));
        prop_assert_eq!(key_of(&one) == key_of(&other), one == other);
    }
}

proptest! {
    // Each case syncs to the disk.
    #![proptest_config(ProptestConfig::with_cases(50))]

    #[test]
    fn any_content_and_url_survive_a_folder(content in any::<Vec<u8>>(), url in any::<String>()) {
        let folder = tempfile::tempdir().unwrap();
        let store = FolderSnapshots::open(folder.path().join("snapshots"), PLENTY).unwrap();
        let one = Snapshot::new(content, &url, SystemTime::UNIX_EPOCH);
        store.put(&key(1), one.clone()).unwrap();
        prop_assert_eq!(store.get(&key(1)).unwrap(), Some(one));
    }
}
