//! Cluster snapshots: remote content stored in the cluster, so that every later render, restart or new leader has the same.
//!
//! Content may be secret, so it is stored in Secrets, one for each snapshot, or several if it is too large for one. It is
//! written before anything that was rendered from it, and deleted when no MachineConfig refers to it any more. Rendered
//! MachineConfigs embed their content and need no snapshot.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ListParams, ObjectMeta};
use kube::{Api, Client, ResourceExt as _};
use seaworthy_api::vocabulary::seaworthy::{annotation, label};
use seaworthy_change::{Change, ObjectRef};
use seaworthy_fetch::{MemorySnapshots, Snapshot, SnapshotError, SnapshotKey, Snapshots};
use seaworthy_runtime::{Applier, WriteError};
use tokio::time::Instant;

/// The size of all snapshots together, in bytes.
const MAX_TOTAL_BYTES: u64 = 256 << 20;
/// The size of the piece of a snapshot that one Secret holds: the API accepts a mebibyte, with the keys.
const MAX_PIECE_BYTES: usize = 900 << 10;
const SECRET_TYPE: &str = "seaworthy.dev/snapshot";
const CONTENT_KEY: &str = "content";

/// How long a snapshot is kept that no MachineConfig refers to, so that a reverted edit fetches nothing again.
const UNREFERENCED_GRACE_PERIOD: Duration = Duration::from_secs(60 * 60);

/// The snapshots of a cluster.
pub struct ContentSnapshots {
    namespace: String,
    memory: MemorySnapshots,
    index: Mutex<SnapshotIndex>,
}

/// The snapshots of a cluster, without their content.
#[derive(Default)]
struct SnapshotIndex {
    /// Snapshots that are not written to the cluster yet.
    unwritten: Vec<(SnapshotKey, Snapshot)>,
    entries: BTreeMap<SnapshotKey, SnapshotEntry>,
    /// All references of each MachineConfig that was rendered by this process.
    references: BTreeMap<String, BTreeSet<SnapshotKey>>,
    /// Since when no MachineConfig refers to a snapshot.
    unreferenced: BTreeMap<SnapshotKey, Instant>,
}

struct SnapshotEntry {
    /// The MachineConfig that refers to it, if that is known.
    owner: Option<String>,
    /// The number of its Secrets.
    pieces: usize,
}

impl SnapshotIndex {
    fn note(&mut self, machine_config: &str, keys: &BTreeSet<SnapshotKey>, is_all: bool) {
        for key in keys {
            let owner = Some(machine_config.to_owned());
            self.entries.entry(*key).or_insert(SnapshotEntry { owner: None, pieces: 0 }).owner = owner;
        }
        let is_known =
            !keys.is_empty() || self.entries.values().any(|entry| entry.owner.as_deref() == Some(machine_config));
        if is_known && is_all {
            self.references.insert(machine_config.to_owned(), keys.clone());
        } else if let Some(references) = self.references.get_mut(machine_config) {
            references.extend(keys);
        }
    }

    /// Updates which snapshots are unreferenced. Those of a MachineConfig that was not rendered yet count as referenced.
    fn update_unreferenced(&mut self, is_there: impl Fn(&str) -> bool) {
        let SnapshotIndex { entries, references, unreferenced, .. } = self;
        references.retain(|owner, _| is_there(owner));
        let is_wanted = |key: &SnapshotKey, owner: &str| {
            is_there(owner) && references.get(owner).is_none_or(|references| references.contains(key))
        };
        unreferenced.retain(|key, _| entries.contains_key(key));
        for (key, entry) in entries.iter() {
            // Older snapshots have no owner on record: any MachineConfig may refer to them.
            if entry.owner.as_deref().is_none_or(|owner| is_wanted(key, owner)) {
                unreferenced.remove(key);
            } else {
                unreferenced.entry(*key).or_insert_with(Instant::now);
            }
        }
    }

    /// The snapshots whose grace period has ended, and the time until that of another ends.
    fn expired(&self) -> (Vec<SnapshotKey>, Option<Duration>) {
        let is_over = |since: &Instant| since.elapsed() >= UNREFERENCED_GRACE_PERIOD;
        let expired = self.unreferenced.iter().filter(|(_, since)| is_over(since)).map(|(key, _)| *key).collect();
        let rest = self
            .unreferenced
            .values()
            .filter(|since| !is_over(since))
            .map(|since| UNREFERENCED_GRACE_PERIOD - since.elapsed())
            .min();
        (expired, rest)
    }

    fn forget(&mut self, key: &SnapshotKey) {
        self.unwritten.retain(|(unwritten, _)| unwritten != key);
        self.entries.remove(key);
        self.unreferenced.remove(key);
    }
}

impl ContentSnapshots {
    /// Reads the snapshots of the cluster.
    pub async fn load(client: &Client, namespace: &str) -> Result<ContentSnapshots, kube::Error> {
        let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
        let found = secrets.list(&ListParams::default().labels(label::SNAPSHOT.as_str())).await?;
        let memory = MemorySnapshots::new(MAX_TOTAL_BYTES);
        let mut index = SnapshotIndex::default();
        for (key, owner, snapshot) in read(found.items) {
            index.entries.insert(key, SnapshotEntry { owner, pieces: pieces(&snapshot).len() });
            if let Err(error) = memory.put(&key, snapshot) {
                tracing::warn!(%error, "ignoring snapshot");
            }
        }
        Ok(ContentSnapshots { namespace: namespace.to_owned(), memory, index: Mutex::new(index) })
    }

    /// Writes new snapshots to the cluster. One that another process has written under the same key meanwhile stays, and is
    /// used from the next start on.
    pub async fn flush(&self, applier: &Applier) -> Result<(), WriteError> {
        loop {
            let Some((key, snapshot)) = self.index().unwritten.last().cloned() else { return Ok(()) };
            let owner = self.index().entries.get(&key).and_then(|entry| entry.owner.clone());
            for secret in write(&key, &snapshot, owner.as_deref(), &self.namespace) {
                match applier.change(Change::create(&secret)).await {
                    Err(error) if error.is_conflict() => {}
                    result => result?,
                }
            }
            self.index().unwritten.retain(|(unwritten, _)| *unwritten != key);
        }
    }

    /// Deletes the snapshots whose grace period has ended; `is_there` is whether a MachineConfig exists. Returns the time until
    /// more can be deleted.
    pub async fn collect(
        &self,
        applier: &Applier,
        is_there: impl Fn(&str) -> bool,
    ) -> Result<Option<Duration>, WriteError> {
        let (expired, rest) = {
            let mut index = self.index();
            index.update_unreferenced(is_there);
            index.expired()
        };
        for key in expired {
            let pieces = self.index().entries.get(&key).map_or(0, |entry| entry.pieces);
            for nth in 0..pieces {
                let metadata = ObjectMeta {
                    name: Some(name(&key, nth, pieces)),
                    namespace: Some(self.namespace.clone()),
                    ..ObjectMeta::default()
                };
                let secret = Secret { metadata, ..Secret::default() };
                applier.change(Change::delete(ObjectRef::of(&secret))).await?;
            }
            self.index().forget(&key);
            if let Err(error) = self.retain(&|kept| *kept != key) {
                tracing::warn!(%error, "cannot remove snapshot from memory");
            }
        }
        Ok(rest)
    }

    fn index(&self) -> std::sync::MutexGuard<'_, SnapshotIndex> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Snapshots for ContentSnapshots {
    fn get(&self, key: &SnapshotKey) -> Result<Option<Snapshot>, SnapshotError> {
        self.memory.get(key)
    }

    fn put(&self, key: &SnapshotKey, snapshot: Snapshot) -> Result<Snapshot, SnapshotError> {
        let kept = match self.memory.put(key, snapshot.clone()) {
            Err(SnapshotError::Full { .. }) => {
                // Unreferenced snapshots, which are kept for reverted edits, make room for what is needed now.
                let index = self.index();
                self.memory.retain(&|key| !index.unreferenced.contains_key(key))?;
                self.memory.put(key, snapshot)?
            }
            result => result?,
        };
        let mut index = self.index();
        index.entries.entry(*key).or_insert(SnapshotEntry { owner: None, pieces: 0 }).pieces = pieces(&kept).len();
        index.unwritten.push((*key, kept.clone()));
        Ok(kept)
    }

    fn note(&self, machine_config: &str, keys: &BTreeSet<SnapshotKey>, is_all: bool) {
        self.index().note(machine_config, keys, is_all);
    }

    fn retain(&self, is_wanted: &dyn Fn(&SnapshotKey) -> bool) -> Result<usize, SnapshotError> {
        self.memory.retain(is_wanted)
    }
}

/// The content of a snapshot in pieces that a Secret can hold.
fn pieces(snapshot: &Snapshot) -> Vec<&[u8]> {
    match snapshot.bytes() {
        [] => vec![&[]],
        bytes => bytes.chunks(MAX_PIECE_BYTES).collect(),
    }
}

/// The name of a Secret. It has all 64 digits of the key, so that two keys never collide.
fn name(key: &SnapshotKey, nth: usize, count: usize) -> String {
    format!("snapshot-{key}-{nth}-of-{count}")
}

/// The Secrets of one snapshot.
fn write(key: &SnapshotKey, snapshot: &Snapshot, owner: Option<&str>, namespace: &str) -> Vec<Secret> {
    let seconds = snapshot.fetched_at().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let pieces = pieces(snapshot);
    let count = pieces.len();
    let mut annotations = BTreeMap::from([
        (annotation::SNAPSHOT_KEY.into(), key.to_string()),
        (annotation::SNAPSHOT_URL.into(), snapshot.url().to_owned()),
        (annotation::SNAPSHOT_TIME.into(), seconds.to_string()),
    ]);
    annotations.extend(owner.map(|owner| (annotation::SNAPSHOT_FOR.into(), owner.to_owned())));
    let secret = |(nth, piece): (usize, &[u8])| Secret {
        metadata: ObjectMeta {
            name: Some(name(key, nth, count)),
            namespace: Some(namespace.to_owned()),
            labels: Some(BTreeMap::from([(label::SNAPSHOT.into(), String::new())])),
            annotations: Some(annotations.clone()),
            ..ObjectMeta::default()
        },
        type_: Some(SECRET_TYPE.to_owned()),
        immutable: Some(true),
        data: Some(BTreeMap::from([(CONTENT_KEY.to_owned(), ByteString(piece.to_vec()))])),
        ..Secret::default()
    };
    pieces.into_iter().enumerate().map(secret).collect()
}

/// The snapshots in these Secrets, with their owners. Damaged and incomplete ones are left out, and so fetched again.
fn read(secrets: Vec<Secret>) -> Vec<(SnapshotKey, Option<String>, Snapshot)> {
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
            None => tracing::warn!(name, "ignoring Secret: its name is not that of a snapshot"),
        }
    }
    let whole = |((key, count), pieces): ((SnapshotKey, usize), BTreeMap<usize, Secret>)| {
        if !pieces.keys().copied().eq(0..count) {
            tracing::warn!(%key, "snapshot is incomplete; fetching its content again");
            return None;
        }
        let mut bytes = Vec::new();
        let mut about = None;
        for secret in pieces.into_values() {
            bytes.extend_from_slice(&secret.data.as_ref()?.get(CONTENT_KEY)?.0);
            about.get_or_insert(secret.metadata);
        }
        let about = about?;
        let seconds = annotation::SNAPSHOT_TIME.of(&about)?.parse().ok()?;
        let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))?;
        // A time outside of the calendar could not be reported.
        Timestamp::try_from(time).ok()?;
        let owner = annotation::SNAPSHOT_FOR.of(&about).map(str::to_owned);
        Some((key, owner, Snapshot::new(bytes, annotation::SNAPSHOT_URL.of(&about)?, time)))
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
    fn snapshot_of_any_size_is_restored_from_its_secrets() {
        for size in [0, 1, MAX_PIECE_BYTES, MAX_PIECE_BYTES + 1, 3 * MAX_PIECE_BYTES] {
            let secrets = write(&key("a"), &snapshot(size), Some("50-a"), "seaworthy");
            assert_eq!(secrets.len(), size.div_ceil(MAX_PIECE_BYTES).max(1));
            assert_eq!(read(secrets), [(key("a"), Some("50-a".to_owned()), snapshot(size))]);
        }
    }

    #[test]
    fn snapshot_that_lacks_a_piece_is_left_out() {
        let mut secrets = write(&key("a"), &snapshot(2 * MAX_PIECE_BYTES), None, "seaworthy");
        secrets.extend(write(&key("b"), &snapshot(5), None, "seaworthy"));
        secrets.remove(0);
        assert_eq!(read(secrets), [(key("b"), None, snapshot(5))]);
    }

    async fn secrets(client: &Client) -> usize {
        Api::<Secret>::namespaced(client.clone(), "default").list(&ListParams::default()).await.unwrap().items.len()
    }

    #[tokio::test(start_paused = true)]
    async fn snapshot_is_deleted_after_a_grace_period_without_references() {
        let cluster = seaworthy_testkit::Embedded::start().await;
        let context = crate::Context::new(cluster.client());
        let applier = context.applier("test");
        let load = async || ContentSnapshots::load(&context.client, "default").await.unwrap();
        let snapshots = load().await;
        let keys = |digits: &[&str]| -> BTreeSet<SnapshotKey> { digits.iter().map(|digit| key(digit)).collect() };
        snapshots.note("50-a", &keys(&["a", "b"]), true);
        snapshots.put(&key("a"), snapshot(MAX_PIECE_BYTES + 1)).unwrap();
        snapshots.put(&key("b"), snapshot(5)).unwrap();
        snapshots.flush(&applier).await.unwrap();
        assert_eq!(secrets(&context.client).await, 3);
        assert_eq!(snapshots.collect(&applier, |_| true).await.unwrap(), None);

        // A reverted edit within the grace period deletes nothing.
        snapshots.note("50-a", &keys(&["b"]), true);
        assert_eq!(snapshots.collect(&applier, |_| true).await.unwrap(), Some(UNREFERENCED_GRACE_PERIOD));
        tokio::time::advance(UNREFERENCED_GRACE_PERIOD / 2).await;
        snapshots.note("50-a", &keys(&["a", "b"]), true);
        assert_eq!(snapshots.collect(&applier, |_| true).await.unwrap(), None);

        // A lasting edit does, and a failed render removes no references that it did not reach.
        snapshots.note("50-a", &keys(&["b"]), true);
        snapshots.note("50-a", &keys(&[]), false);
        snapshots.collect(&applier, |_| true).await.unwrap();
        tokio::time::advance(UNREFERENCED_GRACE_PERIOD).await;
        assert_eq!(snapshots.collect(&applier, |_| true).await.unwrap(), None);
        assert_eq!(secrets(&context.client).await, 1);
        assert_eq!(snapshots.get(&key("a")).unwrap(), None);
        assert!(snapshots.get(&key("b")).unwrap().is_some());

        // After a restart the owner is known; until it is rendered, all its snapshots count as referenced.
        let snapshots = load().await;
        assert_eq!(snapshots.collect(&applier, |_| true).await.unwrap(), None);
        assert_eq!(snapshots.collect(&applier, |_| false).await.unwrap(), Some(UNREFERENCED_GRACE_PERIOD));
        tokio::time::advance(UNREFERENCED_GRACE_PERIOD).await;
        assert_eq!(snapshots.collect(&applier, |_| false).await.unwrap(), None);
        assert_eq!(secrets(&context.client).await, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn unreferenced_snapshots_are_removed_when_there_is_no_room() {
        let full = |wanted: &[&str]| {
            let snapshots = ContentSnapshots {
                namespace: "default".to_owned(),
                memory: MemorySnapshots::new(10),
                index: Mutex::default(),
            };
            snapshots.note("50-a", &BTreeSet::from([key("a")]), true);
            snapshots.put(&key("a"), snapshot(8)).unwrap();
            snapshots.note("50-a", &wanted.iter().map(|digit| key(digit)).collect(), true);
            snapshots.index().update_unreferenced(|_| true);
            snapshots.put(&key("b"), snapshot(8))
        };
        assert!(full(&["b"]).is_ok());
        let refused = full(&["a", "b"]).unwrap_err().to_string();
        assert!(refused.contains("8 of 10 bytes are in use") && refused.contains("embed some of it"), "{refused}");
    }
}
