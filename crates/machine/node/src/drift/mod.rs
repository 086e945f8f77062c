//! Drift: differences between the machine and the configuration that its disk is in, found, reported and repaired.

pub mod certificates;
pub mod difference;
pub mod file_watch;
mod repair;
pub mod validate;

use std::collections::BTreeSet;

use seaworthy_host::Host;

use crate::clock::Clock;
use crate::decide::observed::{Observed, observe};
use crate::decide::target::Target;
use crate::failure::Failure;
use crate::order::Order;
use crate::update::pending_reboot::PendingReboot;
use crate::update::{UpdateInProgress, current_config};
use repair::Repairs;

/// What differs, or why that is not known. Not by how much: a file that grows has been seen.
type Seen = Result<Vec<(String, validate::Aspect)>, String>;

fn seen(findings: &[validate::Finding]) -> Seen {
    Ok(findings.iter().map(|finding| (finding.subject.clone(), finding.aspect)).collect())
}

/// Comparison of the machine with its configuration, with what the last one found and which repairs were made.
pub(crate) struct DriftMonitor {
    clock: Clock,
    is_repairing: bool,
    repairs: Repairs,
    last: Option<Seen>,
    /// Repairs that no report has named yet.
    notes: Vec<String>,
}

impl DriftMonitor {
    pub(crate) fn new(clock: Clock, is_repairing: bool) -> Self {
        DriftMonitor { clock, is_repairing, repairs: Repairs::default(), last: None, notes: Vec::new() }
    }

    pub(crate) fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
    }

    /// A new attempt begins: what the last comparison found no longer counts.
    pub(crate) fn forget_last(&mut self) {
        self.last = None;
    }

    /// The repairs that no report has named yet.
    pub(crate) fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Whether the machine is what it was at the last comparison, be that right or wrong.
    pub(crate) fn is_as_seen(&mut self, host: &dyn Host) -> bool {
        let look = || -> Result<Seen, Failure> {
            let Some(target) = current_config::load(host)? else { return Ok(seen(&[])) };
            Ok(seen(&validate::validate(host, &target)?))
        };
        let now = look().unwrap_or_else(|failure| Err(failure.reason));
        // Without a last comparison nothing is new: an attempt that has not got that far is retried anyway.
        self.last.get_or_insert_with(|| now.clone()) == &now
    }

    /// Compares the machine with the disk's configuration, and repairs or reports what differs.
    ///
    /// `ends_mismatch`: the machine has booted something else, and the order leads out of that.
    pub(crate) fn check(
        &mut self,
        host: &dyn Host,
        reboot: &mut PendingReboot,
        disk: &Target,
        order: &Order,
        is_there: bool,
        ends_mismatch: bool,
    ) -> Result<(), Failure> {
        let observed = observe(host, disk, disk)?;
        let mut findings = validate::compare(disk, &observed);
        self.last = Some(seen(&findings));
        if ends_mismatch {
            // Differs: a boot mismatch is known, and no reason to refuse another order or a boot into this one, because either
            // ends it.
            findings.retain(|finding| finding.aspect != validate::Aspect::Boot);
        }
        if findings.is_empty() {
            return Ok(());
        }
        // A machine that is on its way elsewhere is not repaired.
        let why_not = if self.is_repairing && (is_there || !ends_mismatch) {
            match self.repair(host, reboot, disk, order, &findings, &observed) {
                Ok(repaired) => {
                    self.last = Some(seen(&[]));
                    let all: Vec<String> = repaired.into_iter().collect();
                    self.notes.push(format!("what differed from {} was put right: {}", disk.name, all.join(", ")));
                    return Ok(());
                }
                Err(why) => format!("it is not put right: {why}"),
            }
        } else {
            "seaworthy daemon --diff on the machine shows how it differs".to_owned()
        };
        let event = if is_there { "ConfigDriftDetected" } else { "PreflightConfigDriftCheckFailed" };
        Err(Failure { event, ..Failure::degraded(format!("{}; {why_not}", validate::message(disk, &findings))) })
    }

    /// Repairs what was found; the reason if it is left as it is.
    fn repair(
        &mut self,
        host: &dyn Host,
        reboot: &mut PendingReboot,
        disk: &Target,
        order: &Order,
        findings: &[validate::Finding],
        observed: &Observed,
    ) -> Result<BTreeSet<String>, String> {
        let now = (self.clock)();
        let (subjects, disruption) = self.repairs.plan(host, disk, order, findings, observed, now)?;
        let result = UpdateInProgress::carry_out(host, reboot, disk, disk, observed, Some(&disruption));
        let failure = result.err().map(|failure| failure.reason);
        // A failure that has disturbed no service is retried like every other.
        if failure.is_none() || !disruption.actions.is_empty() {
            self.repairs.note(&subjects, now, failure.as_deref());
        }
        match failure {
            Some(failure) => Err(failure),
            None => Ok(subjects),
        }
    }
}
