//! Machine in memory, for tests and simulated fleets.
//!
//! It has the state of a real one (files, enabled units, passwords, the boot and the staged boot, the files that each running
//! service has read), records every call that changes something, and can be made to fail or to lose power at each of them.
//! It is cheap: contents are shared, so a fleet of hundreds fits into one process.

mod power;
mod service;
mod state;
mod tree;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use power::Unsynced;
pub use state::Snapshot;

use crate::{
    Attributes, Boot, BootChange, BootDriver, ChangeCallback, Entry, EntryKind, Host, HostError, Output, UnitState,
    User, Vendor, Watch, checked,
};
use state::{CallFailure, DiskLimit, State};
use tree::{Content, TreeEntry};

/// A machine in memory. Clones are the same machine.
#[derive(Clone)]
pub struct FakeHost {
    state: Arc<Mutex<State>>,
}

impl FakeHost {
    /// A machine that has just booted: an empty root, the accounts `root` and `core`, and the usual services.
    pub fn new(name: &str) -> Self {
        FakeHost { state: Arc::new(Mutex::new(State::new(name))) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call.
    fn read_call(&self) -> Result<MutexGuard<'_, State>, HostError> {
        let mut state = self.lock();
        state.call_count += 1;
        if state.is_off { Err(HostError::PoweredOff) } else { Ok(state) }
    }

    /// Counts and records a call that changes something, and fails it if a test has set that.
    fn write_call(&self, verb: &'static str, what: &str) -> Result<MutexGuard<'_, State>, HostError> {
        let mut state = self.read_call()?;
        if state.cut_at == Some(state.write_calls) {
            state.is_off = true;
            return Err(HostError::PoweredOff);
        }
        state.write_calls += 1;
        let call = format!("{verb} {what}");
        if let Some(disk_limit) = &mut state.disk_limit {
            disk_limit.is_full |= call.starts_with(&disk_limit.from);
            // A hard link needs no space.
            if disk_limit.is_full && matches!(verb, "write" | "copy" | "mkdir") {
                state.calls.push(format!("{call}: failed"));
                return Err(HostError::file(verb, what, "No space left on device"));
            }
        }
        if let Some(at) = state.faults.iter().position(|fault| call.starts_with(&fault.call)) {
            let why = state.faults[at].why.clone();
            if let Some(left) = &mut state.faults[at].left {
                *left -= 1;
                if *left == 0 {
                    state.faults.remove(at);
                }
            }
            state.calls.push(format!("{call}: failed"));
            return Err(match verb {
                "write" | "remove" | "keep" | "copy" | "symlink" | "rename" | "mkdir" | "set" => {
                    HostError::file(verb, what, why)
                }
                _ => HostError::Command { line: call, status: "exit code 1".to_owned(), message: why },
            });
        }
        state.calls.push(call);
        Ok(state)
    }

    /// The content of a file, if there is one.
    fn file(&self, path: &str) -> Result<Option<Arc<[u8]>>, HostError> {
        checked(path)?;
        match self.read_call()?.tree.get(path).map(|item| &item.content) {
            None => Ok(None),
            Some(Content::File(bytes)) => Ok(Some(Arc::clone(bytes))),
            Some(Content::Link(_)) => Err(HostError::file("read", path, "it is a link")),
            Some(Content::Directory) => Err(HostError::file("read", path, "it is not a regular file")),
        }
    }

    // === Control by a test or a fleet ===

    /// Makes calls that begin with this text fail: `write /etc/a`, `reload crio.service`.
    pub fn fail(&self, call: &str, why: &str) {
        self.lock().faults.push(CallFailure { call: call.to_owned(), why: why.to_owned(), left: None });
    }

    /// The same for the next calls only.
    pub fn fail_times(&self, call: &str, why: &str, times: u32) {
        self.lock().faults.push(CallFailure { call: call.to_owned(), why: why.to_owned(), left: Some(times) });
    }

    /// Makes the disk full from this call on, itself included.
    pub fn fill_from(&self, call: &str) {
        self.lock().disk_limit = Some(DiskLimit { from: call.to_owned(), is_full: false });
    }

    /// Removes all causes of failures.
    pub fn clear_faults(&self) {
        let mut state = self.lock();
        state.faults.clear();
        state.disk_limit = None;
    }

    /// The calls that changed something, or failed to.
    pub fn calls(&self) -> Vec<String> {
        self.lock().calls.clone()
    }

    /// Forgets the calls.
    pub fn forget_calls(&self) {
        self.lock().calls.clear();
    }

    /// The number of calls that change nothing.
    pub fn read_calls(&self) -> usize {
        let state = self.lock();
        state.call_count - state.write_calls
    }

    /// The number of bytes that were read of files.
    pub fn bytes_read(&self) -> usize {
        self.lock().bytes_read
    }

    /// The number of calls that change something.
    pub fn write_calls(&self) -> usize {
        self.lock().write_calls
    }

    /// Writes a file, as another process on the machine would.
    pub fn put(&self, path: &str, bytes: &[u8], mode: u32) {
        self.put_owned(path, bytes, Attributes::of_root(mode));
    }

    /// The same with an owner.
    pub fn put_owned(&self, path: &str, bytes: &[u8], attributes: Attributes) {
        let mut state = self.lock();
        state.tree.put(path, TreeEntry::file(bytes, attributes));
        state.sync_path(path);
        drop(state);
        self.notify(path);
    }

    /// Deletes a file, as another process on the machine would.
    pub fn delete_file(&self, path: &str) {
        let mut state = self.lock();
        state.tree.items.remove(path);
        state.sync_path(path);
        drop(state);
        self.notify(path);
    }

    /// Calls the watches of a path.
    fn notify(&self, path: &str) {
        let listening = |watch: &&(BTreeSet<String>, ChangeCallback)| watch.0.contains(path);
        let callbacks: Vec<ChangeCallback> =
            self.lock().watches.values().filter(listening).map(|(_, changed)| Arc::clone(changed)).collect();
        // Not while the machine is locked: a callback may read it.
        callbacks.iter().for_each(|changed| changed());
    }

    /// The number of watches.
    pub fn watches(&self) -> usize {
        self.lock().watches.len()
    }

    /// A file's content as text, for tests.
    pub fn text(&self, path: &str) -> Option<String> {
        match &self.lock().tree.items.get(path)?.content {
            Content::File(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        }
    }

    /// Makes a file one of the operating system's packages.
    pub fn vendor_owns(&self, path: &str) {
        let mut state = self.lock();
        state.has_packages = true;
        state.vendor.insert(path.to_owned());
    }

    /// Adds a package database, so that other files are foreign.
    pub fn has_packages(&self) {
        self.lock().has_packages = true;
    }

    /// Makes a service fail after every start.
    pub fn fail_service(&self, unit: &str) {
        if let Some(service) = self.lock().services.get_mut(unit) {
            service.has_failed = true;
        }
    }

    /// Adds a service that reads everything below these paths when it starts or reloads.
    pub fn add_service(&self, unit: &str, reads: &[&str]) {
        let mut state = self.lock();
        state.add_service(unit, reads);
    }

    /// Adds an account.
    pub fn add_user(&self, name: &str, user: User) {
        let mut state = self.lock();
        state.users.insert(name.to_owned(), user);
        state.synced.users = state.users.clone();
    }

    /// Removes an account.
    pub fn remove_user(&self, name: &str) {
        let mut state = self.lock();
        state.users.remove(name);
        state.synced.users = state.users.clone();
    }

    /// Changes what is booted.
    pub fn change_boot(&self, change: impl FnOnce(&mut Boot)) {
        change(&mut self.lock().boot);
    }

    /// Adds a sysctl setting with its value after a boot.
    pub fn add_setting(&self, path: &str, value: &str) {
        let mut state = self.lock();
        state.settings.insert(path.to_owned(), value.to_owned());
        state.tree.put(path, TreeEntry::file(format!("{value}\n").as_bytes(), Attributes::of_root(0o644)));
        state.sync_path(path);
    }

    /// The content of a file when a service has read it last.
    pub fn loaded(&self, unit: &str, path: &str) -> Option<String> {
        let state = self.lock();
        let bytes = state.services.get(unit)?.loaded.get(path)?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    }

    /// Sets the result of a program.
    pub fn answer(&self, program: &str, output: Output) {
        self.lock().answers.insert(program.to_owned(), output);
    }

    /// The persistent state, and the files that services have read.
    pub fn snapshot(&self) -> Snapshot {
        self.lock().snapshot()
    }
}

impl Host for FakeHost {
    fn entry(&self, path: &str) -> Result<Option<Entry>, HostError> {
        checked(path)?;
        Ok(self.read_call()?.tree.get(path).map(TreeEntry::entry))
    }

    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, HostError> {
        let bytes = self.file(path)?;
        self.lock().bytes_read += bytes.as_ref().map_or(0, |bytes| bytes.len());
        Ok(bytes.map(|bytes| bytes.to_vec()))
    }

    fn has_content(&self, path: &str, bytes: &[u8]) -> Result<bool, HostError> {
        let Some(found) = self.file(path)?.filter(|found| found.len() == bytes.len()) else { return Ok(false) };
        self.lock().bytes_read += found.len();
        Ok(found[..] == *bytes)
    }

    fn has_same_content(&self, path: &str, other: &str) -> Result<bool, HostError> {
        let (Some(one), Some(two)) = (self.file(path)?, self.file(other)?) else { return Ok(false) };
        Ok(one == two)
    }

    fn names(&self, directory: &str) -> Result<Vec<String>, HostError> {
        checked(directory)?;
        Ok(self.read_call()?.tree.names(directory))
    }

    fn write(&self, path: &str, bytes: &[u8], attributes: Attributes) -> Result<(), HostError> {
        checked(path)?;
        self.write_call("write", path)?.tree.place(path, TreeEntry::file(bytes, attributes), "write")
    }

    fn write_through(&self, path: &str, bytes: &[u8], attributes: Attributes) -> Result<(), HostError> {
        checked(path)?;
        let mut state = self.write_call("write", path)?;
        state.tree.place(path, TreeEntry::file(bytes, attributes), "write")?;
        let at = state.tree.resolved(path);
        state.sync_path(&at);
        Ok(())
    }

    fn symlink(&self, path: &str, target: &str) -> Result<(), HostError> {
        checked(path)?;
        self.write_call("symlink", path)?.tree.place(path, TreeEntry::link(target), "link")
    }

    fn make_directory(&self, path: &str, attributes: Attributes) -> Result<(), HostError> {
        checked(path)?;
        let mut state = self.write_call("mkdir", path)?;
        match state.tree.get(path).map(TreeEntry::entry) {
            Some(Entry { kind: EntryKind::Directory, .. }) | None => {}
            Some(_) => return Err(HostError::file("make directory", path, "Not a directory")),
        }
        let at = state.tree.resolved(path);
        state.tree.put(&at, TreeEntry { content: Content::Directory, attributes });
        Ok(())
    }

    fn set_attributes(&self, path: &str, attributes: Attributes) -> Result<(), HostError> {
        checked(path)?;
        let mut state = self.write_call("set", path)?;
        let at = state.tree.resolved(path);
        match state.tree.items.get_mut(&at) {
            Some(item) => item.attributes = attributes,
            None => return Err(HostError::file("set the attributes of", path, "No such file or directory")),
        }
        Ok(())
    }

    fn keep(&self, from: &str, to: &str) -> Result<(), HostError> {
        checked(from)?;
        checked(to)?;
        let mut state = self.write_call("keep", &format!("{from} {to}"))?;
        let Some(item) = state.tree.get(from).cloned() else {
            return Err(HostError::file("keep", from, "No such file or directory"));
        };
        state.tree.place(to, item, "keep")
    }

    fn copy(&self, from: &str, to: &str) -> Result<(), HostError> {
        checked(from)?;
        checked(to)?;
        let mut state = self.write_call("copy", &format!("{from} {to}"))?;
        let Some(item) = state.tree.get(from).cloned() else {
            return Err(HostError::file("copy", from, "No such file or directory"));
        };
        state.tree.place(to, item, "write")
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), HostError> {
        checked(from)?;
        checked(to)?;
        let mut state = self.write_call("rename", &format!("{from} {to}"))?;
        let at = state.tree.resolved(from);
        let Some(item) = state.tree.items.remove(&at) else {
            return Err(HostError::file("move", from, "No such file or directory"));
        };
        state.tree.place(to, item, "move")
    }

    fn remove(&self, path: &str) -> Result<(), HostError> {
        checked(path)?;
        let mut state = self.write_call("remove", path)?;
        if matches!(state.tree.get(path), Some(TreeEntry { content: Content::Directory, .. })) {
            return Err(HostError::file("remove", path, "Is a directory"));
        }
        let at = state.tree.resolved(path);
        state.tree.items.remove(&at);
        Ok(())
    }

    fn remove_directory(&self, path: &str) -> Result<(), HostError> {
        checked(path)?;
        // Each name is removed by itself, so a power cut may leave some of them.
        let below: Vec<String> = self.read_call()?.tree.below(path).map(str::to_owned).collect();
        for name in below.iter().rev() {
            self.write_call("remove", name)?.tree.items.remove(name);
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), HostError> {
        self.write_call("sync", "")?.sync_all();
        Ok(())
    }

    fn vendor(&self, path: &str) -> Result<Vendor, HostError> {
        let state = self.read_call()?;
        Ok(match (state.has_packages, state.vendor.contains(path)) {
            (false, _) => Vendor::Unknown,
            (true, true) => Vendor::Owned,
            (true, false) => Vendor::Foreign,
        })
    }

    fn user(&self, name: &str) -> Result<Option<User>, HostError> {
        Ok(self.read_call()?.users.get(name).cloned())
    }

    fn group(&self, name: &str) -> Result<Option<u32>, HostError> {
        Ok(self.read_call()?.users.get(name).map(|user| user.gid))
    }

    fn set_password(&self, user: &str, hash: &str) -> Result<(), HostError> {
        let mut state = self.write_call("password", user)?;
        match state.users.get_mut(user) {
            Some(user) => user.password = hash.to_owned(),
            None => return Err(failed("usermod", &format!("user '{user}' does not exist"))),
        }
        Ok(())
    }

    fn unit_state(&self, unit: &str) -> Result<UnitState, HostError> {
        Ok(self.read_call()?.unit_state(unit))
    }

    fn enable(&self, units: &[&str]) -> Result<(), HostError> {
        self.write_call("enable", &units.join(" "))?.set_enabled(units, Some(true))
    }

    fn disable(&self, units: &[&str]) -> Result<(), HostError> {
        self.write_call("disable", &units.join(" "))?.set_enabled(units, Some(false))
    }

    fn preset(&self, units: &[&str]) -> Result<(), HostError> {
        self.write_call("preset", &units.join(" "))?.set_enabled(units, None)
    }

    fn daemon_reload(&self) -> Result<(), HostError> {
        drop(self.write_call("daemon-reload", "")?);
        Ok(())
    }

    fn reload(&self, unit: &str) -> Result<(), HostError> {
        self.write_call("reload", unit)?.load(unit)
    }

    fn restart(&self, unit: &str) -> Result<(), HostError> {
        self.write_call("restart", unit)?.load(unit)
    }

    fn apply_settings(&self, path: &str, lines: &str) -> Result<(), HostError> {
        self.write_call("settings", path)?.apply_settings(path, lines);
        Ok(())
    }

    fn has_failed(&self, unit: &str) -> Result<bool, HostError> {
        Ok(self.read_call()?.services.get(unit).is_some_and(|service| service.has_failed))
    }

    fn boot(&self) -> Result<Boot, HostError> {
        Ok(self.read_call()?.boot.clone())
    }

    fn stage(&self, change: &BootChange) -> Result<(), HostError> {
        if change.is_empty() {
            return Ok(());
        }
        let mut state = self.write_call("stage", &serde_json::to_string(change).unwrap_or_default())?;
        if state.boot.driver == BootDriver::None {
            return Err(HostError::Unsupported {
                what: "change its next boot".to_owned(),
                why: "it has neither rpm-ostree nor bootc nor GRUB".to_owned(),
            });
        }
        let requested = &state.boot.packages;
        if let Some(package) = change.install.iter().find(|package| requested.contains(package)) {
            return Err(failed("rpm-ostree", &format!("Package/capability '{package}' is already requested")));
        }
        if let Some(package) = change.uninstall.iter().find(|package| !requested.contains(package)) {
            return Err(failed("rpm-ostree", &format!("Package/capability '{package}' is not currently requested")));
        }
        state.staged = Some(change.clone());
        Ok(())
    }

    fn unstage(&self, change: &BootChange) -> Result<(), HostError> {
        if !change.is_empty() {
            self.write_call("unstage", "")?.staged = None;
        }
        Ok(())
    }

    fn reboot(&self, reason: &str) -> Result<(), HostError> {
        self.write_call("reboot", reason)?.is_reboot_requested = true;
        Ok(())
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<Output, HostError> {
        let state = self.write_call("run", &format!("{program} {}", arguments.join(" ")))?;
        Ok(state.answers.get(program).cloned().unwrap_or(Output { code: Some(0), ..Output::default() }))
    }

    fn watch(&self, paths: &[String], changed: ChangeCallback) -> Result<Watch, HostError> {
        let mut state = self.read_call()?;
        state.watched += 1;
        let number = state.watched;
        state.watches.insert(number, (paths.iter().cloned().collect(), changed));
        Ok(Watch::new(WatchGuard { host: self.clone(), number }))
    }
}

/// Ends a watch when it is dropped.
struct WatchGuard {
    host: FakeHost,
    number: u64,
}

impl Drop for WatchGuard {
    fn drop(&mut self) {
        self.host.lock().watches.remove(&self.number);
    }
}

fn failed(program: &str, message: &str) -> HostError {
    HostError::Command { line: program.to_owned(), status: "exit code 1".to_owned(), message: message.to_owned() }
}
