//! Coordinator of the daemon's parts over one machine: takes an order, does what can be done now, and reports the result.
//!
//! Each part owns its state: [`UpdateInProgress`] the journal, [`PendingReboot`] a boot that was asked for, [`DrainWait`] what the
//! drain controller was asked for, [`DriftMonitor`] what the last comparison found. What only the disk knows is read from it
//! ([`current_config`], [`FailedUpdate`], [`BootCheck`]).

use std::sync::Arc;

use seaworthy_api::vocabulary::machineconfiguration::State;
use seaworthy_host::{Host, HostError};
use seaworthy_plan::disruption::Disruption;

use crate::clock::{self, Clock};
use crate::decide::disruption::disruption_of;
use crate::decide::observed::observe;
use crate::decide::refusal::refuse;
use crate::decide::target::Target;
use crate::decide::{Move, Standing, decide};
use crate::drift::certificates::{self, Certificates};
use crate::drift::{DriftMonitor, validate};
use crate::failure::Failure;
use crate::order::{Again, Config, Order, REPAIRED, Report};
use crate::paths;
use crate::update::boot_mismatch::BootCheck;
use crate::update::drain_wait::DrainWait;
use crate::update::failed_update::FailedUpdate;
use crate::update::journal::Journal;
use crate::update::pending_reboot::PendingReboot;
use crate::update::{UpdateInProgress, UpdateOutcome, current_config};

/// Options of the machine's owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Files that differ from the configuration are restored, rather than only reported.
    pub is_repairing: bool,
}

/// The daemon over a machine.
pub struct Agent<H> {
    host: H,
    clock: Clock,
    reboot: PendingReboot,
    drain: DrainWait,
    drift: DriftMonitor,
}

/// What an attempt knows before it changes anything.
struct Situation {
    /// The configuration to follow.
    to: Target,
    /// The disk is in that configuration.
    is_there: bool,
    /// The update is done in any case, because a file on the machine asks for it.
    is_forced: bool,
    /// What is booted is not the disk's configuration, and the way back into it was given up.
    is_mismatched: bool,
    disruption: Disruption,
    /// The configuration has failed before and is not tried again.
    refusal: Option<FailedUpdate>,
}

impl Situation {
    fn read(boot_check: &mut BootCheck<'_>, host: &dyn Host, disk: &Target, order: &Order) -> Result<Self, Failure> {
        let desired = match &order.desired {
            Some(desired) => desired.clone(),
            None => Config::from(disk),
        };
        let is_there = (disk.name.as_str(), disk.built_image.as_deref()) == (&desired.name, desired.built_image());
        let is_forced = host.exists(paths::FORCE)?;
        let to = if is_there { disk.clone() } else { desired.target()? };
        FailedUpdate::forget_others(host, &to.name)?;
        let is_mismatched = boot_check.is_mismatched()?;
        let mut situation =
            Situation { to, is_there, is_forced, is_mismatched, disruption: Disruption::default(), refusal: None };
        if !is_there || situation.is_anyway() {
            let boot = match (is_forced, is_mismatched) {
                (true, _) => Some(format!("{} is there", paths::FORCE)),
                (false, true) => Some(format!("what is booted is not {}", disk.name)),
                (false, false) => None,
            };
            let failed = FailedUpdate::load(host)?;
            situation.disruption = disruption_of(disk, &situation.to, order, boot, failed.as_ref());
            situation.refusal = failed.filter(|failed| failed.is_final);
        }
        Ok(situation)
    }

    /// Whether the update is done although the disk is in the configuration already.
    fn is_anyway(&self) -> bool {
        self.is_forced || (self.is_there && self.is_mismatched)
    }

    /// Whether the update leads out of a boot mismatch. An order that is refused leads nowhere.
    fn ends_mismatch(&self) -> bool {
        self.is_mismatched && (self.is_there || self.refusal.is_none())
    }
}

impl<H: Host> Agent<H> {
    /// A daemon that has just started.
    pub fn new(host: H, settings: Settings) -> Self {
        let clock = clock::real();
        Agent {
            host,
            reboot: PendingReboot::new(Arc::clone(&clock)),
            drift: DriftMonitor::new(Arc::clone(&clock), settings.is_repairing),
            drain: DrainWait::default(),
            clock,
        }
    }

    /// The same with another clock.
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.set_clock(clock);
        self
    }

    pub(crate) fn set_clock(&mut self, clock: Clock) {
        self.reboot.set_clock(Arc::clone(&clock));
        self.drift.set_clock(Arc::clone(&clock));
        self.clock = clock;
    }

    /// The machine.
    pub fn host(&self) -> &H {
        &self.host
    }

    /// Does what an order asks for as far as it can be done now. It never waits for others.
    ///
    /// `may_begin` is asked before anything is done for the order, with the state that the node reports from then on. It answers
    /// whether the order is still the one that was read; if not, nothing is done.
    pub fn sync(&mut self, order: &Order, may_begin: &mut dyn FnMut(State) -> bool) -> Report {
        self.report(order, may_begin, false)
    }

    /// The same, and compares the machine with its configuration.
    pub fn check(&mut self, order: &Order, may_begin: &mut dyn FnMut(State) -> bool) -> Report {
        self.report(order, may_begin, true)
    }

    /// Puts away what only a first boot needs.
    pub fn prepare(&self) -> Result<(), HostError> {
        if self.host.exists(paths::ENCAPSULATED)? {
            self.host.rename(paths::ENCAPSULATED, paths::ENCAPSULATED_DONE)?;
        }
        if self.host.exists(paths::IGNITION_PRESET)? {
            self.host.remove(paths::IGNITION_PRESET)?;
        }
        Ok(())
    }

    /// Whether there is nothing to do on the machine by itself: it is what its disk's configuration says, no update is in
    /// progress, and no file on it asks for one.
    pub fn is_right(&self) -> bool {
        let look = || -> Result<bool, Failure> {
            let Some(target) = current_config::load(&self.host)? else { return Ok(false) };
            let is_asked = self.host.exists(paths::FORCE)? || Journal::load(&self.host)?.is_some();
            Ok(!is_asked && validate::validate(&self.host, &target)?.is_empty())
        };
        look().unwrap_or(false)
    }

    /// Whether the machine is what it was when it was last compared with its configuration, be that right or wrong.
    pub fn is_as_seen(&mut self) -> bool {
        self.drift.is_as_seen(&self.host)
    }

    /// Restores certificates and the pull secret; returns which files were not right, `None` if nothing may be touched now.
    pub fn keep_right(&self, wanted: &Certificates) -> Result<Option<Vec<String>>, String> {
        certificates::keep_right_at_rest(&self.host, wanted)
    }

    /// The configuration that the disk is in.
    pub fn on_disk_config(&self) -> Result<Option<Target>, String> {
        current_config::load(&self.host).map_err(|failure| failure.reason)
    }

    /// Finishes or reverts an update that was interrupted, without any order; returns whether the machine is about to boot.
    pub fn recover(&mut self) -> Result<bool, String> {
        match UpdateInProgress::resume(&self.host, &mut self.reboot) {
            Ok(UpdateOutcome::Settled) => Ok(false),
            Ok(UpdateOutcome::Rebooting(_)) => Ok(true),
            Err(failure) => Err(failure.reason),
        }
    }

    fn report(&mut self, order: &Order, may_begin: &mut dyn FnMut(State) -> bool, is_checking: bool) -> Report {
        let mut report = match self.attempt(order, may_begin, is_checking) {
            Ok(report) => report,
            Err(failure) => {
                let on_disk = current_config::load(&self.host).ok().flatten();
                Report::failed(failure, on_disk.as_ref().map(Config::from))
            }
        };
        // The report of an attempt that is followed by another one at once may never be written.
        if report.again != Again::Now {
            let repairs = self.drift.take_notes().into_iter().map(|note| (REPAIRED, note));
            report.events.splice(0..0, repairs);
        }
        report
    }

    fn attempt(
        &mut self,
        order: &Order,
        may_begin: &mut dyn FnMut(State) -> bool,
        is_checking: bool,
    ) -> Result<Report, Failure> {
        self.drift.forget_last();
        let (host, reboot): (&dyn Host, &mut PendingReboot) = (&self.host, &mut self.reboot);
        if !UpdateInProgress::handle_revert(host, reboot, order, may_begin)? {
            return Ok(Report::overtaken(order));
        }
        match UpdateInProgress::resume(host, reboot) {
            Ok(UpdateOutcome::Settled) => {}
            Ok(UpdateOutcome::Rebooting(why)) => return Ok(Report::rebooting(why)),
            Err(failure) => {
                if !UpdateInProgress::abandon(host, reboot, order, may_begin, failure)? {
                    return Ok(Report::overtaken(order));
                }
            }
        }
        let Some(disk) = current_config::determine(host, reboot, order)? else {
            return Ok(Report::rebooting("the first boot is completed".to_owned()));
        };
        let mut boot_check = BootCheck::new(host, &disk)?;
        let situation = Situation::read(&mut boot_check, host, &disk, order)?;
        let standing = Standing {
            disk: (&disk.name, disk.built_image.as_deref()),
            desired: (&situation.to.name, situation.to.built_image.as_deref()),
            is_anyway: situation.is_anyway(),
            needs_drain: situation.disruption.needs_drain(),
        };
        let next = decide(order, standing);
        let (is_there, is_forced, ends_mismatch) = (situation.is_there, situation.is_forced, situation.ends_mismatch());
        if !is_forced && (next != Move::Nothing || is_checking) {
            self.drift.check(host, reboot, &disk, order, is_there, ends_mismatch)?;
        }
        if !is_there {
            refuse(&disk, &situation.to, order, &host.boot()?)?;
        }
        if let Some(failed) = situation.refusal.filter(|_| !is_forced) {
            let reason = match is_there {
                true => format!("{}; another order is followed, and {} has it tried again", failed.why, paths::FORCE),
                false => failed.why,
            };
            return Err(Failure { again: Again::OnChange, ..Failure::degraded(reason) });
        }
        let (state, reason) = self.drain.update(&next, order, (self.clock)())?;
        let mut report = Report {
            state,
            reason,
            current: Some(Config::from(&disk)),
            ask: None,
            is_rebooting: false,
            disruption: Some(situation.disruption),
            again: Again::OnChange,
            events: Vec::new(),
        };
        match next {
            Move::Nothing | Move::SayDone => {
                report.state = State::Done;
                if next == Move::SayDone {
                    report.events.push(("NodeDone", format!("runs {}", disk.name)));
                }
            }
            Move::Ask(wish) => report.ask = Some(wish),
            Move::Wait(_) => {}
            Move::Update => {
                if !may_begin(order.working_state()) {
                    return Ok(Report::overtaken(order));
                }
                // What is not booted is not taken as present.
                let from = if is_forced || ends_mismatch { boot_check.as_booted()? } else { disk };
                return update(host, reboot, &from, &situation.to, report);
            }
        }
        Ok(report)
    }
}

fn update(
    host: &dyn Host,
    reboot: &mut PendingReboot,
    from: &Target,
    to: &Target,
    mut report: Report,
) -> Result<Report, Failure> {
    let observed = observe(host, from, to)?;
    match UpdateInProgress::carry_out(host, reboot, from, to, &observed, report.disruption.as_ref())? {
        UpdateOutcome::Rebooting(why) => Ok(Report { events: vec![("Reboot", why.clone())], ..Report::rebooting(why) }),
        UpdateOutcome::Settled => {
            report.current = Some(Config::from(to));
            // The order is read again before anything more is reported.
            report.again = Again::Now;
            Ok(report)
        }
    }
}
