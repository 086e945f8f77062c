//! A boot that was asked for. Until it comes nothing else is begun; if it does not come, that is said, and it is asked for again
//! (server-and-daemon.md, B22).

use std::time::Duration;

use seaworthy_api::vocabulary::machineconfiguration::State;
use seaworthy_host::{Host, HostError};

use crate::agent::{Agent, Failure, working};
use crate::clock::Moment;
use crate::journal::{Journal, Phase};
use crate::order::{Again, Order};
use crate::under_way::Resumed;

/// Stopping everything takes a while. After this somebody has called it off, or something does not stop.
const LATE: Duration = Duration::from_secs(5 * 60);
/// The longest pause between two askings.
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// A boot that was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Awaited {
    /// The boot that must end.
    boot_id: String,
    why: String,
    first: Moment,
    last: Moment,
    /// How often it was asked for again.
    times: u32,
    /// What the machine said the last time.
    refusal: Option<String>,
}

impl Awaited {
    fn is_late(&self, now: Moment) -> bool {
        now.since(self.first) >= LATE
    }

    /// Stays the same from one asking to the next.
    fn reason(&self) -> String {
        let Awaited { why, first, times, .. } = self;
        let refusal =
            self.refusal.as_ref().map(|refusal| format!(", and it was refused: {refusal}")).unwrap_or_default();
        format!(
            "asked for a reboot at {first} ({why}), and the machine is still in the same boot: it was called off, or something \
             does not stop (see systemctl list-jobs); asked again, {times} times by now{refusal}"
        )
    }
}

impl<H: Host> Agent<H> {
    /// Has the machine boot.
    pub(crate) fn ask_for_boot(&mut self, boot_id: &str, why: &str) -> Result<(), HostError> {
        self.host.reboot(why)?;
        self.await_boot(boot_id, why);
        Ok(())
    }

    /// Notes that the machine was asked to boot.
    pub(crate) fn await_boot(&mut self, boot_id: &str, why: &str) {
        let now = (self.clock)();
        self.awaited = Some(Awaited {
            boot_id: boot_id.to_owned(),
            why: why.to_owned(),
            first: now,
            last: now,
            times: 0,
            refusal: None,
        });
    }

    /// How it stands with a boot that was asked for: nothing if there is none, or it has come.
    pub(crate) fn awaited_boot(&mut self, boot_id: &str) -> Result<Option<Resumed>, Failure> {
        self.awaited = self.awaited.take().filter(|awaited| awaited.boot_id == boot_id);
        let Some(awaited) = &mut self.awaited else { return Ok(None) };
        let now = (self.clock)();
        if !awaited.is_late(now) {
            return Ok(Some(Resumed::Rebooting(format!("a reboot is under way: {}", awaited.why))));
        }
        let pause = LATE.saturating_mul(1 << awaited.times.min(8)).min(LONGEST);
        if now.since(awaited.last) >= pause {
            awaited.refusal = self.host.reboot(&awaited.why).err().map(|error| error.to_string());
            awaited.last = now;
            awaited.times += 1;
        }
        Err(Failure { again: Again::OnChange, ..Failure::degraded(awaited.reason()) })
    }

    /// An order that was taken back while the boot into it does not come is taken back on the disk too: whatever boot comes
    /// then, is one into the old configuration. Says whether the order may be followed; if not, it is another one by now.
    pub(crate) fn heed_revert(
        &mut self,
        order: &Order,
        may_begin: &mut dyn FnMut(State) -> bool,
    ) -> Result<bool, Failure> {
        let (Some(awaited), Some(desired)) = (&self.awaited, &order.desired) else { return Ok(true) };
        if !awaited.is_late((self.clock)()) || self.host.boot()?.id != awaited.boot_id {
            return Ok(true);
        }
        let Some(journal) = Journal::load(&self.host)? else { return Ok(true) };
        let is_reverted =
            journal.phase == Phase::Committed && journal.from == desired.name && journal.to != journal.from;
        if !is_reverted {
            return Ok(true);
        }
        if !may_begin(working(order)) {
            return Ok(false);
        }
        self.awaited = None;
        let why = format!("{} is no longer ordered, and the machine has not booted into it", journal.to);
        Err(self.take_back(journal, why, true))
    }
}
