//! Folders and files that a store accepts and rejects; a rejected one stays unchanged.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{bodies, indexer, key, put};
use rstest::rstest;
use seaworthy_store::{EventWindow, Expect, OpenError, RedbLog, Store};

fn open(folder: &Path) -> Result<Store, OpenError> {
    Store::open(folder, indexer(), EventWindow::default())
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// A folder whose store holds a hundred objects and was closed in order.
fn filled() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).unwrap();
    let changes = (0..100).map(|n| put(&key(&format!("pod-{n:03}")), Expect::Absent, &"x".repeat(1000))).collect();
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(store.commit(changes)).unwrap();
    drop(store);
    let file = folder.path().join("store.redb");
    (folder, file)
}

#[test]
fn a_new_folder_is_for_its_owner_alone() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("a/b");
    let store = open(&folder).unwrap();
    assert_eq!(mode(&folder), 0o700);
    for file in ["store.redb", "lock"] {
        assert_eq!(mode(&folder.join(file)), 0o600, "{file}");
    }
    drop(store);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2, "nothing else is left behind");
}

#[test]
fn an_open_folder_of_ours_is_closed_and_one_with_other_things_is_refused() {
    let (folder, _) = filled();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    open(folder.path()).unwrap();
    assert_eq!(mode(folder.path()), 0o700);

    let other = tempfile::tempdir().unwrap();
    fs::set_permissions(other.path(), Permissions::from_mode(0o755)).unwrap();
    File::create(other.path().join("letter.txt")).unwrap();
    let error = open(other.path()).unwrap_err();
    assert!(matches!(error, OpenError::Exposed { mode: 0o755, .. }), "{error}");
    assert_eq!(mode(other.path()), 0o755);
    assert_eq!(fs::read_dir(other.path()).unwrap().count(), 1);
}

#[test]
fn a_folder_in_use_is_refused_with_the_holder() {
    let (folder, file) = filled();
    let store = open(folder.path()).unwrap();
    let before = fs::read(&file).unwrap();
    let error = open(folder.path()).unwrap_err();
    let wanted = format!(
        "data folder {} is in use by process {}; stop that process first or name another folder",
        folder.path().display(),
        std::process::id()
    );
    assert_eq!(error.to_string(), wanted);
    assert!(fs::read(&file).unwrap() == before);
    drop(store);
    open(folder.path()).unwrap();
}

#[test]
fn a_file_that_another_program_has_open_is_refused() {
    let (folder, file) = filled();
    let engine = RedbLog::open(&file).unwrap();
    let error = open(folder.path()).unwrap_err();
    assert!(matches!(error, OpenError::InUse { holder: None, .. }), "{error}");
    drop(engine);
    open(folder.path()).unwrap();
}

#[test]
fn what_is_no_folder_is_named_as_such() {
    let parent = tempfile::tempdir().unwrap();
    let file = parent.path().join("file");
    File::create(&file).unwrap();
    for path in [file.clone(), file.join("below")] {
        let error = open(&path).unwrap_err();
        assert!(matches!(&error, OpenError::NotAFolder { folder } if *folder == path), "{error}");
    }
    // A folder where the file should be.
    let folder = parent.path().join("folder");
    fs::create_dir_all(folder.join("store.redb")).unwrap();
    let error = open(&folder).unwrap_err();
    assert!(matches!(&error, OpenError::File { file, .. } if *file == folder.join("store.redb")), "{error}");
}

/// Proc is a folder that not even root can write to.
#[test]
fn a_folder_that_cannot_be_written_to_is_reported() {
    let error = open(Path::new("/proc/self/store")).unwrap_err();
    assert!(matches!(error, OpenError::Folder { act: "create it", .. }), "{error}");
    assert!(error.to_string().starts_with("data folder /proc/self/store: cannot create it: "), "{error}");
}

/// Where the system lets root make a file unchangeable, even root cannot write it; elsewhere permissions do.
#[test]
fn a_file_that_cannot_be_written_to_is_reported_and_stays() {
    let (folder, file) = filled();
    let before = fs::read(&file).unwrap();
    let is_fixed = Command::new("chattr").arg("+i").arg(&file).status().is_ok_and(|status| status.success());
    fs::set_permissions(&file, Permissions::from_mode(0o400)).ok();
    let result = open(folder.path());
    if is_fixed {
        assert!(Command::new("chattr").arg("-i").arg(&file).status().unwrap().success());
    } else if result.is_ok() {
        eprintln!("SKIPPED: this user may write to files that are read-only");
        return;
    }
    let error = result.unwrap_err();
    assert!(matches!(&error, OpenError::File { .. }), "{error}");
    assert!(fs::read(&file).unwrap() == before);
}

#[rstest]
#[case::empty(|bytes: &mut Vec<u8>| bytes.clear())]
#[case::text(|bytes: &mut Vec<u8>| *bytes = b"not a store at all\n".repeat(1000))]
#[case::zeroes(|bytes: &mut Vec<u8>| bytes.fill(0))]
#[case::cut_off(|bytes: &mut Vec<u8>| bytes.truncate(bytes.len() / 2))]
#[case::only_the_head(|bytes: &mut Vec<u8>| bytes.truncate(4096))]
#[case::redb_version_of_the_future(|bytes: &mut Vec<u8>| { bytes[64] = 200; bytes[192] = 200 })]
fn a_damaged_file_is_refused_and_stays_as_it_is(#[case] damage: fn(&mut Vec<u8>)) {
    let (folder, file) = filled();
    let mut bytes = fs::read(&file).unwrap();
    damage(&mut bytes);
    fs::write(&file, &bytes).unwrap();
    let error = open(folder.path()).unwrap_err();
    assert!(matches!(&error, OpenError::Corrupted { .. }), "{error}");
    assert!(error.to_string().contains("store.redb: it is damaged or not a store: "), "{error}");
    assert!(fs::read(&file).unwrap() == bytes);
}

/// A flipped bit is in free space and harms nothing, or is found. It is never served, and never makes it worse.
#[test]
fn a_flipped_bit_is_found_or_harmless() {
    let (folder, file) = filled();
    let expected = bodies(&open(folder.path()).unwrap().list("core/pods", None).records);
    let good = fs::read(&file).unwrap();
    let (mut found, mut harmless) = (0, 0);
    // Odd strides: all kinds of places in all kinds of pages, and closer in the head.
    for at in (0..good.len()).step_by((good.len() / 100) | 1).chain((0..320).step_by(7)) {
        let mut bytes = good.clone();
        bytes[at] ^= 0x10;
        fs::write(&file, &bytes).unwrap();
        match open(folder.path()) {
            Ok(store) => {
                assert_eq!(bodies(&store.list("core/pods", None).records), expected, "bit in byte {at}");
                harmless += 1;
            }
            Err(OpenError::Corrupted { .. } | OpenError::Newer { .. }) => {
                assert!(fs::read(&file).unwrap() == bytes, "byte {at}: the refused file was changed");
                found += 1;
            }
            Err(other) => panic!("byte {at}: {other}"),
        }
    }
    assert!(found > 0 && harmless > 0, "{found} found, {harmless} harmless");
}

#[test]
fn a_file_of_a_newer_format_is_refused_and_stays_as_it_is() {
    let (folder, file) = filled();
    let table = redb::TableDefinition::<&str, u64>::new("meta");
    let database = redb::Database::open(&file).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(table).unwrap().insert("format", 2).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let before = fs::read(&file).unwrap();
    let error = open(folder.path()).unwrap_err();
    assert!(matches!(error, OpenError::Newer { found: 2, known: 1, .. }), "{error}");
    assert!(fs::read(&file).unwrap() == before);
}

#[rstest]
#[case::foreign_tables(false)]
#[case::no_tables(true)]
fn a_redb_file_of_another_program_is_refused_and_stays_as_it_is(#[case] is_empty: bool) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.redb");
    let database = redb::Database::create(&file).unwrap();
    if !is_empty {
        let transaction = database.begin_write().unwrap();
        transaction.open_table(redb::TableDefinition::<u32, u32>::new("meta")).unwrap().insert(1, 2).unwrap();
        transaction.commit().unwrap();
    }
    drop(database);
    let before = fs::read(&file).unwrap();
    let error = open(folder.path()).unwrap_err();
    assert!(matches!(error, OpenError::Corrupted { .. }), "{error}");
    assert!(fs::read(&file).unwrap() == before);
}

#[rstest]
#[case::inside(40)]
#[case::at_the_end(100)]
fn a_gap_in_the_log_is_refused_and_stays_as_it_is(#[case] missing: u64) {
    let (folder, file) = filled();
    let database = redb::Database::open(&file).unwrap();
    let transaction = database.begin_write().unwrap();
    let (log, meta) =
        (redb::TableDefinition::<u64, &[u8]>::new("log"), redb::TableDefinition::<&str, u64>::new("meta"));
    transaction.open_table(log).unwrap().remove(missing).unwrap().unwrap();
    transaction.open_table(meta).unwrap().insert("revision", 100).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let before = fs::read(&file).unwrap();
    let error = open(folder.path()).unwrap_err().to_string();
    assert!(error.contains(&format!("row {missing} is missing")), "{error}");
    assert!(fs::read(&file).unwrap() == before);
}

#[test]
fn a_store_that_is_only_read_leaves_its_file_as_it_is() {
    let (folder, file) = filled();
    let before = fs::read(&file).unwrap();
    let store = open(folder.path()).unwrap();
    assert_eq!(store.list("core/pods", None).records.len(), 100);
    drop(store);
    assert!(fs::read(&file).unwrap() == before);
}

#[test]
fn a_first_start_that_was_cut_short_leaves_nothing_in_the_way() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
    fs::write(folder.path().join("store.redb.new"), "half of a file").unwrap();
    let store = open(folder.path()).unwrap();
    assert_eq!(store.revision(), 0);
    assert!(!folder.path().join("store.redb.new").exists());
}
