//! Record file: a small file of the daemon that earlier versions kept under another name.
//!
//! It is read under both names and written under the new one. After a power cut at any point, the file of an earlier version
//! never replaces a newer record, and never comes back after it was removed.
//!
//! After a downgrade and another upgrade both files may exist, and either may be the newer one. Which one counts depends on what
//! each is about, so [`RecordFile::read`] returns both, and [`RecordFile::retain`] judges each by itself.

use seaworthy_host::{Host, HostError};

use crate::paths::PUBLIC;

/// A record under its path, and under the one that earlier versions used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordFile {
    pub path: &'static str,
    pub legacy_path: &'static str,
}

impl RecordFile {
    /// The contents of the files that exist. Of two about the same the first one counts: a power cut while the record is written
    /// leaves the older one second.
    pub fn read(&self, host: &dyn Host) -> Result<Vec<Vec<u8>>, HostError> {
        Ok([host.read(self.path)?, host.read(self.legacy_path)?].into_iter().flatten().collect())
    }

    /// Writes the record; it survives a power cut as soon as the call has returned.
    pub fn write(&self, host: &dyn Host, bytes: &[u8]) -> Result<(), HostError> {
        host.write_through(self.path, bytes, PUBLIC)?;
        if host.exists(self.legacy_path)? { self.remove_legacy(host) } else { Ok(()) }
    }

    /// Removes the files with other contents than these.
    pub fn retain(&self, host: &dyn Host, is_kept: impl Fn(&[u8]) -> bool) -> Result<(), HostError> {
        let is_obsolete = |path: &str| Ok(host.read(path)?.is_some_and(|bytes| !is_kept(&bytes)));
        if is_obsolete(self.legacy_path)? {
            self.remove_legacy(host)?;
        }
        if is_obsolete(self.path)? { host.remove(self.path) } else { Ok(()) }
    }

    /// Synced, because a power cut that restored this file and not the newer one would make an outdated record count.
    fn remove_legacy(&self, host: &dyn Host) -> Result<(), HostError> {
        host.remove(self.legacy_path)?;
        host.sync()
    }
}
