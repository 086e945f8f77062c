//! Units through `systemctl`.

use super::LinuxHost;
use crate::{Host as _, HostError, UnitState};

pub(super) fn state(host: &LinuxHost, unit: &str) -> Result<UnitState, HostError> {
    // Its exit code says only whether the unit is enabled; a word there always is.
    let output = host.run("systemctl", &["is-enabled", "--", unit])?;
    let word = output.stdout.lines().next().unwrap_or_default().trim();
    if word.is_empty() && output.stderr.contains("Failed to connect") {
        return Err(super::programs::failure("systemctl", &["is-enabled", "--", unit], &output));
    }
    Ok(UnitState::parse(word))
}

/// One call for all units: each call makes systemd read all its units.
pub(super) fn all(host: &LinuxHost, verb: &str, units: &[&str]) -> Result<(), HostError> {
    if units.is_empty() {
        return Ok(());
    }
    let mut arguments = vec![verb, "--"];
    arguments.extend(units);
    host.must("systemctl", &arguments).map(drop)
}
