//! Agent: coordinates the daemon's parts on one machine. It takes an order, does what can be done now, and returns a report.
//!
//! Each part owns its state: [`UpdateInProgress`] the journal, [`PendingReboot`] a boot that was asked for, [`DrainWait`] what the
//! drain controller was asked for, [`DriftMonitor`] what the last comparison found. What only the disk knows is read from it
//! ([`current_config`], [`FailedUpdate`], [`BootCheck`]).

use std::sync::Arc;

use seaworthy_api::vocabulary::machineconfiguration::{NodeEvent, State};
use seaworthy_host::{Host, HostError};
use seaworthy_plan::disruption::Disruption;

use crate::clock::{self, DaemonClock};
use crate::decide::disruption::disruption_of;
use crate::decide::observed::observe;
use crate::decide::refusal::refuse;
use crate::decide::target::TargetState;
use crate::decide::{DecisionInputs, NextAction, decide};
use crate::drift::certificates::{self, Certificates};
use crate::drift::{DriftMonitor, validate};
use crate::failure::Failure;
use crate::order::{Config, NextAttempt, Order, Report};
use crate::paths;
use crate::update::boot_mismatch::BootCheck;
use crate::update::current_config::CurrentConfig;
use crate::update::drain_wait::DrainWait;
use crate::update::failed_update::FailedUpdate;
use crate::update::journal::Journal;
use crate::update::pending_reboot::PendingReboot;
use crate::update::{UpdateInProgress, UpdateOutcome, current_config};

/// Options of the agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentOptions {
    /// Drift is repaired, rather than only reported.
    pub is_repairing: bool,
}

/// The daemon's actions on one machine.
pub struct Agent<H> {
    host: H,
    clock: DaemonClock,
    reboot: PendingReboot,
    drain: DrainWait,
    drift: DriftMonitor,
}

/// Facts about an attempt before it changes anything.
struct AttemptContext {
    /// The configuration to follow.
    to: TargetState,
    /// The disk is in that configuration.
    is_current: bool,
    /// The update is done in any case, because [`paths::FORCE`] exists.
    is_forced: bool,
    /// What is booted is not the disk's configuration, and the return to its boot was given up.
    is_mismatched: bool,
    disruption: Disruption,
    /// The configuration has failed before and is not tried again.
    refusal: Option<FailedUpdate>,
}

impl AttemptContext {
    fn read(
        boot_check: &mut BootCheck<'_>,
        host: &dyn Host,
        disk: &TargetState,
        order: &Order,
    ) -> Result<Self, Failure> {
        let desired = match &order.desired {
            Some(desired) => desired.clone(),
            None => Config::from(disk),
        };
        let is_current = (disk.name.as_str(), disk.built_image.as_deref()) == (&desired.name, desired.built_image());
        let is_forced = host.exists(paths::FORCE)?;
        let to = if is_current { disk.clone() } else { desired.target()? };
        FailedUpdate::forget_others(host, &to.name)?;
        let is_mismatched = boot_check.is_mismatched()?;
        let mut context = AttemptContext {
            to,
            is_current,
            is_forced,
            is_mismatched,
            disruption: Disruption::default(),
            refusal: None,
        };
        if !is_current || context.must_update() {
            let boot = match (is_forced, is_mismatched) {
                (true, _) => Some(format!("{} exists", paths::FORCE)),
                (false, true) => Some(format!("the booted system does not match {}", disk.name)),
                (false, false) => None,
            };
            let failed = FailedUpdate::load(host, &context.to.name)?;
            context.disruption = disruption_of(disk, &context.to, order, boot, failed.as_ref());
            context.refusal = failed.filter(|failed| failed.is_final);
        }
        Ok(context)
    }

    /// Whether the update is done although the disk is in the configuration already.
    fn must_update(&self) -> bool {
        self.is_forced || (self.is_current && self.is_mismatched)
    }

    /// Whether the update ends a boot mismatch. An order that is refused does not.
    fn ends_mismatch(&self) -> bool {
        self.is_mismatched && (self.is_current || self.refusal.is_none())
    }
}

impl<H: Host> Agent<H> {
    pub fn new(host: H, options: AgentOptions) -> Self {
        let clock = clock::system();
        Agent {
            host,
            reboot: PendingReboot::new(Arc::clone(&clock)),
            drift: DriftMonitor::new(Arc::clone(&clock), options.is_repairing),
            drain: DrainWait::default(),
            clock,
        }
    }

    pub fn with_clock(mut self, clock: DaemonClock) -> Self {
        self.set_clock(clock);
        self
    }

    pub(crate) fn set_clock(&mut self, clock: DaemonClock) {
        self.reboot.set_clock(Arc::clone(&clock));
        self.drift.set_clock(Arc::clone(&clock));
        self.clock = clock;
    }

    pub fn host(&self) -> &H {
        &self.host
    }

    /// Carries out an order as far as it can be done now. It never waits for other components.
    ///
    /// `may_begin` is called before anything is done for the order, with the state that the node reports from then on. It returns
    /// whether the order is still the one that was read; if not, nothing is done.
    pub fn sync(&mut self, order: &Order, may_begin: &mut dyn FnMut(State) -> bool) -> Report {
        let outcome = self.attempt(order, may_begin, false);
        self.report(outcome)
    }

    /// The same, and compares the machine with its configuration.
    pub fn check(&mut self, order: &Order, may_begin: &mut dyn FnMut(State) -> bool) -> Report {
        let outcome = self.attempt(order, may_begin, true);
        self.report(outcome)
    }

    /// Renames or removes the files that only a first boot needs.
    pub fn prepare(&self) -> Result<(), HostError> {
        if self.host.exists(paths::ENCAPSULATED)? {
            self.host.rename(paths::ENCAPSULATED, paths::ENCAPSULATED_DONE)?;
        }
        if self.host.exists(paths::IGNITION_PRESET)? {
            self.host.remove(paths::IGNITION_PRESET)?;
        }
        Ok(())
    }

    /// Whether the machine needs nothing by itself: it has no drift, no update is in progress, and [`paths::FORCE`] does not
    /// exist.
    pub fn is_in_sync(&self) -> bool {
        let check = || -> Result<bool, Failure> {
            let Some(target) = current_config::load(&self.host)? else { return Ok(false) };
            let is_update_due = self.host.exists(paths::FORCE)? || Journal::load(&self.host)?.is_some();
            Ok(!is_update_due && validate::validate(&self.host, &target)?.is_empty())
        };
        check().unwrap_or(false)
    }

    /// Whether a comparison of the machine with its configuration still has the result of the last one.
    pub fn is_unchanged(&mut self) -> bool {
        self.drift.is_unchanged(&self.host)
    }

    /// Writes certificates and the pull secret where they differ; returns the paths, `None` if nothing may be changed now.
    pub fn sync_certificates(&self, wanted: &Certificates) -> Result<Option<Vec<String>>, String> {
        certificates::sync_when_idle(&self.host, wanted)
    }

    /// The configuration that the disk is in.
    pub fn on_disk_config(&self) -> Result<Option<TargetState>, String> {
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

    /// The report of an attempt, with what was repaired.
    fn report(&mut self, outcome: Result<Report, Failure>) -> Report {
        let mut report = outcome.unwrap_or_else(|failure| {
            let on_disk = current_config::load(&self.host).ok().flatten();
            Report::failed(failure, on_disk.as_ref().map(Config::from))
        });
        // The report of an attempt that is followed by another one at once may never be written.
        if report.next_attempt != NextAttempt::Now {
            let repairs = self.drift.take_notes().into_iter().map(|note| (NodeEvent::ConfigDriftRepaired, note));
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
            return Ok(Report::superseded(order));
        }
        match UpdateInProgress::resume(host, reboot) {
            Ok(UpdateOutcome::Settled) => {}
            Ok(UpdateOutcome::Rebooting(why)) => return Ok(Report::rebooting(why)),
            Err(failure) => {
                if !UpdateInProgress::abandon(host, reboot, order, may_begin, failure)? {
                    return Ok(Report::superseded(order));
                }
            }
        }
        let disk = match current_config::determine(host, reboot, order)? {
            CurrentConfig::Known(disk) => *disk,
            CurrentConfig::AfterBoot => return Ok(Report::rebooting("the first boot is completed".to_owned())),
            CurrentConfig::NotRead => return Ok(Report::superseded(order)),
        };
        let mut boot_check = BootCheck::new(host, &disk)?;
        let context = AttemptContext::read(&mut boot_check, host, &disk, order)?;
        let inputs = DecisionInputs {
            disk: (&disk.name, disk.built_image.as_deref()),
            desired: (&context.to.name, context.to.built_image.as_deref()),
            must_update: context.must_update(),
            needs_drain: context.disruption.needs_drain(),
        };
        let next = decide(order, inputs);
        let (is_current, is_forced, ends_mismatch) = (context.is_current, context.is_forced, context.ends_mismatch());
        if !is_forced && (next != NextAction::Nothing || is_checking) {
            self.drift.check(host, reboot, &disk, order, is_current, ends_mismatch)?;
        }
        if !is_current {
            refuse(&disk, &context.to, order, &host.boot()?)?;
        }
        if let Some(failed) = context.refusal.filter(|_| !is_forced) {
            let reason = match is_current {
                true => format!(
                    "{}; not retried until another order arrives; create {} to retry it now",
                    failed.why,
                    paths::FORCE
                ),
                false => failed.why,
            };
            return Err(Failure { next_attempt: NextAttempt::OnChange, ..Failure::degraded(reason) });
        }
        let (state, reason) = self.drain.update(&next, order, (self.clock)())?;
        let mut report = Report {
            state,
            reason,
            current: Some(Config::from(&disk)),
            drain_request: None,
            is_rebooting: false,
            disruption: Some(context.disruption),
            next_attempt: NextAttempt::OnChange,
            events: Vec::new(),
        };
        match next {
            NextAction::Nothing | NextAction::ReportDone => {
                report.state = State::Done;
                if next == NextAction::ReportDone {
                    report.events.push((NodeEvent::NodeDone, format!("runs {}", disk.name)));
                }
            }
            NextAction::RequestDrain(request) => report.drain_request = Some(request),
            NextAction::WaitForDrain(_) => {}
            NextAction::Update => {
                if !may_begin(order.working_state()) {
                    return Ok(Report::superseded(order));
                }
                // What is not booted counts as missing.
                let from = if is_forced || ends_mismatch { boot_check.as_booted()? } else { disk };
                return update(host, reboot, &from, &context.to, report);
            }
        }
        Ok(report)
    }
}

fn update(
    host: &dyn Host,
    reboot: &mut PendingReboot,
    from: &TargetState,
    to: &TargetState,
    mut report: Report,
) -> Result<Report, Failure> {
    let observed = observe(host, from, to)?;
    match UpdateInProgress::carry_out(host, reboot, from, to, &observed, report.disruption.as_ref())? {
        UpdateOutcome::Rebooting(why) => {
            Ok(Report { events: vec![(NodeEvent::Reboot, why.clone())], ..Report::rebooting(why) })
        }
        UpdateOutcome::Settled => {
            report.current = Some(Config::from(to));
            // The order is read again before the next report.
            report.next_attempt = NextAttempt::Now;
            Ok(report)
        }
    }
}
