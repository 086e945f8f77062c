//! Folder host: the root filesystem of a machine that is not running, in a folder. Only files are changed.
//!
//! - No program is started, so neither systemd nor the boot loader of the present machine is affected.
//! - Units are enabled by the links that systemd reads when it starts ([`installed`](super::installed)).
//! - No service runs, so none is reloaded or restarted, and a reboot only changes a number.
//! - Files of the present user count as root's, so that it works without root.

use std::path::Path;

use rustix::process::{getegid, geteuid};

use super::files::Files;
use super::{installed, users, watch};
use crate::{
    Attributes, Boot, BootChange, BootDriver, ChangeCallback, Entry, Host, HostError, Kernel, Output, UnitState, User,
    Vendor, Watch,
};

/// The number of boots.
const BOOTS: &str = "/var/lib/seaworthy/boots";
/// Exists while systemd runs.
const SYSTEMD: &str = "/run/systemd/system";

/// The root filesystem of a machine that is not running.
pub struct FolderHost {
    files: Files,
    /// User and group of this process.
    own: (u32, u32),
}

impl FolderHost {
    /// Opens a folder. That of a running machine is refused, since its services would not be reloaded.
    pub fn open(root: &Path) -> Result<Self, HostError> {
        let own = (geteuid().as_raw(), getegid().as_raw());
        let host = FolderHost { files: Files::open(root)?, own };
        let is_ours = root.canonicalize().is_ok_and(|root| root == Path::new("/"));
        if is_ours || host.exists(SYSTEMD)? {
            let root = root.display();
            return Err(HostError::Unsupported {
                what: format!("be managed through the folder {root}"),
                why: format!(
                    "it is running ({SYSTEMD} exists); run the program inside it, as in `chroot {root} seaworthy daemon`"
                ),
            });
        }
        Ok(host)
    }

    fn real(&self, attributes: Attributes) -> Attributes {
        let of = |id: u32, own: u32| if id == 0 { own } else { id };
        Attributes { uid: of(attributes.uid, self.own.0), gid: of(attributes.gid, self.own.1), ..attributes }
    }

    fn boots(&self) -> Result<u64, HostError> {
        let text = self.files.read(BOOTS)?.unwrap_or_default();
        // An unreadable number counts as 1: it only has to change.
        Ok(String::from_utf8_lossy(&text).trim().parse().unwrap_or(1))
    }
}

impl Host for FolderHost {
    fn entry(&self, path: &str) -> Result<Option<Entry>, HostError> {
        let of = |id: u32, own: u32| if id == own { 0 } else { id };
        let entry = self.files.entry(path)?;
        Ok(entry.map(|entry| Entry { uid: of(entry.uid, self.own.0), gid: of(entry.gid, self.own.1), ..entry }))
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
        self.files.write(path, bytes, self.real(attributes)).map(drop)
    }

    fn write_through(&self, path: &str, bytes: &[u8], attributes: Attributes) -> Result<(), HostError> {
        self.files.write_through(path, bytes, self.real(attributes)).map(drop)
    }

    fn symlink(&self, path: &str, target: &str) -> Result<(), HostError> {
        self.files.symlink(path, target)
    }

    fn make_directory(&self, path: &str, attributes: Attributes) -> Result<(), HostError> {
        self.files.make_directory(path, self.real(attributes)).map(drop)
    }

    fn set_attributes(&self, path: &str, attributes: Attributes) -> Result<(), HostError> {
        self.files.set_attributes(path, self.real(attributes))
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
        Ok(if self.files.is_of_image(path)? { Vendor::Owned } else { Vendor::Unknown })
    }

    fn user(&self, name: &str) -> Result<Option<User>, HostError> {
        users::user(&self.files, name)
    }

    fn group(&self, name: &str) -> Result<Option<u32>, HostError> {
        users::group(&self.files, name)
    }

    fn set_password(&self, user: &str, hash: &str) -> Result<(), HostError> {
        let (text, entry) = users::with_password(&self.files, user, hash)?;
        let Entry { mode, uid, gid, .. } = entry;
        self.files.write(users::SHADOW, text.as_bytes(), Attributes { mode, uid, gid }).map(drop)
    }

    fn unit_state(&self, unit: &str) -> Result<UnitState, HostError> {
        installed::state(&self.files, unit)
    }

    fn enable(&self, units: &[&str]) -> Result<(), HostError> {
        units.iter().try_for_each(|unit| installed::enable(&self.files, unit))
    }

    fn disable(&self, units: &[&str]) -> Result<(), HostError> {
        units.iter().try_for_each(|unit| installed::disable(&self.files, unit))
    }

    fn preset(&self, units: &[&str]) -> Result<(), HostError> {
        units.iter().try_for_each(|unit| installed::preset(&self.files, unit))
    }

    fn daemon_reload(&self) -> Result<(), HostError> {
        Ok(())
    }

    fn reload(&self, _: &str) -> Result<(), HostError> {
        Ok(())
    }

    fn restart(&self, _: &str) -> Result<(), HostError> {
        Ok(())
    }

    fn apply_settings(&self, _: &str, _: &str) -> Result<(), HostError> {
        Ok(())
    }

    fn has_failed(&self, _: &str) -> Result<bool, HostError> {
        Ok(false)
    }

    fn is_running(&self) -> bool {
        false
    }

    fn boot(&self) -> Result<Boot, HostError> {
        Ok(Boot {
            id: format!("folder-{}", self.boots()?),
            driver: BootDriver::None,
            image: None,
            arguments: Vec::new(),
            kernel: Kernel::Default,
            packages: Vec::new(),
            is_fips: false,
        })
    }

    fn stage(&self, change: &BootChange) -> Result<(), HostError> {
        if change.is_empty() {
            return Ok(());
        }
        Err(HostError::Unsupported {
            what: "change its image, kernel arguments, kernel or extensions".to_owned(),
            why: "a folder cannot boot; a running machine is required".to_owned(),
        })
    }

    fn unstage(&self, _: &BootChange) -> Result<(), HostError> {
        Ok(())
    }

    /// The machine has rebooted when the call returns.
    fn reboot(&self, _: &str) -> Result<(), HostError> {
        let boots = self.boots()? + 1;
        self.write_through(BOOTS, format!("{boots}\n").as_bytes(), Attributes::of_root(0o644))
    }

    fn run(&self, program: &str, _: &[&str]) -> Result<Output, HostError> {
        Err(HostError::Unsupported {
            what: format!("run {program}"),
            why: "it is a folder; no program is run there".to_owned(),
        })
    }

    fn watch(&self, paths: &[String], changed: ChangeCallback) -> Result<Watch, HostError> {
        watch::watch(&self.files, paths, changed)
    }
}
