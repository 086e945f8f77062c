//! Units: managed over D-Bus, or with `systemctl` where the bus is unavailable.

use super::LinuxHost;
use super::bus::{BusError, UnitFileAction, UnitJob, is_failure};
use crate::{Host as _, HostError, UnitState};

pub(super) fn state(host: &LinuxHost, unit: &str) -> Result<UnitState, HostError> {
    if let Some(state) = asked(host.bus.as_ref().map(|bus| bus.unit_state(unit)))? {
        return Ok(state);
    }
    // The exit code is about `enabled` only; the state is always printed.
    let output = host.run("systemctl", &["is-enabled", "--", unit])?;
    let word = output.stdout.lines().next().unwrap_or_default().trim();
    if word.is_empty() && output.stderr.contains("Failed to connect") {
        return Err(super::programs::failure("systemctl", &["is-enabled", "--", unit], &output));
    }
    Ok(UnitState::parse(word))
}

/// One call for all units: each call makes systemd read all its units.
pub(super) fn all(host: &LinuxHost, action: UnitFileAction, units: &[&str]) -> Result<(), HostError> {
    if units.is_empty() || asked(host.bus.as_ref().map(|bus| bus.change_unit_files(action, units)))?.is_some() {
        return Ok(());
    }
    let mut arguments = vec![action.verb(), "--"];
    arguments.extend(units);
    host.must("systemctl", &arguments).map(drop)
}

pub(super) fn daemon_reload(host: &LinuxHost) -> Result<(), HostError> {
    match asked(host.bus.as_ref().map(super::bus::Bus::daemon_reload))? {
        Some(()) => Ok(()),
        None => host.must("systemctl", &["daemon-reload"]).map(drop),
    }
}

pub(super) fn job(host: &LinuxHost, job: UnitJob, unit: &str) -> Result<(), HostError> {
    match asked(host.bus.as_ref().map(|bus| bus.job(job, unit)))? {
        Some(()) => Ok(()),
        None => host.must("systemctl", &[job.verb(), "--", unit]).map(drop),
    }
}

pub(super) fn has_failed(host: &LinuxHost, unit: &str) -> Result<bool, HostError> {
    if let Some(has_failed) = asked(host.bus.as_ref().map(|bus| bus.has_failed(unit)))? {
        return Ok(has_failed);
    }
    let output = host.must("systemctl", &["show", "--property=ActiveState,SubState", "--", unit])?.stdout;
    let word = |key: &str| output.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
    Ok(is_failure(word("ActiveState="), word("SubState=")))
}

pub(super) fn reboot(host: &LinuxHost, reason: &str) -> Result<(), HostError> {
    // Systemd may reboot even if logind refuses.
    if let Some(Ok(())) = host.bus.as_ref().map(super::bus::Bus::reboot) {
        return Ok(());
    }
    // A separate unit, so that the end of our own service does not stop it.
    let description = format!("--description=seaworthy: {reason}");
    let unit = "--unit=machine-config-daemon-reboot";
    let asked = host.must("systemd-run", &[unit, "--collect", &description, "systemctl", "reboot"]);
    // The bus may have ended before logind's reply arrived: then the machine is shutting down, and refuses a second request.
    match asked {
        Err(_) if host.run("systemctl", &["is-system-running"])?.stdout.trim() == "stopping" => Ok(()),
        other => other.map(drop),
    }
}

/// The reply over the bus; `None` if it is unavailable.
fn asked<T>(answer: Option<Result<T, BusError>>) -> Result<Option<T>, HostError> {
    match answer {
        None | Some(Err(BusError::Unavailable)) => Ok(None),
        Some(Ok(answer)) => Ok(Some(answer)),
        Some(Err(BusError::Refused(error))) => Err(error),
    }
}
