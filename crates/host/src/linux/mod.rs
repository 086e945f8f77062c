//! A Linux machine: files below a directory handle, everything else through the machine's own programs.
//!
//! Units go through `systemctl`. Systemd's D-Bus interface would save a process per call; it would stand here, behind
//! [`Programs`]'s neighbours in `units.rs`, and nothing above would notice.

mod boot;
mod files;
mod folder;
mod installed;
mod programs;
mod units;
mod users;
mod watch;

use std::path::Path;

pub use folder::FolderHost;
pub use programs::{Machine, Programs};

use crate::{Attributes, Boot, BootChange, Changed, Entry, Host, HostError, Output, UnitState, User, Vendor, Watch};
use files::Files;

/// A Linux machine.
pub struct LinuxHost {
    files: Files,
    programs: Box<dyn Programs>,
}

impl LinuxHost {
    /// The machine that we run on. One whose root filesystem is elsewhere is a [`FolderHost`].
    pub fn open() -> Result<Self, HostError> {
        Self::with_programs(Path::new("/"), Box::new(Machine::default()))
    }

    /// A machine with its root filesystem here, and programs run by somebody else.
    pub fn with_programs(root: &Path, programs: Box<dyn Programs>) -> Result<Self, HostError> {
        Ok(LinuxHost { files: Files::open(root)?, programs })
    }

    /// Runs a program that must end well.
    fn must(&self, program: &str, arguments: &[&str]) -> Result<Output, HostError> {
        let output = self.programs.run(program, arguments)?;
        if output.is_success() {
            return Ok(output);
        }
        Err(programs::failure(program, arguments, &output))
    }

    /// Whether the machine has a program at one of the usual places.
    fn has(&self, program: &str) -> Result<bool, HostError> {
        for folder in ["/usr/bin", "/usr/sbin", "/bin", "/sbin"] {
            if self.files.entry(&format!("{folder}/{program}"))?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Host for LinuxHost {
    fn entry(&self, path: &str) -> Result<Option<Entry>, HostError> {
        self.files.entry(path)
    }

    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, HostError> {
        self.files.read(path)
    }

    fn names(&self, directory: &str) -> Result<Vec<String>, HostError> {
        self.files.names(directory)
    }

    fn write(&self, path: &str, bytes: &[u8], attributes: Attributes) -> Result<(), HostError> {
        let is_new = self.files.write(path, bytes, attributes)?;
        if is_new { self.label(path) } else { Ok(()) }
    }

    fn write_through(&self, path: &str, bytes: &[u8], attributes: Attributes) -> Result<(), HostError> {
        let is_new = self.files.write_through(path, bytes, attributes)?;
        if is_new { self.label(path) } else { Ok(()) }
    }

    fn symlink(&self, path: &str, target: &str) -> Result<(), HostError> {
        self.files.symlink(path, target)?;
        self.label(path)
    }

    fn make_directory(&self, path: &str, attributes: Attributes) -> Result<(), HostError> {
        if self.files.make_directory(path, attributes)? { self.label(path) } else { Ok(()) }
    }

    fn set_attributes(&self, path: &str, attributes: Attributes) -> Result<(), HostError> {
        self.files.set_attributes(path, attributes)
    }

    fn keep(&self, from: &str, to: &str) -> Result<(), HostError> {
        self.files.keep(from, to)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), HostError> {
        self.files.rename(from, to)
    }

    fn remove(&self, path: &str) -> Result<(), HostError> {
        self.files.remove(path)
    }

    fn remove_directory(&self, path: &str) -> Result<(), HostError> {
        self.files.remove_directory(path)
    }

    fn sync(&self) -> Result<(), HostError> {
        self.files.sync()
    }

    fn vendor(&self, path: &str) -> Result<Vendor, HostError> {
        if self.files.is_of_image(path)? {
            return Ok(Vendor::Owned);
        }
        for (program, option) in [("rpm", "-qf"), ("dpkg", "-S")] {
            if self.has(program)? {
                let is_owned = self.programs.run(program, &[option, path])?.is_success();
                return Ok(if is_owned { Vendor::Owned } else { Vendor::Foreign });
            }
        }
        Ok(Vendor::Unknown)
    }

    fn user(&self, name: &str) -> Result<Option<User>, HostError> {
        users::user(&self.files, name)
    }

    fn group(&self, name: &str) -> Result<Option<u32>, HostError> {
        users::group(&self.files, name)
    }

    fn set_password(&self, user: &str, hash: &str) -> Result<(), HostError> {
        // The hash must not stand in an error: name the program only.
        let output = self.programs.run("usermod", &["-p", hash, user])?;
        if output.is_success() {
            return Ok(());
        }
        Err(programs::failure("usermod", &["-p", "…", user], &output))
    }

    fn unit_state(&self, unit: &str) -> Result<UnitState, HostError> {
        units::state(self, unit)
    }

    fn enable(&self, units: &[&str]) -> Result<(), HostError> {
        units::all(self, "enable", units)
    }

    fn disable(&self, units: &[&str]) -> Result<(), HostError> {
        units::all(self, "disable", units)
    }

    fn preset(&self, units: &[&str]) -> Result<(), HostError> {
        units::all(self, "preset", units)
    }

    fn daemon_reload(&self) -> Result<(), HostError> {
        self.must("systemctl", &["daemon-reload"]).map(drop)
    }

    fn reload(&self, unit: &str) -> Result<(), HostError> {
        self.must("systemctl", &["reload", "--", unit]).map(drop)
    }

    fn restart(&self, unit: &str) -> Result<(), HostError> {
        let result = self.must("systemctl", &["restart", "--", unit]);
        // Hosts without that unit have the program behind it.
        if result.is_err() && unit == "coreos-update-ca-trust.service" && self.has("update-ca-trust")? {
            return self.must("update-ca-trust", &[]).map(drop);
        }
        result.map(drop)
    }

    fn is_active(&self, unit: &str) -> Result<bool, HostError> {
        Ok(self.programs.run("systemctl", &["is-active", "--quiet", "--", unit])?.is_success())
    }

    fn boot(&self) -> Result<Boot, HostError> {
        boot::booted(self)
    }

    fn stage(&self, change: &BootChange) -> Result<(), HostError> {
        boot::stage(self, change)
    }

    fn unstage(&self, change: &BootChange) -> Result<(), HostError> {
        boot::unstage(self, change)
    }

    fn reboot(&self, reason: &str) -> Result<(), HostError> {
        // A unit of its own, so that the end of our own service does not end it.
        let description = format!("--description=seaworthy: {reason}");
        let unit = "--unit=machine-config-daemon-reboot";
        self.must("systemd-run", &[unit, "--collect", &description, "systemctl", "reboot"]).map(drop)
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<Output, HostError> {
        self.programs.run(program, arguments)
    }

    fn watch(&self, paths: &[String], changed: Changed) -> Result<Watch, HostError> {
        watch::watch(&self.files, paths, changed)
    }
}

impl LinuxHost {
    /// Gives a new file the label that the policy has for its place; files that are replaced keep theirs.
    fn label(&self, path: &str) -> Result<(), HostError> {
        if self.files.entry("/sys/fs/selinux/enforce")?.is_none() || !self.has("restorecon")? {
            return Ok(());
        }
        self.must("restorecon", &["-F", "--", path]).map(drop)
    }
}
