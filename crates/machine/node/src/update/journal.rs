//! The journal: what an update was about to do, and how to take it back.
//!
//! ```text
//!            begin                  sync                 actions, proof          boot, if needed
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
//! Before the first change everything that will change is kept, and then one file is written: from that moment on the journal
//! holds. Whatever it says to be done can be done twice. The end is the removal of that file.
//!
//! Changes reach the disk when they like. Only between two phases everything must have: so an update costs a few waits for the
//! disk, however many files it changes.

use std::collections::BTreeMap;

use seaworthy_host::{Boot, BootChange, Entry, Host, HostError, Kind};
use seaworthy_plan::disruption::Action;
use serde::{Deserialize, Serialize};

use super::sysctl;
use crate::decide::booted::{self, Booted};
use crate::decide::observed::Observed;
use crate::decide::steps::Step;
use crate::decide::target::{CORE, Target};
use crate::paths::{self, PRIVATE};

const FORMAT: u32 = 1;

/// What an update was about to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Journal {
    /// The form of this file.
    pub format: u32,
    /// The configuration that goes.
    pub from: String,
    /// The configuration that comes.
    pub to: String,
    /// The image that was built for it.
    pub image: Option<String>,
    /// How far it is.
    pub phase: Phase,
    /// The boot that it was begun in; of one that needs a reboot, the boot that must end.
    pub boot_id: String,
    /// What brings the change into force.
    pub actions: Vec<Action>,
    /// What stood where something is changed.
    pub before: Vec<Before>,
    /// Units that are changed, and whether they were started at boot.
    pub units: Vec<(String, bool)>,
    /// Hashes of passwords that are changed.
    pub passwords: Vec<(String, String)>,
    /// What the next boot gets.
    pub boot: BootChange,
    /// What was booted before it.
    #[serde(default)]
    pub was: Option<Booted>,
    /// Those of the actions that no policy asks for: where they fail, a reboot does what they should have done.
    #[serde(default)]
    pub known: Vec<Action>,
    /// What the running kernel was set to, by the file whose settings change it, as lines of such a file.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// How often it has been prepared again.
    pub stagings: u32,
    /// Whether what runs may have seen something of the change.
    pub is_seen: bool,
    /// Why it is taken back.
    pub failure: Option<String>,
}

/// How far an update is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    /// The disk is being changed.
    Applying,
    /// The disk is changed; what runs is being told.
    Acting,
    /// It counts; a reboot may be due.
    Committed,
    /// The disk is being changed back.
    Undoing,
    /// The disk is changed back; a reboot is due.
    Reverted,
}

/// What stood at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Before {
    /// Nothing.
    Nothing {
        /// The path.
        path: String,
    },
    /// A file or link, which is kept in the journal's folder.
    Kept {
        /// The path.
        path: String,
        /// The name it is kept under.
        name: String,
    },
    /// No directory.
    NoDirectory {
        /// The path.
        path: String,
    },
    /// A directory.
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
}

fn place() -> String {
    format!("{}/journal.json", paths::JOURNAL)
}

fn next() -> String {
    format!("{}/next", paths::JOURNAL)
}

impl Journal {
    /// The journal of an update that has not begun.
    pub fn new(from: &Target, to: &Target, observed: &Observed, steps: &[Step], actions: &[Action]) -> Self {
        let mut journal = Journal {
            format: FORMAT,
            from: from.name.clone(),
            to: to.name.clone(),
            image: None,
            phase: Phase::Applying,
            boot_id: observed.boot.id.clone(),
            actions: actions.to_vec(),
            before: Vec::new(),
            units: Vec::new(),
            passwords: Vec::new(),
            boot: BootChange::default(),
            was: Some(Booted {
                extensions_image: from.extensions_image().map(str::to_owned),
                ..Booted::from(&observed.boot)
            }),
            known: Vec::new(),
            settings: BTreeMap::new(),
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

    /// Keeps everything that the steps will change; from its return on the journal holds.
    pub fn begin(&mut self, host: &dyn Host, steps: &[Step], next_config: &str) -> Result<(), HostError> {
        // What a cut has left of one that never held, or had ended.
        host.remove_directory(paths::JOURNAL)?;
        let mut paths: Vec<String> = steps.iter().flat_map(Step::paths).collect();
        paths.push(paths::CURRENT_CONFIG.to_owned());
        paths.push(paths::CURRENT_IMAGE.to_owned());
        paths.sort();
        paths.dedup();
        for step in steps {
            if let Step::Directory { path, .. } = step {
                let before = match host.entry(path)? {
                    Some(Entry { kind: Kind::Directory, mode, uid, gid, .. }) => {
                        Before::Directory { path: path.clone(), mode, uid, gid }
                    }
                    None => Before::NoDirectory { path: path.clone() },
                    Some(_) => {
                        let why = "a directory is needed there, and something else stands there; move it away first";
                        return Err(HostError::file("make directory", path, why));
                    }
                };
                self.before.push(before);
            }
        }
        for (number, path) in paths.into_iter().enumerate() {
            self.before.push(match host.entry(&path)? {
                None => Before::Nothing { path },
                Some(Entry { kind: Kind::File | Kind::Link(_), .. }) => {
                    let name = number.to_string();
                    host.keep(&path, &format!("{}/{name}", paths::JOURNAL))?;
                    Before::Kept { path, name }
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
                self.settings.insert(file.clone(), sysctl::running(host, bytes));
            }
        }
        host.write(&next(), next_config.as_bytes(), PRIVATE)?;
        host.sync()?;
        self.save(host)
    }

    /// Writes how far it is. What it says to be done has reached the disk before.
    pub fn save(&self, host: &dyn Host) -> Result<(), HostError> {
        let text = serde_json::to_string_pretty(self).map_err(|error| HostError::file("write", &place(), error))?;
        host.write_through(&place(), text.as_bytes(), PRIVATE)
    }

    /// The journal, if an update is under way.
    pub fn load(host: &dyn Host) -> Result<Option<Journal>, HostError> {
        let Some(bytes) = host.read(&place())? else { return Ok(None) };
        let journal: Journal =
            serde_json::from_slice(&bytes).map_err(|error| HostError::file("read", &place(), error))?;
        if journal.format != FORMAT {
            let why = format!("it is of form {}, and this version knows form {FORMAT} only", journal.format);
            return Err(HostError::file("read", &place(), why));
        }
        Ok(Some(journal))
    }

    /// The configuration that comes, as it will stand on the disk.
    pub fn next_config(host: &dyn Host) -> Result<Vec<u8>, HostError> {
        host.read(&next())?.ok_or_else(|| HostError::file("read", &next(), "it is gone"))
    }

    /// Ends it.
    pub fn end(host: &dyn Host) -> Result<(), HostError> {
        host.sync()?;
        host.remove(&place())?;
        // One that came back would be followed again, over whatever has been done since.
        host.sync()?;
        host.remove_directory(paths::JOURNAL)
    }

    /// Takes away what a journal that has ended, or never held, has left.
    pub fn sweep(host: &dyn Host) -> Result<(), HostError> {
        if host.exists(paths::JOURNAL)? { host.remove_directory(paths::JOURNAL) } else { Ok(()) }
    }

    /// What a boot lacks of what comes.
    pub fn lacks(&self, boot: &Boot) -> Vec<String> {
        self.goal().map(|goal| booted::lacking(boot, &goal, &self.boot)).unwrap_or_default()
    }

    /// What a boot lacks of what was there before.
    pub fn lacks_of_old(&self, boot: &Boot) -> Vec<String> {
        self.was.as_ref().map(|was| booted::lacking(boot, was, &self.boot)).unwrap_or_default()
    }

    /// What is to be prepared so that the next boot has what comes.
    pub fn way_on(&self, boot: &Boot) -> BootChange {
        match self.goal().filter(|_| booted::starts_from_boot(boot.driver)) {
            Some(goal) => booted::way(boot, &goal, &self.boot),
            None => self.boot.clone(),
        }
    }

    /// What is to be prepared so that the next boot has what was there before; empty where forgetting what was prepared is all.
    pub fn way_back(&self, boot: &Boot) -> BootChange {
        match self.was.as_ref().filter(|_| booted::starts_from_boot(boot.driver)) {
            Some(was) => booted::way(boot, was, &self.boot),
            None => BootChange::default(),
        }
    }

    fn goal(&self) -> Option<Booted> {
        self.was.clone().map(|was| was.after(&self.boot))
    }

    /// The files and links that it changes.
    pub fn paths(&self) -> Vec<String> {
        let path = |before: &Before| match before {
            Before::Nothing { path } | Before::Kept { path, .. } => Some(path.clone()),
            _ => None,
        };
        self.before.iter().filter_map(path).filter(|path| !path.starts_with(paths::HOME)).collect()
    }
}
