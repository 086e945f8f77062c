//! Abandoned updates: reverted because the order has changed, while their reboot is late or cannot be prepared.

use seaworthy_api::vocabulary::machineconfiguration::State;
use seaworthy_host::Host;

use super::boot_mismatch::{is_return, record_boot_mismatch};
use super::failed_update::FailedUpdate;
use super::journal::{Journal, Phase};
use super::pending_reboot::PendingReboot;
use super::{UpdateInProgress, current_config};
use crate::decide::refusal::refuse;
use crate::failure::Failure;
use crate::order::Order;

impl<'a> UpdateInProgress<'a> {
    /// Reverts the disk when the order was reverted while its reboot is late, so that the next boot is one into the old
    /// configuration. Returns whether the order may be followed; if not, it has changed since it was read.
    pub(crate) fn handle_revert(
        host: &'a dyn Host,
        reboot: &'a mut PendingReboot,
        order: &Order,
        may_begin: &mut dyn FnMut(State) -> bool,
    ) -> Result<bool, Failure> {
        let Some(desired) = &order.desired else { return Ok(true) };
        if !reboot.is_late(host)? {
            return Ok(true);
        }
        let Some(journal) = Journal::load(host)? else { return Ok(true) };
        let is_reverted =
            journal.phase == Phase::Committed && journal.from == desired.name && journal.to != journal.from;
        if !is_reverted {
            return Ok(true);
        }
        if !may_begin(order.working_state()) {
            return Ok(false);
        }
        reboot.cancel();
        let why = format!("{} is no longer ordered, and the machine has not booted into it", journal.to);
        Err(UpdateInProgress { host, reboot, journal }.revert(why, true))
    }

    /// Gives up an update that could not be resumed, if only its reboot cannot be prepared (a registry is unavailable, an image is
    /// gone) and another configuration is ordered: the update is reverted, and a return to the old boot that is not possible is
    /// skipped. The order must be claimed, and the configuration must be one that can be applied to a running machine.
    ///
    /// Returns whether the order may be followed now; if not, it has changed since it was read.
    pub(crate) fn abandon(
        host: &'a dyn Host,
        reboot: &'a mut PendingReboot,
        order: &Order,
        may_begin: &mut dyn FnMut(State) -> bool,
        failure: Failure,
    ) -> Result<bool, Failure> {
        let Some(desired) = order.desired.as_ref().filter(|desired| desired.spec.found().is_some()) else {
            return Err(failure);
        };
        let (Ok(Some(journal)), Ok(boot)) = (Journal::load(host), host.boot()) else { return Err(failure) };
        let has_failed_before = FailedUpdate::load(host, &desired.name)?.is_some_and(|failed| failed.is_final);
        let Some(disk) = current_config::load(host)? else { return Err(failure) };
        let (is_incomplete, under_way) = match journal.phase {
            Phase::Committed => (!journal.missing_of_new(&boot).is_empty(), (&journal.to, &journal.image)),
            Phase::Reverted => (!journal.missing_of_old(&boot).is_empty(), (&disk.name, &disk.built_image)),
            _ => return Err(failure),
        };
        // In the boot that must end nothing is missing yet.
        let is_incomplete = is_incomplete && boot.id != journal.boot_id;
        let is_other = (desired.name.as_str(), desired.built_image()) != (under_way.0, under_way.1.as_deref());
        if has_failed_before || !is_incomplete || !is_other {
            return Err(failure);
        }
        // The configuration before the update is never refused.
        if desired.name != journal.from
            && let Err(refusal) = desired.target().and_then(|to| refuse(&disk, &to, order, &boot))
        {
            // The reboot is still retried.
            let reason = format!("{}; {}", refusal.reason, failure.reason);
            return Err(Failure { reason, next_attempt: failure.next_attempt, ..refusal });
        }
        if !may_begin(order.working_state()) {
            return Ok(false);
        }
        if journal.phase == Phase::Committed && !is_return(host, &journal)? {
            let why = format!("{} is no longer ordered, and {}", journal.to, failure.reason);
            return Err(UpdateInProgress { host, reboot, journal }.revert(why, true));
        }
        tracing::warn!("rollback to {} abandoned for another order: {}", disk.name, failure.reason);
        record_boot_mismatch(host, &journal)?;
        Journal::end(host)?;
        Ok(true)
    }
}
