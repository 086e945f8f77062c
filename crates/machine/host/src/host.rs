//! The trait.

use crate::{Attributes, Boot, BootChange, Changed, Entry, HostError, Kind, UnitState, User, Watch};

/// Whether a file came with the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vendor {
    /// A package has it.
    Owned,
    /// There are packages, and none of them has it.
    Foreign,
    /// Nobody knows.
    Unknown,
}

/// What a program left behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Its exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// What it wrote.
    pub stdout: String,
    /// What it wrote to its error output.
    pub stderr: String,
}

impl Output {
    /// Whether it ended well.
    pub fn is_success(&self) -> bool {
        self.code == Some(0)
    }
}

/// A machine.
pub trait Host: Send + Sync {
    /// What stands at a path, if anything; a link at its end is not followed.
    fn entry(&self, path: &str) -> Result<Option<Entry>, HostError>;

    /// The content of a regular file; `None` if nothing stands there. Anything else that stands there is an error.
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, HostError>;

    /// Whether a regular file stands at a path with exactly this content. However long it is, no more of it is looked at than
    /// that takes.
    fn has_content(&self, path: &str, bytes: &[u8]) -> Result<bool, HostError>;

    /// Whether the regular files at two paths have the same content, or are one. Neither is held in memory.
    fn has_same_content(&self, path: &str, other: &str) -> Result<bool, HostError>;

    /// The names in a directory, sorted; none if there is no directory.
    fn names(&self, directory: &str) -> Result<Vec<String>, HostError>;

    /// Writes a file whole: whoever looks sees what stood there before or all of it. What stood there, a link included, is
    /// replaced. Missing directories above it are made (0755, of root).
    fn write(&self, path: &str, bytes: &[u8], attributes: Attributes) -> Result<(), HostError>;

    /// The same, and it survives a power cut as soon as the call has returned.
    fn write_through(&self, path: &str, bytes: &[u8], attributes: Attributes) -> Result<(), HostError>;

    /// Makes a link, with whatever stood there replaced.
    fn symlink(&self, path: &str, target: &str) -> Result<(), HostError>;

    /// Makes a directory with these attributes, or gives them to the one that is there.
    fn make_directory(&self, path: &str, attributes: Attributes) -> Result<(), HostError>;

    /// Sets attributes of what stands at a path, which is not a link.
    fn set_attributes(&self, path: &str, attributes: Attributes) -> Result<(), HostError>;

    /// Gives a file or link a second place, attributes included, with whatever stood there replaced. The two may be one file
    /// under two names: neither is ever changed in place by us.
    fn keep(&self, from: &str, to: &str) -> Result<(), HostError>;

    /// The same for what stays where it is: whoever changes one of the two in place does not change the other.
    fn copy(&self, from: &str, to: &str) -> Result<(), HostError>;

    /// Moves a file, with whatever stood at its new place replaced.
    fn rename(&self, from: &str, to: &str) -> Result<(), HostError>;

    /// Removes a file or a link; nothing there is fine, a directory is an error.
    fn remove(&self, path: &str) -> Result<(), HostError>;

    /// Removes a directory with all that is in it; nothing there is fine.
    fn remove_directory(&self, path: &str) -> Result<(), HostError>;

    /// Makes everything that was changed so far survive a power cut, whoever has changed it.
    fn sync(&self) -> Result<(), HostError>;

    /// Whether a file came with the operating system.
    fn vendor(&self, path: &str) -> Result<Vendor, HostError>;

    /// An account, by name.
    fn user(&self, name: &str) -> Result<Option<User>, HostError>;

    /// A group's number, by name.
    fn group(&self, name: &str) -> Result<Option<u32>, HostError>;

    /// Sets the hash of an account's password.
    fn set_password(&self, user: &str, hash: &str) -> Result<(), HostError>;

    /// Whether a unit is started at boot.
    fn unit_state(&self, unit: &str) -> Result<UnitState, HostError>;

    /// Has units started at boot.
    fn enable(&self, units: &[&str]) -> Result<(), HostError>;

    /// Has units not started at boot.
    fn disable(&self, units: &[&str]) -> Result<(), HostError>;

    /// Has units started at boot or not, as the vendor wants it.
    fn preset(&self, units: &[&str]) -> Result<(), HostError>;

    /// Has systemd read its units again.
    fn daemon_reload(&self) -> Result<(), HostError>;

    /// Has a service read its configuration again.
    fn reload(&self, unit: &str) -> Result<(), HostError>;

    /// Restarts a service.
    fn restart(&self, unit: &str) -> Result<(), HostError>;

    /// Applies settings of the running kernel, given as lines of a file below `sysctl.d`; `path` is the file that they are from.
    fn apply_settings(&self, path: &str, lines: &str) -> Result<(), HostError>;

    /// Whether a service has failed, or is started over and over because it does. One that has done its work and ended has not.
    fn has_failed(&self, unit: &str) -> Result<bool, HostError>;

    /// What the machine booted.
    fn boot(&self) -> Result<Boot, HostError>;

    /// Prepares the next boot: everything that an earlier call has prepared is forgotten first.
    fn stage(&self, change: &BootChange) -> Result<(), HostError>;

    /// Takes back what [`stage`](Host::stage) has prepared, or part of it.
    fn unstage(&self, change: &BootChange) -> Result<(), HostError>;

    /// Has the machine boot again. It returns before that happens.
    fn reboot(&self, reason: &str) -> Result<(), HostError>;

    /// Runs a program.
    fn run(&self, program: &str, arguments: &[&str]) -> Result<Output, HostError>;

    /// Hears of changes at these paths, whoever makes them, until what is returned is dropped.
    fn watch(&self, paths: &[String], changed: Changed) -> Result<Watch, HostError>;

    /// Whether anything runs on it that could be told of a change.
    fn is_running(&self) -> bool {
        true
    }

    /// Whether something stands at a path.
    fn exists(&self, path: &str) -> Result<bool, HostError> {
        Ok(self.entry(path)?.is_some())
    }

    /// Whether a link at a path points there.
    fn is_link_to(&self, path: &str, target: &str) -> Result<bool, HostError> {
        Ok(matches!(self.entry(path)?, Some(Entry { kind: Kind::Link(to), .. }) if to == target))
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
    fn watch(&self, paths: &[String], changed: Changed) -> Result<Watch, HostError> {
        (**self).watch(paths, changed)
    }
    fn is_running(&self) -> bool {
        (**self).is_running()
    }
}
