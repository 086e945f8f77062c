//! Boot management with `rpm-ostree`, `bootc` or GRUB, whichever the machine has.
//!
//! - `rpm-ostree` and `bootc` stage a deployment, which the next orderly reboot applies. A power cut before that loses it.
//! - GRUB's menu is changed at once, and is used by the next boot.

use std::sync::PoisonError;

use serde_json::Value;

use super::{LinuxHost, rpm_ostree};
use crate::{Attributes, Boot, BootChange, BootDriver, Host as _, HostError, Kernel, arguments};

/// The daemon's own part of GRUB's settings.
const GRUB_PART: &str = "/etc/default/grub.d/90-seaworthy.cfg";

/// What is booted, as reported by the program that manages the boot.
#[derive(Clone, Debug, Default)]
pub(super) struct BootStatus {
    pub(super) image: Option<String>,
    /// Packages that were added to it by request.
    pub(super) packages: Vec<String>,
    /// Packages of the image that were removed by request.
    pub(super) removed: Vec<String>,
}

fn driver(host: &LinuxHost) -> Result<BootDriver, HostError> {
    if host.exists("/run/ostree-booted")? {
        if host.has("rpm-ostree")? {
            return Ok(BootDriver::RpmOstree);
        }
        if host.has("bootc")? {
            return Ok(BootDriver::Bootc);
        }
    }
    if host.has("grubby")? {
        return Ok(BootDriver::Grubby);
    }
    Ok(if host.has("update-grub")? { BootDriver::UpdateGrub } else { BootDriver::None })
}

pub(super) fn booted(host: &LinuxHost) -> Result<Boot, HostError> {
    let text = |path: &str| text(host, path);
    let driver = driver(host)?;
    let BootStatus { image, packages, .. } = status(host, driver)?;
    let release = text("/proc/sys/kernel/osrelease")?;
    let kernel = if release.contains("+rt") || release.contains(".rt") || release.contains("-rt") {
        Kernel::Realtime
    } else if release.contains("64k") {
        Kernel::Pages64k
    } else {
        Kernel::Default
    };
    Ok(Boot {
        id: boot_id(host)?,
        driver,
        image,
        arguments: arguments(&text("/proc/cmdline")?),
        kernel,
        packages,
        is_fips: text("/proc/sys/crypto/fips_enabled")? == "1",
    })
}

fn text(host: &LinuxHost, path: &str) -> Result<String, HostError> {
    Ok(String::from_utf8_lossy(&host.read(path)?.unwrap_or_default()).trim().to_owned())
}

fn boot_id(host: &LinuxHost) -> Result<String, HostError> {
    text(host, "/proc/sys/kernel/random/boot_id")
}

/// The status does not change before the next boot, so it is read once in each: reading it wakes the service of `rpm-ostree`,
/// and the daemon checks every minute.
pub(super) fn status(host: &LinuxHost, driver: BootDriver) -> Result<BootStatus, HostError> {
    let boot_id = &boot_id(host)?;
    let mut known = host.status.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((id, status)) = &*known
        && id == boot_id
    {
        return Ok(status.clone());
    }
    let status = match driver {
        BootDriver::RpmOstree => rpm_ostree::status(host)?,
        BootDriver::Bootc => BootStatus { image: bootc_status(host)?, ..BootStatus::default() },
        _ => return Ok(BootStatus::default()),
    };
    // A boot without an id cannot be distinguished from the next one.
    if !boot_id.is_empty() {
        *known = Some((boot_id.to_owned(), status.clone()));
    }
    Ok(status)
}

pub(super) fn parsed(program: &str, text: &str) -> Result<Value, HostError> {
    serde_json::from_str(text).map_err(|error| HostError::Command {
        line: format!("{program} status"),
        status: "unreadable answer".to_owned(),
        message: error.to_string(),
    })
}

fn bootc_status(host: &LinuxHost) -> Result<Option<String>, HostError> {
    let status = parsed("bootc", &host.must("bootc", &["status", "--format=json"])?.stdout)?;
    Ok(status["status"]["booted"]["image"]["image"]["image"].as_str().map(str::to_owned))
}

pub(super) fn stage(host: &LinuxHost, change: &BootChange) -> Result<(), HostError> {
    if change.is_empty() {
        return Ok(());
    }
    let driver = driver(host)?;
    refuse(driver, change)?;
    match driver {
        BootDriver::RpmOstree => rpm_ostree::stage(host, change),
        BootDriver::Bootc => match &change.image {
            Some(image) => host.must("bootc", &["switch", image]).map(drop),
            None => Ok(()),
        },
        BootDriver::Grubby => with_grubby(host, &change.delete, &change.append),
        BootDriver::UpdateGrub => with_update_grub(host, &change.delete, &change.append),
        BootDriver::None => Ok(()),
    }
}

/// Refuses a change that the machine does not support, before anything is changed.
fn refuse(driver: BootDriver, change: &BootChange) -> Result<(), HostError> {
    let unable = |what: &str, needs: &str| {
        Err(HostError::Unsupported {
            what: what.to_owned(),
            why: format!("its boot is managed by {}; {needs} is needed", driver.as_str()),
        })
    };
    if change.image.is_some() && !matches!(driver, BootDriver::RpmOstree | BootDriver::Bootc) {
        return unable("change its operating system image (osImageURL)", "rpm-ostree or bootc");
    }
    if change.kernel.is_some() && driver != BootDriver::RpmOstree {
        return unable("change its kernel (kernelType)", "rpm-ostree");
    }
    if !(change.install.is_empty() && change.uninstall.is_empty()) && driver != BootDriver::RpmOstree {
        return unable("change its extensions", "rpm-ostree");
    }
    let has_arguments = !(change.delete.is_empty() && change.append.is_empty());
    if has_arguments && matches!(driver, BootDriver::Bootc | BootDriver::None) {
        return unable("change its kernel arguments", "rpm-ostree, grubby or update-grub");
    }
    Ok(())
}

fn with_grubby(host: &LinuxHost, delete: &[String], append: &[String]) -> Result<(), HostError> {
    let remove = format!("--remove-args={}", delete.join(" "));
    let add = format!("--args={}", append.join(" "));
    let mut all = vec!["--update-kernel=ALL"];
    if !delete.is_empty() {
        all.push(&remove);
    }
    if !append.is_empty() {
        all.push(&add);
    }
    host.must("grubby", &all).map(drop)
}

/// The daemon's part has exactly the arguments that it has added, so writing it twice changes nothing.
fn with_update_grub(host: &LinuxHost, delete: &[String], append: &[String]) -> Result<(), HostError> {
    let text = String::from_utf8_lossy(&host.read(GRUB_PART)?.unwrap_or_default()).into_owned();
    let ours = text.lines().find_map(|line| line.strip_prefix("# arguments: ")).unwrap_or_default();
    let ours: Vec<&str> = ours.split_whitespace().collect();
    let mut ours: Vec<String> =
        ours.into_iter().map(str::to_owned).filter(|one| !delete.contains(one) && !append.contains(one)).collect();
    ours.extend(append.iter().cloned());
    let plain = |one: &String| one.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"'`$\\".contains(&byte));
    if let Some(odd) = ours.iter().find(|one| !plain(one)) {
        return Err(HostError::Unsupported {
            what: format!("set the kernel argument {odd:?}"),
            why:
                "GRUB's settings are a shell script; arguments with quotes, spaces, \"$\" or \"\\\" are not supported there"
                    .to_owned(),
        });
    }
    let joined = ours.join(" ");
    let part = format!("# arguments: {joined}\nGRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX {joined}\"\n");
    if ours.is_empty() {
        host.remove(GRUB_PART)?;
    } else {
        host.write(GRUB_PART, part.as_bytes(), Attributes::of_root(0o644))?;
    }
    host.must("update-grub", &[]).map(drop)
}

pub(super) fn unstage(host: &LinuxHost, change: &BootChange) -> Result<(), HostError> {
    if change.is_empty() {
        return Ok(());
    }
    match driver(host)? {
        BootDriver::RpmOstree => rpm_ostree::unstage(host),
        // It can only undo a staged image by staging the booted one.
        BootDriver::Bootc => match bootc_status(host)? {
            Some(image) if change.image.is_some() => host.must("bootc", &["switch", &image]).map(drop),
            _ => Ok(()),
        },
        BootDriver::Grubby => with_grubby(host, &change.append, &change.delete),
        BootDriver::UpdateGrub => with_update_grub(host, &change.append, &change.delete),
        BootDriver::None => Ok(()),
    }
}
