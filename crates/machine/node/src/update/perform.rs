//! Doing steps, and taking them back.

use seaworthy_host::{Attributes, Entry, Host, HostError, Kind, UnitState};
use seaworthy_plan::disruption::Action;

use super::journal::{Before, Journal};
use super::sysctl;
use crate::decide::steps::Step;
use crate::paths;

/// Does one step.
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
            Err(HostError::Off) => Err(HostError::Off),
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

/// Takes everything on the disk back that a journal's steps may have done. The next boot is another matter ([`boot_back`]).
pub fn restore(host: &dyn Host, journal: &Journal) -> Result<(), HostError> {
    // Links of the new content go while the new content is there.
    for (unit, _) in &journal.units {
        match host.unit_state(unit)? {
            UnitState::Enabled | UnitState::EnabledRuntime => host.disable(&[unit])?,
            // After a cut its links may be there without it, or with an empty file, which systemd takes for masked.
            UnitState::NotFound | UnitState::Masked | UnitState::MaskedRuntime => {
                if let Err(HostError::Off) = host.disable(&[unit]) {
                    return Err(HostError::Off);
                }
            }
            _ => {}
        }
    }
    // What cannot be taken back must not keep the rest from it.
    let mut failure = None;
    for before in journal.before.iter().rev() {
        match put_back(host, before) {
            Ok(()) => {}
            Err(HostError::Off) => return Err(HostError::Off),
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

/// Has the next boot be the old one, whatever of the new one the machine has booted into.
pub fn boot_back(host: &dyn Host, journal: &Journal) -> Result<(), HostError> {
    if journal.boot.is_empty() {
        return Ok(());
    }
    let way = journal.way_back(&host.boot()?);
    if way.is_empty() {
        host.unstage(&journal.boot)?;
    } else {
        host.stage(&way)?;
    }
    host.sync()
}

/// Puts one thing back. What is as it was is left alone: perhaps nobody may touch it, and that is why it is taken back.
fn put_back(host: &dyn Host, before: &Before) -> Result<(), HostError> {
    match before {
        Before::Nothing { path } if host.exists(path)? => host.remove(path),
        Before::Nothing { .. } => Ok(()),
        Before::Kept { path, name } => {
            let kept = format!("{}/{name}", paths::JOURNAL);
            if is_same(host, path, &kept)? { Ok(()) } else { host.keep(&kept, path) }
        }
        Before::NoDirectory { path } if host.exists(path)? && host.names(path)?.is_empty() => {
            host.remove_directory(path)
        }
        Before::NoDirectory { .. } => Ok(()),
        Before::Directory { path, mode, uid, gid } => {
            let wanted = Entry { kind: Kind::Directory, mode: *mode, uid: *uid, gid: *gid, size: 0 };
            if host.entry(path)?.as_ref() == Some(&wanted) {
                return Ok(());
            }
            host.set_attributes(path, Attributes { mode: *mode, uid: *uid, gid: *gid })
        }
    }
}

/// Whether the same stands at two paths.
fn is_same(host: &dyn Host, path: &str, other: &str) -> Result<bool, HostError> {
    let (Some(one), Some(two)) = (host.entry(path)?, host.entry(other)?) else { return Ok(false) };
    Ok(one == two && (one.kind != Kind::File || host.has_same_content(path, other)?))
}

/// Does what brings a change into force. A drain has been done, and a reboot is not done here.
pub fn act(host: &dyn Host, action: &Action) -> Result<(), HostError> {
    match action {
        Action::DaemonReload => host.daemon_reload(),
        Action::Reload(unit) => host.reload(unit),
        Action::Restart(unit) => host.restart(unit),
        Action::Settings(path) => sysctl::apply(host, path),
        Action::Drain | Action::Reboot => Ok(()),
    }
}

/// Has what runs go back to the old configuration, whose files are in place again.
pub fn act_back(host: &dyn Host, journal: &Journal, action: &Action) -> Result<(), HostError> {
    match action {
        // What only the new file set is in no old one: it gets the value that it had.
        Action::Settings(path) => match journal.settings.get(path).filter(|lines| !lines.is_empty()) {
            Some(lines) => host.apply_settings(path, lines),
            None => Ok(()),
        },
        action => act(host, action),
    }
}

fn names(units: &[String]) -> Vec<&str> {
    units.iter().map(String::as_str).collect()
}
