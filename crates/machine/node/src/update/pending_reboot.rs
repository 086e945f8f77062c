//! Pending reboot: a reboot that was requested. Until it happens no other update is started; if it is late, that is reported and
//! it is requested again.

use std::time::Duration;

use seaworthy_host::{Host, HostError};

use crate::clock::{ClockReading, DaemonClock};
use crate::failure::Failure;
use crate::order::NextAttempt;
use crate::update::UpdateOutcome;

/// Stopping all services takes a while. A reboot that has not happened by then was cancelled, or a service does not stop.
const REBOOT_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// The longest delay between two requests.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(60 * 60);

/// The reboot that was requested and has not happened, if any.
pub(crate) struct PendingReboot {
    clock: DaemonClock,
    request: Option<RebootRequest>,
}

#[derive(Clone, Debug)]
struct RebootRequest {
    /// The boot that must end.
    boot_id: String,
    why: String,
    first: ClockReading,
    last: ClockReading,
    /// The number of repetitions.
    retries: u32,
    /// The error of the last request.
    refusal: Option<String>,
}

impl RebootRequest {
    fn is_late(&self, now: ClockReading) -> bool {
        now.since(self.first) >= REBOOT_TIMEOUT
    }

    /// The reason of the degraded node. The text changes only when the reboot is requested again.
    fn reason(&self) -> String {
        let RebootRequest { why, first, retries, .. } = self;
        let refusal =
            self.refusal.as_ref().map(|refusal| format!(", and it was refused: {refusal}")).unwrap_or_default();
        format!(
            "reboot requested at {first} ({why}), but the machine has not rebooted: it was cancelled, or a service does not \
             stop (see systemctl list-jobs); requested again {retries} times{refusal}"
        )
    }
}

impl PendingReboot {
    pub(crate) fn new(clock: DaemonClock) -> Self {
        PendingReboot { clock, request: None }
    }

    pub(crate) fn set_clock(&mut self, clock: DaemonClock) {
        self.clock = clock;
    }

    /// Requests a reboot of the machine.
    pub(crate) fn request(&mut self, host: &dyn Host, boot_id: &str, why: &str) -> Result<(), HostError> {
        host.reboot(why)?;
        self.expect(boot_id, why);
        Ok(())
    }

    /// Records that a reboot was requested.
    pub(crate) fn expect(&mut self, boot_id: &str, why: &str) {
        let now = (self.clock)();
        self.request = Some(RebootRequest {
            boot_id: boot_id.to_owned(),
            why: why.to_owned(),
            first: now,
            last: now,
            retries: 0,
            refusal: None,
        });
    }

    /// The outcome of a requested reboot: `None` if there is none, or it has happened; a failure if it is late.
    pub(crate) fn poll(&mut self, host: &dyn Host, boot_id: &str) -> Result<Option<UpdateOutcome>, Failure> {
        self.request = self.request.take().filter(|request| request.boot_id == boot_id);
        let Some(request) = &mut self.request else { return Ok(None) };
        let now = (self.clock)();
        if !request.is_late(now) {
            return Ok(Some(UpdateOutcome::Rebooting(format!("a reboot is under way: {}", request.why))));
        }
        let delay = REBOOT_TIMEOUT.saturating_mul(1 << request.retries.min(8)).min(MAX_RETRY_DELAY);
        if now.since(request.last) >= delay {
            request.refusal = host.reboot(&request.why).err().map(|error| error.to_string());
            request.last = now;
            request.retries += 1;
        }
        Err(Failure { next_attempt: NextAttempt::OnChange, ..Failure::degraded(request.reason()) })
    }

    /// Whether a requested reboot is late.
    pub(crate) fn is_late(&self, host: &dyn Host) -> Result<bool, HostError> {
        let Some(request) = self.request.as_ref().filter(|request| request.is_late((self.clock)())) else {
            return Ok(false);
        };
        Ok(host.boot()?.id == request.boot_id)
    }

    /// The reboot is no longer expected.
    pub(crate) fn cancel(&mut self) {
        self.request = None;
    }
}
