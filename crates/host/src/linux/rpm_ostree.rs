//! The boot through `rpm-ostree`: every change starts from what is booted and becomes a deployment that is staged beside it.

use serde_json::Value;

use super::LinuxHost;
use super::boot::{Status, parsed};
use crate::{BootChange, HostError, Kernel};

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
    Ok(Status { image, packages: names("requested-packages") })
}

/// Stages a deployment.
pub(super) fn stage(host: &LinuxHost, change: &BootChange) -> Result<(), HostError> {
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
