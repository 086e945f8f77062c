//! Pass: one decision about a pool that is not paused, from all its parts.

use std::fmt::Display;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use seaworthy_api::cluster::v1beta2::{Cluster, MachinePool, MachinePoolStatus};
use seaworthy_api::meta::{ConditionStatus, ObjectReference};
use seaworthy_api::vocabulary::cluster::finalizer::MACHINE_POOL;
use seaworthy_api::vocabulary::cluster::{
    ConditionReason, EventReason, MachinePoolCondition, OldMachinePoolCondition, Severity, label,
};
use seaworthy_api::vocabulary::seaworthy::annotation::BOOTSTRAP_DATA_SECRET;
use seaworthy_change::{Change, Decision, Event, ObjectRef, Purpose, Stage};
use seaworthy_values::list;
use seaworthy_values::text::counted;
use serde_json::{Map, Value, json};

use super::bootstrap::{self, SecretCopy};
use super::condition::{self, Fact, named};
use super::counters::{self, Counted, old_status};
use super::external::Failure;
use super::infrastructure::{self, Infrastructure, changed_list, distinct};
use super::inputs::{InfraMachines, Inputs, Workload, cluster_name};
use super::machines::{self, MachineInputs, Machines};
use super::node_marks::Marks;
use super::node_match::{MatchInputs, NodeMatch, matched};
use super::node_refs::{self, NodeRefs, deletions};
use super::old_condition::{self, OldFact};
use super::phase::{self, desired_replicas};
use super::report::{Member, MemberState, Report, Stop, Waiting};
use super::{Decided, deletion, owner, report_of, status_patch};

/// How long until a pool whose Nodes are not all ready is looked at again, in case an event was missed.
const NOT_READY_RECHECK_DELAY: Duration = Duration::from_secs(30);
/// How many Nodes an event names.
const MAX_NAMED: usize = 10;

/// Decides about a pool that is being deleted. The status has the condition `Paused` as it should be.
pub fn deleting(inputs: &Inputs<'_>, mut status: MachinePoolStatus) -> Decided {
    let Inputs { pool, now, .. } = *inputs;
    let decided = deletion::decide(inputs);
    let mut report = report_of(pool, &status);
    report.stop = Some(if decided.is_released { Stop::Released } else { Stop::Deleting });
    report.problems = decided.problems;
    report.waiting = decided.waiting;
    report.is_workload_known = matches!(inputs.workload, Workload::Known(_));
    let message = named(&culprits(&report, &[]));
    let fact = Fact::new(MachinePoolCondition::Deleting, ConditionStatus::True, ConditionReason::Deleting, message);
    condition::set(status.conditions.get_or_insert_default(), fact, pool.metadata.generation, now);
    finish(&mut status, pool, &mut report);
    let metadata = inputs.cluster.and_then(|cluster| PoolPatch::new(pool, cluster).change(pool));
    let released = decided.is_released.then(|| Change::remove_finalizer(pool, MACHINE_POOL.as_str()));
    let mut result = Decided::new(report)
        .stage(Stage::per_object(Purpose::Write, decided.external))
        .stage(Stage::sequence(Purpose::Write, metadata))
        .stage(Stage::sequence(Purpose::Status, status_patch::status_change(pool, &status)))
        .stage(Stage::sequence(Purpose::Write, released));
    result.management.recheck = decided.recheck;
    result.workload = Decision::of([Stage::per_object(Purpose::Write, decided.nodes)]);
    result
}

/// Decides about a pool that is not being deleted. The status has the condition `Paused` as it should be.
pub fn ordinary(inputs: &Inputs<'_>, mut status: MachinePoolStatus) -> Decided {
    let Inputs { pool, now, .. } = *inputs;
    let Some(cluster) = inputs.cluster else { return Decided::new(report_of(pool, &status)) };
    let cluster_name = cluster_name(pool).unwrap_or_default();
    let bootstrap = bootstrap::decide(pool, inputs.bootstrap);
    let infrastructure = infrastructure::decide(pool, inputs.infrastructure);
    let mut patch = PoolPatch::new(pool, cluster);
    patch.secret = bootstrap.copy;

    let stored = distinct(pool.spec.provider_id_list.iter().flatten().map(String::as_str));
    patch.list = infrastructure.machines.as_ref().and_then(|machines| changed_list(pool, &machines.ids));
    let ids = match (&patch.list, &infrastructure.machines) {
        (Some(_), Some(machines)) => &machines.ids,
        _ => &stored,
    };
    let old_refs = pool.status.as_ref().and_then(|status| status.node_refs.as_deref()).unwrap_or_default();
    let nodes = Nodes::decide(inputs, ids, old_refs, cluster_name);
    let machines = machines_of(inputs, cluster_name, &infrastructure);

    let mut report = report_of(pool, &status);
    report.problems.extend(bootstrap.problems.into_iter().chain(infrastructure.problems).chain(machines.problems));
    report.waiting.extend(bootstrap.waiting.into_iter().chain(infrastructure.waiting));
    if let (Some(_), InfraMachines::Unknown { reason }) = (infrastructure.machine_kind, inputs.infra_machines) {
        report.waiting.push(Waiting::InfraMachinesUnknown { reason: reason.to_owned() });
    }
    report.waiting.extend(shared(inputs, ids));
    report.waiting.extend(nodes.waiting(inputs, cluster_name));
    report.is_workload_known = nodes.found.is_some();

    let initialization = [bootstrap.is_created, infrastructure.is_provisioned];
    if initialization.iter().any(Option::is_some) {
        let found = status.initialization.get_or_insert_default();
        found.bootstrap_data_secret_created = bootstrap.is_created.or(found.bootstrap_data_secret_created);
        found.infrastructure_provisioned = infrastructure.is_provisioned.or(found.infrastructure_provisioned);
    }
    record_failure(&mut status, bootstrap.failure);
    record_failure(&mut status, infrastructure.failure);
    let own_machines = infrastructure.machine_kind.map(|_| machines::of_pool(pool, cluster_name, inputs.machines));
    let counted = Counted {
        pool,
        is_fetched: infrastructure.is_fetched,
        replicas: infrastructure.machines.as_ref().map(|machines| machines.replicas),
        nodes: nodes.found.as_ref().map(|found| &found.matched),
        machines: own_machines.as_deref(),
        up_to_date: inputs.up_to_date,
    };
    counters::update(&mut status, counted);
    let mut events = Vec::new();
    if let Some(found) = &nodes.found {
        let refs = &found.refs.refs;
        if refs != old_refs && !refs.is_empty() {
            events.push(refs_changed(pool, &found.matched));
        }
        status.node_refs = (!refs.is_empty()).then(|| refs.clone());
        report.retiring = found.refs.retiring.iter().map(|node| node.name.clone()).collect();
        report.members.clone_from(&found.matched.members);
    }
    events.extend(connection_lost(inputs, &status, cluster_name));

    let replicas_fact = replicas_fact(inputs, &status, &nodes, cluster_name);
    let old_facts = [bootstrap.old_fact, infrastructure.old_fact, Some(replicas_fact)];
    let conditions = old_status(&mut status).conditions.get_or_insert_default();
    for fact in old_facts.into_iter().flatten() {
        old_condition::set(conditions, fact, now);
    }
    if let Some(summary) = old_condition::summary(conditions) {
        old_condition::set(conditions, summary, now);
    }
    old_condition::sort(conditions);
    let mut facts: Vec<Fact> = bootstrap.fact.into_iter().chain(infrastructure.fact).collect();
    facts.extend(progress_facts(inputs, &status, &report, cluster_name));
    for fact in facts {
        condition::set(status.conditions.get_or_insert_default(), fact, pool.metadata.generation, now);
    }
    finish(&mut status, pool, &mut report);

    let recheck = nodes.recheck(status.replicas.unwrap_or_default());
    let is_complete = infrastructure.machines.as_ref().is_some_and(|machines| machines.is_complete);
    let status_change = status_patch::status_change(pool, &status);
    let takings = [bootstrap.taking, infrastructure.taking];
    let taken = takings.into_iter().flat_map(|taking| taking.object.into_iter().chain(taking.event));
    let mut result = Decided::new(report)
        .stage(Stage::per_object(Purpose::Write, taken))
        .stage(Stage::per_object(Purpose::Write, machines.changes))
        .stage(Stage::sequence(Purpose::Write, patch.change(pool)))
        .stage(Stage::sequence(Purpose::Status, status_change.into_iter().chain(events)));
    result.management.recheck = recheck;
    result.workload = Decision::of([Stage::per_object(Purpose::Write, nodes.changes(is_complete))]);
    result
}

/// The Nodes of a pool, as far as they are known.
struct Nodes<'a> {
    found: Option<FoundNodes<'a>>,
    marks: Vec<Change>,
}

struct FoundNodes<'a> {
    matched: NodeMatch<'a>,
    refs: NodeRefs<'a>,
}

impl<'a> Nodes<'a> {
    fn decide(inputs: &Inputs<'a>, ids: &[&str], old: &[ObjectReference], cluster: &str) -> Nodes<'a> {
        let Inputs { pool, pools, now, .. } = *inputs;
        let Workload::Known(index) = inputs.workload else { return Nodes { found: None, marks: Vec::new() } };
        let min_ready_seconds = pool.spec.template.spec.min_ready_seconds.unwrap_or_default();
        let matched = matched(ids, index, MatchInputs { refs: old, min_ready_seconds, now });
        let name = pool.metadata.name.as_deref().unwrap_or_default();
        let refs = node_refs::refs(old, ids, &matched, index, pools, name);
        let marks = Marks::new(pool, cluster);
        let marks = matched.nodes.iter().filter_map(|node| marks.change(node, pools)).collect();
        Nodes { found: Some(FoundNodes { matched, refs }), marks }
    }

    /// The changes in the workload cluster. Nodes are deleted only if the list is complete.
    fn changes(self, is_complete: bool) -> Vec<Change> {
        let mut changes = self.marks;
        if let Some(found) = self.found.filter(|_| is_complete) {
            changes.extend(deletions(found.refs.retiring));
        }
        changes
    }

    fn recheck(&self, replicas: i32) -> Option<Duration> {
        let matched = &self.found.as_ref()?.matched;
        let is_ready =
            matched.ready == replicas && matched.nodes.len() == usize::try_from(replicas).unwrap_or_default();
        let not_ready = (!is_ready).then_some(NOT_READY_RECHECK_DELAY);
        not_ready.into_iter().chain(matched.recheck).min()
    }

    /// What of the Nodes the pool waits for, where they are not known.
    fn waiting(&self, inputs: &Inputs<'_>, cluster: &str) -> Option<Waiting> {
        let cluster = cluster.to_owned();
        match inputs.workload {
            Workload::NotInitialized => Some(Waiting::ControlPlaneNotInitialized { cluster }),
            Workload::Unreachable(unreachable) => Some(Waiting::Unreachable {
                cluster,
                reason: unreachable.reason.to_owned(),
                since: unreachable.since,
                next_try: unreachable.next_try,
            }),
            Workload::Known(_) => None,
        }
    }
}

/// The provider IDs that another pool lists too.
fn shared<'a>(inputs: &'a Inputs<'_>, ids: &'a [&str]) -> impl Iterator<Item = Waiting> + 'a {
    let name = inputs.pool.metadata.name.as_deref().unwrap_or_default();
    ids.iter().filter_map(move |id| {
        let pools: Vec<String> = inputs.pools.others_listing(id, name).map(str::to_owned).collect();
        (!pools.is_empty()).then(|| Waiting::SharedProviderId { provider_id: (*id).to_owned(), pools })
    })
}

fn machines_of(inputs: &Inputs<'_>, cluster: &str, infrastructure: &Infrastructure<'_>) -> Machines {
    if infrastructure.machine_kind.is_none() {
        return Machines::default();
    }
    machines::decide(MachineInputs {
        pool: inputs.pool,
        cluster,
        infra_machines: match inputs.infra_machines {
            InfraMachines::Known(machines) => Some(machines),
            InfraMachines::Unknown { .. } => None,
        },
        machines: inputs.machines,
        nodes: match inputs.workload {
            Workload::Known(index) => Some(index),
            Workload::NotInitialized | Workload::Unreachable(_) => None,
        },
        now: inputs.now,
    })
}

/// Records a failure that a provider reports. What is recorded is never cleared, and other members are kept.
fn record_failure(status: &mut MachinePoolStatus, failure: Failure) {
    if failure == Failure::default() {
        return;
    }
    let old = old_status(status);
    old.failure_reason = failure.reason.or(old.failure_reason.take());
    old.failure_message = failure.message.or(old.failure_message.take());
}

/// Whether as many Nodes are ready as the provider reports machines, and as many as there should be.
///
/// Differs: a pool whose workload cluster is not connected is not reported as ready, because nothing is known of its Nodes;
/// upstream leaves the condition as it was.
fn replicas_fact(inputs: &Inputs<'_>, status: &MachinePoolStatus, nodes: &Nodes<'_>, cluster: &str) -> OldFact {
    let type_ = OldMachinePoolCondition::ReplicasReady;
    if let (Workload::Unreachable(_), Some(waiting)) = (inputs.workload, nodes.waiting(inputs, cluster)) {
        return OldFact::fails(type_, Severity::Warning, ConditionReason::ConnectionDown, Some(waiting.to_string()));
    }
    let is_ready = nodes.found.as_ref().zip(status.replicas).is_some_and(|(found, replicas)| {
        let NodeMatch { ready, nodes, .. } = &found.matched;
        *ready == replicas
            && usize::try_from(replicas).is_ok_and(|replicas| replicas == nodes.len())
            && replicas >= desired_replicas(inputs.pool)
    });
    if is_ready {
        return OldFact::holds(type_);
    }
    OldFact::fails(type_, Severity::Info, ConditionReason::WaitingForReplicasReady, None)
}

/// The conditions about how many machines there are.
fn progress_facts(
    inputs: &Inputs<'_>,
    status: &MachinePoolStatus,
    report: &Report,
    cluster: &str,
) -> impl Iterator<Item = Fact> {
    use ConditionStatus::{False, True};
    let desired = report.desired;
    let available = status.available_replicas.unwrap_or_default();
    let replicas = status.replicas.unwrap_or_default();
    let initialization = status.initialization.as_ref();
    let is_provisioned = initialization.and_then(|found| found.infrastructure_provisioned).unwrap_or_default();
    let counts = format!("{available} of {desired} replicas are available");
    let available_fact =
        |status, reason, message: String| Fact::new(MachinePoolCondition::Available, status, reason, message);
    let is_down = matches!(inputs.workload, Workload::Unreachable(_));
    let availability = if is_down {
        let message = named(&culprits(report, &[]));
        let message = if message.is_empty() { format!("Cluster {cluster} cannot be reached") } else { message };
        available_fact(ConditionStatus::Unknown, ConditionReason::ConnectionDown, message)
    } else if is_provisioned && available >= desired {
        available_fact(True, ConditionReason::Available, String::new())
    } else {
        let all = culprits(report, &report.members);
        let message = if all.is_empty() { counts.clone() } else { format!("{counts}: {}", named(&all)) };
        available_fact(False, ConditionReason::NotAvailable, message)
    };
    let up = match available < desired {
        true => Fact::new(MachinePoolCondition::ScalingUp, True, ConditionReason::ScalingUp, counts),
        false => Fact::new(MachinePoolCondition::ScalingUp, False, ConditionReason::NotScalingUp, ""),
    };
    let down = match replicas > desired {
        true => {
            let message = format!("the provider reports {replicas} of {desired} replicas");
            Fact::new(MachinePoolCondition::ScalingDown, True, ConditionReason::ScalingDown, message)
        }
        false => Fact::new(MachinePoolCondition::ScalingDown, False, ConditionReason::NotScalingDown, ""),
    };
    let deleting = Fact::new(MachinePoolCondition::Deleting, False, ConditionReason::NotDeleting, "");
    [availability, up, down, deleting].into_iter()
}

/// Everything that keeps a pool from being available, as texts that are made when they are shown.
fn culprits<'r>(report: &'r Report, members: &'r [Member]) -> Vec<&'r dyn Display> {
    let problems = report.problems.iter().map(|problem| problem as &dyn Display);
    let waiting = report.waiting.iter().map(|waiting| waiting as &dyn Display);
    let members = members.iter().filter(|member| member.state != MemberState::Available);
    problems.chain(waiting).chain(members.map(|member| member as &dyn Display)).collect()
}

/// The parts that end every decision: the phase, and the generation that was processed without an error.
fn finish(status: &mut MachinePoolStatus, pool: &MachinePool, report: &mut Report) {
    status.phase = Some(phase::next(pool, status));
    if report.problems.is_empty() {
        status.observed_generation = pool.metadata.generation.filter(|generation| *generation > 0);
    }
    report.phase = status.known_phase();
}

/// Differs: the event is emitted when the Nodes have changed, with the first names, because upstream repeats it in each pass
/// until the pool is ready, with all of them.
fn refs_changed(pool: &MachinePool, matched: &NodeMatch<'_>) -> Change {
    let names = list::listed(matched.nodes.iter().map(|node| &node.name), MAX_NAMED);
    let message = match matched.nodes.len() {
        0 => "no Node belongs to the pool; those of former machines are deleted".to_owned(),
        number => format!("{}: {names}", counted(number, "Node")),
    };
    emit(pool, false, EventReason::SuccessfulSetNodeRefs, message)
}

/// The event about a connection that was lost, unless the status has reported it.
fn connection_lost(inputs: &Inputs<'_>, status: &MachinePoolStatus, cluster: &str) -> Option<Change> {
    let Workload::Unreachable(unreachable) = inputs.workload else { return None };
    let mut old = status.conditions.iter().flatten();
    let is_reported = old.any(|condition| {
        condition.type_ == MachinePoolCondition::Available.as_str()
            && condition.reason == ConditionReason::ConnectionDown.as_str()
    });
    let message = format!("Cluster {cluster} cannot be reached: {}", unreachable.reason);
    (!is_reported).then(|| emit(inputs.pool, true, EventReason::FailedSetNodeRef, message))
}

fn emit(pool: &MachinePool, is_warning: bool, reason: EventReason, message: String) -> Change {
    Change::emit(ObjectRef::of(pool), Event { is_warning, reason: reason.as_str(), message, related: None })
}

/// What is written into the pool beside its status.
struct PoolPatch {
    /// The label with the Cluster's name, where it is another.
    label: Option<String>,
    owners: Option<Vec<OwnerReference>>,
    list: Option<Vec<String>>,
    secret: Option<SecretCopy>,
}

impl PoolPatch {
    fn new(pool: &MachinePool, cluster: &Cluster) -> PoolPatch {
        let name = cluster_name(pool).unwrap_or_default();
        PoolPatch {
            label: (label::CLUSTER_NAME.of(&pool.metadata) != Some(name)).then(|| name.to_owned()),
            owners: owner::pool_owners(pool, cluster),
            list: None,
            secret: None,
        }
    }

    /// One patch for all of it, bound to the revision that was decided on; `None` if there is nothing to write.
    fn change(self, pool: &MachinePool) -> Option<Change> {
        let PoolPatch { label, owners, list, secret } = self;
        let mut metadata = Map::new();
        let mut spec = Map::new();
        if let Some(label) = label {
            metadata.insert("labels".to_owned(), json!({ label::CLUSTER_NAME.as_str(): label }));
        }
        if let Some(owners) = owners {
            metadata.insert("ownerReferences".to_owned(), json!(owners));
        }
        if let Some(list) = list {
            // Compat: an empty list is written as none.
            spec.insert("providerIDList".to_owned(), if list.is_empty() { Value::Null } else { json!(list) });
        }
        if let Some(SecretCopy { name, provenance }) = secret {
            metadata.insert("annotations".to_owned(), json!({ BOOTSTRAP_DATA_SECRET.as_str(): provenance }));
            spec.insert("template".to_owned(), json!({"spec": {"bootstrap": {"dataSecretName": name}}}));
        }
        let mut patch = Map::new();
        for (key, part) in [("metadata", metadata), ("spec", spec)] {
            if !part.is_empty() {
                patch.insert(key.to_owned(), Value::Object(part));
            }
        }
        (!patch.is_empty()).then(|| Change::patch(ObjectRef::of(pool), Value::Object(patch)))
    }
}
