//! A real file system that is full, and one that is read-only.
//!
//! The child process of the test runs in a mount namespace of its own with a small tmpfs, which goes when it ends.

#![allow(clippy::unwrap_used)]

mod common;

use std::env;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output};

use common::{bodies, indexer, key, put};
use seaworthy_store::{CommitError, Expect, OpenError, Store, Window};

const FOLDER: &str = "SEAWORTHY_STORE_SMALL_DISK";

/// Runs a shell script where mounts are private. `$1` is the folder, `$2` this program.
fn with_private_mounts(script: &str, folder: &Path) -> Option<Output> {
    let program = env::var_os("SEAWORTHY_UNSHARE").unwrap_or_else(|| "unshare".into());
    let mut command = Command::new(program);
    command.args(["--map-root-user", "--mount", "sh", "-c", script, "sh"]);
    command.arg(folder).arg(env::current_exe().unwrap()).env(FOLDER, folder).output().ok()
}

fn skip(reason: &str) {
    let line = format!("SKIPPED unshare: {reason}\n");
    match env::var_os("SEAWORTHY_SKIPPED") {
        Some(file) => {
            OpenOptions::new().append(true).create(true).open(file).unwrap().write_all(line.as_bytes()).unwrap()
        }
        None => eprint!("{line}"),
    }
}

#[test]
fn a_full_disk_refuses_writes_serves_reads_and_recovers() {
    let folder = tempfile::tempdir().unwrap();
    let probe = with_private_mounts("mount -t tmpfs -o size=1m tmpfs \"$1\"", folder.path());
    if !probe.is_some_and(|output| output.status.success()) {
        skip("no private mounts for this user, so no small disk to fill");
        return;
    }
    let script = "mount -t tmpfs -o size=12m tmpfs \"$1\" && exec \"$2\" child --exact --ignored --nocapture";
    let output = with_private_mounts(script, folder.path()).unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("the child saw it all"),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
#[ignore = "the child process of the test above"]
fn child() {
    let Some(disk) = env::var_os(FOLDER) else { return };
    let disk = Path::new(&disk);
    let folder = disk.join("data");
    let ballast = disk.join("ballast");
    fs::write(&ballast, vec![1; 4 << 20]).unwrap();
    let open = || Store::open(&folder, indexer(), Window::default());
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
        let status = Command::new("mount").args(["-o", &format!("remount,{mode}")]).arg(disk).status().unwrap();
        assert!(status.success());
    };
    let file = fs::read(folder.join("store.redb")).unwrap();
    remount("ro");
    let error = open().unwrap_err();
    assert!(matches!(error, OpenError::Folder { act: "write to it", .. }), "{error}");
    remount("rw");
    assert!(fs::read(folder.join("store.redb")).unwrap() == file);
    assert!(bodies(&open().unwrap().list("core/pods", None).records) == expected);
    println!("the child saw it all");
}
