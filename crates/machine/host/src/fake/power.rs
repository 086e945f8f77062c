//! Power: cuts and boots of a machine in memory.

use std::collections::{BTreeSet, hash_map::DefaultHasher};
use std::hash::{Hash as _, Hasher as _};

use super::FakeHost;
use super::state::{State, SyncedState};
use super::tree::{Content, TreeEntry};

/// The result of a power cut for changes that were not [synced](crate::Host::sync).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsynced {
    /// Some changes are there, some are not, and some files are empty. Each number is another mixture.
    Mixed(u64),
    /// All of them had reached the disk.
    Kept,
    /// None of them had.
    Lost,
}

impl FakeHost {
    /// Cuts the power before the n-th call from now on that changes something, counted from 0.
    pub fn cut_at(&self, nth: usize) {
        let mut state = self.lock();
        state.cut_at = Some(state.write_calls + nth);
    }

    /// Cancels a cut that has not happened.
    pub fn cancel_cut(&self) {
        self.lock().cut_at = None;
    }

    /// Whether the power is off.
    pub fn is_off(&self) -> bool {
        self.lock().is_off
    }

    /// Cuts the power now.
    pub fn cut(&self) {
        self.lock().is_off = true;
    }

    /// Boots after a power cut. A staged change is lost, since only an orderly shutdown applies it.
    pub fn power_on(&self, unsynced: Unsynced) {
        let mut state = self.lock();
        match unsynced {
            Unsynced::Kept => {}
            Unsynced::Lost => {
                state.tree = state.synced.tree.clone();
                state.enabled = state.synced.enabled.clone();
                state.users = state.synced.users.clone();
            }
            Unsynced::Mixed(number) => state.mix(number),
        }
        state.staged = None;
        state.boot_again();
    }

    pub fn is_reboot_requested(&self) -> bool {
        self.lock().is_reboot_requested
    }

    /// Makes boots lack a kernel argument from now on, although everything else of the change is applied.
    pub fn lose_argument(&self, argument: &str) {
        self.lock().lost_arguments.insert(argument.to_owned());
    }

    /// Makes boots apply all kernel arguments again.
    pub fn lose_no_argument(&self) {
        self.lock().lost_arguments.clear();
    }

    /// Reboots in an orderly way, with the staged change. It is relative to what is booted: arguments may be doubled.
    pub fn boot_orderly(&self) {
        let mut state = self.lock();
        if let Some(change) = state.staged.take() {
            let lost = state.lost_arguments.clone();
            let boot = &mut state.boot;
            if let Some(image) = change.image {
                boot.image = Some(image);
            }
            for gone in &change.delete {
                if let Some(at) = boot.arguments.iter().position(|argument| argument == gone) {
                    boot.arguments.remove(at);
                }
            }
            boot.arguments.extend(change.append.into_iter().filter(|argument| !lost.contains(argument)));
            if let Some((_, kernel)) = change.kernel {
                boot.kernel = kernel;
            }
            boot.packages.retain(|package| !change.uninstall.contains(package));
            boot.packages.extend(change.install);
        }
        state.boot_again();
    }
}

impl State {
    fn boot_again(&mut self) {
        self.boots += 1;
        let base = self.boot.id.rsplit_once('-').map_or("boot", |(base, _)| base).to_owned();
        self.boot.id = format!("{base}-{}", self.boots);
        self.is_off = false;
        self.is_reboot_requested = false;
        self.cut_at = None;
        let volatile: Vec<String> = self.tree.below("/run").map(str::to_owned).collect();
        for path in volatile {
            self.tree.items.remove(&path);
        }
        self.start_all();
        self.sync_all();
    }

    /// All changes have reached the disk.
    pub(super) fn sync_all(&mut self) {
        self.synced = SyncedState { tree: self.tree.clone(), enabled: self.enabled.clone(), users: self.users.clone() };
    }

    /// The change at a path has reached the disk.
    pub(super) fn sync_path(&mut self, path: &str) {
        match self.tree.items.get(path) {
            Some(item) => self.synced.tree.put(path, item.clone()),
            None => drop(self.synced.tree.items.remove(path)),
        }
    }

    /// Applies, drops or truncates each change that was not synced.
    fn mix(&mut self, number: u64) {
        let fate = |what: &str| {
            let mut hasher = DefaultHasher::new();
            (number, what).hash(&mut hasher);
            hasher.finish() % 3
        };
        let paths: BTreeSet<String> = self.tree.items.keys().chain(self.synced.tree.items.keys()).cloned().collect();
        for path in paths {
            let (now, synced) = (self.tree.items.get(&path).cloned(), self.synced.tree.items.get(&path).cloned());
            if now == synced {
                continue;
            }
            let item = match (fate(&path), now) {
                (0, now) => now,
                (1, Some(TreeEntry { content: Content::File(_), attributes })) => {
                    Some(TreeEntry::file(b"", attributes))
                }
                _ => synced,
            };
            match item {
                Some(item) => self.tree.put(&path, item),
                None => drop(self.tree.items.remove(&path)),
            }
        }
        let units: BTreeSet<String> = self.enabled.union(&self.synced.enabled).cloned().collect();
        self.enabled.retain(|unit| self.synced.enabled.contains(unit) || fate(unit) == 0);
        let lost = units.into_iter().filter(|unit| self.synced.enabled.contains(unit) && fate(unit) != 0);
        self.enabled.extend(lost);
        if fate("passwords") != 0 {
            self.users = self.synced.users.clone();
        }
    }
}
