//! The configuration that the disk is in, as it stands there; and how a machine that has none written down comes to one
//! (server-and-daemon.md, B6).

use seaworthy_api::machineconfiguration::{API_VERSION, MachineConfigSpec};
use seaworthy_api::vocabulary::seaworthy::UNCONFIGURED;
use seaworthy_api::vocabulary::seaworthy::annotation::ADOPT;
use seaworthy_host::{BootChange, Host, HostError};
use serde_json::{Value, json};

use crate::agent::{Agent, Failure, PRIVATE, PUBLIC, image_of};
use crate::observed::observe;
use crate::order::Order;
use crate::steps::{Step, steps};
use crate::target::{Target, TargetError};
use crate::{first_boot, places, validate};

impl<H: Host> Agent<H> {
    /// The configuration that the disk is in. A new machine is in the one that it was made with; `None` if it boots first.
    pub(crate) fn current(&mut self, order: &Order) -> Result<Option<Target>, Failure> {
        if let Some(target) = self.on_disk()? {
            if self.host.exists(places::INITIAL_ANNOTATIONS)? {
                self.host.rename(places::INITIAL_ANNOTATIONS, places::INITIAL_ANNOTATIONS_DONE)?;
            }
            return Ok(Some(target));
        }
        // What says that it has nothing says the same as nothing: a machine may be made anew before its pool's comes to it.
        let Some(current) = order.current.as_ref().filter(|current| current.name != UNCONFIGURED) else {
            let adopt = ADOPT.as_str();
            let found = match order.adoption.as_deref() {
                Some("true") => return self.adopt().map(Some),
                Some(other) => format!(" (its annotation {adopt} is {other:?}, and only \"true\" has it taken in)"),
                None => String::new(),
            };
            let node = if order.node.is_empty() { "NAME" } else { &order.node };
            return Err(Failure::degraded(format!(
                "nothing says which configuration this machine is in: neither {} nor {} nor the node's annotations{found}; if it was \
                 never configured by a pool, have it taken in: kubectl annotate --overwrite node {node} {adopt}=true",
                places::CURRENT_CONFIG,
                places::INITIAL_ANNOTATIONS,
            )));
        };
        let Some(spec) = &current.spec else {
            return Err(Failure::degraded(format!(
                "the machine was made with {}, which the cluster does not have: the configuration at the time of the \
                 installation and the one that the cluster renders differ; make the missing MachineConfig, or the machine anew",
                current.name
            )));
        };
        let target = Target::parse(&current.name, spec, image_of(current))?;
        let boot = self.host.boot()?;
        let is_new = self.host.exists(places::INITIAL_ANNOTATIONS)?;
        let is_forced = self.host.exists(places::FORCE)?;
        let change = self.missing_of_boot(&target)?;
        if let Some(change) = &change
            && is_new
        {
            first_boot::boot_into(&self.host, change, &boot.id)?;
            self.await_boot(&boot.id, "completes the first boot");
            return Ok(None);
        }
        let findings = validate::validate(&self.host, &target)?;
        let mut differs = Vec::new();
        if !findings.is_empty() {
            differs.push(validate::message(&target, &findings));
        }
        if let Some(change) = &change {
            // A machine that serves does not boot because a file was deleted: nobody has drained it.
            let change = serde_json::to_string(change).unwrap_or_default();
            differs.push(format!("its boot is not the one of {}: it lacks {change}", target.name));
        }
        if !differs.is_empty() && !is_forced {
            if !is_new {
                differs.push(format!(
                    "{} is missing, and the node's annotations name {}; put what differs right, or make {} to have the node \
                     drained and everything written anew",
                    places::CURRENT_CONFIG,
                    target.name,
                    places::FORCE
                ));
            }
            return Err(Failure { event: "OnDiskStateValidationFailed", ..Failure::degraded(differs.join("; ")) });
        }
        self.store_current(&config_text(&target), target.built_image.as_deref())?;
        if is_new {
            self.host.rename(places::INITIAL_ANNOTATIONS, places::INITIAL_ANNOTATIONS_DONE)?;
        }
        Ok(Some(target))
    }

    /// Takes in a machine that was never configured: it is in a configuration with nothing in it, and its pool's is one change
    /// away, which comes with the budget, the drain and the originals of any other.
    fn adopt(&self) -> Result<Target, Failure> {
        let config = json!({"ignition": {"version": "3.5.0"}});
        let spec = MachineConfigSpec { config: Some(config), ..MachineConfigSpec::default() };
        let target = Target::parse(UNCONFIGURED, &spec, None)?;
        self.store_current(&config_text(&target), None)?;
        Ok(target)
    }

    /// What a configuration wants of a boot that this one has not.
    fn missing_of_boot(&self, target: &Target) -> Result<Option<BootChange>, Failure> {
        let booted = first_boot::as_booted(target, &self.host.boot()?);
        let observed = observe(&self.host, &booted, target)?;
        Ok(steps(&booted, target, &observed)?.into_iter().find_map(|step| match step {
            Step::Boot(change) => Some(change),
            _ => None,
        }))
    }

    /// The configuration that stands on the disk.
    pub fn on_disk_config(&self) -> Result<Option<Target>, String> {
        self.on_disk().map_err(|failure| failure.reason)
    }

    pub(crate) fn on_disk(&self) -> Result<Option<Target>, Failure> {
        let Some(bytes) = self.host.read(places::CURRENT_CONFIG)? else { return Ok(None) };
        let unreadable = |why: String| {
            Failure::degraded(TargetError::Unreadable { path: places::CURRENT_CONFIG.to_owned(), why }.to_string())
        };
        let value: Value = serde_json::from_slice(&bytes).map_err(|error| unreadable(error.to_string()))?;
        let name = value["metadata"]["name"].as_str().ok_or_else(|| unreadable("it has no name".to_owned()))?;
        let spec: MachineConfigSpec =
            serde_json::from_value(value["spec"].clone()).map_err(|error| unreadable(error.to_string()))?;
        let image = self.host.read(places::CURRENT_IMAGE)?.unwrap_or_default();
        let image = String::from_utf8_lossy(&image).trim().to_owned();
        Ok(Some(Target::parse(name, &spec, Some(&image))?))
    }

    pub(crate) fn store_current(&self, text: &[u8], image: Option<&str>) -> Result<(), HostError> {
        match image {
            Some(image) => self.host.write_through(places::CURRENT_IMAGE, image.as_bytes(), PUBLIC)?,
            None => self.host.remove(places::CURRENT_IMAGE)?,
        }
        // Differs: for root alone, because the contents of files stand in it that are for nobody else's eyes.
        self.host.write_through(places::CURRENT_CONFIG, text, PRIVATE)
    }
}

/// A configuration as it stands on the disk.
pub(crate) fn config_text(target: &Target) -> Vec<u8> {
    let value = json!({
        "apiVersion": API_VERSION,
        "kind": "MachineConfig",
        "metadata": {"name": target.name},
        "spec": target.spec,
    });
    value.to_string().into_bytes()
}
