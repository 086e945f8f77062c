//! Pool controller: gathers what is known of a pool, has it decided, and has the decision performed.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use seaworthy_api::cluster::ContractReference;
use seaworthy_api::cluster::v1beta2::{Machine, MachinePool};
use seaworthy_api::vocabulary::cluster::{MACHINE_POOL_MANAGER, label};
use seaworthy_plan::machinepool::pool_name::label_value;
use seaworthy_plan::machinepool::{
    Decided, External, FoundObject, InfraMachine, InfraMachines, Inputs, MemberState, NodeIndex, Report, Stop,
    Unreachable, UpToDateRule, Workload, decide, infrastructure_machine_kind,
};
use seaworthy_runtime::{Applier, Clock, Controller, Key, ReconcileError, Requeue, RetryPolicy, WriteError};

use crate::caches::Caches;
use crate::cluster_facts::ClusterFacts;
use crate::machine_index::MachineIndex;
use crate::metrics::{MachinePoolMetrics, PoolLabels};
use crate::node_writes::NodeWrites;
use crate::pool_directory::{PoolDirectory, cluster_of, provider_key};
use crate::pool_progress::PoolProgress;
use crate::provider::{GroupKind, KindState, ProviderCache, ProviderCaches, ProviderObject};
use crate::workload::{Connection, ConnectionView, WorkloadClusters};

/// Why a reconcile is to be repeated.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The first problem of a pool. All of them are in its conditions.
    #[error("{0}")]
    Problem(String),
}

impl ReconcileError for PoolError {
    fn category(&self) -> &'static str {
        match self {
            PoolError::Write(error) => error.category(),
            PoolError::Problem(_) => "problem",
        }
    }

    fn retry(&self) -> RetryPolicy {
        match self {
            PoolError::Write(error) => error.retry(),
            PoolError::Problem(_) => RetryPolicy::Backoff,
        }
    }
}

pub struct PoolController {
    pub caches: Caches,
    pub directory: Arc<PoolDirectory>,
    pub machines: Arc<MachineIndex>,
    pub providers: Arc<ProviderCaches>,
    pub workloads: Arc<WorkloadClusters>,
    pub node_writes: Arc<NodeWrites>,
    pub applier: Applier,
    pub clock: Clock,
    pub metrics: Arc<MachinePoolMetrics>,
    pub progress: PoolProgress,
}

impl PoolController {
    /// What was decided, with the connection that the Nodes were read from. `None` if something is not known yet: the pool is
    /// marked when it is.
    fn decide(&self, key: &Key, pool: &MachinePool) -> Option<(Decided, Option<Arc<Connection>>)> {
        let cluster_key = cluster_of(pool);
        let cluster = cluster_key.as_ref().and_then(|key| self.caches.clusters.get(key));
        let facts = cluster.as_deref().map(ClusterFacts::of);
        let view = cluster_key.as_ref().zip(facts.as_ref()).map(|(key, facts)| self.workloads.view(key, facts));
        let cluster_key = cluster_key.unwrap_or_default();

        let mut kinds = BTreeSet::new();
        let spec = &pool.spec.template.spec;
        let bootstrap = Reference::of(self, key, spec.bootstrap.config_ref.as_ref(), &mut kinds);
        let infrastructure = Reference::of(self, key, Some(&spec.infrastructure_ref), &mut kinds);
        let infra_machines = self.infra_machines(key, &cluster_key, &infrastructure, &mut kinds);
        self.providers.retain(key, &kinds);
        let machines = match &infra_machines {
            FoundMachines::None => Vec::new(),
            FoundMachines::Known(found) => self.machines_of(key, &cluster_key, found),
            FoundMachines::Unknown(_) | FoundMachines::Pending => self.machines_of(key, &cluster_key, &[]),
        };

        let connection = match &view {
            Some(ConnectionView::Up(connection)) => Some(Arc::clone(connection)),
            _ => None,
        };
        let is_initialized = facts.as_ref().is_some_and(|facts| facts.is_initialized);
        let is_pending = matches!(infra_machines, FoundMachines::Pending)
            || [&bootstrap, &infrastructure].into_iter().any(|reference| matches!(reference, Reference::Pending))
            || (is_initialized && matches!(view, Some(ConnectionView::Pending)));
        let decide_on = |workload: Workload<'_>| {
            self.directory.with_index(&cluster_key, |pools| {
                self.node_writes.with_deletion(pool, |node_deletion| {
                    decide(&Inputs {
                        pool,
                        cluster: cluster.as_deref(),
                        bootstrap: bootstrap.external(),
                        infrastructure: infrastructure.external(),
                        infra_machines: infra_machines.known(),
                        machines: &machines,
                        workload,
                        pools,
                        node_deletion,
                        up_to_date: UpToDateRule::default(),
                        now: (self.clock)(),
                    })
                })
            })
        };
        let decided = match &view {
            _ if !is_initialized => decide_on(Workload::NotInitialized),
            Some(ConnectionView::Up(connection)) => {
                connection.nodes.read(|nodes: &NodeIndex| decide_on(Workload::Known(nodes)))
            }
            Some(ConnectionView::Down(outage)) => decide_on(Workload::Unreachable(Unreachable {
                reason: &outage.reason,
                since: outage.since,
                next_try: Some(outage.next_try),
            })),
            Some(ConnectionView::Idle) => decide_on(Workload::Unreachable(Unreachable {
                reason: "its infrastructure is not provisioned yet",
                since: facts.as_ref().and_then(|facts| facts.created).unwrap_or(Timestamp::UNIX_EPOCH),
                next_try: None,
            })),
            Some(ConnectionView::Pending) | None => decide_on(Workload::NotInitialized),
        };
        // What comes before everything else depends on nothing that is pending.
        let is_first = matches!(
            decided.management.report.stop,
            Some(Stop::ClusterMissing | Stop::FinalizerAdded | Stop::PauseWritten | Stop::Paused)
        );
        (!is_pending || is_first).then_some((decided, connection))
    }

    /// The machines of a provider that has an object for each.
    fn infra_machines(
        &self,
        pool: &Key,
        cluster: &Key,
        infrastructure: &Reference,
        kinds: &mut BTreeSet<GroupKind>,
    ) -> FoundMachines {
        let External::Found(found) = infrastructure.external() else { return FoundMachines::None };
        // A value that is no kind is reported by the decision.
        let Ok(Some(kind)) = infrastructure_machine_kind(found) else { return FoundMachines::None };
        let kind = self.providers.group_of(kind, &found.resource.group);
        kinds.insert(kind.clone());
        let cache = match self.providers.of_kind(&kind, pool) {
            KindState::Known(cache) => cache,
            KindState::Pending => return FoundMachines::Pending,
            KindState::Unreadable { reason } => return FoundMachines::Unknown(reason),
            KindState::NotInstalled { definition } => {
                return FoundMachines::Unknown(format!("there is no CustomResourceDefinition {definition}"));
            }
        };
        let value = label_value(&pool.name);
        let is_of_pool = |object: &ProviderObject| {
            let metadata = kube::Resource::meta(object);
            metadata.namespace.as_ref() == Some(&pool.namespace)
                && label::CLUSTER_NAME.of(metadata) == Some(cluster.name.as_str())
                && label::POOL_NAME.of(metadata) == Some(value.as_str())
        };
        let machines = cache.filter(is_of_pool);
        FoundMachines::Known(machines.iter().map(|object| object.infra_machine(&kind.group, &kind.kind)).collect())
    }

    /// The Machines with the labels of the pool, and those that have the name of one of the provider's machines.
    fn machines_of(&self, pool: &Key, cluster: &Key, infra_machines: &[InfraMachine]) -> Vec<Arc<Machine>> {
        let mut keys = self.machines.labelled(cluster, &label_value(&pool.name));
        let named = infra_machines.iter().map(|machine| &machine.name);
        keys.extend(named.map(|name| Key { namespace: pool.namespace.clone(), name: name.clone() }));
        keys.iter().filter_map(|key| self.caches.machines.get(key)).collect()
    }

    fn report(&self, key: &Key, pool: &MachinePool, report: &Report) {
        let missing = report.members.iter().filter(|member| member.state == MemberState::NoNode).count();
        let labels = PoolLabels::of(key);
        // While the Nodes are not known, the last number is kept.
        if report.is_workload_known {
            let missing = i64::try_from(missing).unwrap_or(i64::MAX);
            self.metrics.missing_nodes.get_or_create(&labels).set(missing);
        }
        if let Some(seconds) = self.progress.observe(key, pool, report.phase, (self.clock)()) {
            self.metrics.seconds_to_running.observe(seconds);
        }
    }

    /// The pool is gone.
    fn forget(&self, key: &Key) {
        self.providers.retain(key, &BTreeSet::new());
        self.node_writes.forget(key);
        self.progress.forget(key);
        self.metrics.missing_nodes.remove(&PoolLabels::of(key));
    }
}

impl Controller for PoolController {
    type Key = Key;
    type Error = PoolError;
    const NAME: &'static str = MACHINE_POOL_MANAGER;

    async fn reconcile(&self, key: &Key) -> Result<Requeue, PoolError> {
        let Some(pool) = self.caches.pools.get(key) else {
            self.forget(key);
            return Ok(Requeue::on_change());
        };
        let Some((decided, connection)) = self.decide(key, &pool) else { return Ok(Requeue::on_change()) };
        let Decided { management, workload } = decided;
        let report = &management.report;
        self.report(key, &pool, report);
        if let Some(connection) = connection.filter(|_| !workload.is_empty()) {
            let is_deletion = report.stop == Some(Stop::Deleting);
            self.node_writes.perform(&pool, &connection.applier, workload, is_deletion);
        }
        self.applier.perform(&management).await.result()?;
        match report.problems.first() {
            Some(problem) => Err(PoolError::Problem(problem.to_string())),
            None => Ok(Requeue { recheck: management.recheck, ..Requeue::on_change() }),
        }
    }
}

/// What a reference leads to.
enum Reference {
    Undefined,
    NotInstalled { definition: String },
    Unreadable { reason: String },
    Pending,
    NotFound,
    Found(Arc<ProviderCache>, Arc<ProviderObject>),
}

impl Reference {
    fn of(
        controller: &PoolController,
        pool: &Key,
        reference: Option<&ContractReference>,
        kinds: &mut BTreeSet<GroupKind>,
    ) -> Reference {
        let Some(reference) = reference.filter(|reference| reference.is_defined()) else { return Reference::Undefined };
        let object = provider_key(&pool.namespace, reference);
        let kind = GroupKind { group: object.group, kind: object.kind };
        kinds.insert(kind.clone());
        match controller.providers.of_kind(&kind, pool) {
            KindState::NotInstalled { definition } => Reference::NotInstalled { definition },
            KindState::Unreadable { reason } => Reference::Unreadable { reason },
            KindState::Pending => Reference::Pending,
            KindState::Known(cache) => match cache.get(&object.key) {
                Some(object) => Reference::Found(cache, object),
                None => Reference::NotFound,
            },
        }
    }

    fn external(&self) -> External<'_> {
        match self {
            Reference::Undefined => External::Undefined,
            Reference::NotInstalled { definition } => External::KindNotInstalled { definition },
            Reference::Unreadable { reason } => External::Unreadable { reason },
            // No more than a trial: what is pending is decided on later.
            Reference::Pending => External::Unreadable { reason: "it is being read" },
            Reference::NotFound => External::NotFound,
            Reference::Found(cache, object) => External::Found(FoundObject {
                object: &object.value,
                resource: &cache.read_as().resource,
                contract: cache.read_as().contract.contract,
            }),
        }
    }
}

/// The objects of a provider's machines.
enum FoundMachines {
    /// The provider has none.
    None,
    Unknown(String),
    Pending,
    Known(Vec<InfraMachine>),
}

impl FoundMachines {
    fn known(&self) -> InfraMachines<'_> {
        match self {
            FoundMachines::None => InfraMachines::Known(&[]),
            FoundMachines::Known(machines) => InfraMachines::Known(machines),
            FoundMachines::Unknown(reason) => InfraMachines::Unknown { reason },
            FoundMachines::Pending => InfraMachines::Unknown { reason: "they are being read" },
        }
    }
}
