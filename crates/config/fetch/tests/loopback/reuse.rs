//! Snapshots: fetched once, used until the config changes.

use std::sync::Arc;

use seaworthy_fetch::{
    FailureKind, FetchRun, FolderSnapshots, MemorySnapshots, Policy, Request, SnapshotKey, Snapshots,
};

use crate::loopback::support::server::{Server, ok, response};
use crate::loopback::support::{fetcher, fetcher_with, obtain, policy};

#[tokio::test]
async fn content_that_has_changed_since_is_not_seen() {
    let server = Server::start(|_, before| ok(format!("version {before}"))).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshots");
    let request = Request::resource(server.url("/"));
    let key = SnapshotKey::new("99-worker", "hash", &request, None);
    for run in 0..3 {
        // Reopened, as after a restart.
        let snapshots: Arc<dyn Snapshots> = Arc::new(FolderSnapshots::open(&path, 1 << 20).unwrap());
        let resolved = obtain(fetcher(), &snapshots, &key, &request).await;
        assert_eq!(resolved.content.as_ref().unwrap().bytes(), b"version 0");
        assert_eq!(resolved.is_reused, run > 0);
        assert!(resolved.problems.is_empty());
    }
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_changed_spec_or_a_refresh_fetches_again() {
    let server = Server::start(|_, before| ok(format!("version {before}"))).await;
    let snapshots: Arc<dyn Snapshots> = Arc::new(MemorySnapshots::new(1 << 20));
    let request = Request::resource(server.url("/"));
    let keys = [
        SnapshotKey::new("99-worker", "hash 1", &request, None),
        SnapshotKey::new("99-worker", "hash 2", &request, None),
        SnapshotKey::new("99-worker", "hash 2", &request, Some("now")),
    ];
    for (version, key) in keys.iter().enumerate() {
        let resolved = obtain(fetcher(), &snapshots, key, &request).await;
        assert_eq!(resolved.content.as_ref().unwrap().bytes(), format!("version {version}").as_bytes());
    }
}

#[tokio::test]
async fn a_damaged_snapshot_is_reported_and_fetched_again() {
    let server = Server::start(|_, _| ok("content")).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshots");
    let snapshots: Arc<dyn Snapshots> = Arc::new(FolderSnapshots::open(&path, 1 << 20).unwrap());
    let request = Request::resource(server.url("/"));
    let key = SnapshotKey::new("99-worker", "hash", &request, None);
    obtain(fetcher(), &snapshots, &key, &request).await.content.unwrap();
    let file = path.join(format!("{key}.snapshot"));
    let mut bytes = std::fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let resolved = obtain(fetcher(), &snapshots, &key, &request).await;
    assert_eq!(resolved.content.as_ref().unwrap().bytes(), b"content");
    assert!(!resolved.is_reused);
    assert_eq!(resolved.problems.len(), 1);
    assert!(resolved.problems[0].is_corrupt());
    assert_eq!(server.seen().len(), 2);
    assert!(snapshots.get(&key).unwrap().is_some());
}

#[tokio::test]
async fn a_full_store_is_reported_and_the_content_still_handed_out() {
    let server = Server::start(|_, _| ok("content")).await;
    let snapshots: Arc<dyn Snapshots> = Arc::new(MemorySnapshots::new(3));
    let request = Request::resource(server.url("/"));
    let key = SnapshotKey::new("99-worker", "hash", &request, None);
    let resolved = obtain(fetcher(), &snapshots, &key, &request).await;
    assert_eq!(resolved.content.as_ref().unwrap().bytes(), b"content");
    assert_eq!(resolved.problems.len(), 1);
}

#[tokio::test]
async fn a_failed_fetch_leaves_no_snapshot() {
    let server = Server::start(|_, _| response(404, &[], b"")).await;
    let snapshots: Arc<dyn Snapshots> = Arc::new(MemorySnapshots::new(1 << 20));
    let request = Request::resource(server.url("/"));
    let key = SnapshotKey::new("99-worker", "hash", &request, None);
    let result = obtain(fetcher(), &snapshots, &key, &request).await;
    assert!(result.content.is_err());
    assert_eq!(snapshots.get(&key).unwrap(), None);
}

#[tokio::test]
async fn what_had_been_fetched_before_makes_no_difference_to_the_total() {
    let server = Server::start(|_, _| ok(vec![b'x'; 1000])).await;
    let fetcher = fetcher_with(Policy { max_total_bytes: 2500, ..policy(&["127.0.0.1"]) });
    let wanted: Vec<_> = (0..3)
        .map(|number| {
            let request = Request::resource(server.url(&format!("/{number}")));
            (SnapshotKey::new("99-worker", "hash", &request, None), request)
        })
        .collect();
    let snapshots: Arc<dyn Snapshots> = Arc::new(MemorySnapshots::new(1 << 20));
    let kinds = async |mut run: FetchRun| -> Vec<_> {
        let outcomes = run.obtain(&wanted).await;
        outcomes.into_iter().map(|outcome| outcome.content.map(drop).map_err(|error| error.kind)).collect()
    };
    let expected = [Ok(()), Ok(()), Err(FailureKind::TotalTooLarge { size: 1000, limit: 2500 })];
    // Nothing is there at first; then two of three are; then all of them.
    for _ in 0..3 {
        assert_eq!(kinds(FetchRun::new(fetcher.clone(), snapshots.clone())).await, expected);
        let (key, request) = &wanted[2];
        obtain(fetcher.clone(), &snapshots, key, request).await.content.unwrap();
    }
    assert_eq!(server.seen().len(), 4);
    assert_eq!(kinds(FetchRun::offline(fetcher.policy().clone(), snapshots.clone())).await, expected);
}

#[tokio::test]
async fn a_snapshot_larger_than_the_limit_of_today_is_refused() {
    let server = Server::start(|_, _| ok(vec![b'x'; 1000])).await;
    let snapshots: Arc<dyn Snapshots> = Arc::new(MemorySnapshots::new(1 << 20));
    let request = Request::resource(server.url("/"));
    let key = SnapshotKey::new("99-worker", "hash", &request, None);
    obtain(fetcher(), &snapshots, &key, &request).await.content.unwrap();
    let strict = fetcher_with(Policy { max_object_bytes: 999, ..policy(&["127.0.0.1"]) });
    let error = obtain(strict, &snapshots, &key, &request).await.content.unwrap_err();
    assert_eq!(error.kind, FailureKind::TooLarge { limit: 999, is_unpacked: false });
}
