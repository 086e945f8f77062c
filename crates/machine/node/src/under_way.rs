//! An update that is under way, brought to its end one way or the other (the journal's phases, see [`crate::journal`]).

use seaworthy_host::{Boot, Host, HostError};
use seaworthy_plan::disruption::Action;
use serde::{Deserialize, Serialize};

use crate::agent::{Agent, Failure, PUBLIC};
use crate::journal::{Journal, Phase};
use crate::perform::{act, act_back, boot_back, restore};
use crate::{places, proof};

/// How often a boot that lacks what was prepared for it is prepared again, before the machine goes back.
const STAGINGS: u32 = 3;

/// What became of an update that was under way.
pub(crate) enum Resumed {
    /// It is over, one way or the other.
    Settled,
    /// The machine is about to boot.
    Rebooting(String),
}

/// A configuration that was tried, and why it is not tried in the same way again.
#[derive(Serialize, Deserialize)]
pub(crate) struct Verdict {
    pub(crate) config: String,
    pub(crate) why: String,
    /// It is not tried at all; otherwise it is tried with a reboot.
    pub(crate) is_final: bool,
}

/// A boot into a configuration could not be prepared.
fn unprepared(config: &str, lacking: &str, error: &HostError) -> Failure {
    Failure::degraded(format!(
        "this boot is not the one of {config}: it lacks {lacking}, and the next one could not be prepared: {error}; it is tried \
         again, and another order is followed"
    ))
}

impl<H: Host> Agent<H> {
    pub(crate) fn resume_any(&mut self) -> Result<Resumed, Failure> {
        let boot = self.host.boot()?;
        if let Some(awaited) = self.awaited_boot(&boot.id)? {
            return Ok(awaited);
        }
        let Some(mut journal) = Journal::load(&self.host)? else {
            Journal::sweep(&self.host)?;
            return Ok(Resumed::Settled);
        };
        let has_booted = boot.id != journal.boot_id;
        match journal.phase {
            Phase::Applying => {
                // Not written down: that it is to be taken back is what it says already, and the disk may be full.
                journal.is_seen = has_booted;
                self.undo(journal).map(|(resumed, _)| resumed)
            }
            Phase::Undoing => {
                if has_booted {
                    journal.is_seen = true;
                    journal.boot_id = boot.id;
                    journal.save(&self.host)?;
                }
                self.undo(journal).map(|(resumed, _)| resumed)
            }
            Phase::Acting => self.act(journal),
            Phase::Committed => self.settle(journal),
            Phase::Reverted if has_booted => self.come_back(journal, &boot),
            Phase::Reverted => self.reboot(&journal, &boot.id),
        }
    }

    /// The disk is in the new configuration: what runs is told, and then it counts.
    pub(crate) fn act(&mut self, mut journal: Journal) -> Result<Resumed, Failure> {
        let boot = self.host.boot()?;
        if boot.id == journal.boot_id {
            let result =
                journal.actions.iter().try_for_each(|action| act(&self.host, action).map_err(|why| (action, why)));
            match result {
                Ok(()) => {}
                Err((_, HostError::Off)) => return Err(HostError::Off.into()),
                Err((action, error)) => {
                    let (to, is_known) = (journal.to.clone(), journal.known.contains(action));
                    let why = format!("update to {to}: {action}: {error}");
                    let failure = self.take_back(journal, why.clone(), true);
                    if is_known {
                        // Nobody asked for it: it was to spare a reboot, and does not.
                        self.judge(&Verdict { config: to, why, is_final: false })?;
                    }
                    return Err(failure);
                }
            }
            if !journal.actions.contains(&Action::Reboot) {
                let unproven = proof::unproven(&self.host, &journal.paths(), &journal.actions)?;
                if !unproven.is_empty() {
                    let to = journal.to.clone();
                    let why = format!("{to} is not in force without a reboot: {}", unproven.join("; "));
                    let failure = self.take_back(journal, why.clone(), true);
                    self.judge(&Verdict { config: to, why, is_final: false })?;
                    return Err(failure);
                }
            }
        } else if journal.boot.is_empty() {
            // Everything was written before this boot, so this boot has it all.
            journal.actions.clear();
        }
        // In another boot than the one that it was begun in, what is lacking is prepared before the next one.
        journal.phase = Phase::Committed;
        journal.save(&self.host)?;
        self.settle(journal)
    }

    /// It counts: what is due is done.
    fn settle(&mut self, mut journal: Journal) -> Result<Resumed, Failure> {
        let next = Journal::next_config(&self.host)?;
        let image = self.host.read(places::CURRENT_IMAGE)?.map(|it| String::from_utf8_lossy(&it).into_owned());
        if self.host.read(places::CURRENT_CONFIG)?.as_ref() != Some(&next) || image != journal.image {
            self.store_current(&next, journal.image.as_deref())?;
        }
        if journal.actions.contains(&Action::Reboot) {
            let boot = self.host.boot()?;
            if boot.id == journal.boot_id {
                return self.reboot(&journal, &boot.id);
            }
            let lacking = journal.lacks(&boot).join(", ");
            if !lacking.is_empty() && journal.stagings < STAGINGS {
                // A power cut loses what an orderly shutdown would have put in place. Not counted before it is prepared: as long
                // as that fails (a registry comes up later than the machine) it is tried, and nothing is said of a boot.
                self.host.stage(&journal.way_on(&boot)).map_err(|error| unprepared(&journal.to, &lacking, &error))?;
                journal.stagings += 1;
                journal.boot_id = boot.id.clone();
                journal.save(&self.host)?;
                return self.reboot(&journal, &boot.id);
            }
            if !lacking.is_empty() {
                let why = format!("after {STAGINGS} more boots into {} this machine still lacks {lacking}", journal.to);
                self.judge(&Verdict { config: journal.to.clone(), why: why.clone(), is_final: true })?;
                if self.is_return(&journal)? {
                    self.stray(&journal)?;
                    Journal::end(&self.host)?;
                    return Err(Failure::degraded(why));
                }
                return Err(self.take_back(journal, why, true));
            }
        }
        Journal::end(&self.host)?;
        Ok(Resumed::Settled)
    }

    /// Goes back to the old configuration, and says why.
    pub(crate) fn take_back(&mut self, mut journal: Journal, why: String, is_seen: bool) -> Failure {
        let begin = |host: &H, journal: &mut Journal| -> Result<(), HostError> {
            journal.phase = Phase::Undoing;
            journal.is_seen |= is_seen;
            journal.boot_id = host.boot()?.id;
            journal.failure = Some(why.clone());
            journal.save(host)
        };
        let is_applying = journal.phase == Phase::Applying;
        if let Err(error) = begin(&self.host, &mut journal)
            // What is on the disk says already that it is to be taken back; the disk may be full of what goes now.
            && !is_applying
        {
            return Failure::degraded(format!("{why}; it is not taken back yet: {error}"));
        }
        let from = journal.from.clone();
        match self.undo(journal) {
            Ok((_, notes)) if notes.is_empty() => Failure::degraded(format!("{why}; {from} is back in place")),
            Ok((_, notes)) => Failure::degraded(format!("{why}; {from} is back in place, but {}", notes.join("; "))),
            Err(failure) => Failure::degraded(format!("{why}; it is not taken back yet: {}", failure.reason)),
        }
    }

    fn undo(&mut self, mut journal: Journal) -> Result<(Resumed, Vec<String>), Failure> {
        restore(&self.host, &journal)?;
        let boot = self.host.boot()?;
        let needs_boot = journal.is_seen && journal.actions.contains(&Action::Reboot);
        let back = boot_back(&self.host, &journal);
        if needs_boot {
            journal.phase = Phase::Reverted;
            journal.stagings = 0;
        }
        if back.is_err() && needs_boot && !journal.way_back(&boot).is_empty() {
            // The files are the old ones and stay so. What is left is the way back out of this boot, which is tried again.
            journal.boot_id = String::new();
            journal.save(&self.host)?;
        }
        back?;
        let mut notes = Vec::new();
        if journal.is_seen {
            if needs_boot {
                journal.boot_id = boot.id.clone();
                journal.save(&self.host)?;
                return Ok((self.reboot(&journal, &boot.id)?, notes));
            }
            for action in &journal.actions {
                match act_back(&self.host, &journal, action) {
                    Ok(()) => {}
                    Err(HostError::Off) => return Err(HostError::Off.into()),
                    // The files are the old ones whatever a service says; it must not keep the machine from its next order.
                    Err(error) => notes.push(error.to_string()),
                }
            }
        }
        Journal::end(&self.host)?;
        Ok((Resumed::Settled, notes))
    }

    /// The disk is in the old configuration, and the machine has booted: into the old one, or it is sent there again.
    fn come_back(&mut self, mut journal: Journal, boot: &Boot) -> Result<Resumed, Failure> {
        let lacking = journal.lacks_of_old(boot).join(", ");
        if !lacking.is_empty() && journal.stagings < STAGINGS {
            // Not counted before it is prepared: as long as that fails (a registry is away) it is tried, and no boot wasted.
            boot_back(&self.host, &journal).map_err(|error| unprepared(&journal.from, &lacking, &error))?;
            journal.stagings += 1;
            journal.boot_id = boot.id.clone();
            journal.save(&self.host)?;
            return self.reboot(&journal, &boot.id);
        }
        if lacking.is_empty() {
            Journal::end(&self.host)?;
            return Ok(Resumed::Settled);
        }
        // More boots are no help, and another order may be.
        let from = &journal.from;
        self.stray(&journal)?;
        Journal::end(&self.host)?;
        Err(Failure::degraded(format!(
            "after {STAGINGS} more boots back into {from} this machine still lacks {lacking}"
        )))
    }

    fn reboot(&mut self, journal: &Journal, boot_id: &str) -> Result<Resumed, Failure> {
        let (verb, config) = match journal.phase {
            Phase::Reverted => ("returns to", &journal.from),
            _ => ("boots into", &journal.to),
        };
        let why = format!("{verb} {config}");
        self.ask_for_boot(boot_id, &why)?;
        Ok(Resumed::Rebooting(why))
    }

    // === What was tried ===

    pub(crate) fn verdict(&self) -> Result<Option<Verdict>, HostError> {
        let bytes = self.host.read(places::ESCALATED)?;
        // One that cannot be read is one less: the update is tried as if there were none.
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    fn judge(&self, verdict: &Verdict) -> Result<(), HostError> {
        let text = serde_json::to_vec(verdict).map_err(|error| HostError::file("write", places::ESCALATED, error))?;
        self.host.write_through(places::ESCALATED, &text, PUBLIC)
    }

    pub(crate) fn forget_other_verdicts(&self, desired: &str) -> Result<(), HostError> {
        match self.verdict()? {
            Some(verdict) if verdict.config != desired => self.host.remove(places::ESCALATED),
            _ => Ok(()),
        }
    }
}
