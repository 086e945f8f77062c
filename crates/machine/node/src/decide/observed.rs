//! Observed state: files, units, accounts and boot of a machine, as far as two configurations mention them.

use std::collections::BTreeMap;

use seaworthy_host::{Boot, Entry, EntryKind, Host, HostError, UnitState, User, Vendor};

use crate::decide::target::{AccountRef, CORE, TargetEntry, TargetState};
use crate::paths;

/// The observed state of a machine.
#[derive(Clone, Debug)]
pub struct Observed {
    /// By every path that a configuration mentions.
    pub paths: BTreeMap<String, ObservedEntry>,
    /// Whether paths that are to be replaced came with the operating system.
    pub vendor: BTreeMap<String, Vendor>,
    /// What is kept of the file that was there before the first configuration.
    pub originals: BTreeMap<String, Original>,
    pub units: BTreeMap<String, UnitState>,
    /// User IDs by name.
    pub users: BTreeMap<String, Option<u32>>,
    /// Group IDs by name.
    pub groups: BTreeMap<String, Option<u32>>,
    /// The account `core`.
    pub core: Option<User>,
    pub boot: Boot,
}

/// The entry at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObservedEntry {
    Absent,
    File {
        /// In bytes.
        size: u64,
        /// Whether it has the content of the new configuration.
        has_target_content: bool,
        mode: u32,
        uid: u32,
        gid: u32,
    },
    Link(String),
    /// A directory, a device, …
    Other,
}

/// What is kept of the file that a configuration has replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Original {
    /// There is no record.
    Unknown,
    /// A copy is kept.
    Kept,
    /// There was no file.
    None,
}

/// Reads the state of a machine.
pub fn observe(host: &dyn Host, old: &TargetState, new: &TargetState) -> Result<Observed, HostError> {
    let core = host.user(CORE)?;
    let mut observed = Observed {
        paths: BTreeMap::new(),
        vendor: BTreeMap::new(),
        originals: BTreeMap::new(),
        units: BTreeMap::new(),
        users: BTreeMap::new(),
        groups: BTreeMap::new(),
        core,
        boot: host.boot()?,
    };
    for path in old.paths.keys().chain(new.paths.keys()).chain(old.links.keys()) {
        if observed.paths.contains_key(path) {
            continue;
        }
        observed.paths.insert(path.clone(), found(host, path, new.paths.get(path))?);
        let original = if host.exists(&paths::original(path))? {
            Original::Kept
        } else if host.exists(&paths::no_original(path))? {
            Original::None
        } else {
            Original::Unknown
        };
        observed.originals.insert(path.clone(), original);
        // The query starts a process, so it is made only for files that are to be replaced for the first time, or restored.
        let exists = observed.paths.get(path) != Some(&ObservedEntry::Absent);
        let is_first = exists && !old.paths.contains_key(path) && original == Original::Unknown;
        let is_given_back = !new.paths.contains_key(path) && original == Original::Kept;
        if is_first || is_given_back {
            observed.vendor.insert(path.clone(), host.vendor(path)?);
        }
    }
    for unit in old.units.keys().chain(new.units.keys()) {
        if !observed.units.contains_key(unit) {
            observed.units.insert(unit.clone(), host.unit_state(unit)?);
        }
    }
    for wanted in new.paths.values() {
        let TargetEntry::File { user, group, .. } = wanted else { continue };
        if let AccountRef::Name(name) = user
            && !observed.users.contains_key(name)
        {
            observed.users.insert(name.clone(), host.user(name)?.map(|user| user.uid));
        }
        if let AccountRef::Name(name) = group
            && !observed.groups.contains_key(name)
        {
            observed.groups.insert(name.clone(), host.group(name)?);
        }
    }
    Ok(observed)
}

/// The entry at a path. A file whose length differs from the wanted one is not read, since it may be arbitrarily long.
fn found(host: &dyn Host, path: &str, wanted: Option<&TargetEntry>) -> Result<ObservedEntry, HostError> {
    Ok(match host.entry(path)? {
        None => ObservedEntry::Absent,
        Some(Entry { kind: EntryKind::File, mode, uid, gid, size }) => {
            let has_target_content = match wanted {
                Some(TargetEntry::File { bytes, .. }) => size == bytes.len() as u64 && host.has_content(path, bytes)?,
                _ => false,
            };
            ObservedEntry::File { size, has_target_content, mode, uid, gid }
        }
        Some(Entry { kind: EntryKind::Link(target), .. }) => ObservedEntry::Link(target),
        Some(_) => ObservedEntry::Other,
    })
}

impl Observed {
    /// The ID of an owner.
    ///
    /// # Errors
    ///
    /// If there is no account of that name.
    pub fn user_id(&self, who: &AccountRef) -> Result<u32, String> {
        id(who, &self.users, "user")
    }

    /// The ID of a group.
    ///
    /// # Errors
    ///
    /// If there is no group of that name.
    pub fn group_id(&self, who: &AccountRef) -> Result<u32, String> {
        id(who, &self.groups, "group")
    }
}

fn id(who: &AccountRef, known: &BTreeMap<String, Option<u32>>, noun: &str) -> Result<u32, String> {
    match who {
        AccountRef::Id(id) => Ok(*id),
        AccountRef::Name(name) => known.get(name).copied().flatten().ok_or_else(|| {
            format!("there is no {noun} {name:?} on this machine; use a numeric id, or create the {noun} first")
        }),
    }
}
