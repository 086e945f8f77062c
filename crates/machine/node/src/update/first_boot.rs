//! First boot: what a new machine does before its kubelet starts. Ignition has written the files; this applies what Ignition
//! cannot, such as kernel arguments and extensions.

use std::sync::Arc;

use seaworthy_host::{Attributes, Boot, BootChange, Host, HostError};

use crate::decide::kernel_arguments;
use crate::decide::observed::observe;
use crate::decide::steps::{Step, steps};
use crate::decide::target::{TargetError, TargetState, parse_config_file};
use crate::paths;

/// The IDs of the boots that were made for it.
const ATTEMPTS_FILE: &str = "/etc/machine-config-daemon/first-boot-attempts";
/// More boots than that do not help.
const MAX_ATTEMPTS: usize = 5;

/// Outcome of [`first_boot`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FirstBoot {
    /// There is nothing left to do: the machine continues to boot.
    Complete,
    /// The machine is about to boot again.
    Rebooting,
}

/// A first boot that cannot be completed now; it is retried.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FirstBootError {
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Target(#[from] TargetError),
}

/// Completes a first boot.
///
/// Differs: the file with the configuration is renamed only when the machine has booted into all of it, because upstream renames
/// it before the reboot, and a power cut between the two leaves a machine without its kernel arguments.
pub fn first_boot(host: &dyn Host) -> Result<FirstBoot, FirstBootError> {
    let Some(bytes) = host.read(paths::ENCAPSULATED)? else { return Ok(FirstBoot::Complete) };
    let (name, spec) = parse_config_file(paths::ENCAPSULATED, &bytes)?;
    let target = TargetState::parse(name.as_deref().unwrap_or("the machine's first"), spec, None)?;
    let boot = host.boot()?;
    let old = as_booted(&target, &boot);
    let observed = observe(host, &old, &target)?;
    let change = steps(&old, &target, &observed)?.into_iter().find_map(|step| match step {
        Step::Boot(change) => Some(change),
        _ => None,
    });
    let Some(change) = change else {
        host.rename(paths::ENCAPSULATED, paths::ENCAPSULATED_DONE)?;
        host.remove(ATTEMPTS_FILE)?;
        return Ok(FirstBoot::Complete);
    };
    boot_into(host, &change, &boot.id)?;
    Ok(FirstBoot::Rebooting)
}

/// Stages the next boot and requests it; gives up when several boots have not applied it.
pub(crate) fn boot_into(host: &dyn Host, change: &BootChange, boot_id: &str) -> Result<(), HostError> {
    let mut boots = String::from_utf8_lossy(&host.read(ATTEMPTS_FILE)?.unwrap_or_default()).into_owned();
    if !boots.lines().any(|line| line == boot_id) {
        if boots.lines().count() >= MAX_ATTEMPTS {
            return Err(HostError::Unsupported {
                what: "complete its first boot".to_owned(),
                why: format!(
                    "{MAX_ATTEMPTS} boots have not applied {}",
                    serde_json::to_string(change).unwrap_or_default()
                ),
            });
        }
        boots.push_str(boot_id);
        boots.push('\n');
        host.write_through(ATTEMPTS_FILE, boots.as_bytes(), Attributes::of_root(0o644))?;
    }
    host.stage(change)?;
    host.reboot("completes the first boot")
}

/// The configuration reduced to the parts of its boot that are booted already.
pub fn as_booted(target: &TargetState, boot: &Boot) -> TargetState {
    let mut booted = target.clone();
    booted.built_image = None;
    let spec = Arc::make_mut(&mut booted.spec);
    spec.os_image_url = boot.image.clone();
    if target.image().is_empty() || boot.image.is_none() {
        // No image is wanted, or the machine does not boot from one: nothing differs.
        spec.os_image_url = Some(target.image().to_owned());
    }
    booted.arguments = kernel_arguments::present(&target.arguments, &boot.arguments);
    booted.kernel = boot.kernel;
    booted.extensions = if crate::decide::extensions::missing(&target.extensions, &boot.packages).is_empty() {
        target.extensions.clone()
    } else {
        Vec::new()
    };
    booted
}
