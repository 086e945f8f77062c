//! Record file: a small file of the daemon that earlier versions kept under another name.
//!
//! It is read under either name and written under the new one. After a power cut at any point, the file of an earlier version
//! never replaces a newer record, and never comes back after it was removed.

use seaworthy_host::{Host, HostError};

use crate::paths::PUBLIC;

/// A record under its path, or under the one that earlier versions used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordFile {
    pub path: &'static str,
    pub legacy_path: &'static str,
}

impl RecordFile {
    pub fn read(&self, host: &dyn Host) -> Result<Option<Vec<u8>>, HostError> {
        match host.read(self.path)? {
            Some(bytes) => Ok(Some(bytes)),
            None => host.read(self.legacy_path),
        }
    }

    pub fn exists(&self, host: &dyn Host) -> Result<bool, HostError> {
        Ok(host.exists(self.path)? || host.exists(self.legacy_path)?)
    }

    /// Writes the record; it survives a power cut as soon as the call has returned.
    pub fn write(&self, host: &dyn Host, bytes: &[u8]) -> Result<(), HostError> {
        host.write_through(self.path, bytes, PUBLIC)?;
        self.remove_legacy(host)
    }

    pub fn remove(&self, host: &dyn Host) -> Result<(), HostError> {
        self.remove_legacy(host)?;
        if host.exists(self.path)? { host.remove(self.path) } else { Ok(()) }
    }

    /// Synced, because a power cut that restored this file and not the newer one would make an outdated record count.
    fn remove_legacy(&self, host: &dyn Host) -> Result<(), HostError> {
        if !host.exists(self.legacy_path)? {
            return Ok(());
        }
        host.remove(self.legacy_path)?;
        host.sync()
    }
}
