//! Pool status: counts and conditions that follow from the nodes of a pool.
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
use seaworthy_values::list;
use seaworthy_values::text::truncate;

use crate::fleet::{NodeView, PoolView, Target};
use crate::rollout::budget::max_unavailable;
use crate::status::remark::Remarks;

/// The bundle whose certificates a pool reports the expiry of.
const API_SERVER_BUNDLE: &str = "KubeAPIServerServingCAData";

/// Everything that the status depends on.
#[derive(Clone, Copy, Debug)]
pub struct PoolStatusInputs<'a> {
    /// The pool, with the status that it has.
    pub pool: PoolView<'a>,
    /// Its nodes. Failures are reported with the message of the MachineConfigNode; nodes without one are only counted.
    pub nodes: &'a [&'a NodeView<'a>],
    /// Remarks beside the progress of the nodes.
    pub remarks: &'a Remarks,
    /// The certificates of the ControllerConfig.
    pub certificates: &'a [ControllerCertificate],
    /// The time.
    pub now: Timestamp,
}

/// The nodes of a pool by progress.
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
pub fn status(inputs: &PoolStatusInputs<'_>) -> Option<MachineConfigPoolStatus> {
    let selector_error = selector_error(inputs.pool);
    let target = match (&selector_error, inputs.pool.target()) {
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
    if counts.all_updated() && selector_error.is_none() {
        status.configuration = inputs.pool.configuration().cloned();
    }
    let is_reported = |certificate: &&ControllerCertificate| certificate.bundle_file == API_SERVER_BUNDLE;
    let expiry = |certificate: &ControllerCertificate| CertExpiry {
        bundle: certificate.bundle_file.clone(),
        subject: certificate.subject.clone(),
        expiry: certificate.not_after.clone(),
        unknown: Unknown::default(),
    };
    status.cert_expirys = Some(inputs.certificates.iter().filter(is_reported).map(expiry).collect());
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
    for new in conditions_of(inputs, target, counts, selector_error.as_deref(), &conditions) {
        set(&mut conditions, new, inputs.now);
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

/// The events about a change from one status to the next.
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
    let reported =
        find(conditions, PoolCondition::Degraded).and_then(|found| found.message.as_deref()).unwrap_or_default();
    let conflicting = &remarks.conflicting;
    if !conflicting.is_empty() && !reported.contains(conflicting.as_str()) {
        let (reason, message) = (PoolEvent::NodesInSeveralPools.as_str(), conflicting.clone());
        events.push(Change::emit(pool.object_ref(), Event { is_warning: true, reason, message, related: None }));
    }
    events
}

/// What is wrong with the selector of a pool, if it cannot be read.
fn selector_error(pool: PoolView<'_>) -> Option<String> {
    let error = Selection::of(pool.node_selector()?).err()?;
    Some(format!("spec.nodeSelector cannot be read, so the pool has no nodes: {error}"))
}

/// A condition as it should be.
struct NewCondition {
    type_: PoolCondition,
    is_true: bool,
    reason: PoolReason,
    message: String,
}

fn conditions_of(
    inputs: &PoolStatusInputs<'_>,
    target: Target<'_>,
    counts: Counts,
    selector_error: Option<&str>,
    others: &[StatusCondition],
) -> Vec<NewCondition> {
    let Target { config, image } = target;
    let with_image = image.map(|image| format!(" / Image {image}")).unwrap_or_default();
    let pool = inputs.pool;
    let is_stuck = max_unavailable(pool.name, pool.max_unavailable(), inputs.nodes.len()).is_err();
    // The texts are upstream's, because scripts read them; the reasons are ours, because upstream has none.
    let is_updated = counts.all_updated() && selector_error.is_none();
    let (reason, is_updating, updated_message, updating_message) = match (is_updated, pool.is_paused()) {
        (false, _) if selector_error.is_some() => {
            let message = selector_error.unwrap_or_default().to_owned();
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
            if !inputs.remarks.blockers.is_empty() {
                message.push_str("; ");
                message.push_str(&inputs.remarks.blockers);
            }
            let reason = if is_stuck { PoolReason::InvalidMaxUnavailable } else { PoolReason::NodesUpdating };
            (reason, true, String::new(), message)
        }
    };
    let is_node_degraded = counts.degraded > 0;
    let node_message = if is_node_degraded { failure_messages(inputs) } else { String::new() };
    let is_other_true = |type_: PoolCondition| find(others, type_).filter(|found| is_true(found));
    let (degraded, mut message) = if let Some(selector_error) = selector_error {
        (Some(PoolReason::InvalidNodeSelector), selector_error.to_owned())
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
    let conflicting = &inputs.remarks.conflicting;
    let degraded = degraded.or((!conflicting.is_empty()).then_some(PoolReason::NodesInSeveralPools));
    if !conflicting.is_empty() {
        message = if message.is_empty() { conflicting.clone() } else { format!("{message}; {conflicting}") };
    }
    vec![
        NewCondition { type_: PoolCondition::Updated, is_true: is_updated, reason, message: updated_message },
        NewCondition { type_: PoolCondition::Updating, is_true: is_updating, reason, message: updating_message },
        NewCondition {
            type_: PoolCondition::NodeDegraded,
            is_true: is_node_degraded,
            reason: if is_node_degraded { PoolReason::NodesDegraded } else { PoolReason::NodesHealthy },
            message: node_message,
        },
        NewCondition {
            type_: PoolCondition::Degraded,
            is_true: degraded.is_some(),
            reason: degraded.unwrap_or(PoolReason::Healthy),
            message,
        },
    ]
}

/// The approximate size of the failure messages of all nodes: a status is written as a whole, and has them twice.
const MAX_FAILURE_BYTES: usize = 16 << 10;

/// The messages of failed nodes, by name.
///
/// Differs: upstream lists a node twice where its MachineConfigNode and its annotation both report, and stops at the first
/// MachineConfigNode without conditions; here every failed node that has a MachineConfigNode is listed once.
fn failure_messages(inputs: &PoolStatusInputs<'_>) -> String {
    let mut failures: Vec<(&str, &str)> = inputs
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
    failures.sort_unstable();
    let reported =
        |(node, text): (&str, &str)| format!("Node {node} is reporting: {:?}", truncate(text, MAX_FAILURE_BYTES));
    list::within(failures.into_iter().map(reported), MAX_FAILURE_BYTES, ", ", ", and ")
}

/// Sets a condition in its place, or at the end.
///
/// Differs: upstream moves a changed condition to the end, because it removes it and adds it again; here the list keeps
/// its order, and only what has changed differs.
fn set(conditions: &mut Vec<StatusCondition>, new: NewCondition, now: Timestamp) {
    let type_ = new.type_;
    let status = if new.is_true { ConditionStatus::True } else { ConditionStatus::False };
    let at = conditions.iter().position(|found| found.type_.as_deref() == Some(type_.as_str()));
    let old = at.map(|at| &conditions[at]);
    let since = old
        .filter(|old| old.status.as_deref() == Some(status.as_str()))
        .and_then(|old| old.last_transition_time.clone())
        .unwrap_or(Time(now));
    let condition = StatusCondition {
        last_transition_time: Some(since),
        message: Some(new.message),
        reason: Some(new.reason.as_str().to_owned()),
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
