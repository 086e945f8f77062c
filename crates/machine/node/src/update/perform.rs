//! Execution of steps and actions, and their reversal.

use seaworthy_host::{Attributes, Entry, EntryKind, Host, HostError, UnitState};
use seaworthy_plan::disruption::Action;

use super::journal::{Journal, PathBackup};
use super::sysctl;
use crate::decide::steps::Step;
use crate::paths;

pub fn perform(host: &dyn Host, step: &Step) -> Result<(), HostError> {
    match step {
        Step::KeepOriginal { path, is_replaced: true } => host.keep(path, &paths::original(path)),
        Step::KeepOriginal { path, is_replaced: false } => host.copy(path, &paths::original(path)),
        Step::NoteNoOriginal { path } => {
            host.remove(&paths::original(path))?;
            host.write(&paths::no_original(path), b"", Attributes::of_root(0o644))
        }
        Step::Disable { units } => host.disable(&names(units)),
        Step::Preset { units } => match host.preset(&names(units)) {
            Err(HostError::PoweredOff) => Err(HostError::PoweredOff),
            _ => Ok(()),
        },
        Step::Enable { units } => host.enable(&names(units)),
        Step::Directory { path, mode, uid, gid } => {
            host.make_directory(path, Attributes { mode: *mode, uid: *uid, gid: *gid })
        }
        Step::Write { path, bytes, mode, uid, gid } => {
            host.write(path, bytes, Attributes { mode: *mode, uid: *uid, gid: *gid })
        }
        Step::Link { path, target } => host.symlink(path, target),
        Step::Remove { path } => host.remove(path),
        Step::RestoreOriginal { path } => host.keep(&paths::original(path), path),
        Step::ForgetOriginal { path } => {
            host.remove(&paths::original(path))?;
            host.remove(&paths::no_original(path))
        }
        Step::Password { user, hash } => host.set_password(user, hash),
        Step::Boot(change) => host.stage(change),
    }
}

/// Restores everything on the disk that a journal's steps may have changed, except for the next boot ([`restore_boot`]).
pub fn restore(host: &dyn Host, journal: &Journal) -> Result<(), HostError> {
    // Links of a new unit file can only be removed by systemd while the file is there.
    for (unit, _) in &journal.units {
        match host.unit_state(unit)? {
            UnitState::Enabled | UnitState::EnabledRuntime => host.disable(&[unit])?,
            // After a power cut its links may exist without it, or with an empty file, which systemd takes for masked.
            UnitState::NotFound | UnitState::Masked | UnitState::MaskedRuntime => {
                if let Err(HostError::PoweredOff) = host.disable(&[unit]) {
                    return Err(HostError::PoweredOff);
                }
            }
            _ => {}
        }
    }
    // One failure does not keep the rest from being restored.
    let mut failure = None;
    for backup in journal.backups.iter().rev() {
        match restore_path(host, backup) {
            Ok(()) => {}
            Err(HostError::PoweredOff) => return Err(HostError::PoweredOff),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    if let Some(error) = failure {
        return Err(error);
    }
    for (unit, was_enabled) in &journal.units {
        if *was_enabled {
            host.enable(&[unit])?;
        }
    }
    for (user, hash) in &journal.passwords {
        host.set_password(user, hash)?;
    }
    host.sync()
}

/// Prepares the old boot, whatever part of the new one the machine has booted into.
pub fn restore_boot(host: &dyn Host, journal: &Journal) -> Result<(), HostError> {
    if journal.boot.is_empty() {
        return Ok(());
    }
    let change = journal.change_to_old(&host.boot()?);
    if change.is_empty() {
        host.unstage(&journal.boot)?;
    } else {
        host.stage(&change)?;
    }
    host.sync()
}

/// Restores one entry. An unchanged one is not written: it may be immutable, which may be the cause of the revert.
fn restore_path(host: &dyn Host, backup: &PathBackup) -> Result<(), HostError> {
    match backup {
        PathBackup::Absent { path } if host.exists(path)? => host.remove(path),
        PathBackup::Absent { .. } => Ok(()),
        PathBackup::Kept { path, name } => {
            let kept = format!("{}/{name}", paths::JOURNAL);
            if is_same(host, path, &kept)? { Ok(()) } else { host.keep(&kept, path) }
        }
        PathBackup::NoDirectory { path } if host.exists(path)? && host.names(path)?.is_empty() => {
            host.remove_directory(path)
        }
        PathBackup::NoDirectory { .. } => Ok(()),
        PathBackup::Directory { path, mode, uid, gid } => {
            let wanted = Entry { kind: EntryKind::Directory, mode: *mode, uid: *uid, gid: *gid, size: 0 };
            if host.entry(path)?.as_ref() == Some(&wanted) {
                return Ok(());
            }
            host.set_attributes(path, Attributes { mode: *mode, uid: *uid, gid: *gid })
        }
    }
}

/// Whether the entries at two paths are equal.
fn is_same(host: &dyn Host, path: &str, other: &str) -> Result<bool, HostError> {
    let (Some(one), Some(two)) = (host.entry(path)?, host.entry(other)?) else { return Ok(false) };
    Ok(one == two && (one.kind != EntryKind::File || host.has_same_content(path, other)?))
}

/// Does an action that puts a change into effect. Drains and reboots are not done here.
pub fn run_action(host: &dyn Host, action: &Action) -> Result<(), HostError> {
    match action {
        Action::DaemonReload => host.daemon_reload(),
        Action::Reload(unit) => host.reload(unit),
        Action::Restart(unit) => host.restart(unit),
        Action::Settings(path) => sysctl::apply(host, path),
        Action::Drain | Action::Reboot => Ok(()),
    }
}

/// Reverts an action, when the old files are restored.
pub fn revert_action(host: &dyn Host, journal: &Journal, action: &Action) -> Result<(), HostError> {
    match action {
        // A key that only the new file set is in no old file: it gets its earlier value.
        Action::Settings(path) => match journal.sysctls.get(path).filter(|lines| !lines.is_empty()) {
            Some(lines) => host.apply_settings(path, lines),
            None => Ok(()),
        },
        action => run_action(host, action),
    }
}

fn names(units: &[String]) -> Vec<&str> {
    units.iter().map(String::as_str).collect()
}
