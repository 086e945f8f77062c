//! Disruption: what a change does to a node (nothing, a reload, a restart, a drain or a reboot), and the rule that decides.
//! The rules are in `docs/explanation/disruption.md`.
//!
//! - Every difference is looked up by itself; the longest policy path that is the file or a folder above it decides.
//! - A difference that no policy matches is a reboot.
//! - The node and every preview call this function, so a preview cannot show less than happens.

pub mod known_effect;
pub mod policy;
pub mod reconcilable;
mod registries;

use std::collections::BTreeMap;
use std::fmt;

use seaworthy_api::machineconfiguration::MachineConfigSpec;
use seaworthy_api::operator::node_disruption_policy::{
    NodeDisruptionPolicyClusterStatus, PolicyActionStatus, PolicyActionStatusType,
};
use seaworthy_api::vocabulary::machineconfiguration::KernelType;
use seaworthy_ignition::diff::{Change, ChangeKind, Entry, diff};
use seaworthy_ignition::{Node, body_of};
use serde::{Deserialize, Serialize};

use self::policy::built_in;

/// Where the registries of container images are configured; what a change of it needs depends on what is changed.
pub const REGISTRIES_CONF: &str = "/etc/containers/registries.conf";
/// The service that pulls images.
const CRIO: &str = "crio.service";
/// More than any file of that kind has.
const MAX_REGISTRIES_BYTES: u64 = 16 * 1024 * 1024;

/// What a node does after its files are written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "SerializedAction", into = "SerializedAction")]
pub enum Action {
    /// Systemd reads its units again.
    DaemonReload,
    /// A service reads its configuration again.
    Reload(String),
    /// A service is restarted.
    Restart(String),
    /// The settings of the kernel in a file are applied; after modules, which some of them belong to.
    Settings(String),
    /// The pods leave first.
    Drain,
    /// The pods leave and the node boots again.
    Reboot,
}

/// An action as it is written down.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "type")]
enum SerializedAction {
    DaemonReload,
    Reload { service: String },
    Restart { service: String },
    Settings { file: String },
    Drain,
    Reboot,
}

impl From<Action> for SerializedAction {
    fn from(action: Action) -> Self {
        match action {
            Action::DaemonReload => SerializedAction::DaemonReload,
            Action::Reload(service) => SerializedAction::Reload { service },
            Action::Restart(service) => SerializedAction::Restart { service },
            Action::Settings(file) => SerializedAction::Settings { file },
            Action::Drain => SerializedAction::Drain,
            Action::Reboot => SerializedAction::Reboot,
        }
    }
}

impl From<SerializedAction> for Action {
    fn from(action: SerializedAction) -> Self {
        match action {
            SerializedAction::DaemonReload => Action::DaemonReload,
            SerializedAction::Reload { service } => Action::Reload(service),
            SerializedAction::Restart { service } => Action::Restart(service),
            SerializedAction::Settings { file } => Action::Settings(file),
            SerializedAction::Drain => Action::Drain,
            SerializedAction::Reboot => Action::Reboot,
        }
    }
}

/// How much of a disruption it is, the least first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Level {
    /// Nothing happens beside the writing.
    #[default]
    None,
    /// A service, systemd or the kernel takes its configuration again.
    Reload,
    /// A service is restarted.
    Restart,
    /// The pods leave.
    Drain,
    /// The node boots again.
    Reboot,
}

/// A difference, and what it needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cause {
    /// What differs: `file /etc/chrony.conf`.
    pub what: String,
    /// The rule that decided.
    pub rule: Rule,
    /// What it needs, in order.
    pub actions: Vec<Action>,
}

/// The rule that decided about a difference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "rule", content = "name")]
pub enum Rule {
    /// A policy for this path: the file or a folder above it.
    FilePolicy(String),
    /// A policy for this unit.
    UnitPolicy(String),
    /// The policy for SSH keys.
    SshKeyPolicy,
    /// No policy matches it, and it is known how to apply it without a reboot.
    Known(&'static str),
    /// No policy matches it.
    NoPolicy,
    /// It takes effect at boot only.
    AtBoot,
    /// It is for machines that are still to be made; running ones never look at it.
    NewMachinesOnly,
}

/// What a change does to a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Disruption {
    /// How much of a disruption it is.
    pub level: Level,
    /// What the node does, in order and each thing once. A reboot is always the only one.
    pub actions: Vec<Action>,
    /// What differs, and what each difference needs.
    pub causes: Vec<Cause>,
}

impl Disruption {
    /// Whether the pods leave.
    pub fn needs_drain(&self) -> bool {
        self.level >= Level::Drain
    }

    /// The causes that make it as much of a disruption as it is.
    pub fn decisive(&self) -> impl Iterator<Item = &Cause> {
        self.causes.iter().filter(|cause| level_of(&cause.actions) == self.level)
    }
}

/// What a node does when it moves from one rendered configuration to another.
///
/// Without the policies of the cluster the built-in ones decide.
///
/// Differs: actions are done once each, systemd's reload first and a restart in place of a reload of the same service,
/// because upstream repeats them in the order of the differences; a unit that changes without a reboot always makes systemd
/// read its units, because otherwise the change has no effect.
pub fn disruption(
    old: &MachineConfigSpec,
    new: &MachineConfigSpec,
    policies: Option<&NodeDisruptionPolicyClusterStatus>,
) -> Disruption {
    decide(old, new, policies, false)
}

/// The same, with less than a reboot for what no policy matches where a [known effect](crate::disruption::known_effect)
/// is sufficient.
pub fn least_disruption(
    old: &MachineConfigSpec,
    new: &MachineConfigSpec,
    policies: Option<&NodeDisruptionPolicyClusterStatus>,
) -> Disruption {
    decide(old, new, policies, true)
}

fn decide(
    old: &MachineConfigSpec,
    new: &MachineConfigSpec,
    policies: Option<&NodeDisruptionPolicyClusterStatus>,
    uses_known_effects: bool,
) -> Disruption {
    let built_in = built_in();
    let policies = policies.unwrap_or(&built_in);
    let mut causes = at_boot(old, new);
    let empty = Node::empty_config("3.5.0");
    let (old, new) = (old.config.as_ref().map(Node::from_json), new.config.as_ref().map(Node::from_json));
    let changes = diff(old.as_ref().unwrap_or(&empty), new.as_ref().unwrap_or(&empty));
    causes.extend(of_config(&changes, policies, uses_known_effects));
    let actions = in_order(causes.iter().flat_map(|cause| &cause.actions));
    Disruption { level: level_of(&actions), actions, causes }
}

/// Differences that take effect at boot.
fn at_boot(old: &MachineConfigSpec, new: &MachineConfigSpec) -> Vec<Cause> {
    // What is absent and what is empty mean the same.
    fn texts(list: &Option<Vec<String>>) -> &[String] {
        list.as_deref().unwrap_or_default()
    }
    let kernel = |spec: &MachineConfigSpec| {
        spec.kernel_type.as_deref().and_then(|text| text.parse().ok()).unwrap_or(KernelType::Default)
    };
    [
        ("osImageURL", old.os_image_url.as_deref().unwrap_or("") != new.os_image_url.as_deref().unwrap_or("")),
        ("kernelArguments", texts(&old.kernel_arguments) != texts(&new.kernel_arguments)),
        ("fips", old.fips.unwrap_or_default() != new.fips.unwrap_or_default()),
        ("kernelType", kernel(old) != kernel(new)),
        ("extensions", texts(&old.extensions) != texts(&new.extensions)),
    ]
    .into_iter()
    .filter(|(_, differs)| *differs)
    .map(|(what, _)| Cause { what: what.to_owned(), rule: Rule::AtBoot, actions: vec![Action::Reboot] })
    .collect()
}

fn of_config(
    changes: &[Change<'_>],
    policies: &NodeDisruptionPolicyClusterStatus,
    uses_known_effects: bool,
) -> Vec<Cause> {
    let paths: BTreeMap<&str, &[PolicyActionStatus]> =
        policies.files.iter().flatten().map(|policy| (policy.path.as_str(), policy.actions.as_slice())).collect();
    let units: BTreeMap<&str, &[PolicyActionStatus]> =
        policies.units.iter().flatten().map(|policy| (policy.name.as_str(), policy.actions.as_slice())).collect();
    let mut causes: Vec<Cause> = Vec::new();
    for change in changes {
        let what = change.entry.to_string();
        let reboot = |rule| Cause { what: what.clone(), rule, actions: vec![Action::Reboot] };
        let otherwise = || match uses_known_effects.then(|| known_effect::of(change)).flatten() {
            Some(known) => Cause { what: what.clone(), rule: Rule::Known(known.why), actions: known.actions },
            None => reboot(Rule::NoPolicy),
        };
        let cause = match &change.entry {
            Entry::File(path) => match nearest(&paths, path) {
                Some((policy, listed)) => {
                    let rule = Rule::FilePolicy(policy.to_owned());
                    Cause { what, rule, actions: actions_of(listed, change) }
                }
                None => otherwise(),
            },
            Entry::Unit(unit) | Entry::Dropin { unit, .. } => match units.get(unit) {
                Some(listed) => {
                    let mut actions = actions_of(listed, change);
                    if !actions.contains(&Action::Reboot) && !actions.contains(&Action::DaemonReload) {
                        actions.insert(0, Action::DaemonReload);
                    }
                    Cause { what, rule: Rule::UnitPolicy((*unit).to_owned()), actions }
                }
                None => otherwise(),
            },
            Entry::User(_) => match &policies.sshkey {
                Some(policy) => Cause { what, rule: Rule::SshKeyPolicy, actions: actions_of(&policy.actions, change) },
                None => reboot(Rule::NoPolicy),
            },
            // A file that was a directory or a link has been judged irreconcilable; were it allowed, nothing less is safe.
            _ if matches!(change.what, ChangeKind::Moved { .. }) => reboot(Rule::NoPolicy),
            _ => Cause { what, rule: Rule::NewMachinesOnly, actions: Vec::new() },
        };
        causes.push(cause);
    }
    causes
}

/// The policy with the longest path that is the file or a folder above it.
fn nearest<'p, T: Copy>(policies: &BTreeMap<&'p str, T>, file: &str) -> Option<(&'p str, T)> {
    let mut path = file;
    loop {
        if let Some((policy, actions)) = policies.get_key_value(path) {
            return Some((policy, *actions));
        }
        // A policy for a folder may be written with a slash at its end.
        let with_slash = format!("{path}/");
        if path.len() < file.len()
            && let Some((policy, actions)) = policies.get_key_value(with_slash.as_str())
        {
            return Some((policy, *actions));
        }
        path = &path[..path.rfind('/').filter(|at| *at > 0)?];
    }
}

fn actions_of(listed: &[PolicyActionStatus], change: &Change<'_>) -> Vec<Action> {
    let service = |service: &Option<seaworthy_api::operator::node_disruption_policy::Service>| {
        service.as_ref().map(|service| service.service_name.clone()).unwrap_or_default()
    };
    let mut actions = Vec::new();
    for action in listed {
        match action.type_.known() {
            Some(PolicyActionStatusType::None) => {}
            Some(PolicyActionStatusType::Drain) => actions.push(Action::Drain),
            Some(PolicyActionStatusType::DaemonReload) => actions.push(Action::DaemonReload),
            Some(PolicyActionStatusType::Reload) => actions.push(Action::Reload(service(&action.reload))),
            Some(PolicyActionStatusType::Restart) => actions.push(Action::Restart(service(&action.restart))),
            Some(PolicyActionStatusType::Special) => {
                if !is_safe_for_registries(change) {
                    actions.push(Action::Drain);
                }
                actions.push(Action::Reload(CRIO.to_owned()));
            }
            // What a newer version means by an action that is not known here is not less than a reboot.
            Some(PolicyActionStatusType::Reboot) | None => actions.push(Action::Reboot),
        }
    }
    actions
}

/// Whether a change of the file with the registries leaves running pods alone.
fn is_safe_for_registries(change: &Change<'_>) -> bool {
    let text = |file: Option<&Node<'_>>| {
        let Some(file) = file else { return Some(String::new()) };
        String::from_utf8(body_of(file, MAX_REGISTRIES_BYTES).ok()?.into_owned()).ok()
    };
    let (old, new) = match &change.what {
        ChangeKind::Added(new) => (None, Some(*new)),
        ChangeKind::Removed(old) => (Some(*old), None),
        ChangeKind::Changed { old, new, .. } | ChangeKind::Moved { old, new, .. } => (Some(*old), Some(*new)),
    };
    match (text(old), text(new)) {
        (Some(old), Some(new)) => registries::is_safe(&old, &new),
        _ => false,
    }
}

/// Each action once: systemd's reload first, then reloads, then restarts; a restart makes a reload of the same service
/// needless, and a reboot everything else.
fn in_order<'a>(actions: impl Iterator<Item = &'a Action>) -> Vec<Action> {
    let mut actions: Vec<Action> = actions.cloned().collect();
    actions.sort();
    actions.dedup();
    if actions.contains(&Action::Reboot) {
        return vec![Action::Reboot];
    }
    let restarted: Vec<String> = actions
        .iter()
        .filter_map(|action| match action {
            Action::Restart(service) => Some(service.clone()),
            _ => None,
        })
        .collect();
    actions.retain(|action| !matches!(action, Action::Reload(service) if restarted.contains(service)));
    actions
}

fn level_of(actions: &[Action]) -> Level {
    let level = |action: &Action| match action {
        Action::DaemonReload | Action::Reload(_) | Action::Settings(_) => Level::Reload,
        Action::Restart(_) => Level::Restart,
        Action::Drain => Level::Drain,
        Action::Reboot => Level::Reboot,
    };
    actions.iter().map(level).max().unwrap_or_default()
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::None => "none",
            Level::Reload => "reload",
            Level::Restart => "restart",
            Level::Drain => "drain",
            Level::Reboot => "reboot",
        })
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::DaemonReload => f.write_str("systemctl daemon-reload"),
            Action::Reload(service) => write!(f, "reload {service}"),
            Action::Restart(service) => write!(f, "restart {service}"),
            Action::Settings(file) => write!(f, "apply {file}"),
            Action::Drain => f.write_str("drain"),
            Action::Reboot => f.write_str("reboot"),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::FilePolicy(path) => write!(f, "policy for {path}"),
            Rule::UnitPolicy(unit) => write!(f, "policy for unit {unit}"),
            Rule::SshKeyPolicy => f.write_str("policy for SSH keys"),
            Rule::Known(what) => write!(f, "known: {what}"),
            Rule::NoPolicy => f.write_str("no node disruption policy matches"),
            Rule::AtBoot => f.write_str("takes effect at boot"),
            Rule::NewMachinesOnly => f.write_str("for new machines only"),
        }
    }
}
