//! One process at a time works on a machine: two would undo each other's steps, and what each of them notes of its own.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::failure::Failure;

/// Gone with the boot, as whoever holds it is.
const FILE: &str = "run/seaworthy-daemon.lock";

/// Held for as long as it lives; the kernel lets go of it when the process ends, however it ends.
pub struct MachineLock {
    _file: File,
}

impl MachineLock {
    /// Takes it, and waits for as long as another process has it: a daemon that is exchanged starts before the old one has
    /// ended.
    pub fn take(root: &Path) -> Result<MachineLock, Failure> {
        let path = root.join(FILE);
        let failed = |error: std::io::Error| Failure::unreadable(format!("cannot lock {}: {error}", path.display()));
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).mode(0o600).open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                file.read_to_string(&mut holder).map_err(failed)?;
                tracing::warn!(
                    "process {} works on this machine already ({} is locked); this one waits until it has ended",
                    holder.trim(),
                    path.display()
                );
                file.lock().map_err(failed)?;
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        // For whoever comes next.
        file.rewind().and_then(|()| file.set_len(0)).map_err(failed)?;
        writeln!(file, "{}", std::process::id()).map_err(failed)?;
        Ok(MachineLock { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn second_one_waits_until_the_first_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let first = MachineLock::take(folder.path()).unwrap();
        let held = fs::read_to_string(folder.path().join(FILE)).unwrap();
        assert_eq!(held.trim(), std::process::id().to_string());
        let (sender, taken) = mpsc::channel();
        let root = folder.path().to_owned();
        let second = std::thread::spawn(move || {
            let lock = MachineLock::take(&root).unwrap();
            sender.send(()).unwrap();
            drop(lock);
        });
        assert!(taken.recv_timeout(Duration::from_millis(100)).is_err(), "two have it");
        drop(first);
        assert!(taken.recv_timeout(Duration::from_secs(60)).is_ok());
        second.join().unwrap();
        // Another machine is another matter.
        let other = tempfile::tempdir().unwrap();
        let _both = (MachineLock::take(folder.path()).unwrap(), MachineLock::take(other.path()).unwrap());
    }
}
