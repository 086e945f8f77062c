//! What is to be done to a machine so that it is what a configuration wants. Pure: a list of steps, and nothing left to choose.
//!
//! Differs: only what differs on the machine is written, because upstream's rewriting of every file wears disks out and wakes
//! everybody who watches them.

use std::collections::BTreeSet;
use std::sync::Arc;

use seaworthy_host::{BootChange, Driver, Kernel, UnitState, Vendor};
use seaworthy_ignition::unit_path;
use serde::Serialize;

use crate::decide::booted::needs_packages;
use crate::decide::observed::{Found, Observed, Original};
use crate::decide::target::{CORE, Core, Target, TargetError, Wanted};
use crate::decide::{extensions, kernel_arguments};
use crate::paths;

/// One thing that is done to the machine. Each can be done twice with the same result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Step {
    /// What stands there is kept for the day when no configuration has it any more.
    KeepOriginal {
        /// The path.
        path: String,
        /// Whether something else takes its place; what stays is copied, since it may be changed where it stands.
        is_replaced: bool,
    },
    /// It is noted that nothing of anybody else stood there.
    NoteNoOriginal {
        /// The path.
        path: String,
    },
    /// Units are no longer started at boot.
    Disable {
        /// The units.
        units: Vec<String>,
    },
    /// Units are started at boot or not, as the vendor wants it. Systemd's refusal is no failure.
    Preset {
        /// The units.
        units: Vec<String>,
    },
    /// Units are started at boot.
    Enable {
        /// The units.
        units: Vec<String>,
    },
    /// A directory is made.
    Directory {
        /// The path.
        path: String,
        /// Its permissions.
        mode: u32,
        /// Its owner.
        uid: u32,
        /// Its group.
        gid: u32,
    },
    /// A file is written.
    Write {
        /// The path.
        path: String,
        /// The content.
        #[serde(skip)]
        bytes: Arc<[u8]>,
        /// Its permissions.
        mode: u32,
        /// Its owner.
        uid: u32,
        /// Its group.
        gid: u32,
    },
    /// A link is made.
    Link {
        /// The path.
        path: String,
        /// Where it points.
        target: String,
    },
    /// A file or link is removed.
    Remove {
        /// The path.
        path: String,
    },
    /// What stood there before the first configuration did is put back.
    RestoreOriginal {
        /// The path.
        path: String,
    },
    /// What was kept or noted of an original is forgotten.
    ForgetOriginal {
        /// The path.
        path: String,
    },
    /// The password of an account is set.
    Password {
        /// The account.
        user: String,
        /// The hash.
        #[serde(skip)]
        hash: String,
    },
    /// The next boot is prepared.
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

    /// The units whose start at boot it changes.
    pub fn units(&self) -> &[String] {
        match self {
            Step::Disable { units } | Step::Preset { units } | Step::Enable { units } => units,
            _ => &[],
        }
    }
}

/// What is to be done so that a machine in one configuration is in another.
pub fn steps(old: &Target, new: &Target, observed: &Observed) -> Result<Vec<Step>, TargetError> {
    let mut plan = Plan { old, new, observed, before: Vec::new(), writes: Vec::new(), after: Vec::new() };
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

struct Plan<'a> {
    old: &'a Target,
    new: &'a Target,
    observed: &'a Observed,
    before: Vec<Step>,
    writes: Vec<Step>,
    after: Vec<Step>,
}

impl Plan<'_> {
    fn found(&self, path: &str) -> &Found {
        self.observed.paths.get(path).unwrap_or(&Found::Nothing)
    }

    fn original(&self, path: &str) -> Original {
        self.observed.originals.get(path).copied().unwrap_or(Original::Unknown)
    }

    fn paths(&mut self) -> Result<(), TargetError> {
        for (path, wanted) in &self.new.paths {
            // Upstream's renewal of certificates goes around configurations; what it wrote is newer.
            if paths::is_written_elsewhere(path) && *self.found(path) != Found::Nothing {
                continue;
            }
            let step = match wanted {
                Wanted::File { bytes, mode, user, group } => {
                    let wrong = |why| TargetError::File { name: self.new.name.clone(), path: path.clone(), why };
                    let uid = self.observed.user_id(user).map_err(wrong)?;
                    let gid = self.observed.group_id(group).map_err(wrong)?;
                    let is_there = matches!(self.found(path), Found::File { is_as_wanted: true, mode: m, uid: u, gid: g, .. }
                        if m == mode && *u == uid && *g == gid);
                    (!is_there).then(|| Step::Write {
                        path: path.clone(),
                        bytes: Arc::clone(bytes),
                        mode: *mode,
                        uid,
                        gid,
                    })
                }
                Wanted::Link(target) => (*self.found(path) != Found::Link(target.clone()))
                    .then(|| Step::Link { path: path.clone(), target: target.clone() }),
                Wanted::Nothing => (*self.found(path) != Found::Nothing).then(|| Step::Remove { path: path.clone() }),
            };
            // Whether it is replaced or happens to be right already: from now on it is ours, and what it was is kept.
            if !self.old.paths.contains_key(path) && self.original(path) == Original::Unknown {
                self.keep(path, step.is_some());
            }
            self.writes.extend(step);
        }
        Ok(())
    }

    /// Differs: on a machine that has no packages to ask, what stood there is kept, because upstream loses it.
    fn keep(&mut self, path: &str, is_replaced: bool) {
        let vendor = self.observed.vendor.get(path).copied().unwrap_or(Vendor::Unknown);
        let is_kept = match self.found(path) {
            Found::Nothing | Found::Other => false,
            Found::File { .. } | Found::Link(_) => vendor != Vendor::Foreign,
        };
        let path = path.to_owned();
        self.before.push(if is_kept {
            Step::KeepOriginal { path, is_replaced }
        } else {
            Step::NoteNoOriginal { path }
        });
    }

    /// What only the old configuration has.
    fn stale(&mut self) {
        for path in self.old.paths.keys().filter(|path| !self.new.paths.contains_key(*path)) {
            if paths::is_never_removed(path) {
                continue;
            }
            let vendor = self.observed.vendor.get(path).copied().unwrap_or(Vendor::Unknown);
            let step = match self.original(path) {
                Original::Kept if vendor != Vendor::Foreign => Some(Step::RestoreOriginal { path: path.clone() }),
                _ => (*self.found(path) != Found::Nothing).then(|| Step::Remove { path: path.clone() }),
            };
            self.writes.extend(step);
            if self.original(path) != Original::Unknown {
                self.writes.push(Step::ForgetOriginal { path: path.clone() });
            }
        }
        for (path, target) in self.old.links.iter().filter(|(path, _)| !self.new.links.contains_key(*path)) {
            if !self.new.paths.contains_key(path) && *self.found(path) == Found::Link(target.clone()) {
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
            // Differs: a unit whose file goes is disabled, because a preset may enable it and leave a link to nothing.
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
        let none = Core::default();
        let (old, new) = (old.unwrap_or(&none), new.unwrap_or(&none));
        if old.keys != new.keys {
            // Differs: a folder of somebody else is given to the account, because upstream's removal loses what is in it.
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
        // Differs: an account without a password is locked, because upstream leaves one that disappears open to everybody.
        let hash = new.password.clone().unwrap_or_else(|| "*".to_owned());
        if old.password != new.password && user.password != hash {
            self.after.push(Step::Password { user: CORE.to_owned(), hash });
        }
    }
}

/// What the next boot needs that this one has not.
fn boot_change(old: &Target, new: &Target, observed: &Observed) -> BootChange {
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
    // Another kernel is put into one image; into the next it is put anew.
    let is_kernel_anew = image.is_some() && new.kernel != Kernel::Default && boot.driver == Driver::RpmOstree;
    let kernel = (old.kernel != new.kernel || is_kernel_anew).then_some((old.kernel, new.kernel));
    let mut change = BootChange { image, delete, append, kernel, install, uninstall, extensions_image: None };
    let has_packages = [old, new].iter().any(|it| !it.extensions.is_empty() || it.kernel != Kernel::Default);
    if has_packages && needs_packages(&change) {
        change.extensions_image = new.extensions_image().map(str::to_owned);
    }
    change
}
