//! Record of a configuration that was tried without success, in the daemon's folder: it is not tried in the same way again.

use seaworthy_host::{Host, HostError};
use serde::{Deserialize, Serialize};

use crate::paths;

/// A configuration that was tried, and why it is not tried in the same way again.
#[derive(Serialize, Deserialize)]
pub(crate) struct FailedUpdate {
    pub(crate) config: String,
    pub(crate) why: String,
    /// It is not tried at all; otherwise it is tried with a reboot.
    pub(crate) is_final: bool,
}

impl FailedUpdate {
    /// What was recorded. A record that cannot be read counts as none: the update is tried.
    pub(crate) fn load(host: &dyn Host) -> Result<Option<Self>, HostError> {
        Ok(host.read(paths::ESCALATED)?.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    pub(crate) fn save(&self, host: &dyn Host) -> Result<(), HostError> {
        let text = serde_json::to_vec(self).map_err(|error| HostError::file("write", paths::ESCALATED, error))?;
        host.write_through(paths::ESCALATED, &text, paths::PUBLIC)
    }

    /// Removes the record of any configuration but the desired one.
    pub(crate) fn forget_others(host: &dyn Host, desired: &str) -> Result<(), HostError> {
        match FailedUpdate::load(host)? {
            Some(failed) if failed.config != desired => host.remove(paths::ESCALATED),
            _ => Ok(()),
        }
    }
}
