//! Snapshots: fetched once, used until the config changes.

use seaworthy_fetch::{FolderSnapshots, MemorySnapshots, Request, SnapshotKey, Snapshots};

use crate::support::fetcher;
use crate::support::server::{Server, ok, response};

#[tokio::test]
async fn content_that_has_changed_since_is_not_seen() {
    let server = Server::start(|_, before| ok(format!("version {before}"))).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshots");
    let request = Request::resource(server.url("/"));
    let key = SnapshotKey::new("99-worker", "hash", &request, None);
    for run in 0..3 {
        // Opened anew, as after a restart.
        let snapshots = FolderSnapshots::open(&path, 1 << 20).unwrap();
        let resolved = fetcher().fetch_or_reuse(&snapshots, &key, &request).await.unwrap();
        assert_eq!(resolved.snapshot.bytes(), b"version 0");
        assert_eq!(resolved.is_reused, run > 0);
        assert!(resolved.problems.is_empty());
    }
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_changed_spec_or_a_refresh_fetches_again() {
    let server = Server::start(|_, before| ok(format!("version {before}"))).await;
    let snapshots = MemorySnapshots::new(1 << 20);
    let request = Request::resource(server.url("/"));
    let keys = [
        SnapshotKey::new("99-worker", "hash 1", &request, None),
        SnapshotKey::new("99-worker", "hash 2", &request, None),
        SnapshotKey::new("99-worker", "hash 2", &request, Some("now")),
    ];
    for (version, key) in keys.iter().enumerate() {
        let resolved = fetcher().fetch_or_reuse(&snapshots, key, &request).await.unwrap();
        assert_eq!(resolved.snapshot.bytes(), format!("version {version}").as_bytes());
    }
}

#[tokio::test]
async fn a_damaged_snapshot_is_reported_and_fetched_again() {
    let server = Server::start(|_, _| ok("content")).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshots");
    let snapshots = FolderSnapshots::open(&path, 1 << 20).unwrap();
    let request = Request::resource(server.url("/"));
    let key = SnapshotKey::new("99-worker", "hash", &request, None);
    let fetcher = fetcher();
    fetcher.fetch_or_reuse(&snapshots, &key, &request).await.unwrap();
    let file = path.join(format!("{key}.snapshot"));
    let mut bytes = std::fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let resolved = fetcher.fetch_or_reuse(&snapshots, &key, &request).await.unwrap();
    assert_eq!(resolved.snapshot.bytes(), b"content");
    assert!(!resolved.is_reused);
    assert_eq!(resolved.problems.len(), 1);
    assert!(resolved.problems[0].is_corrupt());
    assert_eq!(server.seen().len(), 2);
    assert!(snapshots.get(&key).unwrap().is_some());
}

#[tokio::test]
async fn a_full_store_is_reported_and_the_content_still_handed_out() {
    let server = Server::start(|_, _| ok("content")).await;
    let snapshots = MemorySnapshots::new(3);
    let request = Request::resource(server.url("/"));
    let key = SnapshotKey::new("99-worker", "hash", &request, None);
    let resolved = fetcher().fetch_or_reuse(&snapshots, &key, &request).await.unwrap();
    assert_eq!(resolved.snapshot.bytes(), b"content");
    assert_eq!(resolved.problems.len(), 1);
}

#[tokio::test]
async fn a_failed_fetch_leaves_no_snapshot() {
    let server = Server::start(|_, _| response(404, &[], b"")).await;
    let snapshots = MemorySnapshots::new(1 << 20);
    let request = Request::resource(server.url("/"));
    let key = SnapshotKey::new("99-worker", "hash", &request, None);
    let result = fetcher().fetch_or_reuse(&snapshots, &key, &request).await;
    assert!(result.is_err());
    assert_eq!(snapshots.get(&key).unwrap(), None);
}
