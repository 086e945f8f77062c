//! Steps of an update: the changes from one configuration of a machine to another. Pure: a list, with no decisions left.
//!
//! Differs: only what differs on the machine is written, because upstream's rewriting of every file wears disks out and wakes
//! every program that watches them.

use std::collections::BTreeSet;
use std::sync::Arc;

use seaworthy_host::{BootChange, BootDriver, Kernel, UnitState, Vendor};
use seaworthy_ignition::unit_path;
use serde::Serialize;

use crate::decide::boot_state::needs_packages;
use crate::decide::observed::{Observed, ObservedEntry, Original};
use crate::decide::target::{CORE, CoreUser, TargetEntry, TargetError, TargetState};
use crate::decide::{extensions, kernel_arguments};
use crate::paths;

/// One change of the machine. Each can be done twice with the same result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Step {
    /// Keep the present file for the time when no configuration has it any more.
    KeepOriginal {
        path: String,
        /// Whether another file replaces it; one that stays is copied, since it may be changed in place.
        is_replaced: bool,
    },
    /// Record that there was no file before the first configuration.
    NoteNoOriginal {
        path: String,
    },
    Disable {
        units: Vec<String>,
    },
    /// Enable or disable units by the vendor's presets. Systemd's refusal is no failure.
    Preset {
        units: Vec<String>,
    },
    Enable {
        units: Vec<String>,
    },
    Directory {
        path: String,
        mode: u32,
        uid: u32,
        gid: u32,
    },
    Write {
        path: String,
        #[serde(skip)]
        bytes: Arc<[u8]>,
        mode: u32,
        uid: u32,
        gid: u32,
    },
    Link {
        path: String,
        target: String,
    },
    /// Remove a file or link.
    Remove {
        path: String,
    },
    /// Restore the file that was there before the first configuration.
    RestoreOriginal {
        path: String,
    },
    /// Delete the copy or the record of an original.
    ForgetOriginal {
        path: String,
    },
    /// Set the password of an account.
    Password {
        user: String,
        #[serde(skip)]
        hash: String,
    },
    /// Stage a change of the next boot.
    Boot(BootChange),
}

impl Step {
    /// The files and links that it changes.
    pub fn paths(&self) -> Vec<String> {
        match self {
            Step::KeepOriginal { path, .. } => vec![paths::original(path)],
            Step::NoteNoOriginal { path } => vec![paths::no_original(path), paths::original(path)],
            Step::ForgetOriginal { path } => vec![paths::original(path), paths::no_original(path)],
            Step::Write { path, .. }
            | Step::Link { path, .. }
            | Step::Remove { path }
            | Step::RestoreOriginal { path } => vec![path.clone()],
            _ => Vec::new(),
        }
    }

    /// The units that it enables or disables.
    pub fn units(&self) -> &[String] {
        match self {
            Step::Disable { units } | Step::Preset { units } | Step::Enable { units } => units,
            _ => &[],
        }
    }
}

/// The steps from one configuration of a machine to another.
pub fn steps(old: &TargetState, new: &TargetState, observed: &Observed) -> Result<Vec<Step>, TargetError> {
    let mut plan = StepPlan { old, new, observed, before: Vec::new(), writes: Vec::new(), after: Vec::new() };
    plan.paths()?;
    plan.stale();
    plan.units();
    plan.account();
    let mut steps = plan.before;
    steps.append(&mut plan.writes);
    steps.append(&mut plan.after);
    let boot = boot_change(old, new, observed);
    if !boot.is_empty() {
        steps.push(Step::Boot(boot));
    }
    Ok(steps)
}

struct StepPlan<'a> {
    old: &'a TargetState,
    new: &'a TargetState,
    observed: &'a Observed,
    before: Vec<Step>,
    writes: Vec<Step>,
    after: Vec<Step>,
}

impl StepPlan<'_> {
    fn found(&self, path: &str) -> &ObservedEntry {
        self.observed.paths.get(path).unwrap_or(&ObservedEntry::Absent)
    }

    fn original(&self, path: &str) -> Original {
        self.observed.originals.get(path).copied().unwrap_or(Original::Unknown)
    }

    fn paths(&mut self) -> Result<(), TargetError> {
        for (path, wanted) in &self.new.paths {
            // Upstream renews certificates outside of configurations, so the present file is newer.
            if paths::is_written_elsewhere(path) && *self.found(path) != ObservedEntry::Absent {
                continue;
            }
            let step = match wanted {
                TargetEntry::File { bytes, mode, user, group } => {
                    let wrong = |why| TargetError::File { name: self.new.name.clone(), path: path.clone(), why };
                    let uid = self.observed.user_id(user).map_err(wrong)?;
                    let gid = self.observed.group_id(group).map_err(wrong)?;
                    let is_there = matches!(self.found(path), ObservedEntry::File { has_target_content: true, mode: m, uid: u, gid: g, .. }
                        if m == mode && *u == uid && *g == gid);
                    (!is_there).then(|| Step::Write {
                        path: path.clone(),
                        bytes: Arc::clone(bytes),
                        mode: *mode,
                        uid,
                        gid,
                    })
                }
                TargetEntry::Link(target) => (*self.found(path) != ObservedEntry::Link(target.clone()))
                    .then(|| Step::Link { path: path.clone(), target: target.clone() }),
                TargetEntry::Absent => {
                    (*self.found(path) != ObservedEntry::Absent).then(|| Step::Remove { path: path.clone() })
                }
            };
            // From now on the path belongs to the configuration, even if the file is right already; the original is kept.
            if !self.old.paths.contains_key(path) && self.original(path) == Original::Unknown {
                self.keep(path, step.is_some());
            }
            self.writes.extend(step);
        }
        Ok(())
    }

    /// Differs: on a machine without a package database the file is kept, because upstream loses it.
    fn keep(&mut self, path: &str, is_replaced: bool) {
        let vendor = self.observed.vendor.get(path).copied().unwrap_or(Vendor::Unknown);
        let is_kept = match self.found(path) {
            ObservedEntry::Absent | ObservedEntry::Other => false,
            ObservedEntry::File { .. } | ObservedEntry::Link(_) => vendor != Vendor::Foreign,
        };
        let path = path.to_owned();
        self.before.push(if is_kept {
            Step::KeepOriginal { path, is_replaced }
        } else {
            Step::NoteNoOriginal { path }
        });
    }

    /// Entries that only the old configuration has.
    fn stale(&mut self) {
        for path in self.old.paths.keys().filter(|path| !self.new.paths.contains_key(*path)) {
            if paths::is_never_removed(path) {
                continue;
            }
            let vendor = self.observed.vendor.get(path).copied().unwrap_or(Vendor::Unknown);
            let step = match self.original(path) {
                Original::Kept if vendor != Vendor::Foreign => Some(Step::RestoreOriginal { path: path.clone() }),
                _ => (*self.found(path) != ObservedEntry::Absent).then(|| Step::Remove { path: path.clone() }),
            };
            self.writes.extend(step);
            if self.original(path) != Original::Unknown {
                self.writes.push(Step::ForgetOriginal { path: path.clone() });
            }
        }
        for (path, target) in self.old.links.iter().filter(|(path, _)| !self.new.links.contains_key(*path)) {
            if !self.new.paths.contains_key(path) && *self.found(path) == ObservedEntry::Link(target.clone()) {
                self.writes.push(Step::Remove { path: path.clone() });
            }
        }
    }

    fn units(&mut self) {
        let state = |unit: &str| self.observed.units.get(unit).cloned().unwrap_or(UnitState::NotFound);
        let written: BTreeSet<String> = self.writes.iter().flat_map(Step::paths).collect();
        let mut disable_first = Vec::new();
        let [mut enable, mut disable, mut preset] = [Vec::new(), Vec::new(), Vec::new()];
        for (name, unit) in &self.new.units {
            let is_rewritten = written.contains(&unit_path(name));
            let is_enabled = matches!(state(name), UnitState::Enabled | UnitState::EnabledRuntime);
            // Its links are those of the old content.
            if is_rewritten && is_enabled {
                disable_first.push(name.clone());
            }
            let is_known = unit.has_contents || state(name) != UnitState::NotFound;
            let is_changed = self.old.units.get(name) != Some(unit);
            match unit.is_enabled {
                _ if unit.is_masked => {}
                Some(true) if is_known && (is_rewritten || !is_enabled) => enable.push(name.clone()),
                Some(false) if is_known && is_enabled && !is_rewritten => disable.push(name.clone()),
                None if is_known && (is_changed || is_rewritten) => {
                    if is_rewritten && is_enabled && !is_changed {
                        enable.push(name.clone());
                    } else {
                        preset.push(name.clone());
                    }
                }
                _ => {}
            }
        }
        for (name, unit) in self.old.units.iter().filter(|(name, _)| !self.new.units.contains_key(*name)) {
            let is_file_kept = self.original(&unit_path(name)) == Original::Kept;
            let is_enabled = matches!(state(name), UnitState::Enabled | UnitState::EnabledRuntime);
            let is_ours = unit.has_contents && !unit.is_masked;
            // Differs: a unit whose file is removed is disabled, because a preset may enable it and leave a dangling link.
            if is_ours && is_enabled {
                disable_first.push(name.clone());
            }
            if !is_ours || is_file_kept {
                preset.push(name.clone());
            }
        }
        if !disable_first.is_empty() {
            self.before.push(Step::Disable { units: disable_first });
        }
        if !disable.is_empty() {
            self.after.push(Step::Disable { units: disable });
        }
        if !preset.is_empty() {
            self.after.push(Step::Preset { units: preset });
        }
        if !enable.is_empty() {
            self.after.push(Step::Enable { units: enable });
        }
    }

    fn account(&mut self) {
        let (old, new) = (self.old.core.as_ref(), self.new.core.as_ref());
        if old == new {
            return;
        }
        let Some(user) = &self.observed.core else { return };
        let none = CoreUser::default();
        let (old, new) = (old.unwrap_or(&none), new.unwrap_or(&none));
        if old.keys != new.keys {
            // Differs: a folder of another owner is given to the account, because upstream's removal loses its contents.
            let ssh = format!("{}/.ssh", user.home.trim_end_matches('/'));
            let keys = format!("{ssh}/authorized_keys.d");
            for path in [&ssh, &keys] {
                self.after.push(Step::Directory { path: path.clone(), mode: 0o700, uid: user.uid, gid: user.gid });
            }
            let mut text = new.keys.join("\n");
            if !text.is_empty() {
                text.push('\n');
            }
            self.after.push(Step::Write {
                path: format!("{keys}/ignition"),
                bytes: text.into_bytes().into(),
                mode: 0o600,
                uid: user.uid,
                gid: user.gid,
            });
        }
        // Differs: an account without a password is locked, because upstream leaves the account open if the password is removed.
        let hash = new.password.clone().unwrap_or_else(|| "*".to_owned());
        if old.password != new.password && user.password != hash {
            self.after.push(Step::Password { user: CORE.to_owned(), hash });
        }
    }
}

/// The change from the present boot to the next one.
fn boot_change(old: &TargetState, new: &TargetState, observed: &Observed) -> BootChange {
    let boot = &observed.boot;
    let image = new.image();
    let (delete, mut append) = kernel_arguments::change(&old.arguments, &new.arguments);
    if old.arguments == new.arguments {
        // A machine that joined without them.
        append = kernel_arguments::missing(&new.arguments, &boot.arguments).into_iter().map(str::to_owned).collect();
    }
    // Of an extension that was left half-way some packages may be there.
    let has_all = old.extensions == new.extensions && extensions::missing(&new.extensions, &boot.packages).is_empty();
    let (install, uninstall) =
        if has_all { (Vec::new(), Vec::new()) } else { extensions::change(&new.extensions, &boot.packages) };
    let image =
        (old.image() != image && !image.is_empty() && boot.image.as_deref() != Some(image)).then(|| image.to_owned());
    // Another kernel is installed into one image; the next image needs it installed again.
    let reinstalls_kernel = image.is_some() && new.kernel != Kernel::Default && boot.driver == BootDriver::RpmOstree;
    let kernel = (old.kernel != new.kernel || reinstalls_kernel).then_some((old.kernel, new.kernel));
    let mut change = BootChange { image, delete, append, kernel, install, uninstall, extensions_image: None };
    let has_packages = [old, new].iter().any(|it| !it.extensions.is_empty() || it.kernel != Kernel::Default);
    if has_packages && needs_packages(&change) {
        change.extensions_image = new.extensions_image().map(str::to_owned);
    }
    change
}
