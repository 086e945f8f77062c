//! The boot through `rpm-ostree`: every change starts from what is booted and becomes a deployment that is staged beside it.
//!
//! In this order (server-and-daemon.md, B17): the repository of extensions, the old kernel away, image, kernel arguments, the
//! new kernel, extensions.

use serde_json::Value;

use super::boot::{Status, parsed};
use super::{LinuxHost, extensions};
use crate::{BootChange, Driver, HostError, Kernel};

/// What is booted, as `rpm-ostree` tells it.
pub(super) fn status(host: &LinuxHost) -> Result<Status, HostError> {
    let status = parsed("rpm-ostree", &host.must("rpm-ostree", &["status", "--json"])?.stdout)?;
    let deployments = status["deployments"].as_array().map(Vec::as_slice).unwrap_or_default();
    let Some(booted) = deployments.iter().find(|deployment| deployment["booted"] == Value::Bool(true)) else {
        return Ok(Status::default());
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
    Ok(Status { image, packages: names("requested-packages"), removed: names("requested-base-removals") })
}

/// Stages a deployment.
pub(super) fn stage(host: &LinuxHost, change: &BootChange) -> Result<(), HostError> {
    unstage(host)?;
    let Some(image) = &change.extensions_image else {
        return stage_with(host, change).map_err(|error| without_extensions(change, error));
    };
    let result = extensions::enable(host, image).and_then(|()| stage_with(host, change));
    // However it went: what is staged has its packages in it.
    let cleaned = extensions::disable(host);
    result.and(cleaned)
}

/// Forgets what is staged, and what a cut has left of its making.
pub(super) fn unstage(host: &LinuxHost) -> Result<(), HostError> {
    host.must("rpm-ostree", &["cleanup", "-p"])?;
    extensions::disable(host)
}

/// Differs: packages of a configuration that names no image for them come from where the machine gets its packages, because
/// systems other than OpenShift's have no such image. Where that fails, the reason may be just this.
fn without_extensions(change: &BootChange, error: HostError) -> HostError {
    let needs_packages =
        !change.install.is_empty() || change.kernel.is_some_and(|(_, kernel)| kernel != Kernel::Default);
    match error {
        HostError::Command { line, status, said } if needs_packages => HostError::Command {
            line,
            status,
            said: format!("{said}; the configuration names no baseOSExtensionsContainerImage to take packages from"),
        },
        error => error,
    }
}

fn stage_with(host: &LinuxHost, change: &BootChange) -> Result<(), HostError> {
    let booted = super::boot::status(host, Driver::RpmOstree)?;
    if let Some((old, _)) = change.kernel {
        take_kernel_back(host, old, &booted)?;
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

/// Gives a machine the kernel of its image again: what came in its place goes. What else its owner has taken out of the image
/// or put into it stays as it is.
fn take_kernel_back(host: &LinuxHost, old: Kernel, booted: &Status) -> Result<(), HostError> {
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

/// The packages of the image's own kernel. Not every release has all of them, and none that it has not can be taken out of it.
fn default_kernel(host: &LinuxHost, booted: &Status) -> Result<Vec<String>, HostError> {
    let names = Kernel::Default.packages();
    let removed: Vec<String> = booted.removed.iter().filter(|name| names.contains(&name.as_str())).cloned().collect();
    if !removed.is_empty() {
        return Ok(removed);
    }
    let mut all = vec!["-q", "--queryformat=%{NAME}\n"];
    all.extend(names);
    // It fails for those that are not there, and names the others all the same.
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

/// The options of `rpm-ostree kargs`: all that goes, then all that comes.
fn arguments_of(change: &BootChange) -> Vec<String> {
    let delete = change.delete.iter().map(|argument| format!("--delete-if-present={argument}"));
    delete.chain(change.append.iter().map(|argument| format!("--append={argument}"))).collect()
}
