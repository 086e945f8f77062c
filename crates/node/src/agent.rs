//! The daemon over a machine: takes an order, does what can be done now, and says how it stands.

use std::collections::BTreeMap;

use seaworthy_api::machineconfiguration::{API_VERSION, MachineConfigSpec};
use seaworthy_api::vocabulary::machineconfiguration::State;
use seaworthy_host::{Attributes, Host, HostError};
use seaworthy_ignition::Node;
use seaworthy_plan::disruption::{Action, Cause, Disruption, Level, Rule, least_disruption};
use seaworthy_plan::reconcilable::{Side, irreconcilable, message};
use serde_json::{Value, json};

use crate::decide::{Move, Standing, decide};
use crate::journal::{Journal, Phase};
use crate::observed::observe;
use crate::order::{Again, Config, Order, Report};
use crate::perform::{act, perform};
use crate::steps::steps;
use crate::target::{Target, TargetError};
use crate::under_way::Resumed;
use crate::{certificates, extensions, first_boot, places, validate};

pub(crate) const PUBLIC: Attributes = Attributes::of_root(0o644);

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
    /// The boot in which a reboot was asked for.
    pub(crate) rebooting_in: Option<String>,
}

/// Why an attempt ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    state: State,
    pub(crate) reason: String,
    again: Again,
    event: &'static str,
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
        Agent { host, settings, rebooting_in: None }
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

    /// Keeps files right that go around configurations, on a machine on which nothing is under way; says which were not.
    pub fn keep_right(&self, wanted: &BTreeMap<String, (Vec<u8>, u32)>) -> Result<Vec<String>, String> {
        match self.on_disk().map_err(|failure| failure.reason)? {
            Some(target) => certificates::keep_right(&self.host, &target, wanted).map_err(|error| error.to_string()),
            None => Ok(Vec::new()),
        }
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
        match self.attempt(order, may_begin, is_checking) {
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
        }
    }

    fn attempt(
        &mut self,
        order: &Order,
        may_begin: &mut dyn FnMut(State) -> bool,
        is_checking: bool,
    ) -> Result<Report, Failure> {
        if let Resumed::Rebooting(why) = self.resume_any()? {
            return Ok(rebooting(why));
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

        let (disruption, refusal) = if is_there && !is_forced {
            (Disruption::default(), None)
        } else {
            (self.disruption(&disk, &to, order, is_forced)?, self.verdict()?.filter(|verdict| verdict.is_final))
        };
        let standing = Standing {
            disk: (&disk.name, disk.built_image.as_deref()),
            desired: (&to.name, to.built_image.as_deref()),
            is_forced,
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
        let is_repaired = if is_forced || (next == Move::Nothing && !is_checking) {
            false
        } else {
            self.check_disk(&disk, order, is_there)?
        };
        if !is_there {
            self.refuse(&disk, &to, order)?;
            if let Some(verdict) = refusal.filter(|_| !is_forced) {
                return Err(Failure { again: Again::OnChange, ..Failure::degraded(verdict.why) });
            }
        }
        match next {
            Move::Nothing | Move::SayDone => {
                report.state = State::Done;
                if is_repaired {
                    report
                        .events
                        .push(("ConfigDriftRepaired", format!("what differed from {} was put right", disk.name)));
                }
                if next == Move::SayDone {
                    report.events.push(("NodeDone", format!("runs {}", disk.name)));
                }
            }
            Move::Ask(wish) => {
                report.ask = Some(wish);
                report.state = working(order);
                report.again = Again::OnChange;
            }
            Move::Wait(_) => report.state = working(order),
            Move::Update => {
                if !may_begin(working(order)) {
                    return Ok(Report { state: working(order), again: Again::Now, ..report });
                }
                return self.update(&disk, &to, report);
            }
        }
        Ok(report)
    }

    /// The configuration that the disk is in. A new machine is in the one that it was made with; `None` if it boots first.
    fn current(&mut self, order: &Order) -> Result<Option<Target>, Failure> {
        if let Some(target) = self.on_disk()? {
            if self.host.exists(places::INITIAL_ANNOTATIONS)? {
                self.host.rename(places::INITIAL_ANNOTATIONS, places::INITIAL_ANNOTATIONS_DONE)?;
            }
            return Ok(Some(target));
        }
        let Some(current) = &order.current else {
            return Err(Failure::degraded(format!(
                "nothing says which configuration this machine is in: neither {} nor {} nor the node's annotations",
                places::CURRENT_CONFIG,
                places::INITIAL_ANNOTATIONS
            )));
        };
        let Some(spec) = &current.spec else {
            return Err(Failure::degraded(format!(
                "the machine was made with {}, which the cluster does not have: the configuration at the time of the \
                 installation and the one that the cluster renders differ; make the missing MachineConfig, or the machine anew",
                current.name
            )));
        };
        let target = Target::parse(&current.name, spec, image_of(current))?;
        let boot = self.host.boot()?;
        let booted = first_boot::as_booted(&target, &boot);
        let observed = observe(&self.host, &booted, &target)?;
        let change = steps(&booted, &target, &observed)?.into_iter().find_map(|step| match step {
            crate::steps::Step::Boot(change) => Some(change),
            _ => None,
        });
        if let Some(change) = change {
            first_boot::boot_into(&self.host, &change, &boot.id)?;
            self.rebooting_in = Some(boot.id);
            return Ok(None);
        }
        let findings = validate::validate(&self.host, &target)?;
        if !findings.is_empty() && !self.host.exists(places::FORCE)? {
            let failure = Failure::degraded(validate::message(&target, &findings));
            return Err(Failure { event: "OnDiskStateValidationFailed", ..failure });
        }
        self.store_current(&config_text(&target), target.built_image.as_deref())?;
        if self.host.exists(places::INITIAL_ANNOTATIONS)? {
            self.host.rename(places::INITIAL_ANNOTATIONS, places::INITIAL_ANNOTATIONS_DONE)?;
        }
        Ok(Some(target))
    }

    /// The configuration that stands on the disk.
    pub fn on_disk_config(&self) -> Result<Option<Target>, String> {
        self.on_disk().map_err(|failure| failure.reason)
    }

    fn on_disk(&self) -> Result<Option<Target>, Failure> {
        let Some(bytes) = self.host.read(places::CURRENT_CONFIG)? else { return Ok(None) };
        let unreadable = |why: String| {
            Failure::degraded(TargetError::Unreadable { path: places::CURRENT_CONFIG.to_owned(), why }.to_string())
        };
        let value: Value = serde_json::from_slice(&bytes).map_err(|error| unreadable(error.to_string()))?;
        let name = value["metadata"]["name"].as_str().ok_or_else(|| unreadable("it has no name".to_owned()))?;
        let spec: MachineConfigSpec =
            serde_json::from_value(value["spec"].clone()).map_err(|error| unreadable(error.to_string()))?;
        let image = self.host.read(places::CURRENT_IMAGE)?.unwrap_or_default();
        let image = String::from_utf8_lossy(&image).trim().to_owned();
        Ok(Some(Target::parse(name, &spec, Some(&image))?))
    }

    pub(crate) fn store_current(&self, text: &[u8], image: Option<&str>) -> Result<(), HostError> {
        match image {
            Some(image) => self.host.write_through(places::CURRENT_IMAGE, image.as_bytes(), PUBLIC)?,
            None => self.host.remove(places::CURRENT_IMAGE)?,
        }
        self.host.write_through(places::CURRENT_CONFIG, text, PUBLIC)
    }

    /// What the update does to the node.
    fn disruption(&self, from: &Target, to: &Target, order: &Order, is_forced: bool) -> Result<Disruption, Failure> {
        let mut disruption = least_disruption(&from.spec, &to.spec, order.policies.as_deref());
        let reboot = |what: String| Disruption {
            level: Level::Reboot,
            actions: vec![Action::Reboot],
            causes: vec![Cause { what, rule: Rule::AtBoot, actions: vec![Action::Reboot] }],
        };
        if is_forced {
            return Ok(reboot(format!("{} is there", places::FORCE)));
        }
        if from.image() != to.image() && disruption.level != Level::Reboot {
            disruption = reboot("image".to_owned());
        }
        match self.verdict()? {
            Some(verdict) if verdict.config == to.name && !verdict.is_final => Ok(reboot(verdict.why)),
            _ => Ok(disruption),
        }
    }

    /// Whether the machine is what the disk's configuration says; says whether something was put right.
    fn check_disk(&self, disk: &Target, order: &Order, is_there: bool) -> Result<bool, Failure> {
        let findings = validate::validate(&self.host, disk)?;
        if findings.is_empty() {
            return Ok(false);
        }
        let is_boot = findings.iter().any(|finding| finding.aspect == validate::Aspect::Boot);
        if self.settings.is_repairing && !is_boot {
            for step in steps(disk, disk, &observe(&self.host, disk, disk)?)? {
                perform(&self.host, &step)?;
            }
            self.host.sync()?;
            for path in findings.iter().map(|finding| &finding.subject) {
                let spec = without_file(&disk.spec, path);
                for action in least_disruption(&spec, &disk.spec, order.policies.as_deref()).actions {
                    act(&self.host, &action)?;
                }
            }
            return Ok(true);
        }
        let event = if is_there { "ConfigDriftDetected" } else { "PreflightConfigDriftCheckFailed" };
        Err(Failure { event, ..Failure::degraded(validate::message(disk, &findings)) })
    }

    /// Refuses what a running machine cannot take over.
    fn refuse(&self, from: &Target, to: &Target, order: &Order) -> Result<(), Failure> {
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
        let actions = report.disruption.as_ref().map(|disruption| disruption.actions.clone()).unwrap_or_default();
        let observed = observe(&self.host, from, to)?;
        let steps = steps(from, to, &observed)?;
        let mut journal = Journal::new(from, to, &observed, &steps, &actions);
        journal.image = to.built_image.clone();
        journal.known = known(report.disruption.as_ref());
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
        match self.act(journal)? {
            Resumed::Rebooting(why) => Ok(Report { events: vec![("Reboot", why.clone())], ..rebooting(why) }),
            Resumed::Settled => {
                report.current = Some(config_of(to));
                // The order is read again before anything more is said.
                report.again = Again::Now;
                Ok(report)
            }
        }
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

/// A node that has failed says so until it has succeeded.
fn working(order: &Order) -> State {
    match order.state {
        Some(state @ (State::Degraded | State::Unreconcilable)) => state,
        _ => State::Working,
    }
}

fn image_of(config: &Config) -> Option<&str> {
    config.image.as_deref().filter(|image| !image.is_empty())
}

fn config_of(target: &Target) -> Config {
    Config { name: target.name.clone(), spec: None, image: target.built_image.clone() }
}

fn target_of(config: &Config) -> Result<Target, Failure> {
    let Some(spec) = &config.spec else {
        let reason = format!("MachineConfig {} does not exist; it is waited for, or for another order", config.name);
        return Err(Failure::degraded(reason));
    };
    Ok(Target::parse(&config.name, spec, image_of(config))?)
}

/// A configuration as it stands on the disk.
fn config_text(target: &Target) -> Vec<u8> {
    let value = json!({
        "apiVersion": API_VERSION,
        "kind": "MachineConfig",
        "metadata": {"name": target.name},
        "spec": target.spec,
    });
    value.to_string().into_bytes()
}

/// A configuration without one file, to ask what its coming needs.
fn without_file(spec: &MachineConfigSpec, path: &str) -> MachineConfigSpec {
    let mut spec = spec.clone();
    let files =
        spec.config.as_mut().and_then(|config| config.pointer_mut("/storage/files")).and_then(Value::as_array_mut);
    if let Some(files) = files {
        files.retain(|file| file["path"].as_str() != Some(path));
    }
    spec
}
