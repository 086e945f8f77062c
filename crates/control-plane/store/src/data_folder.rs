//! [`DataFolder`]: the folder of the store, accessible to its owner alone, and locked by one process at a time.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::OpenError;
use crate::engine::FILE;

/// The file that is locked. It stays when the process ends: removing it would let two processes lock two files.
const LOCK_FILE: &str = "lock";

/// A data folder that is locked while this value lives.
#[derive(Debug)]
pub struct DataFolder {
    path: PathBuf,
    // The lock ends when the file is closed, by this process or by the system after a crash.
    _lock: File,
}

impl DataFolder {
    /// Creates the folder if it does not exist, and locks it. A folder that is rejected stays unchanged.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let failed = |act: &'static str| {
            move |source: io::Error| match source.kind() {
                io::ErrorKind::NotADirectory => OpenError::NotAFolder { folder: path.to_owned() },
                _ => OpenError::Folder { folder: path.to_owned(), act, source },
            }
        };
        match fs::metadata(path) {
            Ok(found) if !found.is_dir() => return Err(OpenError::NotAFolder { folder: path.to_owned() }),
            Ok(found) => restrict_to_owner(path, found.permissions().mode() & 0o7777)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed("create it"))?;
            }
            Err(error) => return Err(failed("access it")(error)),
        }
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path.join(LOCK_FILE))
            .map_err(failed("write to it"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                // The process id is only for the message.
                let _ = lock.read_to_string(&mut text);
                return Err(OpenError::InUse { folder: path.to_owned(), holder: text.trim().parse().ok() });
            }
            Err(TryLockError::Error(error)) => return Err(failed("lock it")(error)),
        }
        lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id())).map_err(failed("write to it"))?;
        Ok(DataFolder { path: path.to_owned(), _lock: lock })
    }

    /// The store's file.
    pub(crate) fn file(&self) -> PathBuf {
        self.path.join(FILE)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Makes the folder inaccessible to other users.
fn restrict_to_owner(path: &Path, mode: u32) -> Result<(), OpenError> {
    if mode & 0o077 == 0 {
        return Ok(());
    }
    let failed =
        |act: &'static str| move |source: io::Error| OpenError::Folder { folder: path.to_owned(), act, source };
    let mut entries = fs::read_dir(path).map_err(failed("list it"))?;
    // A home folder or /tmp, named by mistake, must not become inaccessible to other users.
    if !path.join(FILE).exists() && entries.next().is_some() {
        return Err(OpenError::Exposed { folder: path.to_owned(), mode });
    }
    tracing::warn!(folder = %path.display(), mode = format!("{mode:o}"), "store: restricting the data folder to its owner (mode 700)");
    fs::set_permissions(path, Permissions::from_mode(0o700)).map_err(failed("change its mode to 700"))
}
