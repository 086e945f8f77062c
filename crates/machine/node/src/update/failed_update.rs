//! Failed update: the record of a configuration that was tried without success, and is not tried in the same way again.

use seaworthy_host::{Host, HostError};
use serde::{Deserialize, Serialize};

use super::record_file::RecordFile;
use crate::paths;

const RECORD: RecordFile = RecordFile { path: paths::REBOOT_REQUIRED, legacy_path: paths::LEGACY_REBOOT_REQUIRED };

/// A configuration that was tried, and the reason that it is not tried in the same way again.
#[derive(Serialize, Deserialize)]
pub(crate) struct FailedUpdate {
    pub(crate) config: String,
    pub(crate) why: String,
    /// Whether it is not tried again at all; otherwise it is tried with a reboot.
    pub(crate) is_final: bool,
}

impl FailedUpdate {
    /// The record of this configuration, if any. One that cannot be read does not count, so the update is tried.
    pub(crate) fn load(host: &dyn Host, config: &str) -> Result<Option<Self>, HostError> {
        let records = RECORD.read(host)?;
        Ok(records.iter().filter_map(|bytes| Self::parse(bytes)).find(|failed| failed.config == config))
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    pub(crate) fn save(&self, host: &dyn Host) -> Result<(), HostError> {
        let text = serde_json::to_vec(self).map_err(|error| HostError::file("write", RECORD.path, error))?;
        RECORD.write(host, &text)
    }

    /// Removes the record of any configuration but the desired one.
    pub(crate) fn forget_others(host: &dyn Host, desired: &str) -> Result<(), HostError> {
        RECORD.retain(host, |bytes| Self::parse(bytes).is_none_or(|failed| failed.config == desired))
    }
}
