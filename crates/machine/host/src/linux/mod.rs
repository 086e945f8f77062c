//! Linux host: files below a directory handle, units over D-Bus, everything else with the machine's own programs.

mod boot;
mod bus;
mod extensions;
mod files;
mod folder;
mod installed;
mod programs;
mod rpm_ostree;
mod units;
mod users;
mod watch;

use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

pub use folder::FolderHost;
pub use programs::{ProgramRunner, SystemPrograms};

use crate::{
    Attributes, Boot, BootChange, ChangeCallback, Entry, Host, HostError, Output, UnitState, User, Vendor, Watch,
};
use boot::BootStatus;
use bus::{Bus, UnitFileAction, UnitJob};
use files::Files;

/// Sysctl settings while they are applied.
const SYSCTL_FILE: &str = "/run/seaworthy/sysctl.conf";

/// A Linux machine.
pub struct LinuxHost {
    files: Files,
    programs: Box<dyn ProgramRunner>,
    /// The bus of systemd and logind; programs replace it where it is unavailable.
    bus: Option<Bus>,
    /// What is booted, with the id of that boot.
    status: Mutex<Option<(String, BootStatus)>>,
}

impl LinuxHost {
    /// The machine of this process. One whose root filesystem is elsewhere is a [`FolderHost`].
    pub fn open() -> Result<Self, HostError> {
        let host = Self::with_programs(Path::new("/"), Box::new(SystemPrograms::default()))?;
        Ok(LinuxHost { bus: Some(Bus::new(None)), ..host })
    }

    /// A machine with its root filesystem in a folder, whose programs are run by `programs`.
    pub fn with_programs(root: &Path, programs: Box<dyn ProgramRunner>) -> Result<Self, HostError> {
        Ok(LinuxHost { files: Files::open(root)?, programs, bus: None, status: Mutex::default() })
    }

    /// The same, with systemd on a bus of this address.
    pub fn with_bus(root: &Path, programs: Box<dyn ProgramRunner>, address: &str) -> Result<Self, HostError> {
        let host = Self::with_programs(root, programs)?;
        Ok(LinuxHost { bus: Some(Bus::new(Some(address))), ..host })
    }

    /// Sets the limit for services that restart or reload over the bus.
    pub fn with_timeout(self, timeout: Duration) -> Self {
        LinuxHost { bus: self.bus.map(|bus| bus.with_timeout(timeout)), ..self }
    }

    /// Runs a program; an exit code other than 0 is an error.
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

    fn has_content(&self, path: &str, bytes: &[u8]) -> Result<bool, HostError> {
        self.files.has_content(path, bytes)
    }

    fn has_same_content(&self, path: &str, other: &str) -> Result<bool, HostError> {
        self.files.has_same_content(path, other)
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

    fn copy(&self, from: &str, to: &str) -> Result<(), HostError> {
        self.files.copy(from, to)
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
        if self.has("rpm")? {
            let output = self.programs.run("rpm", &["-qf", path])?;
            let is_foreign = output.stdout.contains("not owned") || output.stderr.contains("not owned");
            return Ok(match (output.is_success(), is_foreign) {
                (true, _) => Vendor::Owned,
                (false, true) => Vendor::Foreign,
                // A database that is locked or broken has no answer.
                (false, false) => Vendor::Unknown,
            });
        }
        // Many files of Debian are created by package scripts and belong to no package: not being owned has no meaning.
        if self.has("dpkg")? && self.programs.run("dpkg", &["-S", path])?.is_success() {
            return Ok(Vendor::Owned);
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
        // A hash must be neither in an error nor in the list of processes.
        let arguments = ["--encrypted"];
        let output = self.programs.feed("chpasswd", &arguments, format!("{user}:{hash}\n").as_bytes())?;
        if output.is_success() {
            return Ok(());
        }
        let output = Output { stdout: String::new(), stderr: format!("it refuses the password of {user}"), ..output };
        Err(programs::failure("chpasswd", &arguments, &output))
    }

    fn unit_state(&self, unit: &str) -> Result<UnitState, HostError> {
        units::state(self, unit)
    }

    fn enable(&self, units: &[&str]) -> Result<(), HostError> {
        units::all(self, UnitFileAction::Enable, units)
    }

    fn disable(&self, units: &[&str]) -> Result<(), HostError> {
        units::all(self, UnitFileAction::Disable, units)
    }

    fn preset(&self, units: &[&str]) -> Result<(), HostError> {
        units::all(self, UnitFileAction::Preset, units)
    }

    fn daemon_reload(&self) -> Result<(), HostError> {
        units::daemon_reload(self)
    }

    fn reload(&self, unit: &str) -> Result<(), HostError> {
        units::job(self, UnitJob::Reload, unit)
    }

    fn restart(&self, unit: &str) -> Result<(), HostError> {
        let result = units::job(self, UnitJob::Restart, unit);
        // Hosts without that unit have its program.
        if result.is_err() && unit == "coreos-update-ca-trust.service" && self.has("update-ca-trust")? {
            return self.must("update-ca-trust", &[]).map(drop);
        }
        result
    }

    fn apply_settings(&self, _: &str, lines: &str) -> Result<(), HostError> {
        self.write(SYSCTL_FILE, lines.as_bytes(), Attributes::of_root(0o600))?;
        let result = self.apply_file(SYSCTL_FILE);
        self.remove(SYSCTL_FILE)?;
        result
    }

    fn has_failed(&self, unit: &str) -> Result<bool, HostError> {
        units::has_failed(self, unit)
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
        units::reboot(self, reason)
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<Output, HostError> {
        self.programs.run(program, arguments)
    }

    fn watch(&self, paths: &[String], changed: ChangeCallback) -> Result<Watch, HostError> {
        watch::watch(&self.files, paths, changed)
    }
}

impl LinuxHost {
    /// Applies one sysctl file. Systemd's program is preferred, because it supports patterns on all hosts.
    fn apply_file(&self, file: &str) -> Result<(), HostError> {
        for program in ["/usr/lib/systemd/systemd-sysctl", "/lib/systemd/systemd-sysctl"] {
            if self.exists(program)? {
                return self.must(program, &[file]).map(drop);
            }
        }
        if self.has("sysctl")? {
            return self.must("sysctl", &["-p", file]).map(drop);
        }
        Err(HostError::Unsupported {
            what: "apply settings of its kernel".to_owned(),
            why: "it has neither systemd-sysctl nor sysctl".to_owned(),
        })
    }

    /// Sets the SELinux label of a new file; files that are replaced keep theirs.
    fn label(&self, path: &str) -> Result<(), HostError> {
        if self.files.entry("/sys/fs/selinux/enforce")?.is_none() || !self.has("restorecon")? {
            return Ok(());
        }
        self.must("restorecon", &["-F", "--", path]).map(drop)
    }
}
