//! What a new machine does before its kubelet starts: Ignition has written the files, and here comes what Ignition cannot do.

use seaworthy_api::machineconfiguration::MachineConfigSpec;
use seaworthy_host::{Attributes, Boot, BootChange, Host, HostError};
use serde_json::Value;

use crate::decide::kernel_arguments;
use crate::decide::observed::observe;
use crate::decide::steps::{Step, steps};
use crate::decide::target::{Target, TargetError};
use crate::paths;

/// How often the machine has booted for it.
const ATTEMPTS_FILE: &str = "/etc/machine-config-daemon/first-boot-attempts";
/// More are no help.
const ATTEMPTS: usize = 5;

/// What became of a first boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FirstBoot {
    /// There is nothing to be done: the machine goes on booting.
    Complete,
    /// The machine is about to boot.
    Rebooting,
}

/// Why a first boot cannot be completed; it is tried again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FirstBootError {
    /// The machine did not do what it was asked.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The configuration cannot be used.
    #[error(transparent)]
    Target(#[from] TargetError),
}

/// Completes a first boot.
///
/// Differs: what it was given stays until the machine has booted into all of it, because upstream puts it away before the
/// reboot, and a power cut between the two leaves a machine without its kernel arguments.
pub fn first_boot(host: &dyn Host) -> Result<FirstBoot, FirstBootError> {
    let Some(bytes) = host.read(paths::ENCAPSULATED)? else { return Ok(FirstBoot::Complete) };
    let unreadable = |why: String| TargetError::Unreadable { path: paths::ENCAPSULATED.to_owned(), why };
    let value: Value = serde_json::from_slice(&bytes).map_err(|error| unreadable(error.to_string()))?;
    let spec: MachineConfigSpec =
        serde_json::from_value(value["spec"].clone()).map_err(|error| unreadable(error.to_string()))?;
    let name = value["metadata"]["name"].as_str().unwrap_or("the machine's first");
    let target = Target::parse(name, &spec, None)?;
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

/// Prepares the next boot and asks for it; gives up when several boots have not brought it.
pub(crate) fn boot_into(host: &dyn Host, change: &BootChange, boot_id: &str) -> Result<(), HostError> {
    let mut boots = String::from_utf8_lossy(&host.read(ATTEMPTS_FILE)?.unwrap_or_default()).into_owned();
    if !boots.lines().any(|line| line == boot_id) {
        if boots.lines().count() >= ATTEMPTS {
            return Err(HostError::Unable {
                what: "complete its first boot".to_owned(),
                why: format!("{ATTEMPTS} boots have not brought {}", serde_json::to_string(change).unwrap_or_default()),
            });
        }
        boots.push_str(boot_id);
        boots.push('\n');
        host.write_through(ATTEMPTS_FILE, boots.as_bytes(), Attributes::of_root(0o644))?;
    }
    host.stage(change)?;
    host.reboot("completes the first boot")
}

/// The configuration with only that of its boot which is there already.
pub fn as_booted(target: &Target, boot: &Boot) -> Target {
    let mut booted = target.clone();
    booted.built_image = None;
    booted.spec.os_image_url = boot.image.clone();
    if target.image().is_empty() || boot.image.is_none() {
        // Nothing is wanted, or there is no image to be had: nothing differs.
        booted.spec.os_image_url = Some(target.image().to_owned());
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
