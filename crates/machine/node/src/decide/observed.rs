//! What is on the machine, as far as two configurations speak of it.

use std::collections::BTreeMap;

use seaworthy_host::{Boot, Entry, Host, HostError, Kind, UnitState, User, Vendor};

use crate::decide::target::{CORE, Target, Wanted, Who};
use crate::paths;

/// What is on the machine.
#[derive(Clone, Debug)]
pub struct Observed {
    /// What stands at every path that a configuration speaks of.
    pub paths: BTreeMap<String, Found>,
    /// Whether paths that are to be replaced came with the operating system.
    pub vendor: BTreeMap<String, Vendor>,
    /// What is kept of what stood there before the first configuration did.
    pub originals: BTreeMap<String, Original>,
    /// Units.
    pub units: BTreeMap<String, UnitState>,
    /// Numbers of accounts.
    pub users: BTreeMap<String, Option<u32>>,
    /// Numbers of groups.
    pub groups: BTreeMap<String, Option<u32>>,
    /// The account `core`.
    pub core: Option<User>,
    /// What is booted.
    pub boot: Boot,
}

/// What stands at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// A file.
    File {
        /// Its length in bytes.
        size: u64,
        /// Whether it has the content that the new configuration wants there.
        is_as_wanted: bool,
        /// Its permissions.
        mode: u32,
        /// Its owner.
        uid: u32,
        /// Its group.
        gid: u32,
    },
    /// A link.
    Link(String),
    /// A directory, a device, …
    Other,
}

/// What is kept of what stood somewhere before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Original {
    /// Nothing is known.
    Unknown,
    /// It is kept.
    Kept,
    /// There was none.
    None,
}

/// Looks at a machine.
pub fn observe(host: &dyn Host, old: &Target, new: &Target) -> Result<Observed, HostError> {
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
        // Asking costs a process: only what is about to be replaced for the first time, or given back.
        let stands = observed.paths.get(path) != Some(&Found::Nothing);
        let is_first = stands && !old.paths.contains_key(path) && original == Original::Unknown;
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
        let Wanted::File { user, group, .. } = wanted else { continue };
        if let Who::Name(name) = user
            && !observed.users.contains_key(name)
        {
            observed.users.insert(name.clone(), host.user(name)?.map(|user| user.uid));
        }
        if let Who::Name(name) = group
            && !observed.groups.contains_key(name)
        {
            observed.groups.insert(name.clone(), host.group(name)?);
        }
    }
    Ok(observed)
}

/// What stands at a path. A file of another length than the one that is wanted is not read: somebody may let it grow without
/// end.
fn found(host: &dyn Host, path: &str, wanted: Option<&Wanted>) -> Result<Found, HostError> {
    Ok(match host.entry(path)? {
        None => Found::Nothing,
        Some(Entry { kind: Kind::File, mode, uid, gid, size }) => {
            let is_as_wanted = match wanted {
                Some(Wanted::File { bytes, .. }) => size == bytes.len() as u64 && host.has_content(path, bytes)?,
                _ => false,
            };
            Found::File { size, is_as_wanted, mode, uid, gid }
        }
        Some(Entry { kind: Kind::Link(target), .. }) => Found::Link(target),
        Some(_) => Found::Other,
    })
}

impl Observed {
    /// The number of an owner; the name if nobody has it.
    pub fn user_id(&self, who: &Who) -> Result<u32, String> {
        id(who, &self.users, "user")
    }

    /// The number of a group; the name if nobody has it.
    pub fn group_id(&self, who: &Who) -> Result<u32, String> {
        id(who, &self.groups, "group")
    }
}

fn id(who: &Who, known: &BTreeMap<String, Option<u32>>, noun: &str) -> Result<u32, String> {
    match who {
        Who::Id(id) => Ok(*id),
        Who::Name(name) => known.get(name).copied().flatten().ok_or_else(|| {
            format!("there is no {noun} {name:?} on this machine; give its id, or make the {noun} first")
        }),
    }
}
