//! Host trait: files, accounts, units and boots of a machine.

use crate::{Attributes, Boot, BootChange, ChangeCallback, Entry, EntryKind, HostError, UnitState, User, Watch};

/// Whether a file came with the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vendor {
    /// A package or the image has it.
    Owned,
    /// There is a package database, and no package has it.
    Foreign,
    /// There is no such information.
    Unknown,
}

/// The result of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// The exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Output {
    pub fn is_success(&self) -> bool {
        self.code == Some(0)
    }
}

/// A machine.
pub trait Host: Send + Sync {
    /// The entry at a path, if any; a link at its end is not followed.
    fn entry(&self, path: &str) -> Result<Option<Entry>, HostError>;

    /// The content of a regular file; `None` if there is no entry. Another type of entry is an error.
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, HostError>;

    /// Whether there is a regular file with exactly this content. No more of the file is read than needed.
    fn has_content(&self, path: &str, bytes: &[u8]) -> Result<bool, HostError>;

    /// Whether the regular files at two paths have the same content, or are one. Neither is held in memory.
    fn has_same_content(&self, path: &str, other: &str) -> Result<bool, HostError>;

    /// The names in a directory, sorted; none if there is no directory.
    fn names(&self, directory: &str) -> Result<Vec<String>, HostError>;

    /// Writes a file atomically: readers see the old entry or the whole file. An old entry, a link included, is replaced. Missing
    /// parent directories are created (0755, root).
    fn write(&self, path: &str, bytes: &[u8], attributes: Attributes) -> Result<(), HostError>;

    /// The same, and it survives a power cut as soon as the call has returned.
    fn write_through(&self, path: &str, bytes: &[u8], attributes: Attributes) -> Result<(), HostError>;

    /// Creates a link; an old entry is replaced.
    fn symlink(&self, path: &str, target: &str) -> Result<(), HostError>;

    /// Creates a directory with these attributes, or sets those of an existing one.
    fn make_directory(&self, path: &str, attributes: Attributes) -> Result<(), HostError>;

    /// Sets the attributes of an entry that is not a link.
    fn set_attributes(&self, path: &str, attributes: Attributes) -> Result<(), HostError>;

    /// Keeps a file or link at a second path, with its attributes; an old entry is replaced. The two may be hard links of one
    /// file: the daemon changes neither in place.
    fn keep(&self, from: &str, to: &str) -> Result<(), HostError>;

    /// Copies a file or link, so that a later change in place of one does not change the other.
    fn copy(&self, from: &str, to: &str) -> Result<(), HostError>;

    /// Moves a file; an old entry at the new path is replaced.
    fn rename(&self, from: &str, to: &str) -> Result<(), HostError>;

    /// Removes a file or a link, if there is one; a directory is an error.
    fn remove(&self, path: &str) -> Result<(), HostError>;

    /// Removes a directory with its contents, if there is one.
    fn remove_directory(&self, path: &str) -> Result<(), HostError>;

    /// Makes all changes so far, by any process, survive a power cut.
    fn sync(&self) -> Result<(), HostError>;

    /// Whether a file came with the operating system.
    fn vendor(&self, path: &str) -> Result<Vendor, HostError>;

    /// An account, by name.
    fn user(&self, name: &str) -> Result<Option<User>, HostError>;

    /// A group ID, by name.
    fn group(&self, name: &str) -> Result<Option<u32>, HostError>;

    /// Sets the hash of an account's password.
    fn set_password(&self, user: &str, hash: &str) -> Result<(), HostError>;

    fn unit_state(&self, unit: &str) -> Result<UnitState, HostError>;

    fn enable(&self, units: &[&str]) -> Result<(), HostError>;

    fn disable(&self, units: &[&str]) -> Result<(), HostError>;

    /// Enables or disables units by the vendor's presets.
    fn preset(&self, units: &[&str]) -> Result<(), HostError>;

    /// Makes systemd read its units again.
    fn daemon_reload(&self) -> Result<(), HostError>;

    fn reload(&self, unit: &str) -> Result<(), HostError>;

    fn restart(&self, unit: &str) -> Result<(), HostError>;

    /// Applies sysctl settings, given as lines of a file below `sysctl.d`; `path` is the file that they are from.
    fn apply_settings(&self, path: &str, lines: &str) -> Result<(), HostError>;

    /// Whether a service has failed, or is restarted repeatedly because it fails. One that has completed has not failed.
    fn has_failed(&self, unit: &str) -> Result<bool, HostError>;

    fn boot(&self) -> Result<Boot, HostError>;

    /// Stages a change of the next boot, in place of an earlier one.
    fn stage(&self, change: &BootChange) -> Result<(), HostError>;

    /// Undoes [`stage`](Host::stage), or a part of it.
    fn unstage(&self, change: &BootChange) -> Result<(), HostError>;

    /// Requests a reboot. It returns before that happens.
    fn reboot(&self, reason: &str) -> Result<(), HostError>;

    fn run(&self, program: &str, arguments: &[&str]) -> Result<Output, HostError>;

    /// Calls back after changes at these paths by any process, until the returned watch is dropped.
    fn watch(&self, paths: &[String], changed: ChangeCallback) -> Result<Watch, HostError>;

    /// Whether the machine is booted, so that services can be reloaded and restarted.
    fn is_running(&self) -> bool {
        true
    }

    fn exists(&self, path: &str) -> Result<bool, HostError> {
        Ok(self.entry(path)?.is_some())
    }

    /// Whether there is a link to this target.
    fn is_link_to(&self, path: &str, target: &str) -> Result<bool, HostError> {
        Ok(matches!(self.entry(path)?, Some(Entry { kind: EntryKind::Link(to), .. }) if to == target))
    }
}

impl<H: Host + ?Sized> Host for std::sync::Arc<H> {
    fn entry(&self, path: &str) -> Result<Option<Entry>, HostError> {
        (**self).entry(path)
    }
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, HostError> {
        (**self).read(path)
    }
    fn has_content(&self, path: &str, bytes: &[u8]) -> Result<bool, HostError> {
        (**self).has_content(path, bytes)
    }
    fn has_same_content(&self, path: &str, other: &str) -> Result<bool, HostError> {
        (**self).has_same_content(path, other)
    }
    fn names(&self, directory: &str) -> Result<Vec<String>, HostError> {
        (**self).names(directory)
    }
    fn write(&self, path: &str, bytes: &[u8], attributes: Attributes) -> Result<(), HostError> {
        (**self).write(path, bytes, attributes)
    }
    fn write_through(&self, path: &str, bytes: &[u8], attributes: Attributes) -> Result<(), HostError> {
        (**self).write_through(path, bytes, attributes)
    }
    fn symlink(&self, path: &str, target: &str) -> Result<(), HostError> {
        (**self).symlink(path, target)
    }
    fn make_directory(&self, path: &str, attributes: Attributes) -> Result<(), HostError> {
        (**self).make_directory(path, attributes)
    }
    fn set_attributes(&self, path: &str, attributes: Attributes) -> Result<(), HostError> {
        (**self).set_attributes(path, attributes)
    }
    fn keep(&self, from: &str, to: &str) -> Result<(), HostError> {
        (**self).keep(from, to)
    }
    fn copy(&self, from: &str, to: &str) -> Result<(), HostError> {
        (**self).copy(from, to)
    }
    fn rename(&self, from: &str, to: &str) -> Result<(), HostError> {
        (**self).rename(from, to)
    }
    fn remove(&self, path: &str) -> Result<(), HostError> {
        (**self).remove(path)
    }
    fn remove_directory(&self, path: &str) -> Result<(), HostError> {
        (**self).remove_directory(path)
    }
    fn sync(&self) -> Result<(), HostError> {
        (**self).sync()
    }
    fn vendor(&self, path: &str) -> Result<Vendor, HostError> {
        (**self).vendor(path)
    }
    fn user(&self, name: &str) -> Result<Option<User>, HostError> {
        (**self).user(name)
    }
    fn group(&self, name: &str) -> Result<Option<u32>, HostError> {
        (**self).group(name)
    }
    fn set_password(&self, user: &str, hash: &str) -> Result<(), HostError> {
        (**self).set_password(user, hash)
    }
    fn unit_state(&self, unit: &str) -> Result<UnitState, HostError> {
        (**self).unit_state(unit)
    }
    fn enable(&self, units: &[&str]) -> Result<(), HostError> {
        (**self).enable(units)
    }
    fn disable(&self, units: &[&str]) -> Result<(), HostError> {
        (**self).disable(units)
    }
    fn preset(&self, units: &[&str]) -> Result<(), HostError> {
        (**self).preset(units)
    }
    fn daemon_reload(&self) -> Result<(), HostError> {
        (**self).daemon_reload()
    }
    fn reload(&self, unit: &str) -> Result<(), HostError> {
        (**self).reload(unit)
    }
    fn restart(&self, unit: &str) -> Result<(), HostError> {
        (**self).restart(unit)
    }
    fn apply_settings(&self, path: &str, lines: &str) -> Result<(), HostError> {
        (**self).apply_settings(path, lines)
    }
    fn has_failed(&self, unit: &str) -> Result<bool, HostError> {
        (**self).has_failed(unit)
    }
    fn boot(&self) -> Result<Boot, HostError> {
        (**self).boot()
    }
    fn stage(&self, change: &BootChange) -> Result<(), HostError> {
        (**self).stage(change)
    }
    fn unstage(&self, change: &BootChange) -> Result<(), HostError> {
        (**self).unstage(change)
    }
    fn reboot(&self, reason: &str) -> Result<(), HostError> {
        (**self).reboot(reason)
    }
    fn run(&self, program: &str, arguments: &[&str]) -> Result<Output, HostError> {
        (**self).run(program, arguments)
    }
    fn watch(&self, paths: &[String], changed: ChangeCallback) -> Result<Watch, HostError> {
        (**self).watch(paths, changed)
    }
    fn is_running(&self) -> bool {
        (**self).is_running()
    }
}
