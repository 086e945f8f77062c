//! State of a machine in memory.

use std::collections::{BTreeMap, BTreeSet};

use super::service::Service;
use super::tree::{Content, Tree};
use crate::{Boot, BootChange, BootDriver, ChangeCallback, HostError, Kernel, Output, UnitState, User};

pub(super) struct State {
    pub(super) tree: Tree,
    pub(super) enabled: BTreeSet<String>,
    pub(super) users: BTreeMap<String, User>,
    /// The state that has reached the disk.
    pub(super) synced: SyncedState,
    pub(super) vendor: BTreeSet<String>,
    pub(super) has_packages: bool,
    pub(super) services: BTreeMap<String, Service>,
    /// Sysctl settings with their values after a boot.
    pub(super) settings: BTreeMap<String, String>,
    pub(super) boot: Boot,
    pub(super) boots: u64,
    pub(super) staged: Option<BootChange>,
    /// Kernel arguments that no boot has, even if they were staged.
    pub(super) lost_arguments: BTreeSet<String>,
    pub(super) is_reboot_requested: bool,
    pub(super) is_off: bool,
    pub(super) write_calls: usize,
    pub(super) call_count: usize,
    pub(super) bytes_read: usize,
    pub(super) cut_at: Option<usize>,
    pub(super) faults: Vec<CallFailure>,
    pub(super) disk_limit: Option<DiskLimit>,
    pub(super) calls: Vec<String>,
    pub(super) answers: BTreeMap<String, Output>,
    /// Watched paths and callbacks.
    pub(super) watches: BTreeMap<u64, (BTreeSet<String>, ChangeCallback)>,
    pub(super) watched: u64,
}

/// The state that has reached the disk.
#[derive(Default)]
pub(super) struct SyncedState {
    pub(super) tree: Tree,
    pub(super) enabled: BTreeSet<String>,
    pub(super) users: BTreeMap<String, User>,
}

/// A disk that is full from a certain call on.
pub(super) struct DiskLimit {
    pub(super) from: String,
    pub(super) is_full: bool,
}

pub(super) struct CallFailure {
    pub(super) call: String,
    pub(super) why: String,
    pub(super) left: Option<u32>,
}

/// The persistent state, and the files that services have read; machines with equal snapshots are in the same state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Files and links, each as one line, including sysctl settings.
    pub files: BTreeMap<String, String>,
    /// Enabled units.
    pub enabled: BTreeSet<String>,
    /// Password hashes.
    pub passwords: BTreeMap<String, String>,
    /// Image, arguments, kernel, packages.
    pub boot: (Option<String>, Vec<String>, Kernel, Vec<String>),
    pub staged: Option<BootChange>,
    /// The contents that each service has read, by unit and path.
    pub loaded: BTreeMap<String, BTreeMap<String, String>>,
}

impl Snapshot {
    /// Without the files whose paths begin with this text.
    pub fn without(mut self, path: &str) -> Self {
        self.files.retain(|name, _| !name.starts_with(path));
        self
    }
}

impl State {
    pub(super) fn new(name: &str) -> Self {
        let user = |id: u32, home: &str| User { uid: id, gid: id, home: home.to_owned(), password: "*".to_owned() };
        let users =
            BTreeMap::from([("root".to_owned(), user(0, "/root")), ("core".to_owned(), user(1000, "/home/core"))]);
        let mut state = State {
            tree: Tree::default(),
            enabled: BTreeSet::new(),
            synced: SyncedState { users: users.clone(), ..SyncedState::default() },
            users,
            vendor: BTreeSet::new(),
            has_packages: false,
            services: BTreeMap::new(),
            settings: BTreeMap::new(),
            boot: Boot {
                id: format!("{name}-boot-1"),
                driver: BootDriver::RpmOstree,
                image: Some("image-1".to_owned()),
                arguments: vec!["root=/dev/vda".to_owned(), "quiet".to_owned()],
                kernel: Kernel::Default,
                packages: Vec::new(),
                is_fips: false,
            },
            boots: 1,
            staged: None,
            lost_arguments: BTreeSet::new(),
            is_reboot_requested: false,
            is_off: false,
            write_calls: 0,
            call_count: 0,
            bytes_read: 0,
            cut_at: None,
            faults: Vec::new(),
            disk_limit: None,
            calls: Vec::new(),
            answers: BTreeMap::new(),
            watches: BTreeMap::new(),
            watched: 0,
        };
        for (unit, reads) in super::service::DEFAULT_SERVICES {
            state.add_service(unit, reads);
        }
        state
    }

    pub(super) fn unit_state(&self, unit: &str) -> UnitState {
        let path = format!("/etc/systemd/system/{unit}");
        match self.tree.get(&path).map(|item| &item.content) {
            Some(Content::Link(target)) if target == "/dev/null" => return UnitState::Masked,
            Some(_) => {}
            None if self.services.contains_key(unit) => {}
            None => return UnitState::NotFound,
        }
        if self.enabled.contains(unit) { UnitState::Enabled } else { UnitState::Disabled }
    }

    /// Enables, disables or resets units; one that systemd does not know fails all.
    pub(super) fn set_enabled(&mut self, units: &[&str], is_enabled: Option<bool>) -> Result<(), HostError> {
        for unit in units {
            let state = self.unit_state(unit);
            // Disabling a missing unit removes its links.
            let is_unknown = state == UnitState::NotFound && is_enabled != Some(false);
            if is_unknown || (state == UnitState::Masked && is_enabled == Some(true)) {
                return Err(super::failed("systemctl", &format!("Unit {unit} is {}", state.as_str())));
            }
        }
        for unit in units {
            if is_enabled == Some(true) {
                self.enabled.insert((*unit).to_owned());
            } else {
                self.enabled.remove(*unit);
            }
        }
        Ok(())
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let files = self.tree.items.iter().map(|(path, item)| {
            let content = match &item.content {
                Content::File(bytes) => format!("file {:?}", String::from_utf8_lossy(bytes)),
                Content::Link(target) => format!("link {target}"),
                Content::Directory => "directory".to_owned(),
            };
            let it = item.attributes;
            (path.clone(), format!("{:o} {}:{} {content}", it.mode, it.uid, it.gid))
        });
        let loaded = self.services.iter().map(|(unit, service)| {
            let texts = service.loaded.iter();
            (unit.clone(), texts.map(|(path, it)| (path.clone(), String::from_utf8_lossy(it).into_owned())).collect())
        });
        Snapshot {
            files: files.collect(),
            enabled: self.enabled.clone(),
            passwords: self.users.iter().map(|(name, user)| (name.clone(), user.password.clone())).collect(),
            boot: (self.boot.image.clone(), self.boot.arguments.clone(), self.boot.kernel, self.boot.packages.clone()),
            staged: self.staged.clone(),
            loaded: loaded.collect(),
        }
    }
}
