//! Remote content kept in the cluster, so that every later render, restart or new leader has the same.
//!
//! Content may be secret, so it lies in Secrets, one for each snapshot, or several where it is too large for one. It is
//! written before anything that was made from it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ListParams, ObjectMeta};
use kube::{Api, Client, ResourceExt as _};
use seaworthy_api::vocabulary::seaworthy::{annotation, label};
use seaworthy_fetch::{MemorySnapshots, Snapshot, SnapshotError, SnapshotKey, Snapshots};
use seaworthy_runtime::{Applier, WriteError};

/// How much all snapshots may hold together.
const MOST: u64 = 256 << 20;
/// How much of a snapshot one Secret holds: the API takes a mebibyte, keys and all.
const PIECE: usize = 900 << 10;
/// Type of the Secrets.
const TYPE: &str = "seaworthy.dev/snapshot";
const CONTENT: &str = "content";

/// The snapshots of a cluster.
pub struct ClusterSnapshots {
    namespace: String,
    memory: MemorySnapshots,
    /// What is not in the cluster yet.
    fresh: Mutex<Vec<(SnapshotKey, Snapshot)>>,
}

impl ClusterSnapshots {
    /// Reads what the cluster has.
    pub async fn load(client: &Client, namespace: &str) -> Result<ClusterSnapshots, kube::Error> {
        let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
        let found = secrets.list(&ListParams::default().labels(label::SNAPSHOT.as_str())).await?;
        let memory = MemorySnapshots::new(MOST);
        for (key, snapshot) in read(found.items) {
            if let Err(error) = memory.put(&key, snapshot) {
                tracing::warn!(%error, "a snapshot is left out");
            }
        }
        Ok(ClusterSnapshots { namespace: namespace.to_owned(), memory, fresh: Mutex::default() })
    }

    /// Writes what is new to the cluster. What somebody else has written under the same key meanwhile stays; the next start
    /// goes on with that.
    pub async fn flush(&self, applier: &Applier) -> Result<(), WriteError> {
        loop {
            let Some((key, snapshot)) = self.fresh().last().cloned() else { return Ok(()) };
            for secret in write(&key, &snapshot, &self.namespace) {
                match applier.create(&secret).await {
                    Err(error) if error.is_conflict() => {}
                    result => drop(result?),
                }
            }
            self.fresh().retain(|(fresh, _)| *fresh != key);
        }
    }

    fn fresh(&self) -> std::sync::MutexGuard<'_, Vec<(SnapshotKey, Snapshot)>> {
        self.fresh.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Snapshots for ClusterSnapshots {
    fn get(&self, key: &SnapshotKey) -> Result<Option<Snapshot>, SnapshotError> {
        self.memory.get(key)
    }

    fn put(&self, key: &SnapshotKey, snapshot: Snapshot) -> Result<Snapshot, SnapshotError> {
        let kept = self.memory.put(key, snapshot)?;
        self.fresh().push((*key, kept.clone()));
        Ok(kept)
    }

    fn retain(&self, is_wanted: &dyn Fn(&SnapshotKey) -> bool) -> Result<usize, SnapshotError> {
        self.memory.retain(is_wanted)
    }
}

/// The Secrets of one snapshot.
fn write(key: &SnapshotKey, snapshot: &Snapshot, namespace: &str) -> Vec<Secret> {
    let seconds = snapshot.fetched_at().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let pieces: Vec<&[u8]> = match snapshot.bytes() {
        [] => vec![&[]],
        bytes => bytes.chunks(PIECE).collect(),
    };
    let count = pieces.len();
    let annotations = BTreeMap::from([
        (annotation::SNAPSHOT_KEY.into(), key.to_string()),
        (annotation::SNAPSHOT_URL.into(), snapshot.url().to_owned()),
        (annotation::SNAPSHOT_TIME.into(), seconds.to_string()),
    ]);
    let secret = |(nth, piece): (usize, &[u8])| Secret {
        metadata: ObjectMeta {
            // A key has 64 digits; the name carries all of them, so that two never meet.
            name: Some(format!("snapshot-{key}-{nth}-of-{count}")),
            namespace: Some(namespace.to_owned()),
            labels: Some(BTreeMap::from([(label::SNAPSHOT.into(), String::new())])),
            annotations: Some(annotations.clone()),
            ..ObjectMeta::default()
        },
        type_: Some(TYPE.to_owned()),
        immutable: Some(true),
        data: Some(BTreeMap::from([(CONTENT.to_owned(), ByteString(piece.to_vec()))])),
        ..Secret::default()
    };
    pieces.into_iter().enumerate().map(secret).collect()
}

/// The snapshots in these Secrets; what is damaged or not whole is left out and so fetched again.
fn read(secrets: Vec<Secret>) -> Vec<(SnapshotKey, Snapshot)> {
    let mut pieces: BTreeMap<(SnapshotKey, usize), BTreeMap<usize, Secret>> = BTreeMap::new();
    for secret in secrets {
        let name = secret.name_any();
        let parts = || {
            let (key, place) = name.strip_prefix("snapshot-")?.split_once('-')?;
            let (nth, count) = place.split_once("-of-")?;
            Some((SnapshotKey::parse(key)?, nth.parse().ok()?, count.parse().ok()?))
        };
        match parts() {
            Some((key, nth, count)) => drop(pieces.entry((key, count)).or_default().insert(nth, secret)),
            None => tracing::warn!(name, "the name of this Secret is not that of a snapshot; it is left out"),
        }
    }
    let whole = |((key, count), pieces): ((SnapshotKey, usize), BTreeMap<usize, Secret>)| {
        if !pieces.keys().copied().eq(0..count) {
            tracing::warn!(%key, "a snapshot is not whole and is fetched again");
            return None;
        }
        let mut bytes = Vec::new();
        let mut about = None;
        for secret in pieces.into_values() {
            bytes.extend_from_slice(&secret.data.as_ref()?.get(CONTENT)?.0);
            about.get_or_insert(secret.metadata);
        }
        let about = about?;
        let seconds = annotation::SNAPSHOT_TIME.of(&about)?.parse().ok()?;
        let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))?;
        // A time that no calendar has would only be told wrongly.
        Timestamp::try_from(time).ok()?;
        Some((key, Snapshot::new(bytes, annotation::SNAPSHOT_URL.of(&about)?, time)))
    };
    pieces.into_iter().filter_map(whole).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(digit: &str) -> SnapshotKey {
        SnapshotKey::parse(&digit.repeat(64)).unwrap()
    }

    fn snapshot(size: usize) -> Snapshot {
        let bytes: Vec<u8> = (0..size).map(|nth| (nth % 251) as u8).collect();
        Snapshot::new(bytes, "https://example.com/a", SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000))
    }

    #[test]
    fn snapshot_of_any_size_survives_the_cluster() {
        for size in [0, 1, PIECE, PIECE + 1, 3 * PIECE] {
            let secrets = write(&key("a"), &snapshot(size), "seaworthy");
            assert_eq!(secrets.len(), size.div_ceil(PIECE).max(1));
            assert_eq!(read(secrets), [(key("a"), snapshot(size))]);
        }
    }

    #[test]
    fn snapshot_that_lacks_a_piece_is_left_out() {
        let mut secrets = write(&key("a"), &snapshot(2 * PIECE), "seaworthy");
        secrets.extend(write(&key("b"), &snapshot(5), "seaworthy"));
        secrets.remove(0);
        assert_eq!(read(secrets), [(key("b"), snapshot(5))]);
    }
}
