//! [`FolderSnapshots`]: snapshots as files, one per key, which survive restarts.
//!
//! An entry is a short text head, an empty line, and the content:
//!
//! ```text
//! seaworthy-snapshot 1
//! key <64 hex digits, as in the file's name>
//! url <redacted>
//! fetched-at <seconds since 1970>.<nanoseconds>
//! length <bytes>
//! sha256 <64 hex digits of the content>
//! seal <64 hex digits: SHA-256 of the lines above>
//! ```
//!
//! Invariants:
//!
//! * A reader sees a whole entry or none: files are written under another name, synced, and only
//!   then given theirs.
//! * Nothing damaged is handed out: head and content are covered by hashes.
//! * The folder belongs to this user and has mode 0700, and the files have mode 0600, because contents may be
//!   secret, and because a user who can write there decides what is rendered.
//! * Unfinished files of a crashed writer are removed, those of a running one are not: a writer holds a
//!   lock on its unfinished file.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{Digest, Snapshot, SnapshotError, SnapshotKey, Snapshots};

const MAGIC: &str = "seaworthy-snapshot 1";
const SUFFIX: &str = ".snapshot";
const UNFINISHED: &str = ".unfinished";

/// A head has seven short lines; only the URL can be long, and URLs end long before this.
const MAX_HEAD_BYTES: u64 = 64 << 10;

/// Snapshots as files in a folder.
#[derive(Debug)]
pub struct FolderSnapshots {
    folder: PathBuf,
    max_bytes: u64,
    /// How much the files hold, as far as known; `None` until it matters.
    used: Mutex<Option<u64>>,
}

/// Distinguishes the unfinished files of one process.
static WRITES: AtomicU64 = AtomicU64::new(0);

// === impl FolderSnapshots ===

impl FolderSnapshots {
    /// Opens the folder, or creates it (and its parents), for at most `max_bytes` in all files.
    ///
    /// The files are measured once and when the limit seems to be reached; several processes that
    /// write at the same time may exceed it by what the others add.
    ///
    /// # Errors
    ///
    /// [`SnapshotError::Exposed`] when the folder exists and others can reach it,
    /// [`SnapshotError::Foreign`] when it is not ours. It is left as it is: a path given by
    /// mistake, such as `/tmp`, would become inaccessible to other users.
    pub fn open(folder: impl Into<PathBuf>, max_bytes: u64) -> Result<Self, SnapshotError> {
        Self::open_as(nix::unistd::geteuid().as_raw(), folder.into(), max_bytes)
    }

    fn open_as(user: u32, folder: PathBuf, max_bytes: u64) -> Result<Self, SnapshotError> {
        let failed = failure("open", &folder);
        match DirBuilder::new().recursive(true).mode(0o700).create(&folder) {
            Ok(()) => {}
            Err(error) => return Err(failed(error)),
        }
        let metadata = fs::metadata(&folder).map_err(failed)?;
        let (owner, mode) = (metadata.uid(), metadata.permissions().mode() & 0o7777);
        if mode & 0o077 != 0 {
            return Err(SnapshotError::Exposed { path: folder, mode });
        }
        // Root can open the folder of any user, who could then replace its files.
        if owner != user {
            return Err(SnapshotError::Foreign { path: folder, owner, user });
        }
        let store = Self { folder, max_bytes, used: Mutex::new(None) };
        store.clear_unfinished()?;
        Ok(store)
    }

    fn path(&self, key: &SnapshotKey) -> PathBuf {
        self.folder.join(format!("{key}{SUFFIX}"))
    }

    /// Removes unfinished files of crashed writers: those without a lock.
    fn clear_unfinished(&self) -> Result<(), SnapshotError> {
        for path in self.files(UNFINISHED)? {
            let Ok(file) = File::open(&path) else {
                continue; // finished, or removed by another process, in the meantime
            };
            if file.try_lock().is_ok() {
                remove(&path)?;
            }
        }
        Ok(())
    }

    fn files(&self, suffix: &str) -> Result<Vec<PathBuf>, SnapshotError> {
        let failed = failure("list", &self.folder);
        let mut paths = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(&failed)? {
            let name = entry.map_err(&failed)?.file_name();
            if name.to_string_lossy().ends_with(suffix) {
                paths.push(self.folder.join(name));
            }
        }
        Ok(paths)
    }

    /// How much all files hold, by looking at each of them.
    fn measure(&self) -> Result<u64, SnapshotError> {
        let mut used: u64 = 0;
        for path in self.files(SUFFIX)? {
            used = used.saturating_add(length(&path)?);
        }
        Ok(used)
    }

    fn used(&self) -> MutexGuard<'_, Option<u64>> {
        // A number is whole at every point where a holder could have panicked.
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets `size` bytes aside for a file that takes the place of `replaced` bytes.
    fn reserve(&self, size: u64, replaced: u64) -> Result<(), SnapshotError> {
        let mut used = self.used();
        let after = |used: u64| used.saturating_sub(replaced).saturating_add(size);
        let mut known = match *used {
            Some(known) => known,
            None => self.measure()?,
        };
        if after(known) > self.max_bytes && used.is_some() {
            // The folder may have been emptied since.
            known = self.measure()?;
        }
        *used = Some(known);
        if after(known) > self.max_bytes {
            let (folder, limit) = (Some(self.folder.clone()), self.max_bytes);
            return Err(SnapshotError::Full { folder, size, used: known, limit });
        }
        *used = Some(after(known));
        Ok(())
    }

    /// Corrects the known size of all files.
    fn adjust(&self, gone: u64, back: u64) {
        let mut used = self.used();
        *used = used.map(|known| known.saturating_sub(gone).saturating_add(back));
    }

    /// A new, locked file that only this call writes to.
    fn unfinished(&self, key: &SnapshotKey) -> Result<(PathBuf, File), SnapshotError> {
        loop {
            let number = WRITES.fetch_add(1, Ordering::Relaxed);
            let name = format!("{key}.{}.{number}{UNFINISHED}", process::id());
            let path = self.folder.join(name);
            let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
            match opened {
                // Before the file is locked, another process may take it for a left-over and remove it: then create
                // another one.
                Ok(file) => match file.try_lock() {
                    Ok(()) if path.exists() => return Ok((path, file)),
                    Ok(()) | Err(fs::TryLockError::WouldBlock) => {}
                    // Without locks no process removes unfinished files.
                    Err(fs::TryLockError::Error(_)) => return Ok((path, file)),
                },
                // Left by an earlier process with the same id.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failure("create", &path)(error)),
            }
        }
    }

    /// Writes an entry; returns the one that is stored in the end, and whether it is this one.
    fn write(
        &self,
        key: &SnapshotKey,
        path: &Path,
        head: &str,
        snapshot: Snapshot,
        replace: bool,
    ) -> Result<(Snapshot, Published), SnapshotError> {
        let (unfinished, mut file) = self.unfinished(key)?;
        let written = file
            .write_all(head.as_bytes())
            .and_then(|()| file.write_all(snapshot.bytes()))
            .and_then(|()| file.sync_all())
            .and_then(|()| if replace { self.replace(key, &unfinished, path) } else { publish(&unfinished, path) });
        let kept = match written {
            Ok(Published::Ours) => {
                self.sync_folder()?;
                Ok((snapshot, Published::Ours))
            }
            Ok(Published::Theirs) => match self.get(key)? {
                Some(theirs) => Ok((theirs, Published::Theirs)),
                // Removed by a `retain` in the meantime: then it is not needed.
                None => Ok((snapshot, Published::Theirs)),
            },
            Err(error) => Err(failure("write", path)(error)),
        };
        // A rename has moved it already; after a failure the disk may be full, so that it must go.
        remove(&unfinished)?;
        kept
    }

    /// Renames a finished file to replace a damaged one, unless another process has done so already.
    fn replace(&self, key: &SnapshotKey, unfinished: &Path, path: &Path) -> io::Result<Published> {
        let folder = File::open(&self.folder)?;
        // Held until the end of this function. Where there are no locks, the later of two writers wins.
        let _ = folder.lock();
        if matches!(self.get(key), Ok(Some(_))) {
            return Ok(Published::Theirs);
        }
        fs::rename(unfinished, path).map(|()| Published::Ours)
    }

    fn sync_folder(&self) -> Result<(), SnapshotError> {
        File::open(&self.folder).and_then(|folder| folder.sync_all()).map_err(failure("sync", &self.folder))
    }
}

impl Snapshots for FolderSnapshots {
    fn get(&self, key: &SnapshotKey) -> Result<Option<Snapshot>, SnapshotError> {
        let path = self.path(key);
        let bytes = match read(&path, self.max_bytes) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                return Err(SnapshotError::Corrupt { path, reason: "not a file of a possible size" });
            }
            Err(error) => return Err(failure("read", &path)(error)),
        };
        match decode(key, &bytes) {
            Ok(snapshot) => Ok(Some(snapshot)),
            Err(reason) => Err(SnapshotError::Corrupt { path, reason }),
        }
    }

    fn put(&self, key: &SnapshotKey, snapshot: Snapshot) -> Result<Snapshot, SnapshotError> {
        let is_damaged = match self.get(key) {
            Ok(Some(kept)) => return Ok(kept),
            Ok(None) => false,
            Err(error) if error.is_corrupt() => true,
            Err(error) => return Err(error),
        };
        let path = self.path(key);
        let head = encode_head(key, &snapshot);
        let size = (head.len() + snapshot.bytes().len()) as u64;
        let replaced = if is_damaged { length(&path)? } else { 0 };
        self.reserve(size, replaced)?;
        let kept = self.write(key, &path, &head, snapshot, is_damaged);
        if !matches!(kept, Ok((_, Published::Ours))) {
            // Nothing was written in place of anything.
            self.adjust(size, replaced);
        }
        kept.map(|(kept, _)| kept)
    }

    fn retain(&self, is_wanted: &dyn Fn(&SnapshotKey) -> bool) -> Result<usize, SnapshotError> {
        self.clear_unfinished()?;
        let (mut dropped, mut freed) = (0, 0);
        for path in self.files(SUFFIX)? {
            let key = path
                .file_name()
                .and_then(|name| name.to_str())
                .and_then(|name| name.strip_suffix(SUFFIX))
                .and_then(SnapshotKey::parse);
            // A file whose name is not a key is not ours to remove.
            if key.is_some_and(|key| !is_wanted(&key)) {
                freed += length(&path)?;
                remove(&path)?;
                dropped += 1;
            }
        }
        if dropped > 0 {
            self.adjust(freed, 0);
            self.sync_folder()?;
        }
        Ok(dropped)
    }
}

enum Published {
    Ours,
    Theirs,
}

/// Gives a finished file its name. The entry of another writer is left alone, which a rename could
/// not do.
fn publish(unfinished: &Path, path: &Path) -> io::Result<Published> {
    match fs::hard_link(unfinished, path) {
        Ok(()) => Ok(Published::Ours),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(Published::Theirs),
        // Some file systems have no links; then the later of two simultaneous writers wins.
        Err(_) => fs::rename(unfinished, path).map(|()| Published::Ours),
    }
}

/// Reads a regular file that can be an entry; `InvalidData` for anything else.
fn read(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let metadata = fs::symlink_metadata(path)?;
    // Reading a pipe or a link to an endless device would never end.
    if !metadata.is_file() || metadata.len() > max_bytes.saturating_add(MAX_HEAD_BYTES) {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(metadata.len()).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// How long a file is; nothing if it is gone.
fn length(path: &Path) -> Result<u64, SnapshotError> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(metadata.len()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
        Err(error) => Err(failure("measure", path)(error)),
    }
}

fn remove(path: &Path) -> Result<(), SnapshotError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failure("remove", path)(error)),
        _ => Ok(()),
    }
}

fn failure(action: &'static str, path: &Path) -> impl Fn(io::Error) -> SnapshotError {
    move |source| SnapshotError::Io { action, path: path.to_owned(), source }
}

// === the format ===

fn encode_head(key: &SnapshotKey, snapshot: &Snapshot) -> String {
    // A time before 1970 is a broken clock; it must not stop a render.
    let at = snapshot.fetched_at().duration_since(UNIX_EPOCH).unwrap_or_default();
    let lines = format!(
        "{MAGIC}\nkey {key}\nurl {}\nfetched-at {}.{:09}\nlength {}\nsha256 {}\n",
        snapshot.url(),
        at.as_secs(),
        at.subsec_nanos(),
        snapshot.bytes().len(),
        snapshot.digest().to_hex(),
    );
    let seal = Digest::sha256(lines.as_bytes()).to_hex();
    format!("{lines}seal {seal}\n\n")
}

/// The snapshot in a file, or what is wrong with it.
fn decode(key: &SnapshotKey, file: &[u8]) -> Result<Snapshot, &'static str> {
    let end = file.windows(2).position(|pair| pair == b"\n\n").ok_or("its header is cut off")?;
    let (head, content) = (&file[..end], &file[end + 2..]);
    let head = std::str::from_utf8(head).map_err(|_| "its header is not text")?;
    let (lines, seal) = head.rsplit_once("seal ").ok_or("it has no checksum")?;
    if Digest::sha256(lines.as_bytes()).to_hex() != seal {
        return Err("its header does not match its checksum");
    }
    let mut lines = lines.lines();
    if lines.next() != Some(MAGIC) {
        return Err("it has another format");
    }
    let mut value = |name: &str| {
        lines
            .next()
            .and_then(|line| line.strip_prefix(name))
            .and_then(|line| line.strip_prefix(' '))
            .ok_or("its head is incomplete")
    };
    if value("key")? != key.to_string() {
        return Err("it belongs to another key");
    }
    let url = value("url")?;
    let fetched_at = parse_time(value("fetched-at")?).ok_or("its time is not a time")?;
    if value("length")? != content.len().to_string() {
        return Err("its content length differs");
    }
    let sha256 = value("sha256")?;
    let snapshot = Snapshot::new(content, url, fetched_at);
    if snapshot.digest().to_hex() != sha256 {
        return Err("its content digest differs");
    }
    Ok(snapshot)
}

fn parse_time(text: &str) -> Option<SystemTime> {
    let (seconds, nanoseconds) = text.split_once('.')?;
    let nanoseconds: u32 = nanoseconds.parse().ok().filter(|n| *n < 1_000_000_000)?;
    UNIX_EPOCH.checked_add(Duration::new(seconds.parse().ok()?, nanoseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_another_user_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("snapshots");
        FolderSnapshots::open(&path, 1).unwrap();
        let owner = fs::metadata(&path).unwrap().uid();
        FolderSnapshots::open_as(owner, path.clone(), 1).unwrap();
        let error = FolderSnapshots::open_as(owner + 1, path.clone(), 1).unwrap_err();
        let message = error.to_string();
        assert!(message.contains(&format!("{} belongs to user {owner}", path.display())), "{message}");
        assert!(matches!(error, SnapshotError::Foreign { user, .. } if user == owner + 1), "{message}");
    }
}
