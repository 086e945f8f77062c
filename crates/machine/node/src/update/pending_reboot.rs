//! Pending reboot: a boot that was asked for. Until it comes no other update is started; if it does not come, that is reported
//! and it is asked for again.

use std::time::Duration;

use seaworthy_host::{Host, HostError};

use crate::clock::{Clock, Moment};
use crate::failure::Failure;
use crate::order::Again;
use crate::update::UpdateOutcome;

/// Stopping all services takes a while. A boot that has not come by then was called off, or a service does not stop.
const LATE: Duration = Duration::from_secs(5 * 60);
/// The longest pause between two requests.
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// The boot that was asked for and has not come, if any.
pub(crate) struct PendingReboot {
    clock: Clock,
    request: Option<RebootRequest>,
}

/// A boot that was asked for.
#[derive(Clone, Debug)]
struct RebootRequest {
    /// The boot that must end.
    boot_id: String,
    why: String,
    first: Moment,
    last: Moment,
    /// How often it was asked for again.
    times: u32,
    /// The error of the last request.
    refusal: Option<String>,
}

impl RebootRequest {
    fn is_late(&self, now: Moment) -> bool {
        now.since(self.first) >= LATE
    }

    /// Why the node is degraded. The text changes only when the reboot is asked for again.
    fn reason(&self) -> String {
        let RebootRequest { why, first, times, .. } = self;
        let refusal =
            self.refusal.as_ref().map(|refusal| format!(", and it was refused: {refusal}")).unwrap_or_default();
        format!(
            "asked for a reboot at {first} ({why}), and the machine is still in the same boot: it was called off, or something \
             does not stop (see systemctl list-jobs); asked again, {times} times by now{refusal}"
        )
    }
}

impl PendingReboot {
    pub(crate) fn new(clock: Clock) -> Self {
        PendingReboot { clock, request: None }
    }

    pub(crate) fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
    }

    /// Asks the machine to boot.
    pub(crate) fn ask(&mut self, host: &dyn Host, boot_id: &str, why: &str) -> Result<(), HostError> {
        host.reboot(why)?;
        self.expect(boot_id, why);
        Ok(())
    }

    /// Notes that the machine was asked to boot.
    pub(crate) fn expect(&mut self, boot_id: &str, why: &str) {
        let now = (self.clock)();
        self.request = Some(RebootRequest {
            boot_id: boot_id.to_owned(),
            why: why.to_owned(),
            first: now,
            last: now,
            times: 0,
            refusal: None,
        });
    }

    /// The outcome of a boot that was asked for: `None` if there is none, or it has come; a failure if it is late.
    pub(crate) fn poll(&mut self, host: &dyn Host, boot_id: &str) -> Result<Option<UpdateOutcome>, Failure> {
        self.request = self.request.take().filter(|request| request.boot_id == boot_id);
        let Some(request) = &mut self.request else { return Ok(None) };
        let now = (self.clock)();
        if !request.is_late(now) {
            return Ok(Some(UpdateOutcome::Rebooting(format!("a reboot is under way: {}", request.why))));
        }
        let pause = LATE.saturating_mul(1 << request.times.min(8)).min(LONGEST);
        if now.since(request.last) >= pause {
            request.refusal = host.reboot(&request.why).err().map(|error| error.to_string());
            request.last = now;
            request.times += 1;
        }
        Err(Failure { again: Again::OnChange, ..Failure::degraded(request.reason()) })
    }

    /// Whether a boot is late that the machine is still to make.
    pub(crate) fn is_late(&self, host: &dyn Host) -> Result<bool, HostError> {
        let Some(request) = self.request.as_ref().filter(|request| request.is_late((self.clock)())) else {
            return Ok(false);
        };
        Ok(host.boot()?.id == request.boot_id)
    }

    /// The boot is no longer expected.
    pub(crate) fn cancel(&mut self) {
        self.request = None;
    }
}
