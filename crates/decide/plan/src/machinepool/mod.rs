//! Machine pools: what a pool of Cluster API's MachinePools, the objects that it refers to, its Machines and its Nodes should
//! become.
//!
//! [`decide`] takes everything that is known ([`Inputs`]) and returns two decisions: one for the management cluster, where pool,
//! providers' objects and Machines are, and one for the workload cluster with the Nodes. The report says why the pool is not
//! `Running`, down to the provider ID without a Node.
//!
//! - Decided on the state that follows from it, a decision is empty: nothing is written at rest.
//! - Objects are written at the revision that was decided on, so that an edit by a user or another controller is never lost.
//!   Differs: upstream's patches of spec and metadata are not bound, and overwrite such an edit.
//! - A Node is deleted only if this pool has recorded it by uid, or lists its provider ID while the pool is being deleted, and
//!   no other pool lists that ID.
//! - What a provider writes is checked. An error is a condition that names the field, and nothing is overwritten.
//! - The workload cluster decides about Nodes only. Differs: while it cannot be reached, provider IDs and counts are still copied
//!   and Machines created, and a condition names the cluster, because these do not depend on it; upstream stops at an error.
//!
//! What a caller does: it keeps one [`NodeIndex`] and one [`PoolIndex`] for each Cluster, resolves references with
//! [`provider_contract`], calls [`decide`], performs `workload` and `management` (in any order: a Node stays recorded until it is
//! gone), and decides again
//!
//! 1. after events of any object in [`Inputs`], of the definitions of the referenced kinds, and when the connection to the
//!    workload cluster changes, the condition `ControlPlaneInitialized` included;
//! 2. after `management.recheck`;
//! 3. after deletions of Nodes while [`Stop::Deleting`] is reported: at once, with their result in
//!    [`Inputs::node_deletion`];
//! 4. with a growing delay while [`Report::problems`] has any.

pub mod admission;
mod bootstrap;
mod condition;
mod counters;
pub mod deletion;
mod external;
mod field;
mod infrastructure;
mod inputs;
mod kubernetes_version;
mod machines;
pub mod node_index;
mod node_marks;
mod node_match;
mod node_refs;
mod old_condition;
mod owner;
mod pass;
mod pause;
mod phase;
pub mod pool_index;
pub mod pool_name;
pub mod provider_contract;
mod report;
mod status_patch;

use kube::ResourceExt as _;
use seaworthy_api::cluster::v1beta2::{MachinePool, MachinePoolStatus};
use seaworthy_api::vocabulary::cluster::finalizer::MACHINE_POOL;
use seaworthy_change::{Change, Decision, Purpose, Stage};

pub use self::field::FieldError;
pub use self::infrastructure::machine_kind as infrastructure_machine_kind;
pub use self::inputs::{
    External, FoundObject, InfraMachine, InfraMachines, Inputs, NodeDeletion, Unreachable, UpToDateRule, Workload,
    cluster_name, is_initialized,
};
pub use self::node_index::{NodeChange, NodeIndex, WorkloadNode};
pub use self::node_match::{MatchInputs, NodeMatch, matched};
pub use self::phase::{desired_replicas, is_autoscaled};
pub use self::pool_index::PoolIndex;
pub use self::report::{Member, MemberState, Problem, Report, Stop, Waiting};

use self::pause::Pause;

/// What should change in both clusters.
#[derive(Clone, Debug)]
pub struct Decided {
    /// Pool, objects of the providers, Machines, events; with the report, and when to decide again.
    pub management: Decision<'static, Report>,
    /// Nodes.
    pub workload: Decision<'static, ()>,
}

impl Decided {
    fn new(report: Report) -> Decided {
        Decided { management: Decision::nothing(report), workload: Decision::nothing(()) }
    }

    /// Adds a stage, unless it is empty.
    fn stage(mut self, stage: Stage<'static>) -> Decided {
        if !stage.is_empty() {
            self.management.stages.push(stage);
        }
        self
    }

    /// Whether nothing changes in either cluster.
    pub fn is_empty(&self) -> bool {
        self.management.is_empty() && self.workload.is_empty()
    }
}

/// Decides about a pool.
///
/// Compat: finalizer and condition `Paused` are written alone, each in a decision of its own, before anything else.
pub fn decide(inputs: &Inputs<'_>) -> Decided {
    let Inputs { pool, cluster, now, .. } = *inputs;
    let is_deleting = pool.metadata.deletion_timestamp.is_some();
    if cluster.is_none() && !is_deleting {
        let name = pool.name_any();
        let problem = match cluster_name(pool) {
            Some(cluster) => Problem::ClusterMissing { pool: name, cluster: cluster.to_owned() },
            None => Problem::NoClusterName { pool: name },
        };
        let mut report = stopped(pool, Stop::ClusterMissing);
        report.problems.push(problem);
        return Decided::new(report);
    }
    match (is_deleting, MACHINE_POOL.is_on(&pool.metadata)) {
        (true, true) | (false, true) => {}
        (true, false) => return Decided::new(stopped(pool, Stop::Released)),
        (false, false) => {
            let change = Change::add_finalizer(pool, MACHINE_POOL.as_str());
            return Decided::new(stopped(pool, Stop::FinalizerAdded))
                .stage(Stage::sequence(Purpose::Reserve, [change]));
        }
    }
    let causes = pause::causes(pool, cluster);
    let mut status = pool.status.clone().unwrap_or_default();
    let conditions = status.conditions.get_or_insert_default();
    let pause = pause::update(conditions, &causes, pool.metadata.generation, now);
    if !causes.is_empty() || pause == Pause::Write {
        let stop = if pause == Pause::Write { Stop::PauseWritten } else { Stop::Paused };
        let mut report = stopped(pool, stop);
        if !causes.is_empty() {
            report.waiting.push(Waiting::Paused { causes });
        }
        let change = (pause == Pause::Write).then(|| status_patch::status_change(pool, &status)).flatten();
        return Decided::new(report).stage(Stage::sequence(Purpose::Status, change));
    }
    if is_deleting { pass::deleting(inputs, status) } else { pass::ordinary(inputs, status) }
}

/// A report of a decision that ends early.
fn stopped(pool: &MachinePool, stop: Stop) -> Report {
    Report { stop: Some(stop), ..report_of(pool, &pool.status.clone().unwrap_or_default()) }
}

fn report_of(pool: &MachinePool, status: &MachinePoolStatus) -> Report {
    Report {
        stop: None,
        phase: status.known_phase(),
        desired: desired_replicas(pool),
        problems: Vec::new(),
        waiting: Vec::new(),
        members: Vec::new(),
        retiring: Vec::new(),
        is_workload_known: false,
    }
}
