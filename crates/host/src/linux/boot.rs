//! The boot through `rpm-ostree`, `bootc` or GRUB, whichever the machine has.
//!
//! - `rpm-ostree` and `bootc` stage a deployment: it counts from the next orderly reboot on. A power cut before that loses it.
//! - GRUB's menu is changed at once and counts from the next boot on.

use serde_json::Value;

use super::LinuxHost;
use crate::{Attributes, Boot, BootChange, Driver, Host as _, HostError, Kernel, arguments};

/// Our own part of GRUB's settings.
const GRUB_PART: &str = "/etc/default/grub.d/90-seaworthy.cfg";

fn driver(host: &LinuxHost) -> Result<Driver, HostError> {
    if host.exists("/run/ostree-booted")? {
        if host.has("rpm-ostree")? {
            return Ok(Driver::RpmOstree);
        }
        if host.has("bootc")? {
            return Ok(Driver::Bootc);
        }
    }
    if host.has("grubby")? {
        return Ok(Driver::Grubby);
    }
    Ok(if host.has("update-grub")? { Driver::UpdateGrub } else { Driver::None })
}

pub(super) fn booted(host: &LinuxHost) -> Result<Boot, HostError> {
    let text = |path: &str| -> Result<String, HostError> {
        Ok(String::from_utf8_lossy(&host.read(path)?.unwrap_or_default()).trim().to_owned())
    };
    let driver = driver(host)?;
    let (image, packages) = match driver {
        Driver::RpmOstree => rpm_ostree_status(host)?,
        Driver::Bootc => (bootc_status(host)?, Vec::new()),
        _ => (None, Vec::new()),
    };
    let release = text("/proc/sys/kernel/osrelease")?;
    let kernel = if release.contains("+rt") || release.contains(".rt") || release.contains("-rt") {
        Kernel::Realtime
    } else if release.contains("64k") {
        Kernel::Pages64k
    } else {
        Kernel::Default
    };
    Ok(Boot {
        id: text("/proc/sys/kernel/random/boot_id")?,
        driver,
        image,
        arguments: arguments(&text("/proc/cmdline")?),
        kernel,
        packages,
        is_fips: text("/proc/sys/crypto/fips_enabled")? == "1",
    })
}

fn parsed(program: &str, text: &str) -> Result<Value, HostError> {
    serde_json::from_str(text).map_err(|error| HostError::Command {
        line: format!("{program} status"),
        status: "unreadable answer".to_owned(),
        said: error.to_string(),
    })
}

fn rpm_ostree_status(host: &LinuxHost) -> Result<(Option<String>, Vec<String>), HostError> {
    let status = parsed("rpm-ostree", &host.must("rpm-ostree", &["status", "--json"])?.stdout)?;
    let deployments = status["deployments"].as_array().map(Vec::as_slice).unwrap_or_default();
    let Some(booted) = deployments.iter().find(|deployment| deployment["booted"] == Value::Bool(true)) else {
        return Ok((None, Vec::new()));
    };
    let reference = booted["container-image-reference"].as_str();
    let image = reference.map(|reference| {
        // What stands before the last part says how it is trusted and where it is fetched.
        let bare =
            reference.strip_prefix("ostree-unverified-registry:").or_else(|| reference.split("docker://").nth(1));
        bare.unwrap_or(reference).to_owned()
    });
    let names = |key: &str| {
        let list = booted[key].as_array().map(Vec::as_slice).unwrap_or_default();
        list.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
    };
    Ok((image, names("requested-packages")))
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
        Driver::RpmOstree => with_rpm_ostree(host, change),
        Driver::Bootc => match &change.image {
            Some(image) => host.must("bootc", &["switch", image]).map(drop),
            None => Ok(()),
        },
        Driver::Grubby => with_grubby(host, &change.delete, &change.append),
        Driver::UpdateGrub => with_update_grub(host, &change.delete, &change.append),
        Driver::None => Ok(()),
    }
}

/// What the machine has no means for is refused as a whole, before anything is touched.
fn refuse(driver: Driver, change: &BootChange) -> Result<(), HostError> {
    let unable = |what: &str, needs: &str| {
        Err(HostError::Unable {
            what: what.to_owned(),
            why: format!("its boot is managed by {}; {needs} is needed", driver.as_str()),
        })
    };
    if change.image.is_some() && !matches!(driver, Driver::RpmOstree | Driver::Bootc) {
        return unable("change its operating system image (osImageURL)", "rpm-ostree or bootc");
    }
    if change.kernel.is_some() && driver != Driver::RpmOstree {
        return unable("change its kernel (kernelType)", "rpm-ostree");
    }
    if !(change.install.is_empty() && change.uninstall.is_empty()) && driver != Driver::RpmOstree {
        return unable("change its extensions", "rpm-ostree");
    }
    let has_arguments = !(change.delete.is_empty() && change.append.is_empty());
    if has_arguments && matches!(driver, Driver::Bootc | Driver::None) {
        return unable("change its kernel arguments", "rpm-ostree, grubby or update-grub");
    }
    Ok(())
}

fn with_rpm_ostree(host: &LinuxHost, change: &BootChange) -> Result<(), HostError> {
    host.must("rpm-ostree", &["cleanup", "-p"])?;
    if let Some(image) = &change.image {
        let reference = format!("ostree-unverified-registry:{image}");
        host.must("rpm-ostree", &["rebase", "--experimental", &reference])?;
    }
    let arguments = arguments_of(change);
    if !arguments.is_empty() {
        let mut all = vec!["kargs"];
        all.extend(arguments.iter().map(String::as_str));
        host.must("rpm-ostree", &all)?;
    }
    if let Some((old, new)) = change.kernel {
        if old != Kernel::Default {
            host.must("rpm-ostree", &["override", "reset", "--all"])?;
        }
        if new != Kernel::Default {
            let mut all = vec!["override", "remove"];
            all.extend(Kernel::Default.packages());
            let install: Vec<String> = new.packages().iter().map(|package| format!("--install={package}")).collect();
            all.extend(install.iter().map(String::as_str));
            host.must("rpm-ostree", &all)?;
        }
    }
    if !(change.install.is_empty() && change.uninstall.is_empty()) {
        let mut all = vec!["update".to_owned()];
        all.extend(change.install.iter().map(|package| format!("--install={package}")));
        all.extend(change.uninstall.iter().map(|package| format!("--uninstall={package}")));
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        host.must("rpm-ostree", &all)?;
    }
    Ok(())
}

/// The options of `rpm-ostree kargs`: all that goes, then all that comes.
fn arguments_of(change: &BootChange) -> Vec<String> {
    let delete = change.delete.iter().map(|argument| format!("--delete-if-present={argument}"));
    delete.chain(change.append.iter().map(|argument| format!("--append={argument}"))).collect()
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

/// Our part holds exactly the arguments that we have added, so writing it twice changes nothing.
fn with_update_grub(host: &LinuxHost, delete: &[String], append: &[String]) -> Result<(), HostError> {
    let text = String::from_utf8_lossy(&host.read(GRUB_PART)?.unwrap_or_default()).into_owned();
    let ours = text.lines().find_map(|line| line.strip_prefix("# arguments: ")).unwrap_or_default();
    let ours: Vec<&str> = ours.split_whitespace().collect();
    let mut ours: Vec<String> =
        ours.into_iter().map(str::to_owned).filter(|one| !delete.contains(one) && !append.contains(one)).collect();
    ours.extend(append.iter().cloned());
    let plain = |one: &String| one.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"'`$\\".contains(&byte));
    if let Some(odd) = ours.iter().find(|one| !plain(one)) {
        return Err(HostError::Unable {
            what: format!("set the kernel argument {odd:?}"),
            why:
                "GRUB's settings are a shell script; arguments with quotes, blanks, \"$\" or \"\\\" have no place there"
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
        Driver::RpmOstree => host.must("rpm-ostree", &["cleanup", "-p"]).map(drop),
        // It has no way to forget what is staged but to stage what is booted.
        Driver::Bootc => match bootc_status(host)? {
            Some(image) if change.image.is_some() => host.must("bootc", &["switch", &image]).map(drop),
            _ => Ok(()),
        },
        Driver::Grubby => with_grubby(host, &change.append, &change.delete),
        Driver::UpdateGrub => with_update_grub(host, &change.append, &change.delete),
        Driver::None => Ok(()),
    }
}
