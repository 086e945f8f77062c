//! The status of a pool: counts and conditions that follow from its nodes (machineconfig.md, 4.6 and 4.7).
//!
//! - The time of a condition moves with its status only, and a status that says the same is equal: nothing is written
//!   when nothing has changed.
//! - Conditions of others (rendering, image builds) are kept as they are; `Degraded` is the sum of all.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use seaworthy_api::machineconfiguration::controller_config::ControllerCertificate;
use seaworthy_api::machineconfiguration::machine_config_pool::{
    CertExpiry, PoolSynchronizerStatus, PoolSynchronizerType,
};
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigPoolStatus, StatusCondition};
use seaworthy_api::meta::{ConditionStatus, Selection};
use seaworthy_api::unknown::Unknown;
use seaworthy_api::vocabulary::machineconfiguration::{NodeCondition, PoolCondition, PoolEvent, PoolReason};
use seaworthy_change::{Change, Event, ObjectRef};

use crate::fleet::{NodeView, PoolView, Target};
use crate::rollout::budget::max_unavailable;
use crate::sentence::shorten;
use crate::status::remark::Remarks;

/// The bundle whose certificates a pool tells the expiry of.
const API_SERVER_BUNDLE: &str = "KubeAPIServerServingCAData";

/// Everything that the status depends on.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The pool, with the status that it has.
    pub pool: PoolView<'a>,
    /// Its nodes. What failed ones say is told in the words of their MachineConfigNodes; those without one are counted only.
    pub nodes: &'a [&'a NodeView<'a>],
    /// What is to be said beside how far the nodes are.
    pub remarks: &'a Remarks,
    /// The certificates of the ControllerConfig.
    pub certificates: &'a [ControllerCertificate],
    /// The time.
    pub now: Timestamp,
}

/// How many nodes are how far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All nodes.
    pub machines: usize,
    /// Nodes that run the target.
    pub updated: usize,
    /// Nodes that run the target and can be relied on.
    pub ready: usize,
    /// Nodes that are away.
    pub unavailable: usize,
    /// Nodes whose daemon gave up.
    pub degraded: usize,
}

impl Counts {
    /// Counts the nodes of a pool.
    pub fn of(nodes: &[&NodeView<'_>], target: Target<'_>) -> Self {
        let mut counts = Counts { machines: nodes.len(), ..Counts::default() };
        for node in nodes {
            let is_updated = node.is_updated(target);
            counts.updated += usize::from(is_updated);
            counts.ready += usize::from(is_updated && node.is_ready());
            counts.unavailable += usize::from(node.is_unavailable());
            counts.degraded += usize::from(node.is_degraded());
        }
        counts
    }

    /// Whether every node runs the target and can be relied on. So it is where there is no node.
    pub fn all_updated(&self) -> bool {
        self.updated == self.machines && self.ready == self.machines && self.unavailable == 0
    }
}

/// The status that a pool should have; `None` as long as it has no configuration, which leaves everything as it is.
///
/// Differs: upstream fails to look up the pool of any node while one selector cannot be read, and no pool says why; here
/// that pool says so, also before it has a configuration, and is not taken for one that has every node where it should be.
pub fn status(inputs: &Inputs<'_>) -> Option<MachineConfigPoolStatus> {
    let misread = misread(inputs.pool);
    let target = match (&misread, inputs.pool.target()) {
        (None, None) => return None,
        (Some(_), None) => Target { config: "", image: None },
        (_, Some(target)) => target,
    };
    let counts = Counts::of(inputs.nodes, target);
    let mut status = inputs.pool.object.status.clone().unwrap_or_default();
    status.observed_generation = inputs.pool.object.metadata.generation;
    status.machine_count = Some(number(counts.machines));
    status.updated_machine_count = Some(number(counts.updated));
    status.ready_machine_count = Some(number(counts.ready));
    status.unavailable_machine_count = Some(number(counts.unavailable));
    status.degraded_machine_count = Some(number(counts.degraded));
    if counts.all_updated() && misread.is_none() {
        status.configuration = inputs.pool.configuration().cloned();
    }
    let is_told = |certificate: &&ControllerCertificate| certificate.bundle_file == API_SERVER_BUNDLE;
    let expiry = |certificate: &ControllerCertificate| CertExpiry {
        bundle: certificate.bundle_file.clone(),
        subject: certificate.subject.clone(),
        expiry: certificate.not_after.clone(),
        unknown: Unknown::default(),
    };
    status.cert_expirys = Some(inputs.certificates.iter().filter(is_told).map(expiry).collect());
    status.pool_synchronizers_status = Some(vec![PoolSynchronizerStatus {
        pool_synchronizer_type: PoolSynchronizerType::PinnedImageSets.into(),
        machine_count: i64::from(number(counts.machines)),
        // Images are not pinned by anything here yet.
        updated_machine_count: 0,
        ready_machine_count: i64::from(number(counts.ready)),
        available_machine_count: i64::from(number(counts.machines - counts.unavailable)),
        unavailable_machine_count: i64::from(number(counts.unavailable)),
        observed_generation: None,
        unknown: Unknown::default(),
    }]);
    let mut conditions = status.conditions.take().unwrap_or_default();
    for said in conditions_of(inputs, target, counts, misread.as_deref(), &conditions) {
        set(&mut conditions, said, inputs.now);
    }
    status.conditions = Some(conditions);
    Some(status)
}

/// Whether one status says the same as another but for how many nodes are how far: while a pool moves that changes all the
/// time.
pub fn differ_in_counts_only(one: &MachineConfigPoolStatus, other: &MachineConfigPoolStatus) -> bool {
    let uncounted = |status: &MachineConfigPoolStatus| MachineConfigPoolStatus {
        machine_count: None,
        updated_machine_count: None,
        ready_machine_count: None,
        unavailable_machine_count: None,
        degraded_machine_count: None,
        pool_synchronizers_status: None,
        ..status.clone()
    };
    uncounted(one) == uncounted(other)
}

/// The events that tell of a change from one status to the next.
pub fn events(pool: PoolView<'_>, next: &MachineConfigPoolStatus, remarks: &Remarks) -> Vec<Change> {
    let name = |status: Option<&MachineConfigPoolStatus>| {
        status?.configuration.as_ref()?.name.clone().filter(|name| !name.is_empty())
    };
    let (old, new) = (name(pool.object.status.as_ref()), name(Some(next)));
    let is_updating = |status: Option<&MachineConfigPoolStatus>| {
        let conditions = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
        let mut updating = conditions.filter(|found| found.type_.as_deref() == Some(PoolCondition::Updating.as_str()));
        updating.any(|found| found.status.as_deref() == Some(ConditionStatus::True.as_str()))
    };
    let event = |reason: PoolEvent, message: String, config: &str| {
        let related = Some(ObjectRef::named::<MachineConfig>(config));
        Change::emit(pool.object_ref(), Event { is_warning: false, reason: reason.as_str(), message, related })
    };
    let mut events = Vec::new();
    if let Some(config) = new.filter(|new| old.as_ref() != Some(new)) {
        let message = format!("Pool {} has completed update to {config}", pool.name);
        events.push(event(PoolEvent::Completed, message, &config));
    }
    if let Some(target) = pool.target()
        && is_updating(Some(next))
        && !is_updating(pool.object.status.as_ref())
    {
        let message = format!("Pool {} is updating to {}", pool.name, target.config);
        events.push(event(PoolEvent::Updating, message, target.config));
    }
    let conditions = pool.object.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let told = find(conditions, PoolCondition::Degraded).and_then(|found| found.message.as_deref()).unwrap_or_default();
    let disputed = &remarks.disputed;
    if !disputed.is_empty() && !told.contains(disputed.as_str()) {
        let (reason, message) = (PoolEvent::NodesInSeveralPools.as_str(), disputed.clone());
        events.push(Change::emit(pool.object_ref(), Event { is_warning: true, reason, message, related: None }));
    }
    events
}

/// What is wrong with the selector of a pool, if it cannot be read.
fn misread(pool: PoolView<'_>) -> Option<String> {
    let error = Selection::of(pool.node_selector()?).err()?;
    Some(format!("spec.nodeSelector cannot be read, so the pool has no nodes: {error}"))
}

/// What a condition says.
struct Said {
    type_: PoolCondition,
    is_true: bool,
    reason: PoolReason,
    message: String,
}

fn conditions_of(
    inputs: &Inputs<'_>,
    target: Target<'_>,
    counts: Counts,
    misread: Option<&str>,
    others: &[StatusCondition],
) -> Vec<Said> {
    let Target { config, image } = target;
    let with_image = image.map(|image| format!(" / Image {image}")).unwrap_or_default();
    let pool = inputs.pool;
    let is_stuck = max_unavailable(pool.name, pool.max_unavailable(), inputs.nodes.len()).is_err();
    // The texts are upstream's, because scripts read them; the reasons are ours, because upstream has none.
    let is_updated = counts.all_updated() && misread.is_none();
    let (reason, is_updating, updated_message, updating_message) = match (is_updated, pool.is_paused()) {
        (false, _) if misread.is_some() => {
            let message = misread.unwrap_or_default().to_owned();
            (PoolReason::InvalidNodeSelector, false, message, String::new())
        }
        (true, _) => {
            let message = format!("All nodes are updated with MachineConfig {config}{with_image}");
            (PoolReason::AllNodesUpdated, false, message, String::new())
        }
        (false, true) => {
            let message = format!("Pool is paused; will not update to MachineConfig {config}{with_image}");
            (PoolReason::PoolPaused, false, String::new(), message)
        }
        (false, false) => {
            let mut message = format!("All nodes are updating to MachineConfig {config}{with_image}");
            if !inputs.remarks.held_up.is_empty() {
                message.push_str("; ");
                message.push_str(&inputs.remarks.held_up);
            }
            let reason = if is_stuck { PoolReason::InvalidMaxUnavailable } else { PoolReason::NodesUpdating };
            (reason, true, String::new(), message)
        }
    };
    let is_node_degraded = counts.degraded > 0;
    let node_message = if is_node_degraded { complaints(inputs) } else { String::new() };
    let is_other_true = |type_: PoolCondition| find(others, type_).filter(|found| is_true(found));
    let (degraded, mut message) = if let Some(misread) = misread {
        (Some(PoolReason::InvalidNodeSelector), misread.to_owned())
    } else if is_node_degraded {
        (Some(PoolReason::NodesDegraded), node_message.clone())
    } else if let Some(render) = is_other_true(PoolCondition::RenderDegraded) {
        // Differs: upstream leaves the message empty, because it forgets that rendering has one.
        (Some(PoolReason::RenderDegraded), render.message.clone().unwrap_or_default())
    } else if is_other_true(PoolCondition::ImageBuildDegraded).is_some() {
        (Some(PoolReason::ImageBuildDegraded), "Custom OS image build failed".to_owned())
    } else {
        (None, String::new())
    };
    // Differs: upstream drops such nodes silently, because it only looks at the pools that a node ends up in.
    let disputed = &inputs.remarks.disputed;
    let degraded = degraded.or((!disputed.is_empty()).then_some(PoolReason::NodesInSeveralPools));
    if !disputed.is_empty() {
        message = if message.is_empty() { disputed.clone() } else { format!("{message}; {disputed}") };
    }
    vec![
        Said { type_: PoolCondition::Updated, is_true: is_updated, reason, message: updated_message },
        Said { type_: PoolCondition::Updating, is_true: is_updating, reason, message: updating_message },
        Said {
            type_: PoolCondition::NodeDegraded,
            is_true: is_node_degraded,
            reason: if is_node_degraded { PoolReason::NodesDegraded } else { PoolReason::NodesHealthy },
            message: node_message,
        },
        Said {
            type_: PoolCondition::Degraded,
            is_true: degraded.is_some(),
            reason: degraded.unwrap_or(PoolReason::Healthy),
            message,
        },
    ]
}

/// About how many bytes of complaints a status has room for: it is written whole, whoever fails, and it is written twice in it.
const COMPLAINTS: usize = 16 << 10;

/// What failed nodes say, by name.
///
/// Differs: upstream lists a node twice where its MachineConfigNode and its annotation both speak, and stops at the first
/// MachineConfigNode without conditions; here every failed node that has a MachineConfigNode speaks once.
fn complaints(inputs: &Inputs<'_>) -> String {
    let mut said: Vec<(&str, &str)> = inputs
        .nodes
        .iter()
        .filter(|node| node.is_degraded() && node.progress.is_some())
        .map(|node| {
            let condition = node.condition(NodeCondition::NodeDegraded);
            let condition = condition.filter(|condition| condition.status == ConditionStatus::True);
            let message = condition.map(|condition| condition.message.as_str()).filter(|text| !text.is_empty());
            (node.name, message.unwrap_or(node.reason))
        })
        .collect();
    said.sort_unstable();
    let count = said.len();
    let mut message = String::new();
    for (nth, (node, text)) in said.into_iter().enumerate() {
        let one = format!("Node {node} is reporting: {:?}", shorten(text, COMPLAINTS));
        if nth > 0 && message.len() + one.len() > COMPLAINTS {
            message.push_str(&format!(", and {} more", count - nth));
            break;
        }
        if nth > 0 {
            message.push_str(", ");
        }
        message.push_str(&one);
    }
    message
}

/// Sets a condition where it stands, or at the end.
///
/// Differs: upstream moves a changed condition to the end, because it removes it and adds it again; here the list keeps
/// its order, and only what has changed differs.
fn set(conditions: &mut Vec<StatusCondition>, said: Said, now: Timestamp) {
    let type_ = said.type_;
    let status = if said.is_true { ConditionStatus::True } else { ConditionStatus::False };
    let at = conditions.iter().position(|found| found.type_.as_deref() == Some(type_.as_str()));
    let old = at.map(|at| &conditions[at]);
    let since = old
        .filter(|old| old.status.as_deref() == Some(status.as_str()))
        .and_then(|old| old.last_transition_time.clone())
        .unwrap_or(Time(now));
    let condition = StatusCondition {
        last_transition_time: Some(since),
        message: Some(said.message),
        reason: Some(said.reason.as_str().to_owned()),
        status: Some(status.as_str().to_owned()),
        type_: Some(type_.as_str().to_owned()),
        unknown: old.map(|old| old.unknown.clone()).unwrap_or_default(),
    };
    match at {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
}

fn find(conditions: &[StatusCondition], type_: PoolCondition) -> Option<&StatusCondition> {
    conditions.iter().find(|condition| condition.type_.as_deref() == Some(type_.as_str()))
}

fn is_true(condition: &StatusCondition) -> bool {
    condition.status.as_deref() == Some(ConditionStatus::True.as_str())
}

/// A count as the API has it.
fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
