//! Machine lock: one process at a time works on a machine, since two would undo each other's steps and overwrite each
//! other's records.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// In /run, so a reboot releases it.
const LOCK_FILE: &str = "run/seaworthy-daemon.lock";

/// Held until dropped; the kernel releases it when the process ends, however it ends.
pub struct MachineLock {
    _file: File,
}

/// Another process holds the lock.
pub struct LockHeld {
    file: File,
    path: PathBuf,
    /// The process id that the holder wrote into the file.
    holder: String,
}

impl MachineLock {
    /// Takes the lock, and waits while another process holds it: during an upgrade the new daemon starts before the old one
    /// has exited.
    pub fn take(root: &Path) -> Result<MachineLock, Failure> {
        match MachineLock::try_take(root)? {
            Ok(lock) => Ok(lock),
            Err(held) => {
                tracing::warn!("{held}; waiting for it to exit");
                held.file.lock().map_err(|error| failed(&held.path, &error))?;
                Ok(MachineLock::marked(held.file))
            }
        }
    }

    /// Takes the lock if it is free.
    pub fn try_take(root: &Path) -> Result<Result<MachineLock, LockHeld>, Failure> {
        let path = root.join(LOCK_FILE);
        let failed = |error: io::Error| failed(&path, &error);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).mode(0o600).open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Ok(MachineLock::marked(file))),
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                file.read_to_string(&mut holder).map_err(failed)?;
                Ok(Err(LockHeld { file, path, holder }))
            }
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    /// Writes the id of this process into the file, for the next one's message. A failure, such as a full disk, is ignored.
    fn marked(mut file: File) -> MachineLock {
        let _ = file.rewind().and_then(|()| file.set_len(0)).and_then(|()| writeln!(file, "{}", std::process::id()));
        MachineLock { _file: file }
    }
}

impl fmt::Display for LockHeld {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let holder = match self.holder.trim() {
            "" => "another process".to_owned(),
            id => format!("process {id}"),
        };
        write!(out, "{holder} already manages this machine ({} is locked)", self.path.display())
    }
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    let what = format!("cannot lock {}: {error}", path.display());
    Failure::invalid(format!("{what}; the daemon must run as root, and --root must be a writable folder"))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn second_process_waits_until_the_first_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let first = MachineLock::take(folder.path()).unwrap();
        let held = fs::read_to_string(folder.path().join(LOCK_FILE)).unwrap();
        assert_eq!(held.trim(), std::process::id().to_string());
        let refused = MachineLock::try_take(folder.path()).unwrap().err().unwrap().to_string();
        assert!(refused.contains(&format!("process {} already manages this machine", held.trim())), "{refused}");
        let (sender, taken) = mpsc::channel();
        let root = folder.path().to_owned();
        let second = std::thread::spawn(move || {
            let lock = MachineLock::take(&root).unwrap();
            sender.send(()).unwrap();
            drop(lock);
        });
        assert!(taken.recv_timeout(Duration::from_millis(100)).is_err(), "two processes hold it");
        drop(first);
        assert!(taken.recv_timeout(Duration::from_secs(60)).is_ok());
        second.join().unwrap();
        // Another machine is another matter.
        let other = tempfile::tempdir().unwrap();
        let _both = (MachineLock::take(folder.path()).unwrap(), MachineLock::take(other.path()).unwrap());
    }
}
