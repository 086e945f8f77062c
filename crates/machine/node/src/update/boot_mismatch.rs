//! Boot mismatch: a machine that has not booted the configuration of its disk, because that boot could not be prepared.
//!
//! It is recorded in [`paths::BOOT_MISMATCH`]. The next order is carried out from what is booted.

use seaworthy_host::{Host, HostError};
use serde::{Deserialize, Serialize};

use crate::decide::target::TargetState;
use crate::decide::{extensions, kernel_arguments};
use crate::paths;
use crate::update::first_boot;
use crate::update::journal::Journal;
use crate::update::record_file::RecordFile;

const RECORD: RecordFile = RecordFile { path: paths::BOOT_MISMATCH, legacy_path: paths::LEGACY_BOOT_MISMATCH };

/// Record of a return that was given up.
#[derive(Default, Serialize, Deserialize)]
struct BootMismatch {
    /// The configuration that the disk is in.
    config: String,
    /// Kernel arguments that may have come with the update that was reverted.
    arguments: Vec<String>,
    /// Packages that may have come with it.
    packages: Vec<String>,
}

impl BootMismatch {
    /// The record about this configuration. One about another configuration, or one that cannot be read, does not count.
    fn load(host: &dyn Host, config: &str) -> Result<Option<Self>, HostError> {
        Ok(RECORD.read(host)?.iter().find_map(|bytes| BootMismatch::parse(bytes, config)))
    }

    fn parse(bytes: &[u8], config: &str) -> Option<Self> {
        serde_json::from_slice(bytes).ok().filter(|record: &BootMismatch| record.config == config)
    }
}

/// Records that the boot is not the one of the configuration that a journal has restored, and that the return is given up.
pub(crate) fn record_boot_mismatch(host: &dyn Host, journal: &Journal) -> Result<(), HostError> {
    let mut record = BootMismatch::load(host, &journal.from)?.unwrap_or_default();
    record.config.clone_from(&journal.from);
    // Arguments that were booted before the update did not come with it.
    let before = journal.boot_before.as_ref().map(|before| &before.arguments[..]).unwrap_or_default();
    record.arguments.extend(journal.boot.append.iter().filter(|argument| !before.contains(argument)).cloned());
    record.packages.extend_from_slice(&journal.boot.install);
    let text = serde_json::to_vec(&record).map_err(|error| HostError::file("write", RECORD.path, error))?;
    RECORD.write(host, &text)
}

/// Whether a journal is about a machine with a boot mismatch and the configuration of its disk. Then there is no older one to
/// revert to.
pub(crate) fn is_return(host: &dyn Host, journal: &Journal) -> Result<bool, HostError> {
    Ok(journal.from == journal.to && BootMismatch::load(host, &journal.from)?.is_some())
}

/// Comparison of what is booted with the configuration of the disk.
pub(crate) struct BootCheck<'a> {
    host: &'a dyn Host,
    disk: &'a TargetState,
    record: Option<BootMismatch>,
}

impl<'a> BootCheck<'a> {
    pub(crate) fn new(host: &'a dyn Host, disk: &'a TargetState) -> Result<Self, HostError> {
        Ok(BootCheck { host, disk, record: BootMismatch::load(host, &disk.name)? })
    }

    /// Whether the return to the boot of the disk's configuration was given up, and has not happened since. A record of another
    /// configuration, or of a boot that has happened, is removed.
    pub(crate) fn is_mismatched(&mut self) -> Result<bool, HostError> {
        let is_mismatched = self.record.is_some() && !self.is_booted()?;
        if !is_mismatched {
            self.record = None;
        }
        RECORD.retain(self.host, |bytes| is_mismatched && BootMismatch::parse(bytes, &self.disk.name).is_some())?;
        Ok(is_mismatched)
    }

    /// Whether what is booted is the disk's configuration, with nothing left of another one.
    ///
    /// As in [`crate::decide::boot_state`], neither the order nor a repetition of arguments counts: a boot that is good enough
    /// there and not here would be tried endlessly.
    fn is_booted(&self) -> Result<bool, HostError> {
        let (disk, boot, booted) = (self.disk, self.host.boot()?, self.as_booted()?);
        let count = |list: &[String], one: &String| list.iter().filter(|it| *it == one).count();
        let is_left = |it: &String| count(&booted.arguments, it) > count(&disk.arguments, it);
        Ok((booted.image(), booted.kernel, &booted.extensions) == (disk.image(), disk.kernel, &disk.extensions)
            && kernel_arguments::missing(&disk.arguments, &boot.arguments).is_empty()
            && !booted.arguments.iter().any(is_left))
    }

    /// The disk's configuration reduced to what of its boot is booted, with what is left of an update that was reverted.
    pub(crate) fn as_booted(&self) -> Result<TargetState, HostError> {
        let (disk, boot) = (self.disk, self.host.boot()?);
        let mut booted = first_boot::as_booted(disk, &boot);
        if let Some(record) = &self.record {
            let ours = [&disk.arguments[..], &record.arguments].concat();
            booted.arguments = kernel_arguments::present(&ours, &boot.arguments);
            let left: Vec<String> = record.packages.iter().filter(|it| boot.packages.contains(it)).cloned().collect();
            let left = extensions::of_packages(&left).into_iter().filter(|name| !disk.extensions.contains(name));
            booted.extensions.extend(left);
        }
        Ok(booted)
    }
}
