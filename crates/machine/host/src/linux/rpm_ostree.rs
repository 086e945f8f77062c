//! Boot management with `rpm-ostree`: every change is relative to what is booted, and becomes a staged deployment.
//!
//! Order, as in machine-config-operator, `pkg/daemon/update.go`: the repository of extensions, removal of the old kernel, image,
//! kernel arguments, the new kernel, extensions.

use serde_json::Value;

use super::boot::{BootStatus, parsed};
use super::{LinuxHost, extensions};
use crate::{BootChange, BootDriver, HostError, Kernel};

/// What is booted, as reported by `rpm-ostree`.
pub(super) fn status(host: &LinuxHost) -> Result<BootStatus, HostError> {
    let status = parsed("rpm-ostree", &host.must("rpm-ostree", &["status", "--json"])?.stdout)?;
    let deployments = status["deployments"].as_array().map(Vec::as_slice).unwrap_or_default();
    let Some(booted) = deployments.iter().find(|deployment| deployment["booted"] == Value::Bool(true)) else {
        return Ok(BootStatus::default());
    };
    let reference = booted["container-image-reference"].as_str();
    let image = reference.map(|reference| {
        // The prefix has the signature policy and the transport.
        let bare =
            reference.strip_prefix("ostree-unverified-registry:").or_else(|| reference.split("docker://").nth(1));
        bare.unwrap_or(reference).to_owned()
    });
    let names = |key: &str| {
        let list = booted[key].as_array().map(Vec::as_slice).unwrap_or_default();
        list.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
    };
    Ok(BootStatus { image, packages: names("requested-packages"), removed: names("requested-base-removals") })
}

/// Stages a deployment.
pub(super) fn stage(host: &LinuxHost, change: &BootChange) -> Result<(), HostError> {
    unstage(host)?;
    let Some(image) = &change.extensions_image else {
        return stage_with(host, change).map_err(|error| without_extensions(change, error));
    };
    let result = extensions::enable(host, image).and_then(|()| stage_with(host, change));
    // In any case: a staged deployment includes its packages.
    let cleaned = extensions::disable(host);
    result.and(cleaned)
}

/// Removes the staged deployment, and what a power cut has left of its creation.
pub(super) fn unstage(host: &LinuxHost) -> Result<(), HostError> {
    host.must("rpm-ostree", &["cleanup", "-p"])?;
    extensions::disable(host)
}

/// Differs: packages of a configuration that names no image for them come from the machine's own repositories, because systems
/// other than OpenShift's have no such image. If that fails, the missing image may be the reason.
fn without_extensions(change: &BootChange, error: HostError) -> HostError {
    let needs_packages =
        !change.install.is_empty() || change.kernel.is_some_and(|(_, kernel)| kernel != Kernel::Default);
    match error {
        HostError::Command { line, status, message } if needs_packages => HostError::Command {
            line,
            status,
            message: format!(
                "{message}; the configuration names no baseOSExtensionsContainerImage to take packages from"
            ),
        },
        error => error,
    }
}

fn stage_with(host: &LinuxHost, change: &BootChange) -> Result<(), HostError> {
    let booted = super::boot::status(host, BootDriver::RpmOstree)?;
    if let Some((old, _)) = change.kernel {
        restore_image_kernel(host, old, &booted)?;
    }
    if let Some(image) = &change.image {
        let reference = format!("ostree-unverified-registry:{image}");
        host.must("rpm-ostree", &["rebase", "--experimental", &reference])?;
    }
    let arguments = arguments_of(change);
    if !arguments.is_empty() {
        run(host, &["kargs"], &arguments)?;
    }
    if let Some((_, new)) = change.kernel.filter(|(_, new)| *new != Kernel::Default) {
        let mut all = default_kernel(host, &booted)?;
        all.extend(new.packages().iter().map(|package| format!("--install={package}")));
        run(host, &["override", "remove"], &all)?;
    }
    if !(change.install.is_empty() && change.uninstall.is_empty()) {
        let install = change.install.iter().map(|package| format!("--install={package}"));
        let uninstall = change.uninstall.iter().map(|package| format!("--uninstall={package}"));
        run(host, &["update"], &install.chain(uninstall).collect::<Vec<_>>())?;
    }
    Ok(())
}

/// Restores the kernel of the image in place of another one. Other packages that the administrator has removed or added stay as
/// they are.
fn restore_image_kernel(host: &LinuxHost, old: Kernel, booted: &BootStatus) -> Result<(), HostError> {
    if old == Kernel::Default {
        return Ok(());
    }
    let of = |list: &[String], kernel: Kernel| -> Vec<String> {
        list.iter().filter(|package| kernel.packages().contains(&package.as_str())).cloned().collect()
    };
    let (mut removed, layered) = (of(&booted.removed, Kernel::Default), of(&booted.packages, old));
    if removed.is_empty() {
        return if layered.is_empty() { Ok(()) } else { run(host, &["uninstall"], &layered) };
    }
    removed.extend(layered.iter().map(|package| format!("--uninstall={package}")));
    run(host, &["override", "reset"], &removed)
}

/// The packages of the image's own kernel. Not every release has all of them, and a missing one cannot be removed.
fn default_kernel(host: &LinuxHost, booted: &BootStatus) -> Result<Vec<String>, HostError> {
    let names = Kernel::Default.packages();
    let removed: Vec<String> = booted.removed.iter().filter(|name| names.contains(&name.as_str())).cloned().collect();
    if !removed.is_empty() {
        return Ok(removed);
    }
    let mut all = vec!["-q", "--queryformat=%{NAME}\n"];
    all.extend(names);
    // It fails for missing packages, and prints the others all the same.
    let output = host.programs.run("rpm", &all)?;
    let found: Vec<String> =
        output.stdout.lines().map(str::trim).filter(|name| names.contains(name)).map(str::to_owned).collect();
    if found.is_empty() {
        return Err(super::programs::failure("rpm", &all, &output));
    }
    Ok(found)
}

fn run(host: &LinuxHost, verb: &[&str], arguments: &[String]) -> Result<(), HostError> {
    let all: Vec<&str> = verb.iter().copied().chain(arguments.iter().map(String::as_str)).collect();
    host.must("rpm-ostree", &all).map(drop)
}

/// The options of `rpm-ostree kargs`: deletions, then additions.
fn arguments_of(change: &BootChange) -> Vec<String> {
    let delete = change.delete.iter().map(|argument| format!("--delete-if-present={argument}"));
    delete.chain(change.append.iter().map(|argument| format!("--append={argument}"))).collect()
}
