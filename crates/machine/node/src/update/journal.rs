//! Journal: the record of an update in progress, from which it is completed or undone.
//!
//! ```text
//!            begin                  sync                 actions, check          boot, if needed
//!  (nothing) ─────▶ Applying ─────────────▶ Acting ─────────────────▶ Committed ────────────────▶ (nothing): new
//!                      │ failure, cut          │ failure                   │ boots without it
//!                      ▼                       ▼                           │
//!                   Undoing ◀──────────────────┴───────────────────────────┘
//!                      │ restored        boot, if anything new has run
//!                      └──────▶ Reverted ─────────────────────────────▶ (nothing): old
//!                                  ▲ boots without it │
//!                                  └──────────────────┘
//! ```
//!
//! Before the first change everything that will change is kept, and then one file is written: from then on the journal is valid.
//! All of its actions can be done twice. It ends with the removal of that file.
//!
//! Changes reach the disk at any time within a phase, and all of them between two phases: so an update costs a few syncs, however
//! many files it changes.

use std::collections::BTreeMap;

use seaworthy_host::{Boot, BootChange, Entry, EntryKind, Host, HostError};
use seaworthy_plan::disruption::Action;
use serde::{Deserialize, Serialize};

use super::sysctl;
use crate::decide::boot_state::{self, BootState};
use crate::decide::observed::Observed;
use crate::decide::steps::Step;
use crate::decide::target::{CORE, TargetState};
use crate::paths::{self, PRIVATE};

const FORMAT: u32 = 1;

/// The record of an update. Names on the disk are those of its first version, for updates that cross a new version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Journal {
    /// The version of the file format.
    pub format: u32,
    /// The old configuration.
    pub from: String,
    /// The new configuration.
    pub to: String,
    /// The image that was built for the new configuration.
    pub image: Option<String>,
    pub phase: Phase,
    /// The boot that it was begun in; of one that needs a reboot, the boot that must end.
    pub boot_id: String,
    /// The actions that put the change into effect.
    pub actions: Vec<Action>,
    /// The old entries at the paths that are changed.
    #[serde(rename = "before")]
    pub backups: Vec<PathBackup>,
    /// Units that are changed, and whether they were enabled.
    pub units: Vec<(String, bool)>,
    /// Old hashes of passwords that are changed, by account.
    pub passwords: Vec<(String, String)>,
    /// The change of the next boot.
    pub boot: BootChange,
    /// The boot before the update.
    #[serde(default, rename = "was")]
    pub boot_before: Option<BootState>,
    /// The actions that no policy requests: if one fails, a reboot replaces it.
    #[serde(default, rename = "known")]
    pub known_actions: Vec<Action>,
    /// The running kernel's settings before the update, by the file that changes them, as lines of such a file.
    #[serde(default, rename = "settings")]
    pub sysctls: BTreeMap<String, String>,
    /// How often the boot was staged again.
    pub stagings: u32,
    /// Whether running services may have read something of the change.
    pub is_seen: bool,
    /// The reason of the revert.
    pub failure: Option<String>,
}

/// The progress of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    /// The disk is being changed.
    Applying,
    /// The disk is changed; the actions are being done.
    Acting,
    /// The new configuration counts; a reboot may be due.
    Committed,
    /// The disk is being changed back.
    Undoing,
    /// The disk is changed back; a reboot is due.
    Reverted,
}

/// The old entry at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum PathBackup {
    /// There was neither a file nor a link.
    #[serde(rename = "nothing")]
    Absent {
        path: String,
    },
    /// A file or link, which is kept under a name in the journal's folder.
    Kept {
        path: String,
        name: String,
    },
    /// There was no directory.
    NoDirectory {
        path: String,
    },
    Directory {
        path: String,
        mode: u32,
        uid: u32,
        gid: u32,
    },
}

fn journal_path() -> String {
    format!("{}/journal.json", paths::JOURNAL)
}

fn next_config_path() -> String {
    format!("{}/next", paths::JOURNAL)
}

impl Journal {
    /// The journal of an update that has not begun.
    pub fn new(from: &TargetState, to: &TargetState, observed: &Observed, steps: &[Step], actions: &[Action]) -> Self {
        let mut journal = Journal {
            format: FORMAT,
            from: from.name.clone(),
            to: to.name.clone(),
            image: None,
            phase: Phase::Applying,
            boot_id: observed.boot.id.clone(),
            actions: actions.to_vec(),
            backups: Vec::new(),
            units: Vec::new(),
            passwords: Vec::new(),
            boot: BootChange::default(),
            boot_before: Some(BootState {
                extensions_image: from.extensions_image().map(str::to_owned),
                ..BootState::from(&observed.boot)
            }),
            known_actions: Vec::new(),
            sysctls: BTreeMap::new(),
            stagings: 0,
            is_seen: false,
            failure: None,
        };
        for step in steps {
            for unit in step.units() {
                if !journal.units.iter().any(|(known, _)| known == unit) {
                    let state = observed.units.get(unit);
                    journal.units.push((unit.clone(), state == Some(&seaworthy_host::UnitState::Enabled)));
                }
            }
            match step {
                Step::Password { user, .. } => {
                    let hash = observed.core.as_ref().filter(|_| user == CORE).map(|core| core.password.clone());
                    journal.passwords.push((user.clone(), hash.unwrap_or_else(|| "*".to_owned())));
                }
                Step::Boot(change) => journal.boot = change.clone(),
                _ => {}
            }
        }
        journal
    }

    /// Keeps everything that the steps will change; when it returns, the journal is valid.
    pub fn begin(&mut self, host: &dyn Host, steps: &[Step], next_config: &[u8]) -> Result<(), HostError> {
        // Left by a power cut, of a journal that was not valid yet, or had ended.
        host.remove_directory(paths::JOURNAL)?;
        let mut paths: Vec<String> = steps.iter().flat_map(Step::paths).collect();
        paths.push(paths::CURRENT_CONFIG.to_owned());
        paths.push(paths::CURRENT_IMAGE.to_owned());
        paths.sort();
        paths.dedup();
        for step in steps {
            if let Step::Directory { path, .. } = step {
                let backup = match host.entry(path)? {
                    Some(Entry { kind: EntryKind::Directory, mode, uid, gid, .. }) => {
                        PathBackup::Directory { path: path.clone(), mode, uid, gid }
                    }
                    None => PathBackup::NoDirectory { path: path.clone() },
                    Some(_) => {
                        let why = "a directory is needed there, and it is something else; move it away first";
                        return Err(HostError::file("make directory", path, why));
                    }
                };
                self.backups.push(backup);
            }
        }
        for (number, path) in paths.into_iter().enumerate() {
            self.backups.push(match host.entry(&path)? {
                None => PathBackup::Absent { path },
                Some(Entry { kind: EntryKind::File | EntryKind::Link(_), .. }) => {
                    let name = number.to_string();
                    host.keep(&path, &format!("{}/{name}", paths::JOURNAL))?;
                    PathBackup::Kept { path, name }
                }
                Some(_) => {
                    return Err(HostError::file("replace", &path, "it is a directory or a device; move it away first"));
                }
            });
        }
        for action in &self.actions {
            let Action::Settings(file) = action else { continue };
            let written = steps.iter().find_map(|step| match step {
                Step::Write { path, bytes, .. } if path == file => Some(bytes),
                _ => None,
            });
            if let Some(bytes) = written {
                self.sysctls.insert(file.clone(), sysctl::running_settings(host, bytes));
            }
        }
        host.write(&next_config_path(), next_config, PRIVATE)?;
        host.sync()?;
        self.save(host)
    }

    /// Writes the progress. All changes that it records as done have reached the disk before.
    pub fn save(&self, host: &dyn Host) -> Result<(), HostError> {
        let text =
            serde_json::to_string_pretty(self).map_err(|error| HostError::file("write", &journal_path(), error))?;
        host.write_through(&journal_path(), text.as_bytes(), PRIVATE)
    }

    /// The journal, if an update is under way.
    pub fn load(host: &dyn Host) -> Result<Option<Journal>, HostError> {
        let Some(bytes) = host.read(&journal_path())? else { return Ok(None) };
        let journal: Journal =
            serde_json::from_slice(&bytes).map_err(|error| HostError::file("read", &journal_path(), error))?;
        if journal.format != FORMAT {
            let why = format!("its format is {}, and this version supports format {FORMAT} only", journal.format);
            return Err(HostError::file("read", &journal_path(), why));
        }
        Ok(Some(journal))
    }

    /// The new configuration, as it will be stored on the disk.
    pub fn next_config(host: &dyn Host) -> Result<Vec<u8>, HostError> {
        let path = next_config_path();
        host.read(&path)?.ok_or_else(|| HostError::file("read", &path, "it is gone"))
    }

    /// Ends the journal.
    pub fn end(host: &dyn Host) -> Result<(), HostError> {
        host.sync()?;
        host.remove(&journal_path())?;
        // A journal that came back after a power cut would be followed again, over later changes.
        host.sync()?;
        host.remove_directory(paths::JOURNAL)
    }

    /// Removes the files of a journal that has ended, or was never valid.
    pub fn remove_leftovers(host: &dyn Host) -> Result<(), HostError> {
        if host.exists(paths::JOURNAL)? { host.remove_directory(paths::JOURNAL) } else { Ok(()) }
    }

    /// The parts of the new boot state that a boot lacks.
    pub fn missing_of_new(&self, boot: &Boot) -> Vec<String> {
        self.boot_after().map(|after| boot_state::missing_parts(boot, &after, &self.boot)).unwrap_or_default()
    }

    /// The parts of the old boot state that a boot lacks.
    pub fn missing_of_old(&self, boot: &Boot) -> Vec<String> {
        self.boot_before.as_ref().map(|before| boot_state::missing_parts(boot, before, &self.boot)).unwrap_or_default()
    }

    /// The change to stage so that the next boot has the new state.
    pub fn change_to_new(&self, boot: &Boot) -> BootChange {
        match self.boot_after().filter(|_| boot_state::starts_from_boot(boot.driver)) {
            Some(after) => boot_state::change_towards(boot, &after, &self.boot),
            None => self.boot.clone(),
        }
    }

    /// The change to stage so that the next boot has the old state; empty if unstaging is enough.
    pub fn change_to_old(&self, boot: &Boot) -> BootChange {
        match self.boot_before.as_ref().filter(|_| boot_state::starts_from_boot(boot.driver)) {
            Some(before) => boot_state::change_towards(boot, before, &self.boot),
            None => BootChange::default(),
        }
    }

    fn boot_after(&self) -> Option<BootState> {
        self.boot_before.clone().map(|before| before.after(&self.boot))
    }

    /// The files and links that it changes.
    pub fn paths(&self) -> Vec<String> {
        let path = |backup: &PathBackup| match backup {
            PathBackup::Absent { path } | PathBackup::Kept { path, .. } => Some(path.clone()),
            _ => None,
        };
        self.backups.iter().filter_map(path).filter(|path| !path.starts_with(paths::STATE_DIR)).collect()
    }
}
