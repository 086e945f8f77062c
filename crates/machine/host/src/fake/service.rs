//! Services of a machine in memory: the files that each has read, so that a test sees whether a change is in effect.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::state::State;
use super::tree::{Content, TreeEntry};
use crate::{Attributes, HostError};

#[derive(Clone)]
pub(super) struct Service {
    pub(super) reads: Vec<String>,
    pub(super) loaded: BTreeMap<String, Arc<[u8]>>,
    /// Whether it fails whenever it is started.
    pub(super) has_failed: bool,
}

/// The services that every machine has, and the paths that they read.
pub(super) const DEFAULT_SERVICES: [(&str, &[&str]); 8] = [
    ("crio.service", &["/etc/containers", "/etc/crio", "/etc/pki/ca-trust"]),
    ("kubelet.service", &["/etc/kubernetes"]),
    ("chronyd.service", &["/etc/chrony.conf", "/etc/chrony.d"]),
    ("coreos-update-ca-trust.service", &["/etc/pki/ca-trust"]),
    (SYSCTL, &["/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d"]),
    ("systemd-modules-load.service", &["/etc/modules-load.d"]),
    ("systemd-udevd.service", &["/etc/udev/rules.d"]),
    ("sshd.service", &["/etc/ssh"]),
];

/// Applies all sysctl settings.
const SYSCTL: &str = "systemd-sysctl.service";
/// The names of loaded modules.
const MODULES: &str = "/proc/modules";

impl State {
    pub(super) fn add_service(&mut self, unit: &str, reads: &[&str]) {
        let reads = reads.iter().map(|path| (*path).to_owned()).collect();
        self.services.insert(unit.to_owned(), Service { reads, loaded: BTreeMap::new(), has_failed: false });
        // It is there, so this cannot fail.
        let _ = self.load(unit);
    }

    /// A service reads its files.
    pub(super) fn load(&mut self, unit: &str) -> Result<(), HostError> {
        let own = format!("/etc/systemd/system/{unit}");
        if !self.services.contains_key(unit) && self.tree.get(&own).is_some() {
            self.services
                .insert(unit.to_owned(), Service { reads: vec![own], loaded: BTreeMap::new(), has_failed: false });
        }
        let Some(service) = self.services.get_mut(unit) else {
            return Err(super::failed("systemctl", &format!("Unit {unit} not found")));
        };
        service.loaded.clear();
        for read in &service.reads {
            for path in self.tree.below(read) {
                if let Some(TreeEntry { content: Content::File(bytes), .. }) = self.tree.items.get(path) {
                    service.loaded.insert(path.to_owned(), Arc::clone(bytes));
                }
            }
        }
        let loaded = service.loaded.clone();
        match unit {
            SYSCTL => self.apply_all_settings(&loaded),
            "systemd-modules-load.service" => self.load_modules(&loaded),
            _ => {}
        }
        Ok(())
    }

    /// In the order of file names; of several files with one name the one in the first folder counts.
    fn apply_all_settings(&mut self, files: &BTreeMap<String, Arc<[u8]>>) {
        let mut by_name: BTreeMap<&str, &[u8]> = BTreeMap::new();
        let folders = self.services.get(SYSCTL).map(|service| service.reads.clone()).unwrap_or_default();
        for folder in &folders {
            for (path, bytes) in files.iter().filter(|(path, _)| path.starts_with(folder)) {
                by_name.entry(&path[folder.len()..]).or_insert(bytes);
            }
        }
        for bytes in by_name.into_values() {
            self.set_values(&String::from_utf8_lossy(bytes));
        }
    }

    /// Applies some lines of a file.
    pub(super) fn apply_settings(&mut self, path: &str, lines: &str) {
        self.set_values(lines);
        let content = match self.tree.get(path).map(|item| &item.content) {
            Some(Content::File(bytes)) => Some(Arc::clone(bytes)),
            _ => None,
        };
        let Some(service) = self.services.get_mut(SYSCTL) else { return };
        match content {
            Some(bytes) => drop(service.loaded.insert(path.to_owned(), bytes)),
            None => drop(service.loaded.remove(path)),
        }
    }

    fn set_values(&mut self, lines: &str) {
        for line in lines.lines() {
            let Some((key, value)) = line.split_once('=') else { continue };
            let path = format!("/proc/sys/{}", key.trim().replace('.', "/"));
            if self.settings.contains_key(&path) {
                let text = format!("{}\n", value.trim());
                self.tree.put(&path, TreeEntry::file(text.as_bytes(), Attributes::of_root(0o644)));
            }
        }
    }

    fn load_modules(&mut self, files: &BTreeMap<String, Arc<[u8]>>) {
        let mut text = match self.tree.get(MODULES).map(|item| &item.content) {
            Some(Content::File(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
            _ => String::new(),
        };
        for bytes in files.values() {
            for name in String::from_utf8_lossy(bytes).lines().map(str::trim) {
                let is_loaded = text.lines().any(|line| line.split(' ').next() == Some(name));
                if !name.is_empty() && !name.starts_with('#') && !is_loaded {
                    text.push_str(name);
                    text.push_str(" 1 0 - Live\n");
                }
            }
        }
        self.tree.put(MODULES, TreeEntry::file(text.as_bytes(), Attributes::of_root(0o444)));
    }

    /// Resets the running state, as a boot does.
    pub(super) fn start_all(&mut self) {
        let settings: Vec<(String, String)> = self.settings.clone().into_iter().collect();
        for (path, value) in settings {
            self.tree.put(&path, TreeEntry::file(format!("{value}\n").as_bytes(), Attributes::of_root(0o644)));
        }
        self.tree.items.remove(MODULES);
        self.services.retain(|unit, _| DEFAULT_SERVICES.iter().any(|(known, _)| known == unit));
        // Units of the administrator are started if they are enabled.
        let own = self.enabled.iter().filter(|unit| self.unit_state(unit) == crate::UnitState::Enabled);
        let units: BTreeSet<String> = self.services.keys().chain(own).cloned().collect();
        for unit in units {
            let _ = self.load(&unit);
        }
    }
}
