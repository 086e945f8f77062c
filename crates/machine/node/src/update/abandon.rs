//! Updates that are given up because the order has changed: while the boot into them does not come, or cannot be prepared.

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
    /// Reverts the disk too when the order was reverted while the boot into it is late: whatever boot comes then is one into the
    /// old configuration. Returns whether the order may be followed; if not, it has changed since it was read.
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
        Err(UpdateInProgress { host, reboot, journal }.take_back(why, true))
    }

    /// Gives up an update that could not be resumed, if all that it lacks is a boot that cannot be prepared (a registry is away,
    /// an image is gone) and another configuration is ordered: what was begun is reverted, and a way back that cannot be had is
    /// left. The order must be claimed, and the configuration must be one that the machine can take over.
    ///
    /// Returns whether the order may be followed now; if not, it has changed since it was read.
    pub(crate) fn abandon(
        host: &'a dyn Host,
        reboot: &'a mut PendingReboot,
        order: &Order,
        may_begin: &mut dyn FnMut(State) -> bool,
        failure: Failure,
    ) -> Result<bool, Failure> {
        let Some(desired) = order.desired.as_ref().filter(|desired| desired.spec.is_some()) else {
            return Err(failure);
        };
        let (Ok(Some(journal)), Ok(boot)) = (Journal::load(host), host.boot()) else { return Err(failure) };
        let is_condemned =
            FailedUpdate::load(host)?.is_some_and(|failed| failed.is_final && failed.config == desired.name);
        let Some(disk) = current_config::load(host)? else { return Err(failure) };
        let (is_lacking, under_way) = match journal.phase {
            Phase::Committed => (!journal.lacks(&boot).is_empty(), (&journal.to, &journal.image)),
            Phase::Reverted => (!journal.lacks_of_old(&boot).is_empty(), (&disk.name, &disk.built_image)),
            _ => return Err(failure),
        };
        // In the boot that must end nothing is lacking yet.
        let is_lacking = is_lacking && boot.id != journal.boot_id;
        let is_other = (desired.name.as_str(), desired.built_image()) != (under_way.0, under_way.1.as_deref());
        if is_condemned || !is_lacking || !is_other {
            return Err(failure);
        }
        // What was there before is never refused.
        if desired.name != journal.from
            && let Err(refusal) = desired.target().and_then(|to| refuse(&disk, &to, order, &boot))
        {
            // What is lacking is still tried.
            let reason = format!("{}; {}", refusal.reason, failure.reason);
            return Err(Failure { reason, again: failure.again, ..refusal });
        }
        if !may_begin(order.working_state()) {
            return Ok(false);
        }
        if journal.phase == Phase::Committed && !is_return(host, &journal)? {
            let why = format!("{} is no longer ordered, and {}", journal.to, failure.reason);
            return Err(UpdateInProgress { host, reboot, journal }.take_back(why, true));
        }
        tracing::warn!("the way back into {} is left for another order: {}", disk.name, failure.reason);
        record_boot_mismatch(host, &journal)?;
        Journal::end(host)?;
        Ok(true)
    }
}
