//! Power: cuts and boots of a machine in memory.

use super::FakeHost;
use super::state::State;

/// What becomes of that which no [`sync`](crate::Host::sync) has made safe, when the power is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsynced {
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
        if unsynced == Unsynced::Lost {
            state.enabled = state.synced_enabled.clone();
            state.users = state.synced_users.clone();
        }
        state.staged = None;
        state.boot_again();
    }

    /// Whether somebody has asked for a reboot.
    pub fn is_reboot_asked(&self) -> bool {
        self.lock().is_reboot_asked
    }

    /// Boots in good order, with what was staged.
    pub fn boot_orderly(&self) {
        let mut state = self.lock();
        if let Some(change) = state.staged.take() {
            let boot = &mut state.boot;
            if let Some(image) = change.image {
                boot.image = Some(image);
            }
            for gone in &change.delete {
                if let Some(at) = boot.arguments.iter().position(|argument| argument == gone) {
                    boot.arguments.remove(at);
                }
            }
            boot.arguments.extend(change.append);
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
        self.synced_enabled = self.enabled.clone();
        self.synced_users = self.users.clone();
        self.is_off = false;
        self.is_reboot_asked = false;
        self.cut_at = None;
        let volatile: Vec<String> = self.tree.below("/run").map(str::to_owned).collect();
        for path in volatile {
            self.tree.items.remove(&path);
        }
        self.start_all();
    }
}
