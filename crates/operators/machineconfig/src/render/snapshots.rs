//! Remote content kept in the cluster, so that every later render, restart or new leader has the same.
//!
//! Content may be secret, so it lies in Secrets, one for each snapshot, or several where it is too large for one. It is
//! written before anything that was made from it, and goes when the MachineConfig that refers to it does so no more.
//! Rendered MachineConfigs have their content in them and need no snapshot.

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

/// How much all snapshots may hold together.
const MOST: u64 = 256 << 20;
/// How much of a snapshot one Secret holds: the API takes a mebibyte, keys and all.
const PIECE: usize = 900 << 10;
/// Type of the Secrets.
const TYPE: &str = "seaworthy.dev/snapshot";
const CONTENT: &str = "content";

/// How long a snapshot is kept that no MachineConfig refers to: an edit that is taken back fetches nothing again.
const GRACE: Duration = Duration::from_secs(60 * 60);

/// The snapshots of a cluster.
pub struct ClusterSnapshots {
    namespace: String,
    memory: MemorySnapshots,
    ledger: Mutex<Ledger>,
}

/// What is known of the snapshots beside their content.
#[derive(Default)]
struct Ledger {
    /// What is not in the cluster yet.
    fresh: Vec<(SnapshotKey, Snapshot)>,
    kept: BTreeMap<SnapshotKey, Kept>,
    /// All that a MachineConfig refers to, as far as it was rendered by this process.
    asked: BTreeMap<String, BTreeSet<SnapshotKey>>,
    /// Since when nobody refers to a snapshot.
    unwanted: BTreeMap<SnapshotKey, Instant>,
}

/// One snapshot.
struct Kept {
    /// The MachineConfig that refers to it, if that is known.
    owner: Option<String>,
    /// How many Secrets it takes.
    pieces: usize,
}

impl Ledger {
    fn note(&mut self, machine_config: &str, keys: &BTreeSet<SnapshotKey>, is_all: bool) {
        for key in keys {
            let owner = Some(machine_config.to_owned());
            self.kept.entry(*key).or_insert(Kept { owner: None, pieces: 0 }).owner = owner;
        }
        let is_known = !keys.is_empty() || self.kept.values().any(|kept| kept.owner.as_deref() == Some(machine_config));
        if is_known && is_all {
            self.asked.insert(machine_config.to_owned(), keys.clone());
        } else if let Some(asked) = self.asked.get_mut(machine_config) {
            asked.extend(keys);
        }
    }

    /// Works out what nobody refers to. Of a MachineConfig that was not rendered yet, all is taken to be wanted.
    fn sort_out(&mut self, is_there: impl Fn(&str) -> bool) {
        let Ledger { kept, asked, unwanted, .. } = self;
        asked.retain(|owner, _| is_there(owner));
        let is_wanted = |key: &SnapshotKey, owner: &str| {
            is_there(owner) && asked.get(owner).is_none_or(|asked| asked.contains(key))
        };
        unwanted.retain(|key, _| kept.contains_key(key));
        for (key, kept) in kept.iter() {
            // Whom an older one is for is not known: it may be anybody.
            if kept.owner.as_deref().is_none_or(|owner| is_wanted(key, owner)) {
                unwanted.remove(key);
            } else {
                unwanted.entry(*key).or_insert_with(Instant::now);
            }
        }
    }

    /// Those that nobody has referred to for long enough, and how long it is until there are others.
    fn over(&self) -> (Vec<SnapshotKey>, Option<Duration>) {
        let is_over = |since: &Instant| since.elapsed() >= GRACE;
        let over = self.unwanted.iter().filter(|(_, since)| is_over(since)).map(|(key, _)| *key).collect();
        let rest = self.unwanted.values().filter(|since| !is_over(since)).map(|since| GRACE - since.elapsed()).min();
        (over, rest)
    }

    fn forget(&mut self, key: &SnapshotKey) {
        self.fresh.retain(|(fresh, _)| fresh != key);
        self.kept.remove(key);
        self.unwanted.remove(key);
    }
}

impl ClusterSnapshots {
    /// Reads what the cluster has.
    pub async fn load(client: &Client, namespace: &str) -> Result<ClusterSnapshots, kube::Error> {
        let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
        let found = secrets.list(&ListParams::default().labels(label::SNAPSHOT.as_str())).await?;
        let memory = MemorySnapshots::new(MOST);
        let mut ledger = Ledger::default();
        for (key, owner, snapshot) in read(found.items) {
            ledger.kept.insert(key, Kept { owner, pieces: pieces(&snapshot).len() });
            if let Err(error) = memory.put(&key, snapshot) {
                tracing::warn!(%error, "a snapshot is left out");
            }
        }
        Ok(ClusterSnapshots { namespace: namespace.to_owned(), memory, ledger: Mutex::new(ledger) })
    }

    /// Writes what is new to the cluster. What somebody else has written under the same key meanwhile stays; the next start
    /// goes on with that.
    pub async fn flush(&self, applier: &Applier) -> Result<(), WriteError> {
        loop {
            let Some((key, snapshot)) = self.ledger().fresh.last().cloned() else { return Ok(()) };
            let owner = self.ledger().kept.get(&key).and_then(|kept| kept.owner.clone());
            for secret in write(&key, &snapshot, owner.as_deref(), &self.namespace) {
                match applier.change(Change::create(&secret)).await {
                    Err(error) if error.is_conflict() => {}
                    result => result?,
                }
            }
            self.ledger().fresh.retain(|(fresh, _)| *fresh != key);
        }
    }

    /// Removes what no MachineConfig has referred to for a while, given which of them are there. Says when there will be more
    /// to remove.
    pub async fn collect(
        &self,
        applier: &Applier,
        is_there: impl Fn(&str) -> bool,
    ) -> Result<Option<Duration>, WriteError> {
        let (over, rest) = {
            let mut ledger = self.ledger();
            ledger.sort_out(is_there);
            ledger.over()
        };
        for key in over {
            let pieces = self.ledger().kept.get(&key).map_or(0, |kept| kept.pieces);
            for nth in 0..pieces {
                let metadata = ObjectMeta {
                    name: Some(name(&key, nth, pieces)),
                    namespace: Some(self.namespace.clone()),
                    ..ObjectMeta::default()
                };
                let secret = Secret { metadata, ..Secret::default() };
                applier.change(Change::delete(ObjectRef::of(&secret))).await?;
            }
            self.ledger().forget(&key);
            if let Err(error) = self.retain(&|kept| *kept != key) {
                tracing::warn!(%error, "a snapshot stays in memory");
            }
        }
        Ok(rest)
    }

    fn ledger(&self) -> std::sync::MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Snapshots for ClusterSnapshots {
    fn get(&self, key: &SnapshotKey) -> Result<Option<Snapshot>, SnapshotError> {
        self.memory.get(key)
    }

    fn put(&self, key: &SnapshotKey, snapshot: Snapshot) -> Result<Snapshot, SnapshotError> {
        let kept = match self.memory.put(key, snapshot.clone()) {
            Err(SnapshotError::Full { .. }) => {
                // What is kept for an edit that may be taken back gives way to what is needed now.
                let ledger = self.ledger();
                self.memory.retain(&|key| !ledger.unwanted.contains_key(key))?;
                self.memory.put(key, snapshot)?
            }
            result => result?,
        };
        let mut ledger = self.ledger();
        ledger.kept.entry(*key).or_insert(Kept { owner: None, pieces: 0 }).pieces = pieces(&kept).len();
        ledger.fresh.push((*key, kept.clone()));
        Ok(kept)
    }

    fn note(&self, machine_config: &str, keys: &BTreeSet<SnapshotKey>, is_all: bool) {
        self.ledger().note(machine_config, keys, is_all);
    }

    fn retain(&self, is_wanted: &dyn Fn(&SnapshotKey) -> bool) -> Result<usize, SnapshotError> {
        self.memory.retain(is_wanted)
    }
}

/// The content of a snapshot in pieces that a Secret can hold.
fn pieces(snapshot: &Snapshot) -> Vec<&[u8]> {
    match snapshot.bytes() {
        [] => vec![&[]],
        bytes => bytes.chunks(PIECE).collect(),
    }
}

/// A key has 64 digits; the name carries all of them, so that two never meet.
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
        type_: Some(TYPE.to_owned()),
        immutable: Some(true),
        data: Some(BTreeMap::from([(CONTENT.to_owned(), ByteString(piece.to_vec()))])),
        ..Secret::default()
    };
    pieces.into_iter().enumerate().map(secret).collect()
}

/// The snapshots in these Secrets, and whom they are for; what is damaged or not whole is left out and so fetched again.
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
    fn snapshot_of_any_size_survives_the_cluster() {
        for size in [0, 1, PIECE, PIECE + 1, 3 * PIECE] {
            let secrets = write(&key("a"), &snapshot(size), Some("50-a"), "seaworthy");
            assert_eq!(secrets.len(), size.div_ceil(PIECE).max(1));
            assert_eq!(read(secrets), [(key("a"), Some("50-a".to_owned()), snapshot(size))]);
        }
    }

    #[test]
    fn snapshot_that_lacks_a_piece_is_left_out() {
        let mut secrets = write(&key("a"), &snapshot(2 * PIECE), None, "seaworthy");
        secrets.extend(write(&key("b"), &snapshot(5), None, "seaworthy"));
        secrets.remove(0);
        assert_eq!(read(secrets), [(key("b"), None, snapshot(5))]);
    }

    async fn secrets(client: &Client) -> usize {
        Api::<Secret>::namespaced(client.clone(), "default").list(&ListParams::default()).await.unwrap().items.len()
    }

    #[tokio::test(start_paused = true)]
    async fn snapshot_goes_a_while_after_the_last_that_refers_to_it() {
        let cluster = seaworthy_testkit::Embedded::start().await;
        let context = crate::Context::new(cluster.client());
        let applier = context.applier("test");
        let load = async || ClusterSnapshots::load(&context.client, "default").await.unwrap();
        let snapshots = load().await;
        let keys = |digits: &[&str]| -> BTreeSet<SnapshotKey> { digits.iter().map(|digit| key(digit)).collect() };
        snapshots.note("50-a", &keys(&["a", "b"]), true);
        snapshots.put(&key("a"), snapshot(PIECE + 1)).unwrap();
        snapshots.put(&key("b"), snapshot(5)).unwrap();
        snapshots.flush(&applier).await.unwrap();
        assert_eq!(secrets(&context.client).await, 3);
        assert_eq!(snapshots.collect(&applier, |_| true).await.unwrap(), None);

        // An edit that is taken back in time loses nothing.
        snapshots.note("50-a", &keys(&["b"]), true);
        assert_eq!(snapshots.collect(&applier, |_| true).await.unwrap(), Some(GRACE));
        tokio::time::advance(GRACE / 2).await;
        snapshots.note("50-a", &keys(&["a", "b"]), true);
        assert_eq!(snapshots.collect(&applier, |_| true).await.unwrap(), None);

        // One that stays does, and a render that failed half-way says nothing about what it did not reach.
        snapshots.note("50-a", &keys(&["b"]), true);
        snapshots.note("50-a", &keys(&[]), false);
        snapshots.collect(&applier, |_| true).await.unwrap();
        tokio::time::advance(GRACE).await;
        assert_eq!(snapshots.collect(&applier, |_| true).await.unwrap(), None);
        assert_eq!(secrets(&context.client).await, 1);
        assert_eq!(snapshots.get(&key("a")).unwrap(), None);
        assert!(snapshots.get(&key("b")).unwrap().is_some());

        // A new start knows whom it is for; before that one was rendered all of it is wanted.
        let snapshots = load().await;
        assert_eq!(snapshots.collect(&applier, |_| true).await.unwrap(), None);
        assert_eq!(snapshots.collect(&applier, |_| false).await.unwrap(), Some(GRACE));
        tokio::time::advance(GRACE).await;
        assert_eq!(snapshots.collect(&applier, |_| false).await.unwrap(), None);
        assert_eq!(secrets(&context.client).await, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_needs_gives_way_when_there_is_no_room() {
        let full = |wanted: &[&str]| {
            let snapshots = ClusterSnapshots {
                namespace: "default".to_owned(),
                memory: MemorySnapshots::new(10),
                ledger: Mutex::default(),
            };
            snapshots.note("50-a", &BTreeSet::from([key("a")]), true);
            snapshots.put(&key("a"), snapshot(8)).unwrap();
            snapshots.note("50-a", &wanted.iter().map(|digit| key(digit)).collect(), true);
            snapshots.ledger().sort_out(|_| true);
            snapshots.put(&key("b"), snapshot(8))
        };
        assert!(full(&["b"]).is_ok());
        let refused = full(&["a", "b"]).unwrap_err().to_string();
        assert!(refused.contains("8 of 10 bytes are in use") && refused.contains("embed some of it"), "{refused}");
    }
}
