//! Updates: from one configuration of the machine to another, journalled, finished or reverted whatever interrupts them.
//!
//! [`UpdateInProgress`] leads the [`Journal`] through its phases.

mod abandon;
pub mod boot_mismatch;
pub(crate) mod current_config;
pub(crate) mod drain_wait;
pub(crate) mod failed_update;
pub mod first_boot;
pub mod journal;
pub(crate) mod pending_reboot;
pub mod perform;
pub mod record_file;
pub mod recovery;
pub mod sysctl;
pub mod verification;

use seaworthy_host::{Attributes, Boot, EntryKind, Host, HostError};
use seaworthy_plan::disruption::{Action, Disruption};

use crate::decide::disruption::known_actions;
use crate::decide::observed::Observed;
use crate::decide::steps::steps;
use crate::decide::target::TargetState;
use crate::failure::Failure;
use crate::paths;
use boot_mismatch::{is_return, record_boot_mismatch};
use failed_update::FailedUpdate;
use journal::{Journal, Phase};
use pending_reboot::PendingReboot;
use perform::{perform, restore, restore_boot, revert_action, run_action};

/// How often a boot that lacks staged changes is staged again, before the update is reverted.
const MAX_STAGINGS: u32 = 3;

/// Progress of an update.
pub(crate) enum UpdateOutcome {
    /// It is completed or reverted.
    Settled,
    /// The machine is about to boot, for this reason.
    Rebooting(String),
}

/// An update with its journal, the machine that it changes, and the reboot that it requests.
pub(crate) struct UpdateInProgress<'a> {
    host: &'a dyn Host,
    reboot: &'a mut PendingReboot,
    journal: Journal,
}

impl<'a> UpdateInProgress<'a> {
    /// Applies a configuration, or reverts all of it.
    pub(crate) fn carry_out(
        host: &'a dyn Host,
        reboot: &'a mut PendingReboot,
        from: &TargetState,
        to: &TargetState,
        observed: &Observed,
        disruption: Option<&Disruption>,
    ) -> Result<UpdateOutcome, Failure> {
        let actions = disruption.map(|disruption| disruption.actions.clone()).unwrap_or_default();
        let steps = steps(from, to, observed)?;
        let mut journal = Journal::new(from, to, observed, &steps, &actions);
        journal.image = to.built_image.clone();
        journal.known_actions = known_actions(disruption);
        journal.begin(host, &steps, &current_config::text(to))?;
        if host.exists(paths::FORCE)? {
            host.remove(paths::FORCE)?;
        }
        let mut update = UpdateInProgress { host, reboot, journal };
        let is_done = steps.iter().try_for_each(|step| perform(host, step));
        if let Err(error) = is_done.and_then(|()| protect_kubeconfig(host, to)).and_then(|()| host.sync()) {
            return Err(update.revert(format!("update from {} to {}: {error}", from.name, to.name), false));
        }
        update.journal.phase = Phase::Acting;
        update.journal.save(host)?;
        update.activate()
    }

    /// Continues the update that the disk has a journal of, or waits for the requested reboot.
    pub(crate) fn resume(host: &'a dyn Host, reboot: &'a mut PendingReboot) -> Result<UpdateOutcome, Failure> {
        let boot = host.boot()?;
        if let Some(outcome) = reboot.poll(host, &boot.id)? {
            return Ok(outcome);
        }
        let Some(journal) = Journal::load(host)? else {
            Journal::remove_leftovers(host)?;
            return Ok(UpdateOutcome::Settled);
        };
        let has_booted = boot.id != journal.boot_id;
        let mut update = UpdateInProgress { host, reboot, journal };
        match update.journal.phase {
            Phase::Applying => {
                // Not saved: the journal on the disk already causes a revert, and the disk may be full.
                update.journal.is_seen = has_booted;
                update.undo().map(|(outcome, _)| outcome)
            }
            Phase::Undoing => {
                if has_booted {
                    update.journal.is_seen = true;
                    update.journal.boot_id = boot.id;
                    update.journal.save(host)?;
                }
                update.undo().map(|(outcome, _)| outcome)
            }
            Phase::Acting => update.activate(),
            Phase::Committed => update.complete(),
            Phase::Reverted if has_booted => update.complete_revert(&boot),
            Phase::Reverted => update.request_reboot(&boot.id),
        }
    }

    /// The disk is in the new configuration: the actions are done, and then it is committed.
    fn activate(mut self) -> Result<UpdateOutcome, Failure> {
        let (host, journal) = (self.host, &mut self.journal);
        if host.boot()?.id == journal.boot_id {
            let result =
                journal.actions.iter().try_for_each(|action| run_action(host, action).map_err(|why| (action, why)));
            match result {
                Ok(()) => {}
                Err((_, HostError::PoweredOff)) => return Err(HostError::PoweredOff.into()),
                Err((action, error)) => {
                    let (to, is_known) = (journal.to.clone(), journal.known_actions.contains(action));
                    let why = format!("update to {to}: {action}: {error}");
                    let failure = self.revert(why.clone(), true);
                    if is_known {
                        // No policy requests the action, which was to avoid a reboot.
                        FailedUpdate { config: to, why, is_final: false }.save(host)?;
                    }
                    return Err(failure);
                }
            }
            if !journal.actions.contains(&Action::Reboot) {
                let missing = verification::not_in_effect(host, &journal.paths(), &journal.actions)?;
                if !missing.is_empty() {
                    let to = journal.to.clone();
                    let why = format!("{to} is not in effect without a reboot: {}", missing.join("; "));
                    let failure = self.revert(why.clone(), true);
                    FailedUpdate { config: to, why, is_final: false }.save(host)?;
                    return Err(failure);
                }
            }
        } else if journal.boot.is_empty() {
            // Everything was written before this boot, so this boot has it all.
            journal.actions.clear();
        }
        // In another boot than the one that it was begun in, missing changes are staged before the next one.
        journal.phase = Phase::Committed;
        journal.save(host)?;
        self.complete()
    }

    /// The update is committed: the new configuration becomes the disk's, and a reboot that is due is requested.
    fn complete(mut self) -> Result<UpdateOutcome, Failure> {
        let (host, journal) = (self.host, &mut self.journal);
        let next = Journal::next_config(host)?;
        let image = host.read(paths::CURRENT_IMAGE)?.map(|it| String::from_utf8_lossy(&it).into_owned());
        if host.read(paths::CURRENT_CONFIG)?.as_ref() != Some(&next) || image != journal.image {
            current_config::store(host, &next, journal.image.as_deref())?;
        }
        if journal.actions.contains(&Action::Reboot) {
            let boot = host.boot()?;
            if boot.id == journal.boot_id {
                return self.request_reboot(&boot.id);
            }
            let missing = journal.missing_of_new(&boot).join(", ");
            if !missing.is_empty() && journal.stagings < MAX_STAGINGS {
                // A power cut loses a staged change, which only an orderly shutdown applies. Counted only once it is staged: as
                // long as that fails (a registry is available later than the machine) it is retried without a boot.
                host.stage(&journal.change_to_new(&boot)).map_err(|error| not_staged(&journal.to, &missing, &error))?;
                journal.stagings += 1;
                journal.boot_id = boot.id.clone();
                journal.save(host)?;
                return self.request_reboot(&boot.id);
            }
            if !missing.is_empty() {
                let why =
                    format!("after {MAX_STAGINGS} more boots into {} this machine still lacks {missing}", journal.to);
                FailedUpdate { config: journal.to.clone(), why: why.clone(), is_final: true }.save(host)?;
                if is_return(host, journal)? {
                    record_boot_mismatch(host, journal)?;
                    Journal::end(host)?;
                    return Err(Failure::degraded(why));
                }
                return Err(self.revert(why, true));
            }
        }
        Journal::end(host)?;
        Ok(UpdateOutcome::Settled)
    }

    /// Reverts to the old configuration; returns the failure to report.
    fn revert(mut self, why: String, is_seen: bool) -> Failure {
        let begin = |host: &dyn Host, journal: &mut Journal| -> Result<(), HostError> {
            journal.phase = Phase::Undoing;
            journal.is_seen |= is_seen;
            journal.boot_id = host.boot()?.id;
            journal.failure = Some(why.clone());
            journal.save(host)
        };
        let is_applying = self.journal.phase == Phase::Applying;
        if let Err(error) = begin(self.host, &mut self.journal)
            // The journal on the disk already causes a revert, which frees space if the disk is full.
            && !is_applying
        {
            return Failure::degraded(format!("{why}; not rolled back yet: {error}"));
        }
        let from = self.journal.from.clone();
        match self.undo() {
            Ok((_, notes)) if notes.is_empty() => Failure::degraded(format!("{why}; rolled back to {from}")),
            Ok((_, notes)) => Failure::degraded(format!("{why}; rolled back to {from}, but {}", notes.join("; "))),
            Err(failure) => Failure::degraded(format!("{why}; not rolled back yet: {}", failure.reason)),
        }
    }

    fn undo(mut self) -> Result<(UpdateOutcome, Vec<String>), Failure> {
        let (host, journal) = (self.host, &mut self.journal);
        restore(host, journal)?;
        let boot = host.boot()?;
        let needs_boot = journal.is_seen && journal.actions.contains(&Action::Reboot);
        let restored = restore_boot(host, journal);
        if needs_boot {
            journal.phase = Phase::Reverted;
            journal.stagings = 0;
        }
        if restored.is_err() && needs_boot && !journal.change_to_old(&boot).is_empty() {
            // The files are the old ones and stay so. Only the return to the old boot is left, which is retried.
            journal.boot_id = String::new();
            journal.save(host)?;
        }
        restored?;
        let mut notes = Vec::new();
        if journal.is_seen {
            if needs_boot {
                journal.boot_id = boot.id.clone();
                journal.save(host)?;
                return Ok((self.request_reboot(&boot.id)?, notes));
            }
            for action in &journal.actions {
                match revert_action(host, journal, action) {
                    Ok(()) => {}
                    Err(HostError::PoweredOff) => return Err(HostError::PoweredOff.into()),
                    // The files are the old ones even if a service fails, so the failure does not keep the node from its next order.
                    Err(error) => notes.push(error.to_string()),
                }
            }
        }
        Journal::end(host)?;
        Ok((UpdateOutcome::Settled, notes))
    }

    /// The disk is in the old configuration, and the machine has booted: the revert is complete, or the old boot is staged again.
    fn complete_revert(mut self, boot: &Boot) -> Result<UpdateOutcome, Failure> {
        let (host, journal) = (self.host, &mut self.journal);
        let missing = journal.missing_of_old(boot).join(", ");
        if !missing.is_empty() && journal.stagings < MAX_STAGINGS {
            // Counted only once it is staged: as long as that fails (a registry is unavailable) it is retried without a boot.
            restore_boot(host, journal).map_err(|error| not_staged(&journal.from, &missing, &error))?;
            journal.stagings += 1;
            journal.boot_id = boot.id.clone();
            journal.save(host)?;
            return self.request_reboot(&boot.id);
        }
        if missing.is_empty() {
            Journal::end(host)?;
            return Ok(UpdateOutcome::Settled);
        }
        // More boots do not help, but another order may.
        record_boot_mismatch(host, journal)?;
        Journal::end(host)?;
        let from = &journal.from;
        Err(Failure::degraded(format!(
            "after {MAX_STAGINGS} more boots back into {from} this machine still lacks {missing}"
        )))
    }

    fn request_reboot(self, boot_id: &str) -> Result<UpdateOutcome, Failure> {
        let (verb, config) = match self.journal.phase {
            Phase::Reverted => ("returns to", &self.journal.from),
            _ => ("boots into", &self.journal.to),
        };
        let why = format!("{verb} {config}");
        self.reboot.request(self.host, boot_id, &why)?;
        Ok(UpdateOutcome::Rebooting(why))
    }
}

/// The failure to stage the boot of a configuration.
fn not_staged(config: &str, missing: &str, error: &HostError) -> Failure {
    Failure::degraded(format!(
        "the booted system does not match {config}: missing {missing}, and the next boot could not be prepared: {error}; \
         retrying unless a new order arrives"
    ))
}

fn protect_kubeconfig(host: &dyn Host, to: &TargetState) -> Result<(), HostError> {
    if to.paths.contains_key(paths::KUBECONFIG) {
        return Ok(());
    }
    // Differs: a machine without one is updated, because upstream refuses every update there.
    match host.entry(paths::KUBECONFIG)? {
        Some(entry) if entry.kind == EntryKind::File && entry.mode != 0o600 => {
            host.set_attributes(paths::KUBECONFIG, Attributes { mode: 0o600, uid: entry.uid, gid: entry.gid })
        }
        _ => Ok(()),
    }
}
