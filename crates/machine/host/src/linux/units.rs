//! Units over D-Bus, and through `systemctl` where nobody answers there.

use super::LinuxHost;
use super::bus::{BusError, Job, Wish, is_failure};
use crate::{Host as _, HostError, UnitState};

pub(super) fn state(host: &LinuxHost, unit: &str) -> Result<UnitState, HostError> {
    if let Some(state) = asked(host.bus.as_ref().map(|bus| bus.unit_state(unit)))? {
        return Ok(state);
    }
    // Its exit code says only whether the unit is enabled; a word there always is.
    let output = host.run("systemctl", &["is-enabled", "--", unit])?;
    let word = output.stdout.lines().next().unwrap_or_default().trim();
    if word.is_empty() && output.stderr.contains("Failed to connect") {
        return Err(super::programs::failure("systemctl", &["is-enabled", "--", unit], &output));
    }
    Ok(UnitState::parse(word))
}

/// One call for all units: each call makes systemd read all its units.
pub(super) fn all(host: &LinuxHost, wish: Wish, units: &[&str]) -> Result<(), HostError> {
    if units.is_empty() || asked(host.bus.as_ref().map(|bus| bus.wish(wish, units)))?.is_some() {
        return Ok(());
    }
    let mut arguments = vec![wish.verb(), "--"];
    arguments.extend(units);
    host.must("systemctl", &arguments).map(drop)
}

pub(super) fn daemon_reload(host: &LinuxHost) -> Result<(), HostError> {
    match asked(host.bus.as_ref().map(super::bus::Bus::daemon_reload))? {
        Some(()) => Ok(()),
        None => host.must("systemctl", &["daemon-reload"]).map(drop),
    }
}

pub(super) fn job(host: &LinuxHost, job: Job, unit: &str) -> Result<(), HostError> {
    match asked(host.bus.as_ref().map(|bus| bus.job(job, unit)))? {
        Some(()) => Ok(()),
        None => host.must("systemctl", &[job.verb(), "--", unit]).map(drop),
    }
}

pub(super) fn has_failed(host: &LinuxHost, unit: &str) -> Result<bool, HostError> {
    if let Some(has_failed) = asked(host.bus.as_ref().map(|bus| bus.has_failed(unit)))? {
        return Ok(has_failed);
    }
    let said = host.must("systemctl", &["show", "--property=ActiveState,SubState", "--", unit])?.stdout;
    let word = |key: &str| said.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
    Ok(is_failure(word("ActiveState="), word("SubState=")))
}

pub(super) fn reboot(host: &LinuxHost, reason: &str) -> Result<(), HostError> {
    // Whatever logind says against it, systemd may still do it.
    if let Some(Ok(())) = host.bus.as_ref().map(super::bus::Bus::reboot) {
        return Ok(());
    }
    // A unit of its own, so that the end of our own service does not end it.
    let description = format!("--description=seaworthy: {reason}");
    let unit = "--unit=machine-config-daemon-reboot";
    let asked = host.must("systemd-run", &[unit, "--collect", &description, "systemctl", "reboot"]);
    // The bus may have ended with logind's answer still on it: then the machine is on its way, and takes no second order.
    match asked {
        Err(_) if host.run("systemctl", &["is-system-running"])?.stdout.trim() == "stopping" => Ok(()),
        other => other.map(drop),
    }
}

/// What came back over the bus; `None` if another way has to be tried.
fn asked<T>(answer: Option<Result<T, BusError>>) -> Result<Option<T>, HostError> {
    match answer {
        None | Some(Err(BusError::Away)) => Ok(None),
        Some(Ok(answer)) => Ok(Some(answer)),
        Some(Err(BusError::Refused(error))) => Err(error),
    }
}
