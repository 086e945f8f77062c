//! Current configuration: the one that the disk is in, and its determination on a machine without a record of it.

use std::sync::Arc;

use seaworthy_api::machineconfiguration::{API_VERSION, MachineConfigSpec};
use seaworthy_api::vocabulary::machineconfiguration::NodeEvent;
use seaworthy_api::vocabulary::seaworthy::UNCONFIGURED;
use seaworthy_api::vocabulary::seaworthy::annotation::ADOPT;
use seaworthy_host::{BootChange, Host, HostError};
use serde_json::json;

use super::first_boot;
use super::pending_reboot::PendingReboot;
use crate::decide::observed::observe;
use crate::decide::steps::{Step, steps};
use crate::decide::target::{TargetError, TargetState, parse_config_file};
use crate::drift::validate;
use crate::failure::Failure;
use crate::order::{ConfigSpec, Order};
use crate::paths;

/// What is known of the configuration that the disk is in.
pub(crate) enum CurrentConfig {
    Known(Box<TargetState>),
    /// The machine is about to boot into it.
    AfterBoot,
    /// The disk has no record of it any more, and had one when the order was read: the order has only its name, and has to be read
    /// again.
    NotRead,
}

/// Determines the configuration that the disk is in. A new machine is in the one that it was created with.
pub(crate) fn determine(host: &dyn Host, reboot: &mut PendingReboot, order: &Order) -> Result<CurrentConfig, Failure> {
    if let Some(target) = load(host)? {
        if host.exists(paths::INITIAL_ANNOTATIONS)? {
            host.rename(paths::INITIAL_ANNOTATIONS, paths::INITIAL_ANNOTATIONS_DONE)?;
        }
        return Ok(CurrentConfig::Known(Box::new(target)));
    }
    // `UNCONFIGURED` counts as no configuration: a machine may be recreated before it gets its pool's.
    let Some(current) = order.current.as_ref().filter(|current| current.name != UNCONFIGURED) else {
        let key = ADOPT.as_str();
        let found = match order.adoption.as_deref() {
            Some("true") => return adopt(host).map(Box::new).map(CurrentConfig::Known),
            Some(other) => format!(" (its annotation {key} is {other:?}, and only \"true\" adopts it)"),
            None => String::new(),
        };
        let node = if order.node.is_empty() { "NAME" } else { &order.node };
        return Err(Failure::degraded(format!(
            "the configuration of this machine is not known: there is neither {} nor {} nor an annotation of the node{found}; if \
             it was never configured by a pool, adopt it: kubectl annotate --overwrite node {node} {key}=true",
            paths::CURRENT_CONFIG,
            paths::INITIAL_ANNOTATIONS,
        )));
    };
    let spec = match &current.spec {
        ConfigSpec::Found(spec) => spec,
        ConfigSpec::NotRead => return Ok(CurrentConfig::NotRead),
        ConfigSpec::NotFound => {
            return Err(Failure::degraded(format!(
                "the machine was created with MachineConfig {}, which does not exist: the configuration at the time of the \
                 installation differs from the one that the cluster renders; create the MachineConfig, or reinstall the machine",
                current.name
            )));
        }
    };
    let target = TargetState::parse(&current.name, Arc::clone(spec), current.built_image())?;
    let boot = host.boot()?;
    let is_new = host.exists(paths::INITIAL_ANNOTATIONS)?;
    let is_forced = host.exists(paths::FORCE)?;
    let change = missing_of_boot(host, &target)?;
    if let Some(change) = &change
        && is_new
    {
        first_boot::boot_into(host, change, &boot.id)?;
        reboot.expect(&boot.id, "completes the first boot");
        return Ok(CurrentConfig::AfterBoot);
    }
    let findings = validate::validate(host, &target)?;
    let mut differs = Vec::new();
    if !findings.is_empty() {
        differs.push(validate::message(&target, &findings));
    }
    if let Some(change) = &change {
        // A machine in service is not rebooted because a file was deleted: it is not drained.
        let change = serde_json::to_string(change).unwrap_or_default();
        differs.push(format!("the booted system does not match {}: missing {change}", target.name));
    }
    if !differs.is_empty() && !is_forced {
        if !is_new {
            differs.push(format!(
                "{} is missing, and the node's annotations name {}; fix the differences, or create {} to have the node \
                 drained and all files written again",
                paths::CURRENT_CONFIG,
                target.name,
                paths::FORCE
            ));
        }
        return Err(Failure { event: NodeEvent::OnDiskStateValidationFailed, ..Failure::degraded(differs.join("; ")) });
    }
    store(host, &text(&target), target.built_image.as_deref())?;
    if is_new {
        host.rename(paths::INITIAL_ANNOTATIONS, paths::INITIAL_ANNOTATIONS_DONE)?;
    }
    Ok(CurrentConfig::Known(Box::new(target)))
}

/// Adopts a machine that was never configured: its current configuration is an empty one, so its pool's is applied like any
/// other change, with the budget, the drain and copies of the originals.
fn adopt(host: &dyn Host) -> Result<TargetState, Failure> {
    let config = json!({"ignition": {"version": "3.5.0"}});
    let spec = MachineConfigSpec { config: Some(config), ..MachineConfigSpec::default() };
    let target = TargetState::parse(UNCONFIGURED, Arc::new(spec), None)?;
    store(host, &text(&target), None)?;
    Ok(target)
}

/// The change from the present boot to that of a configuration, if any.
fn missing_of_boot(host: &dyn Host, target: &TargetState) -> Result<Option<BootChange>, Failure> {
    let booted = first_boot::as_booted(target, &host.boot()?);
    let observed = observe(host, &booted, target)?;
    Ok(steps(&booted, target, &observed)?.into_iter().find_map(|step| match step {
        Step::Boot(change) => Some(change),
        _ => None,
    }))
}

/// The configuration that the disk has a record of.
pub(crate) fn load(host: &dyn Host) -> Result<Option<TargetState>, Failure> {
    let Some(bytes) = host.read(paths::CURRENT_CONFIG)? else { return Ok(None) };
    let path = paths::CURRENT_CONFIG;
    let no_name = || TargetError::Unreadable { path: path.to_owned(), why: "it has no name".to_owned() };
    // Degraded, not unreconcilable: the record may become readable.
    let (name, spec) = parse_config_file(path, &bytes)
        .and_then(|(name, spec)| Ok((name.ok_or_else(no_name)?, spec)))
        .map_err(|error| Failure::degraded(error.to_string()))?;
    let image = host.read(paths::CURRENT_IMAGE)?.unwrap_or_default();
    let image = String::from_utf8_lossy(&image).trim().to_owned();
    Ok(Some(TargetState::parse(&name, spec, Some(&image))?))
}

pub(crate) fn store(host: &dyn Host, text: &[u8], image: Option<&str>) -> Result<(), HostError> {
    match image {
        Some(image) => host.write_through(paths::CURRENT_IMAGE, image.as_bytes(), paths::PUBLIC)?,
        None => host.remove(paths::CURRENT_IMAGE)?,
    }
    // Differs: only root may read it, because it has the contents of secret files.
    host.write_through(paths::CURRENT_CONFIG, text, paths::PRIVATE)
}

/// A configuration in the format of the disk.
pub(crate) fn text(target: &TargetState) -> Vec<u8> {
    let value = json!({
        "apiVersion": API_VERSION,
        "kind": "MachineConfig",
        "metadata": {"name": target.name},
        "spec": *target.spec,
    });
    value.to_string().into_bytes()
}
