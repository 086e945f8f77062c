//! Drift: differences between the machine and the configuration that its disk is in, found, reported and repaired.

pub mod certificates;
pub mod difference;
pub mod file_watch;
mod repair;
pub mod validate;

use std::collections::BTreeSet;

use seaworthy_api::vocabulary::machineconfiguration::NodeEvent;
use seaworthy_host::Host;

use crate::clock::DaemonClock;
use crate::decide::observed::{Observed, observe};
use crate::decide::target::TargetState;
use crate::failure::Failure;
use crate::order::Order;
use crate::update::pending_reboot::PendingReboot;
use crate::update::{UpdateInProgress, current_config};
use repair::Repairs;

/// The differences, or the error of the comparison. Without sizes, so that a growing file is no new result.
type ComparisonResult = Result<Vec<(String, validate::Aspect)>, String>;

fn result_of(mismatches: &[validate::Mismatch]) -> ComparisonResult {
    Ok(mismatches.iter().map(|mismatch| (mismatch.subject.clone(), mismatch.aspect)).collect())
}

/// Comparison of the machine with its configuration, with what the last one found and which repairs were made.
pub(crate) struct DriftMonitor {
    clock: DaemonClock,
    is_repairing: bool,
    repairs: Repairs,
    last: Option<ComparisonResult>,
    /// Repairs that no report has named yet.
    notes: Vec<String>,
}

impl DriftMonitor {
    pub(crate) fn new(clock: DaemonClock, is_repairing: bool) -> Self {
        DriftMonitor { clock, is_repairing, repairs: Repairs::default(), last: None, notes: Vec::new() }
    }

    pub(crate) fn set_clock(&mut self, clock: DaemonClock) {
        self.clock = clock;
    }

    /// A new attempt begins: the last comparison no longer counts.
    pub(crate) fn forget_last(&mut self) {
        self.last = None;
    }

    /// The repairs that no report has named yet.
    pub(crate) fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Whether a comparison now has the result of the last one.
    pub(crate) fn is_unchanged(&mut self, host: &dyn Host) -> bool {
        let compare = || -> Result<ComparisonResult, Failure> {
            let Some(target) = current_config::load(host)? else { return Ok(result_of(&[])) };
            Ok(result_of(&validate::validate(host, &target)?))
        };
        let now = compare().unwrap_or_else(|failure| Err(failure.reason));
        // Without a last comparison nothing is new: an attempt that failed before it is retried anyway.
        self.last.get_or_insert_with(|| now.clone()) == &now
    }

    /// Compares the machine with the disk's configuration, and repairs or reports what differs.
    ///
    /// `ends_mismatch`: the machine has a boot mismatch, which the order ends.
    pub(crate) fn check(
        &mut self,
        host: &dyn Host,
        reboot: &mut PendingReboot,
        disk: &TargetState,
        order: &Order,
        is_current: bool,
        ends_mismatch: bool,
    ) -> Result<(), Failure> {
        let observed = observe(host, disk, disk)?;
        let mut mismatches = validate::compare(disk, &observed);
        self.last = Some(result_of(&mismatches));
        if ends_mismatch {
            // Differs: a boot mismatch is no reason to refuse another order or a boot into this configuration, because either
            // ends it.
            mismatches.retain(|mismatch| mismatch.aspect != validate::Aspect::Boot);
        }
        if mismatches.is_empty() {
            return Ok(());
        }
        // A machine that is about to get another configuration is not repaired.
        let why_not = if self.is_repairing && (is_current || !ends_mismatch) {
            match self.repair(host, reboot, disk, order, &mismatches, &observed) {
                Ok(repaired) => {
                    self.last = Some(result_of(&[]));
                    let all: Vec<String> = repaired.into_iter().collect();
                    self.notes.push(format!("repaired differences from {}: {}", disk.name, all.join(", ")));
                    return Ok(());
                }
                Err(why) => format!("not repaired: {why}"),
            }
        } else {
            "seaworthy daemon --diff on the machine shows how it differs".to_owned()
        };
        let event = match is_current {
            true => NodeEvent::ConfigDriftDetected,
            false => NodeEvent::PreflightConfigDriftCheckFailed,
        };
        Err(Failure { event, ..Failure::degraded(format!("{}; {why_not}", validate::message(disk, &mismatches))) })
    }

    /// Repairs the differences and returns their subjects; an error is the reason that they are left as they are.
    fn repair(
        &mut self,
        host: &dyn Host,
        reboot: &mut PendingReboot,
        disk: &TargetState,
        order: &Order,
        mismatches: &[validate::Mismatch],
        observed: &Observed,
    ) -> Result<BTreeSet<String>, String> {
        let now = (self.clock)();
        let (subjects, disruption) = self.repairs.plan(host, disk, order, mismatches, observed, now)?;
        let result = UpdateInProgress::carry_out(host, reboot, disk, disk, observed, Some(&disruption));
        let failure = result.err().map(|failure| failure.reason);
        // A failure that has disturbed no service is retried like every other.
        if failure.is_none() || !disruption.actions.is_empty() {
            self.repairs.record(&subjects, now, failure.as_deref());
        }
        match failure {
            Some(failure) => Err(failure),
            None => Ok(subjects),
        }
    }
}
