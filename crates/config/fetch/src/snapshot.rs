//! [`Snapshot`]: fetched content that is stored, so that the same inputs give the same result although
//! the remote content has changed since.
//!
//! A store never decides when to fetch again. The [`SnapshotKey`] does: it changes when the
//! config that refers to the content changes, or when a refresh is asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use sha2::{Digest as _, Sha256};

use crate::digest::{hex, unhex};
use crate::{Compression, ContentKind, Digest, Request, redact};

/// Unpacked, verified content together with where and when it was obtained.
#[derive(Clone, PartialEq, Eq)]
pub struct Snapshot {
    bytes: Arc<[u8]>,
    digest: Digest,
    url: String,
    fetched_at: SystemTime,
}

/// Identifies a [`Snapshot`] by everything that decides what it must contain.
///
/// It is the SHA-256 of the text `seaworthy snapshot key 1`, followed by these fields, each with
/// its length in bytes (eight bytes, big-endian) before it: name of the MachineConfig, hash of its
/// spec, URL, kind of content (`config` or `resource`), compression (`gzip` or empty), expected
/// hash (or empty), refresh mark (or empty), number of headers in decimal, then name and value of
/// every header in order.
///
/// Timeouts, proxy and certificate authorities are not part of it: they decide how content is
/// reached, not what it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotKey([u8; 32]);

/// A store of snapshots.
///
/// The first snapshot stored under a key stays: two renders that fetch at the same time agree on
/// one content, because both go on with what [`Snapshots::put`] returns.
pub trait Snapshots: Send + Sync {
    /// The snapshot of that key.
    ///
    /// # Errors
    ///
    /// [`SnapshotError::Corrupt`] when there is one that cannot be trusted: fetch again and
    /// `put`, which replaces it. Other variants when the place cannot be read.
    fn get(&self, key: &SnapshotKey) -> Result<Option<Snapshot>, SnapshotError>;

    /// Keeps `snapshot` unless a sound one is already there; returns the one that is kept.
    ///
    /// # Errors
    ///
    /// [`SnapshotError::Full`] when it does not fit, or when the place cannot be written.
    fn put(&self, key: &SnapshotKey, snapshot: Snapshot) -> Result<Snapshot, SnapshotError>;

    /// Records that a MachineConfig refers to these keys, and to no others if `is_all`. A store that outlives MachineConfigs
    /// can find unused snapshots by this.
    fn note(&self, machine_config: &str, keys: &BTreeSet<SnapshotKey>, is_all: bool) {
        let _ = (machine_config, keys, is_all);
    }

    /// Removes every snapshot whose key is not wanted any more; returns how many.
    ///
    /// # Errors
    ///
    /// When the place cannot be read or written.
    fn retain(&self, is_wanted: &dyn Fn(&SnapshotKey) -> bool) -> Result<usize, SnapshotError>;
}

/// A snapshot that could not be read or kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The entry is damaged. It is not used; the content is to be fetched again.
    #[error("snapshot {} is damaged: {reason}; it is not used", .path.display())]
    Corrupt { path: PathBuf, reason: &'static str },
    /// The store would grow beyond its limit.
    #[error(
        "a snapshot of {size} bytes does not fit: {used} of {limit} bytes are in use{}",
        full_hint(.folder.as_deref())
    )]
    Full {
        /// The folder that is full; `None` for memory.
        folder: Option<PathBuf>,
        /// How large the new one is.
        size: u64,
        /// How much is in use.
        used: u64,
        /// How much may be in use.
        limit: u64,
    },
    /// The folder may be read by others; contents may be secret.
    #[error(
        "snapshot folder {} has mode {mode:04o}, so that others can reach it; use a folder of \
         its own with mode 0700", .path.display()
    )]
    Exposed {
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The folder belongs to another user, who could replace its files.
    #[error(
        "snapshot folder {} belongs to user {owner}, and this is user {user}; use a folder of \
         your own with mode 0700", .path.display()
    )]
    Foreign {
        path: PathBuf,
        owner: u32,
        /// The effective user of this process.
        user: u32,
    },
    /// The system refused.
    #[error("cannot {action} snapshot {}: {source}", .path.display())]
    Io {
        /// The operation.
        action: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
}

/// Snapshots in memory: for one run, and for tests.
#[derive(Debug)]
pub struct MemorySnapshots {
    entries: Mutex<BTreeMap<SnapshotKey, Snapshot>>,
    max_bytes: u64,
}

/// A time for people: UTC, to the second.
#[must_use]
pub fn utc(time: SystemTime) -> String {
    // Years beyond 9999 are a broken clock.
    let time = jiff::Timestamp::try_from(time).unwrap_or_default();
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

// === impl Snapshot ===

impl Snapshot {
    /// A snapshot of unpacked `bytes` that came from `url` (which is redacted here).
    #[must_use]
    pub fn new(bytes: impl Into<Arc<[u8]>>, url: &str, fetched_at: SystemTime) -> Self {
        let bytes = bytes.into();
        Self { digest: Digest::sha256(&bytes), bytes, url: redact(url), fetched_at }
    }

    /// The unpacked content.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The SHA-256 of the content.
    #[must_use]
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// Where the content came from, redacted.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// When the content was fetched.
    #[must_use]
    pub fn fetched_at(&self) -> SystemTime {
        self.fetched_at
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("bytes", &self.bytes.len())
            .field("digest", &self.digest)
            .field("url", &self.url)
            .field("fetched_at", &self.fetched_at)
            .finish()
    }
}

// === impl SnapshotKey ===

impl SnapshotKey {
    /// The key of the content that `request` asks for on behalf of a MachineConfig.
    ///
    /// `spec_hash` is the hash of that MachineConfig's spec. `refresh` is the value of the
    /// annotation that asks for fetching again, where there is one.
    #[must_use]
    pub fn new(machine_config: &str, spec_hash: &str, request: &Request, refresh: Option<&str>) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(b"seaworthy snapshot key 1");
        let mut field = |text: &str| {
            hasher.update((text.len() as u64).to_be_bytes());
            hasher.update(text.as_bytes());
        };
        field(machine_config);
        field(spec_hash);
        field(&request.url);
        field(match request.accept {
            ContentKind::Config => "config",
            ContentKind::Resource => "resource",
        });
        field(match request.compression {
            Some(Compression::Gzip) => "gzip",
            None => "",
        });
        let verification = request.verification.as_ref().map(Digest::to_string);
        field(&verification.unwrap_or_default());
        field(refresh.unwrap_or_default());
        field(&request.headers.len().to_string());
        for (name, value) in &request.headers {
            field(name);
            field(value);
        }
        Self(hasher.finalize().into())
    }

    /// Reads what `Display` writes: 64 hex digits in lower case.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        // One spelling per key, so that a store cannot hold two files of the same one.
        if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return None;
        }
        unhex(text).map(Self)
    }
}

impl fmt::Display for SnapshotKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for SnapshotKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SnapshotKey({self})")
    }
}

// === impl SnapshotError ===

impl SnapshotError {
    /// Whether the entry is there but cannot be trusted, so that fetching again fixes it.
    #[must_use]
    pub fn is_corrupt(&self) -> bool {
        matches!(self, Self::Corrupt { .. })
    }
}

/// What can be done about a full store.
fn full_hint(folder: Option<&Path>) -> String {
    match folder {
        Some(folder) => format!(
            " in {}; it may be emptied: content that is still needed is fetched again, in its then current version",
            folder.display()
        ),
        None => " in memory; refer to less remote content, or embed some of it".to_owned(),
    }
}

// === impl MemorySnapshots ===

impl MemorySnapshots {
    /// An empty store for at most `max_bytes` of content.
    #[must_use]
    pub fn new(max_bytes: u64) -> Self {
        Self { entries: Mutex::default(), max_bytes }
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<SnapshotKey, Snapshot>> {
        // The map is whole at every point where a holder could have panicked.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Snapshots for MemorySnapshots {
    fn get(&self, key: &SnapshotKey) -> Result<Option<Snapshot>, SnapshotError> {
        Ok(self.entries().get(key).cloned())
    }

    fn put(&self, key: &SnapshotKey, snapshot: Snapshot) -> Result<Snapshot, SnapshotError> {
        let mut entries = self.entries();
        if let Some(kept) = entries.get(key) {
            return Ok(kept.clone());
        }
        let size = snapshot.bytes.len() as u64;
        let used = entries.values().map(|kept| kept.bytes.len() as u64).sum();
        if size.saturating_add(used) > self.max_bytes {
            return Err(SnapshotError::Full { folder: None, size, used, limit: self.max_bytes });
        }
        entries.insert(*key, snapshot.clone());
        Ok(snapshot)
    }

    fn retain(&self, is_wanted: &dyn Fn(&SnapshotKey) -> bool) -> Result<usize, SnapshotError> {
        let mut entries = self.entries();
        let before = entries.len();
        entries.retain(|key, _| is_wanted(key));
        Ok(before - entries.len())
    }
}
