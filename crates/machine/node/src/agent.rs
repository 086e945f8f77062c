//! The daemon over a machine: takes an order, does what can be done now, and says how it stands.

use seaworthy_api::vocabulary::machineconfiguration::State;
use seaworthy_host::{Attributes, Host, HostError};
use seaworthy_ignition::Node;
use seaworthy_plan::disruption::{Action, Cause, Disruption, Level, Rule, least_disruption};
use seaworthy_plan::reconcilable::{Side, irreconcilable, message};

use crate::clock::{self, Clock};
use crate::decide::{Move, Standing, decide};
use crate::disk::config_text;
use crate::journal::{Journal, Phase};
use crate::observed::{Observed, observe};
use crate::order::{Again, Config, Order, REPAIRED, Report};
use crate::perform::perform;
use crate::reboot::Awaited;
use crate::repair::Repairs;
use crate::steps::steps;
use crate::target::{Target, TargetError};
use crate::under_way::Resumed;
use crate::waiting::Waiting;
use crate::{extensions, places, validate};

pub(crate) const PUBLIC: Attributes = Attributes::of_root(0o644);
/// Secrets are in it.
pub(crate) const PRIVATE: Attributes = Attributes::of_root(0o600);

/// What a machine's owner has chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// What somebody has changed on the machine is put right, rather than only reported.
    pub is_repairing: bool,
}

/// The daemon over a machine.
pub struct Agent<H> {
    pub(crate) host: H,
    settings: Settings,
    pub(crate) clock: Clock,
    /// The boot that was asked for and has not come.
    pub(crate) awaited: Option<Awaited>,
    /// What the drain controller was asked for and has not done.
    waiting: Option<Waiting>,
    pub(crate) repairs: Repairs,
    /// What the machine was found to be like the last time that it was compared with its configuration.
    seen: Option<Seen>,
    /// What was put right and is not told yet.
    untold: Vec<String>,
}

/// What differs, or why that cannot be said. Not by how much: a file that grows has been seen.
type Seen = Result<Vec<(String, validate::Aspect)>, String>;

fn seen(findings: &[validate::Finding]) -> Seen {
    Ok(findings.iter().map(|finding| (finding.subject.clone(), finding.aspect)).collect())
}

/// Why an attempt ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    pub(crate) state: State,
    pub(crate) reason: String,
    pub(crate) again: Again,
    pub(crate) event: &'static str,
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Self {
        Failure::degraded(error.to_string())
    }
}

impl Failure {
    pub(crate) fn degraded(reason: String) -> Self {
        Failure { state: State::Degraded, reason, again: Again::Backoff, event: "FailedToReconcile" }
    }

    fn unreconcilable(reason: String) -> Self {
        Failure { state: State::Unreconcilable, reason, again: Again::OnChange, event: "FailedToReconcile" }
    }
}

impl From<TargetError> for Failure {
    fn from(error: TargetError) -> Self {
        Failure::unreconcilable(error.to_string())
    }
}

impl<H: Host> Agent<H> {
    /// A daemon that has just started.
    pub fn new(host: H, settings: Settings) -> Self {
        Agent {
            host,
            settings,
            clock: clock::real(),
            awaited: None,
            waiting: None,
            repairs: Repairs::default(),
            seen: None,
            untold: Vec::new(),
        }
    }

    /// The same with another clock.
    pub fn with_clock(self, clock: Clock) -> Self {
        Agent { clock, ..self }
    }

    /// The machine.
    pub fn host(&self) -> &H {
        &self.host
    }

    /// Does what an order asks for as far as it can be done now. It never waits for others.
    ///
    /// `may_begin` is asked before anything is done for the order, with what the node says from then on. It answers whether the
    /// order is still the one that was read; if not, nothing is done.
    pub fn sync(&mut self, order: &Order, may_begin: &mut dyn FnMut(State) -> bool) -> Report {
        self.report(order, may_begin, false)
    }

    /// The same, and looks whether somebody has changed the machine.
    pub fn check(&mut self, order: &Order, may_begin: &mut dyn FnMut(State) -> bool) -> Report {
        self.report(order, may_begin, true)
    }

    /// Puts away what only a first boot needs (server-and-daemon.md, B6).
    pub fn prepare(&self) -> Result<(), HostError> {
        if self.host.exists(places::ENCAPSULATED)? {
            self.host.rename(places::ENCAPSULATED, places::ENCAPSULATED_DONE)?;
        }
        if self.host.exists(places::IGNITION_PRESET)? {
            self.host.remove(places::IGNITION_PRESET)?;
        }
        Ok(())
    }

    /// Whether there is nothing to be done about the machine by itself: it is what its disk's configuration says, nothing is
    /// under way, and nobody on it wants it done again.
    pub fn is_right(&self) -> bool {
        let look = || -> Result<bool, Failure> {
            let Some(target) = self.on_disk()? else { return Ok(false) };
            let is_asked = self.host.exists(places::FORCE)? || Journal::load(&self.host)?.is_some();
            Ok(!is_asked && validate::validate(&self.host, &target)?.is_empty())
        };
        look().unwrap_or(false)
    }

    /// Whether the machine is what it was when it was last compared with its configuration, be that right or wrong.
    pub fn is_as_seen(&mut self) -> bool {
        let look = || -> Result<Seen, Failure> {
            let Some(target) = self.on_disk()? else { return Ok(seen(&[])) };
            Ok(seen(&validate::validate(&self.host, &target)?))
        };
        let now = look().unwrap_or_else(|failure| Err(failure.reason));
        // Without a last time there is nothing new: whoever has not got so far tries again by himself.
        self.seen.get_or_insert_with(|| now.clone()) == &now
    }

    /// Brings an update that a cut or a crash has interrupted to its end, without any order; says whether the machine is about
    /// to boot.
    pub fn recover(&mut self) -> Result<bool, String> {
        match self.resume_any() {
            Ok(Resumed::Settled) => Ok(false),
            Ok(Resumed::Rebooting(_)) => Ok(true),
            Err(failure) => Err(failure.reason),
        }
    }

    fn report(&mut self, order: &Order, may_begin: &mut dyn FnMut(State) -> bool, is_checking: bool) -> Report {
        let mut report = match self.attempt(order, may_begin, is_checking) {
            Ok(report) => report,
            Err(failure) => {
                let on_disk = self.on_disk().ok().flatten();
                Report {
                    state: failure.state,
                    events: vec![(failure.event, failure.reason.clone())],
                    reason: failure.reason,
                    current: on_disk.map(|target| config_of(&target)),
                    ask: None,
                    is_rebooting: false,
                    disruption: None,
                    again: failure.again,
                }
            }
        };
        // What is followed by another attempt at once is perhaps heard by nobody.
        if report.again != Again::Now {
            let told = std::mem::take(&mut self.untold).into_iter().map(|note| (REPAIRED, note));
            report.events.splice(0..0, told);
        }
        report
    }

    fn attempt(
        &mut self,
        order: &Order,
        may_begin: &mut dyn FnMut(State) -> bool,
        is_checking: bool,
    ) -> Result<Report, Failure> {
        self.seen = None;
        if !self.heed_revert(order, may_begin)? {
            return Ok(overtaken(order));
        }
        match self.resume_any() {
            Ok(Resumed::Settled) => {}
            Ok(Resumed::Rebooting(why)) => return Ok(rebooting(why)),
            Err(failure) => {
                if !self.leave(order, may_begin, failure)? {
                    return Ok(overtaken(order));
                }
            }
        }
        let Some(disk) = self.current(order)? else { return Ok(rebooting("the first boot is completed".to_owned())) };
        let desired = match &order.desired {
            Some(desired) => desired.clone(),
            None => config_of(&disk),
        };
        let is_there = (disk.name.as_str(), disk.built_image.as_deref()) == (desired.name.as_str(), image_of(&desired));
        let is_forced = self.host.exists(places::FORCE)?;
        let to = if is_there { disk.clone() } else { target_of(&desired)? };
        self.forget_other_verdicts(&to.name)?;

        let is_astray = self.is_astray(&disk)?;
        let is_anyway = is_forced || (is_there && is_astray);
        let (disruption, refusal) = if is_there && !is_anyway {
            (Disruption::default(), None)
        } else {
            let boot = match (is_forced, is_astray) {
                (true, _) => Some(format!("{} is there", places::FORCE)),
                (false, true) => Some(format!("what is booted is not {}", disk.name)),
                (false, false) => None,
            };
            (self.disruption(&disk, &to, order, boot)?, self.verdict()?.filter(|verdict| verdict.is_final))
        };
        // An order that is refused leads nowhere.
        let is_led_on = is_astray && (is_there || refusal.is_none());
        let standing = Standing {
            disk: (&disk.name, disk.built_image.as_deref()),
            desired: (&to.name, to.built_image.as_deref()),
            is_anyway,
            needs_drain: disruption.needs_drain(),
        };
        let next = decide(order, standing);
        let mut report = Report {
            state: State::Working,
            reason: String::new(),
            current: Some(config_of(&disk)),
            ask: None,
            is_rebooting: false,
            disruption: Some(disruption),
            again: Again::OnChange,
            events: Vec::new(),
        };
        if !is_forced && (next != Move::Nothing || is_checking) {
            self.check_disk(&disk, order, is_there, is_led_on)?;
        }
        if !is_there {
            self.refuse(&disk, &to, order)?;
        }
        if let Some(verdict) = refusal.filter(|_| !is_forced) {
            let reason = match is_there {
                true => format!("{}; another order is followed, and {} has it tried again", verdict.why, places::FORCE),
                false => verdict.why,
            };
            return Err(Failure { again: Again::OnChange, ..Failure::degraded(reason) });
        }
        let now = (self.clock)();
        let last = self.waiting.take();
        // A failure that was that of another wait is over with it.
        let has_failed =
            working(order) != State::Working && last.as_ref().is_none_or(|waiting| waiting.failure(now).is_none());
        self.waiting = match &next {
            Move::Ask(wish) => Some(Waiting::new(wish, now, has_failed)),
            Move::Wait(wish) => {
                let known = last.filter(|waiting| waiting.is_for(wish));
                Some(known.unwrap_or_else(|| Waiting::new(wish, now, has_failed)))
            }
            _ => None,
        };
        if let Some(waiting) = &self.waiting {
            if let Some((event, reason)) = waiting.failure(now) {
                return Err(Failure { event, again: Again::OnChange, ..Failure::degraded(reason) });
            }
            report.reason = waiting.reason();
            // Where pods may come again, what it failed at is over.
            report.state = if waiting.is_drain() { working(order) } else { State::Working };
        }
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
                if !may_begin(working(order)) {
                    return Ok(overtaken(order));
                }
                // Of what is not booted nothing is taken for there.
                let from = if is_forced || is_led_on { self.as_booted(&disk)? } else { disk };
                return self.update(&from, &to, report);
            }
        }
        Ok(report)
    }

    /// What the update does to the node. `boot` is why it boots whatever it changes.
    fn disruption(
        &self,
        from: &Target,
        to: &Target,
        order: &Order,
        boot: Option<String>,
    ) -> Result<Disruption, Failure> {
        let mut disruption = least_disruption(&from.spec, &to.spec, order.policies.as_deref());
        let reboot = |what: String| Disruption {
            level: Level::Reboot,
            actions: vec![Action::Reboot],
            causes: vec![Cause { what, rule: Rule::AtBoot, actions: vec![Action::Reboot] }],
        };
        if let Some(why) = boot {
            return Ok(reboot(why));
        }
        if from.image() != to.image() && disruption.level != Level::Reboot {
            disruption = reboot("image".to_owned());
        }
        match self.verdict()? {
            Some(verdict) if verdict.config == to.name && !verdict.is_final => Ok(reboot(verdict.why)),
            _ => Ok(disruption),
        }
    }

    /// Whether the machine is what the disk's configuration says; what is put right is noted.
    fn check_disk(&mut self, disk: &Target, order: &Order, is_there: bool, is_led_on: bool) -> Result<(), Failure> {
        let observed = observe(&self.host, disk, disk)?;
        let mut findings = validate::compare(disk, &observed);
        self.seen = Some(seen(&findings));
        if is_led_on {
            // Differs: that it has booted something else is known, and no reason to refuse another order, or a boot into this
            // one, because that is how it comes out of there.
            findings.retain(|finding| finding.aspect != validate::Aspect::Boot);
        }
        if findings.is_empty() {
            return Ok(());
        }
        // A machine that is led elsewhere is not touched on the way.
        let why_not = if self.settings.is_repairing && (is_there || !is_led_on) {
            match self.repair(disk, order, &findings, &observed) {
                Ok(repaired) => {
                    self.seen = Some(seen(&[]));
                    let all: Vec<String> = repaired.into_iter().collect();
                    self.untold.push(format!("what differed from {} was put right: {}", disk.name, all.join(", ")));
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

    /// Refuses what a running machine cannot take over.
    pub(crate) fn refuse(&self, from: &Target, to: &Target, order: &Order) -> Result<(), Failure> {
        let trees = [from, to].map(|target| target.spec.config.as_ref().map(Node::from_json));
        let side = |at: usize, target: &Target| Side {
            config: trees[at].as_ref(),
            is_fips: target.spec.fips.unwrap_or_default(),
        };
        let found = irreconcilable(side(0, from), side(1, to), &order.allowed, &[]);
        if !found.is_empty() {
            return Err(Failure::unreconcilable(message(&from.name, &found)));
        }
        let boot = self.host.boot()?;
        if to.spec.fips.unwrap_or_default() != boot.is_fips {
            return Err(Failure::unreconcilable(format!(
                "MachineConfig {}: fips is {}, and the running kernel was installed with {}; it is chosen at installation",
                to.name,
                to.spec.fips.unwrap_or_default(),
                boot.is_fips
            )));
        }
        let unknown = extensions::unknown(&to.extensions);
        if !unknown.is_empty() {
            let all = unknown.join(", ");
            return Err(Failure::unreconcilable(format!("MachineConfig {}: extensions {all} are not known", to.name)));
        }
        Ok(())
    }

    fn update(&mut self, from: &Target, to: &Target, mut report: Report) -> Result<Report, Failure> {
        let observed = observe(&self.host, from, to)?;
        match self.carry_out(from, to, &observed, report.disruption.as_ref())? {
            Resumed::Rebooting(why) => Ok(Report { events: vec![("Reboot", why.clone())], ..rebooting(why) }),
            Resumed::Settled => {
                report.current = Some(config_of(to));
                // The order is read again before anything more is said.
                report.again = Again::Now;
                Ok(report)
            }
        }
    }

    /// Does what brings the machine from one configuration to another, or takes all of it back.
    pub(crate) fn carry_out(
        &mut self,
        from: &Target,
        to: &Target,
        observed: &Observed,
        disruption: Option<&Disruption>,
    ) -> Result<Resumed, Failure> {
        let actions = disruption.map(|disruption| disruption.actions.clone()).unwrap_or_default();
        let steps = steps(from, to, observed)?;
        let mut journal = Journal::new(from, to, observed, &steps, &actions);
        journal.image = to.built_image.clone();
        journal.known = known(disruption);
        let text = String::from_utf8_lossy(&config_text(to)).into_owned();
        journal.begin(&self.host, &steps, &text)?;
        if self.host.exists(places::FORCE)? {
            self.host.remove(places::FORCE)?;
        }
        for step in &steps {
            if let Err(error) = perform(&self.host, step) {
                let why = format!("update from {} to {}: {error}", from.name, to.name);
                return Err(self.take_back(journal, why, false));
            }
        }
        let result = self.protect_kubeconfig(to).and_then(|()| self.host.sync());
        if let Err(error) = result {
            let why = format!("update from {} to {}: {error}", from.name, to.name);
            return Err(self.take_back(journal, why, false));
        }
        journal.phase = Phase::Acting;
        journal.save(&self.host)?;
        self.act(journal)
    }

    fn protect_kubeconfig(&self, to: &Target) -> Result<(), HostError> {
        if to.paths.contains_key(places::KUBECONFIG) {
            return Ok(());
        }
        // Differs: a machine without one is fine, because upstream refuses every update there.
        match self.host.entry(places::KUBECONFIG)? {
            Some(entry) if entry.kind == seaworthy_host::Kind::File && entry.mode != 0o600 => {
                self.host.set_attributes(places::KUBECONFIG, Attributes { mode: 0o600, uid: entry.uid, gid: entry.gid })
            }
            _ => Ok(()),
        }
    }
}

/// The actions that only our own knowledge asks for.
fn known(disruption: Option<&Disruption>) -> Vec<Action> {
    let Some(disruption) = disruption else { return Vec::new() };
    let (known, asked): (Vec<_>, Vec<_>) =
        disruption.causes.iter().partition(|cause| matches!(cause.rule, Rule::Known(_)));
    let is_asked = |action: &Action| asked.iter().any(|cause| cause.actions.contains(action));
    known.into_iter().flat_map(|cause| cause.actions.clone()).filter(|action| !is_asked(action)).collect()
}

fn rebooting(why: String) -> Report {
    Report {
        state: State::Working,
        reason: why,
        current: None,
        ask: None,
        is_rebooting: true,
        disruption: None,
        again: Again::OnChange,
        events: Vec::new(),
    }
}

/// The order is another one by now: it is read again.
fn overtaken(order: &Order) -> Report {
    Report {
        state: working(order),
        reason: String::new(),
        is_rebooting: false,
        again: Again::Now,
        ..rebooting(String::new())
    }
}

/// A node that has failed says so until it has succeeded.
pub(crate) fn working(order: &Order) -> State {
    match order.state {
        Some(state @ (State::Degraded | State::Unreconcilable)) => state,
        _ => State::Working,
    }
}

pub(crate) fn image_of(config: &Config) -> Option<&str> {
    config.image.as_deref().filter(|image| !image.is_empty())
}

fn config_of(target: &Target) -> Config {
    Config { name: target.name.clone(), spec: None, image: target.built_image.clone() }
}

pub(crate) fn target_of(config: &Config) -> Result<Target, Failure> {
    let Some(spec) = &config.spec else {
        let reason = format!("MachineConfig {} does not exist; it is waited for, or for another order", config.name);
        return Err(Failure::degraded(reason));
    };
    Ok(Target::parse(&config.name, spec, image_of(config))?)
}
