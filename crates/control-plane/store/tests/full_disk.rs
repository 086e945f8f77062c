//! A real file system that is full, and one that is read-only.

use std::fs;
use std::process::Command;

use crate::common::{bodies, indexer, key, put};
use seaworthy_store::{CommitError, EventWindow, Expect, OpenError, Store};
use seaworthy_trial::small_disk;

#[test]
fn a_full_disk_refuses_writes_serves_reads_and_recovers() {
    small_disk::run_child("full_disk::child", 12);
}

#[test]
#[ignore = "the child process of the test above"]
fn child() {
    let Some(disk) = small_disk::folder() else { return };
    let folder = disk.join("data");
    let ballast = disk.join("ballast");
    fs::write(&ballast, vec![1; 4 << 20]).unwrap();
    let open = || Store::open(&folder, indexer(), EventWindow::default());
    let store = open().unwrap();
    let large = "x".repeat(100_000);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let write = |name: &str| {
        // Two at a time: neither may come without the other.
        let pair = ["one", "two"].map(|half| put(&key(&format!("{name}-{half}")), Expect::Absent, &large));
        runtime.block_on(store.commit(pair.into()))
    };
    let mut written = 0;
    let refused = loop {
        match write(&format!("{written:03}")) {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(written > 5, "{written}");
    for _ in 0..3 {
        let error = write("late").unwrap_err();
        assert!(matches!(error, CommitError::Unavailable { is_full: true, .. }), "{refused}, then {error}");
    }
    assert!(matches!(refused, CommitError::Unavailable { is_full: true, .. }), "{refused}");
    assert_eq!((store.list("core/pods", None).records.len(), store.revision()), (2 * written, 2 * written as u64));
    fs::remove_file(&ballast).unwrap();
    assert_eq!(write("late").unwrap().revision, 2 * written as u64 + 2);
    let expected = bodies(&store.list("core/pods", None).records);
    drop(store);
    let store = open().unwrap();
    assert!(bodies(&store.list("core/pods", None).records) == expected);
    drop(store);

    let remount = |mode: &str| {
        let status = Command::new("mount").args(["-o", &format!("remount,{mode}")]).arg(&disk).status().unwrap();
        assert!(status.success());
    };
    let file = fs::read(folder.join("store.redb")).unwrap();
    remount("ro");
    let error = open().unwrap_err();
    assert!(matches!(error, OpenError::Folder { act: "write to it", .. }), "{error}");
    remount("rw");
    assert!(fs::read(folder.join("store.redb")).unwrap() == file);
    assert!(bodies(&open().unwrap().list("core/pods", None).records) == expected);
    small_disk::done();
}
