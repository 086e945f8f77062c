//! A machine whose boot is not the one of its configuration because that could not be prepared: it does not wait for ever, another
//! order leads on from what is booted.

use seaworthy_api::vocabulary::machineconfiguration::State;
use seaworthy_host::{Host, HostError};
use serde::{Deserialize, Serialize};

use crate::agent::{Agent, Failure, PUBLIC, image_of, target_of, working};
use crate::journal::{Journal, Phase};
use crate::order::Order;
use crate::target::Target;
use crate::{extensions, first_boot, kernel_arguments, places};

/// What is noted of a way back that was given up.
#[derive(Default, Serialize, Deserialize)]
struct Astray {
    /// The configuration that the disk is in.
    config: String,
    /// Kernel arguments that may have come with what was taken back.
    arguments: Vec<String>,
    /// Packages that may have come with it.
    packages: Vec<String>,
}

impl<H: Host> Agent<H> {
    /// What is under way could not be brought to its end. If all that is lacking is a boot that cannot be prepared (a registry is
    /// away, an image is gone), an order for something else counts, once it is claimed and nothing speaks against it: what was
    /// begun is taken back, and a way back that is not to be had is left.
    ///
    /// Says whether the order may be followed now; if not, it is another one by now.
    pub(crate) fn leave(
        &mut self,
        order: &Order,
        may_begin: &mut dyn FnMut(State) -> bool,
        failure: Failure,
    ) -> Result<bool, Failure> {
        let Some(desired) = order.desired.as_ref().filter(|desired| desired.spec.is_some()) else {
            return Err(failure);
        };
        let (Ok(Some(journal)), Ok(boot)) = (Journal::load(&self.host), self.host.boot()) else { return Err(failure) };
        let is_condemned = self.verdict()?.is_some_and(|verdict| verdict.is_final && verdict.config == desired.name);
        let Some(disk) = self.on_disk()? else { return Err(failure) };
        let (is_lacking, under_way) = match journal.phase {
            Phase::Committed => (!journal.lacks(&boot).is_empty(), (&journal.to, &journal.image)),
            Phase::Reverted => (!journal.lacks_of_old(&boot).is_empty(), (&disk.name, &disk.built_image)),
            _ => return Err(failure),
        };
        // In the boot that must end nothing is lacking yet.
        let is_lacking = is_lacking && boot.id != journal.boot_id;
        let is_other = (desired.name.as_str(), image_of(desired)) != (under_way.0, under_way.1.as_deref());
        if is_condemned || !is_lacking || !is_other {
            return Err(failure);
        }
        // What was there before is never refused.
        if desired.name != journal.from
            && let Err(refusal) = target_of(desired).and_then(|to| self.refuse(&disk, &to, order))
        {
            // What is lacking is still tried.
            let reason = format!("{}; {}", refusal.reason, failure.reason);
            return Err(Failure { reason, again: failure.again, ..refusal });
        }
        if !may_begin(working(order)) {
            return Ok(false);
        }
        if journal.phase == Phase::Committed && !self.is_return(&journal)? {
            let why = format!("{} is no longer ordered, and {}", journal.to, failure.reason);
            return Err(self.take_back(journal, why, true));
        }
        tracing::warn!("the way back into {} is left for another order: {}", disk.name, failure.reason);
        self.stray(&journal)?;
        Journal::end(&self.host)?;
        Ok(true)
    }

    /// Notes that the boot is not the one of the configuration that a journal has put back, and that no more is done about it.
    pub(crate) fn stray(&self, journal: &Journal) -> Result<(), HostError> {
        let mut astray = self.astray(&journal.from)?.unwrap_or_default();
        astray.config.clone_from(&journal.from);
        // What was booted before has not come with it.
        let was = journal.was.as_ref().map(|was| &was.arguments[..]).unwrap_or_default();
        astray.arguments.extend(journal.boot.append.iter().filter(|argument| !was.contains(argument)).cloned());
        astray.packages.extend_from_slice(&journal.boot.install);
        let text = serde_json::to_vec(&astray).map_err(|error| HostError::file("write", places::ASTRAY, error))?;
        self.host.write_through(places::ASTRAY, &text, PUBLIC)
    }

    /// Whether a journal leads a machine that is astray into what its disk is in. What it was led away by is no place to go back to.
    pub(crate) fn is_return(&self, journal: &Journal) -> Result<bool, HostError> {
        Ok(journal.from == journal.to && self.astray(&journal.from)?.is_some())
    }

    /// What was noted of this configuration. What was noted of another one, or cannot be read, does not count.
    fn astray(&self, config: &str) -> Result<Option<Astray>, HostError> {
        let noted = self.host.read(places::ASTRAY)?;
        let noted: Option<Astray> = noted.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Ok(noted.filter(|astray| astray.config == config))
    }

    /// Whether the way into this configuration was given up, and its boot has not come since. What was noted of another one, or of a
    /// boot that has come, is forgotten.
    pub(crate) fn is_astray(&self, disk: &Target) -> Result<bool, HostError> {
        let is_astray = self.astray(&disk.name)?.is_some() && !self.is_booted(disk)?;
        if !is_astray && self.host.exists(places::ASTRAY)? {
            self.host.remove(places::ASTRAY)?;
        }
        Ok(is_astray)
    }

    /// Whether what is booted is the disk's configuration, with nothing left of another one.
    ///
    /// As in [`crate::booted`], neither order nor a second one of an argument counts: a boot that is good enough there, and not here,
    /// would be tried for ever.
    fn is_booted(&self, disk: &Target) -> Result<bool, HostError> {
        let (boot, booted) = (self.host.boot()?, self.as_booted(disk)?);
        let count = |list: &[String], one: &String| list.iter().filter(|it| *it == one).count();
        let is_left = |it: &String| count(&booted.arguments, it) > count(&disk.arguments, it);
        Ok((booted.image(), booted.kernel, &booted.extensions) == (disk.image(), disk.kernel, &disk.extensions)
            && kernel_arguments::missing(&disk.arguments, &boot.arguments).is_empty()
            && !booted.arguments.iter().any(is_left))
    }

    /// The disk's configuration, with only that of its boot which is booted, and with what is left of one that was taken back.
    pub(crate) fn as_booted(&self, disk: &Target) -> Result<Target, HostError> {
        let boot = self.host.boot()?;
        let mut booted = first_boot::as_booted(disk, &boot);
        if let Some(astray) = self.astray(&disk.name)? {
            let ours = [&disk.arguments[..], &astray.arguments].concat();
            booted.arguments = kernel_arguments::present(&ours, &boot.arguments);
            let left: Vec<String> = astray.packages.into_iter().filter(|it| boot.packages.contains(it)).collect();
            let left = extensions::of_packages(&left).into_iter().filter(|name| !disk.extensions.contains(name));
            booted.extensions.extend(left);
        }
        Ok(booted)
    }
}
