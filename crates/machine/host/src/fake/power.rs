//! Power: cuts and boots of a machine in memory.

use std::collections::{BTreeSet, hash_map::DefaultHasher};
use std::hash::{Hash as _, Hasher as _};

use super::FakeHost;
use super::state::{Safe, State};
use super::tree::{Content, Item};

/// What becomes of that which no [`sync`](crate::Host::sync) has made safe, when the power is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsynced {
    /// Of some of it the old state is there, of some the new one, and some files are empty. Each number is another mixture.
    Mixed(u64),
    /// It had reached the disk all the same.
    Kept,
    /// It is gone.
    Lost,
}

impl FakeHost {
    /// Cuts the power before the n-th call from now on that changes something, counted from 0.
    pub fn cut_at(&self, nth: usize) {
        let mut state = self.lock();
        state.cut_at = Some(state.acts + nth);
    }

    /// Takes the cut back, if it has not happened.
    pub fn cut_never(&self) {
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

    /// Boots after a power cut. What was staged is gone: it is put in place at an orderly shutdown only.
    pub fn power_on(&self, unsynced: Unsynced) {
        let mut state = self.lock();
        match unsynced {
            Unsynced::Kept => {}
            Unsynced::Lost => {
                state.tree = state.safe.tree.clone();
                state.enabled = state.safe.enabled.clone();
                state.users = state.safe.users.clone();
            }
            Unsynced::Mixed(number) => state.mix(number),
        }
        state.staged = None;
        state.boot_again();
    }

    /// Whether somebody has asked for a reboot.
    pub fn is_reboot_asked(&self) -> bool {
        self.lock().is_reboot_asked
    }

    /// Has no boot bring a kernel argument from now on, although everything else comes with it.
    pub fn lose_argument(&self, argument: &str) {
        self.lock().lost_arguments.insert(argument.to_owned());
    }

    /// Has boots bring all kernel arguments again.
    pub fn lose_no_argument(&self) {
        self.lock().lost_arguments.clear();
    }

    /// Boots in good order, with what was staged. It starts from what is booted: what is staged and there already comes twice.
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
        self.is_reboot_asked = false;
        self.cut_at = None;
        let volatile: Vec<String> = self.tree.below("/run").map(str::to_owned).collect();
        for path in volatile {
            self.tree.items.remove(&path);
        }
        self.start_all();
        self.make_all_safe();
    }

    /// Everything has reached the disk.
    pub(super) fn make_all_safe(&mut self) {
        self.safe = Safe { tree: self.tree.clone(), enabled: self.enabled.clone(), users: self.users.clone() };
    }

    /// What stands at a path, or that nothing does, has reached the disk.
    pub(super) fn make_safe(&mut self, path: &str) {
        match self.tree.items.get(path) {
            Some(item) => self.safe.tree.put(path, item.clone()),
            None => drop(self.safe.tree.items.remove(path)),
        }
    }

    /// Every change that has not reached the disk for certain has its own fate.
    fn mix(&mut self, number: u64) {
        let fate = |what: &str| {
            let mut hasher = DefaultHasher::new();
            (number, what).hash(&mut hasher);
            hasher.finish() % 3
        };
        let paths: BTreeSet<String> = self.tree.items.keys().chain(self.safe.tree.items.keys()).cloned().collect();
        for path in paths {
            let (now, safe) = (self.tree.items.get(&path).cloned(), self.safe.tree.items.get(&path).cloned());
            if now == safe {
                continue;
            }
            let item = match (fate(&path), now) {
                (0, now) => now,
                (1, Some(Item { content: Content::File(_), attributes })) => Some(Item::file(b"", attributes)),
                _ => safe,
            };
            match item {
                Some(item) => self.tree.put(&path, item),
                None => drop(self.tree.items.remove(&path)),
            }
        }
        let units: BTreeSet<String> = self.enabled.union(&self.safe.enabled).cloned().collect();
        self.enabled.retain(|unit| self.safe.enabled.contains(unit) || fate(unit) == 0);
        let lost = units.into_iter().filter(|unit| self.safe.enabled.contains(unit) && fate(unit) != 0);
        self.enabled.extend(lost);
        if fate("passwords") != 0 {
            self.users = self.safe.users.clone();
        }
    }
}
