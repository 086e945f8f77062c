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
pub mod proof;
pub mod recovery;
pub mod sysctl;

use seaworthy_host::{Attributes, Boot, Host, HostError, Kind};
use seaworthy_plan::disruption::{Action, Disruption};

use crate::decide::disruption::known_actions;
use crate::decide::observed::Observed;
use crate::decide::steps::steps;
use crate::decide::target::Target;
use crate::failure::Failure;
use crate::paths;
use boot_mismatch::{is_return, record_boot_mismatch};
use failed_update::FailedUpdate;
use journal::{Journal, Phase};
use pending_reboot::PendingReboot;
use perform::{act, act_back, boot_back, perform, restore};

/// How often a boot that lacks what was prepared for it is prepared again, before the machine goes back.
const STAGINGS: u32 = 3;

/// How far an update has come.
pub(crate) enum UpdateOutcome {
    /// It is over, finished or reverted.
    Settled,
    /// The machine is about to boot.
    Rebooting(String),
}

/// An update that has a journal, the machine that it changes, and the boot that it asks for.
pub(crate) struct UpdateInProgress<'a> {
    host: &'a dyn Host,
    reboot: &'a mut PendingReboot,
    journal: Journal,
}

impl<'a> UpdateInProgress<'a> {
    /// Brings the machine from one configuration to another, or reverts all of it.
    pub(crate) fn carry_out(
        host: &'a dyn Host,
        reboot: &'a mut PendingReboot,
        from: &Target,
        to: &Target,
        observed: &Observed,
        disruption: Option<&Disruption>,
    ) -> Result<UpdateOutcome, Failure> {
        let actions = disruption.map(|disruption| disruption.actions.clone()).unwrap_or_default();
        let steps = steps(from, to, observed)?;
        let mut journal = Journal::new(from, to, observed, &steps, &actions);
        journal.image = to.built_image.clone();
        journal.known = known_actions(disruption);
        let text = String::from_utf8_lossy(&current_config::text(to)).into_owned();
        journal.begin(host, &steps, &text)?;
        if host.exists(paths::FORCE)? {
            host.remove(paths::FORCE)?;
        }
        let mut update = UpdateInProgress { host, reboot, journal };
        let is_done = steps.iter().try_for_each(|step| perform(host, step));
        if let Err(error) = is_done.and_then(|()| protect_kubeconfig(host, to)).and_then(|()| host.sync()) {
            return Err(update.take_back(format!("update from {} to {}: {error}", from.name, to.name), false));
        }
        update.journal.phase = Phase::Acting;
        update.journal.save(host)?;
        update.act()
    }

    /// Continues the update that the disk has a journal of, or waits for the boot that was asked for.
    pub(crate) fn resume(host: &'a dyn Host, reboot: &'a mut PendingReboot) -> Result<UpdateOutcome, Failure> {
        let boot = host.boot()?;
        if let Some(outcome) = reboot.poll(host, &boot.id)? {
            return Ok(outcome);
        }
        let Some(journal) = Journal::load(host)? else {
            Journal::sweep(host)?;
            return Ok(UpdateOutcome::Settled);
        };
        let has_booted = boot.id != journal.boot_id;
        let mut update = UpdateInProgress { host, reboot, journal };
        match update.journal.phase {
            Phase::Applying => {
                // Not saved: the journal already stands for a revert, and the disk may be full.
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
            Phase::Acting => update.act(),
            Phase::Committed => update.settle(),
            Phase::Reverted if has_booted => update.come_back(&boot),
            Phase::Reverted => update.ask_for_boot(&boot.id),
        }
    }

    /// The disk is in the new configuration: services pick it up, and then it is committed.
    fn act(mut self) -> Result<UpdateOutcome, Failure> {
        let (host, journal) = (self.host, &mut self.journal);
        if host.boot()?.id == journal.boot_id {
            let result = journal.actions.iter().try_for_each(|action| act(host, action).map_err(|why| (action, why)));
            match result {
                Ok(()) => {}
                Err((_, HostError::Off)) => return Err(HostError::Off.into()),
                Err((action, error)) => {
                    let (to, is_known) = (journal.to.clone(), journal.known.contains(action));
                    let why = format!("update to {to}: {action}: {error}");
                    let failure = self.take_back(why.clone(), true);
                    if is_known {
                        // No policy asks for the action: it was to spare a reboot, and does not.
                        FailedUpdate { config: to, why, is_final: false }.save(host)?;
                    }
                    return Err(failure);
                }
            }
            if !journal.actions.contains(&Action::Reboot) {
                let unproven = proof::unproven(host, &journal.paths(), &journal.actions)?;
                if !unproven.is_empty() {
                    let to = journal.to.clone();
                    let why = format!("{to} is not in force without a reboot: {}", unproven.join("; "));
                    let failure = self.take_back(why.clone(), true);
                    FailedUpdate { config: to, why, is_final: false }.save(host)?;
                    return Err(failure);
                }
            }
        } else if journal.boot.is_empty() {
            // Everything was written before this boot, so this boot has it all.
            journal.actions.clear();
        }
        // In another boot than the one that it was begun in, what is lacking is prepared before the next one.
        journal.phase = Phase::Committed;
        journal.save(host)?;
        self.settle()
    }

    /// The update is committed: the disk's configuration is the new one, and a reboot that is due is made.
    fn settle(mut self) -> Result<UpdateOutcome, Failure> {
        let (host, journal) = (self.host, &mut self.journal);
        let next = Journal::next_config(host)?;
        let image = host.read(paths::CURRENT_IMAGE)?.map(|it| String::from_utf8_lossy(&it).into_owned());
        if host.read(paths::CURRENT_CONFIG)?.as_ref() != Some(&next) || image != journal.image {
            current_config::store(host, &next, journal.image.as_deref())?;
        }
        if journal.actions.contains(&Action::Reboot) {
            let boot = host.boot()?;
            if boot.id == journal.boot_id {
                return self.ask_for_boot(&boot.id);
            }
            let lacking = journal.lacks(&boot).join(", ");
            if !lacking.is_empty() && journal.stagings < STAGINGS {
                // A power cut loses what an orderly shutdown would have put in place. Counted only once it is prepared: as long
                // as that fails (a registry comes up later than the machine) it is tried again without a boot.
                host.stage(&journal.way_on(&boot)).map_err(|error| unprepared(&journal.to, &lacking, &error))?;
                journal.stagings += 1;
                journal.boot_id = boot.id.clone();
                journal.save(host)?;
                return self.ask_for_boot(&boot.id);
            }
            if !lacking.is_empty() {
                let why = format!("after {STAGINGS} more boots into {} this machine still lacks {lacking}", journal.to);
                FailedUpdate { config: journal.to.clone(), why: why.clone(), is_final: true }.save(host)?;
                if is_return(host, journal)? {
                    record_boot_mismatch(host, journal)?;
                    Journal::end(host)?;
                    return Err(Failure::degraded(why));
                }
                return Err(self.take_back(why, true));
            }
        }
        Journal::end(host)?;
        Ok(UpdateOutcome::Settled)
    }

    /// Goes back to the old configuration; returns why.
    fn take_back(mut self, why: String, is_seen: bool) -> Failure {
        let begin = |host: &dyn Host, journal: &mut Journal| -> Result<(), HostError> {
            journal.phase = Phase::Undoing;
            journal.is_seen |= is_seen;
            journal.boot_id = host.boot()?.id;
            journal.failure = Some(why.clone());
            journal.save(host)
        };
        let is_applying = self.journal.phase == Phase::Applying;
        if let Err(error) = begin(self.host, &mut self.journal)
            // The journal on the disk already stands for a revert; the disk may be full of what is removed now.
            && !is_applying
        {
            return Failure::degraded(format!("{why}; it is not taken back yet: {error}"));
        }
        let from = self.journal.from.clone();
        match self.undo() {
            Ok((_, notes)) if notes.is_empty() => Failure::degraded(format!("{why}; {from} is back in place")),
            Ok((_, notes)) => Failure::degraded(format!("{why}; {from} is back in place, but {}", notes.join("; "))),
            Err(failure) => Failure::degraded(format!("{why}; it is not taken back yet: {}", failure.reason)),
        }
    }

    fn undo(mut self) -> Result<(UpdateOutcome, Vec<String>), Failure> {
        let (host, journal) = (self.host, &mut self.journal);
        restore(host, journal)?;
        let boot = host.boot()?;
        let needs_boot = journal.is_seen && journal.actions.contains(&Action::Reboot);
        let back = boot_back(host, journal);
        if needs_boot {
            journal.phase = Phase::Reverted;
            journal.stagings = 0;
        }
        if back.is_err() && needs_boot && !journal.way_back(&boot).is_empty() {
            // The files are the old ones and stay so. What is left is the way back out of this boot, which is tried again.
            journal.boot_id = String::new();
            journal.save(host)?;
        }
        back?;
        let mut notes = Vec::new();
        if journal.is_seen {
            if needs_boot {
                journal.boot_id = boot.id.clone();
                journal.save(host)?;
                return Ok((self.ask_for_boot(&boot.id)?, notes));
            }
            for action in &journal.actions {
                match act_back(host, journal, action) {
                    Ok(()) => {}
                    Err(HostError::Off) => return Err(HostError::Off.into()),
                    // The files are the old ones whatever a service answers; it must not keep the machine from its next order.
                    Err(error) => notes.push(error.to_string()),
                }
            }
        }
        Journal::end(host)?;
        Ok((UpdateOutcome::Settled, notes))
    }

    /// The disk is in the old configuration, and the machine has booted: into the old one, or it is sent there again.
    fn come_back(mut self, boot: &Boot) -> Result<UpdateOutcome, Failure> {
        let (host, journal) = (self.host, &mut self.journal);
        let lacking = journal.lacks_of_old(boot).join(", ");
        if !lacking.is_empty() && journal.stagings < STAGINGS {
            // Counted only once it is prepared: as long as that fails (a registry is away) it is tried, and no boot is wasted.
            boot_back(host, journal).map_err(|error| unprepared(&journal.from, &lacking, &error))?;
            journal.stagings += 1;
            journal.boot_id = boot.id.clone();
            journal.save(host)?;
            return self.ask_for_boot(&boot.id);
        }
        if lacking.is_empty() {
            Journal::end(host)?;
            return Ok(UpdateOutcome::Settled);
        }
        // More boots are no help, and another order may be.
        record_boot_mismatch(host, journal)?;
        Journal::end(host)?;
        let from = &journal.from;
        Err(Failure::degraded(format!(
            "after {STAGINGS} more boots back into {from} this machine still lacks {lacking}"
        )))
    }

    fn ask_for_boot(self, boot_id: &str) -> Result<UpdateOutcome, Failure> {
        let (verb, config) = match self.journal.phase {
            Phase::Reverted => ("returns to", &self.journal.from),
            _ => ("boots into", &self.journal.to),
        };
        let why = format!("{verb} {config}");
        self.reboot.ask(self.host, boot_id, &why)?;
        Ok(UpdateOutcome::Rebooting(why))
    }
}

/// A boot into a configuration could not be prepared.
fn unprepared(config: &str, lacking: &str, error: &HostError) -> Failure {
    Failure::degraded(format!(
        "this boot is not the one of {config}: it lacks {lacking}, and the next one could not be prepared: {error}; it is tried \
         again, and another order is followed"
    ))
}

fn protect_kubeconfig(host: &dyn Host, to: &Target) -> Result<(), HostError> {
    if to.paths.contains_key(paths::KUBECONFIG) {
        return Ok(());
    }
    // Differs: a machine without one is fine, because upstream refuses every update there.
    match host.entry(paths::KUBECONFIG)? {
        Some(entry) if entry.kind == Kind::File && entry.mode != 0o600 => {
            host.set_attributes(paths::KUBECONFIG, Attributes { mode: 0o600, uid: entry.uid, gid: entry.gid })
        }
        _ => Ok(()),
    }
}
