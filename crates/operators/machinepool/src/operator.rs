//! The machinepool operator: its definitions and rights, its caches and what their changes mark.

use std::sync::{Arc, Weak};

use futures::future::{FutureExt as _, join_all};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource as _;
use seaworthy_api::cluster;
use seaworthy_api::vocabulary::cluster::label;
use seaworthy_deploy::{Account, OperatorManifest};
use seaworthy_runtime::{
    Applier, CacheSet, Controller as _, Delta, EnabledControllers, Key, Operator, OperatorContext, OperatorInstance,
    worker,
};

use crate::caches::Caches;
use crate::cluster_facts::ClusterFacts;
use crate::machine_index::{MachineIndex, pool_label};
use crate::metrics::MachinePoolMetrics;
use crate::node_writes::NodeWrites;
use crate::pool_controller::PoolController;
use crate::pool_directory::{PoolDirectory, ProviderKey};
use crate::pool_progress::PoolProgress;
use crate::pool_queue::PoolQueue;
use crate::provider::{GroupKind, ProviderCaches, ProviderObject};
use crate::rights;
use crate::workload::WorkloadClusters;

/// The kind of pools in owner references, and its group.
const POOL_KIND: &str = "MachinePool";
const POOL_GROUP: &str = "cluster.x-k8s.io";

/// The operator.
#[derive(Clone, Copy, Debug, Default)]
pub struct MachinePoolOperator;

impl Operator for MachinePoolOperator {
    fn name(&self) -> &'static str {
        "machinepool"
    }

    fn required_definitions(&self) -> Vec<CustomResourceDefinition> {
        cluster::definitions()
    }

    fn manifest(&self, _: &Account) -> OperatorManifest {
        OperatorManifest {
            definitions: cluster::definitions(),
            cluster_rules: rights::cluster_rules(),
            ..OperatorManifest::default()
        }
    }

    fn start(&self, context: &OperatorContext, _: &EnabledControllers) -> OperatorInstance {
        let caches = Caches::default();
        let set = caches.set();
        let controllers = run(context.clone(), caches, set.clone());
        OperatorInstance { caches: set, controllers: controllers.boxed() }
    }
}

/// Clears the metrics when the controller stops.
struct ClearMetrics(Arc<MachinePoolMetrics>);

impl Drop for ClearMetrics {
    fn drop(&mut self) {
        self.0.clear();
    }
}

async fn run(
    context: OperatorContext,
    caches: Caches,
    set: CacheSet,
) -> seaworthy_runtime::operator::ControllersResult {
    let _metrics = ClearMetrics(context.metrics.set());
    // A decision on a cache that is not filled would take what is missing for deleted.
    set.synced().await;
    let queue = Arc::<PoolQueue>::default();
    let controller = controller(&context, &caches, set, &queue);
    let workers = queue.workers().map(|queue| worker::run(&controller, queue, &context.leadership, &*context.metrics));
    join_all(workers).await;
    Ok(())
}

/// The controller, with listeners that mark the pools which a change concerns.
fn controller(context: &OperatorContext, caches: &Caches, set: CacheSet, queue: &Arc<PoolQueue>) -> PoolController {
    let directory = Arc::<PoolDirectory>::default();
    let machines = Arc::<MachineIndex>::default();
    let applier = Applier::new(
        context.client.clone(),
        PoolController::NAME,
        context.leadership.clone(),
        Arc::clone(&context.metrics),
        set.clone(),
    );
    let workloads = Arc::new(WorkloadClusters::new(
        context.clone(),
        PoolController::NAME,
        Arc::clone(&directory),
        Arc::clone(queue),
    ));
    let concerned = (Arc::clone(&directory), Arc::clone(queue));
    let providers = ProviderCaches::new(
        context.client.clone(),
        Arc::clone(&caches.definitions),
        set,
        Arc::clone(queue),
        move |kind, delta| provider_object_changed(&concerned.0, &concerned.1, kind, delta),
    );
    listen(caches, &directory, &machines, &workloads, queue);
    let metrics: Arc<MachinePoolMetrics> = context.metrics.set();
    PoolController {
        caches: caches.clone(),
        directory,
        machines,
        providers,
        workloads,
        node_writes: Arc::new(NodeWrites::new(Arc::clone(queue), Arc::clone(&metrics))),
        applier,
        clock: Arc::clone(&context.clock),
        metrics,
        progress: PoolProgress::default(),
    }
}

/// A cache whose listener kept it would never be freed: listeners have indexes and the queue, and the connections weakly.
fn listen(
    caches: &Caches,
    directory: &Arc<PoolDirectory>,
    machines: &Arc<MachineIndex>,
    workloads: &Arc<WorkloadClusters>,
    queue: &Arc<PoolQueue>,
) {
    let (pools, mark, connections) = (Arc::clone(directory), Arc::clone(queue), Arc::downgrade(workloads));
    caches.pools.listen(move |delta| {
        let abandoned = pools.change(delta.before.as_deref(), delta.after.as_deref());
        if let (Some(cluster), Some(connections)) = (abandoned, Weak::upgrade(&connections)) {
            connections.stop(&cluster);
        }
        delta.sides().for_each(|pool| mark.mark(Key::of(&**pool)));
    });
    let (pools, mark, connections) = (Arc::clone(directory), Arc::clone(queue), Arc::downgrade(workloads));
    caches.clusters.listen(move |delta| {
        let [before, after] = [&delta.before, &delta.after].map(|side| side.as_deref().map(ClusterFacts::of));
        let Some(key) = delta.sides().next().map(|cluster| Key::of(&**cluster)) else { return };
        if before == after {
            return;
        }
        if let Some(connections) = Weak::upgrade(&connections) {
            match &after {
                Some(facts) => connections.change(&key, facts),
                None => connections.stop(&key),
            }
        }
        pools.of_cluster(&key).into_iter().for_each(|pool| mark.mark(pool));
    });
    let (pools, mark, index) = (Arc::clone(directory), Arc::clone(queue), Arc::clone(machines));
    caches.machines.listen(move |delta| {
        index.change(delta.before.as_deref(), delta.after.as_deref());
        for machine in delta.sides() {
            let labelled = pool_label(machine).and_then(|(cluster, value)| pools.labelled(&cluster, &value));
            let namespace = machine.metadata.namespace.clone().unwrap_or_default();
            let owners = owning_pools(&namespace, machine.metadata.owner_references.iter().flatten());
            labelled.into_iter().chain(owners).for_each(|pool| mark.mark(pool));
        }
    });
}

/// Marks the pools that an object of a provider concerns: those that own it, those that refer to it, and the one of its labels.
fn provider_object_changed(
    directory: &PoolDirectory,
    queue: &PoolQueue,
    kind: &GroupKind,
    delta: &Delta<ProviderObject>,
) {
    for object in delta.sides() {
        let metadata = object.meta();
        let key = Key::of(&**object);
        let cluster = label::CLUSTER_NAME.of(metadata);
        let labelled = cluster.zip(label::POOL_NAME.of(metadata)).and_then(|(cluster, value)| {
            directory.labelled(&Key { namespace: key.namespace.clone(), name: cluster.to_owned() }, value)
        });
        let owners = owning_pools(&key.namespace, metadata.owner_references.iter().flatten());
        owners.chain(labelled).for_each(|pool| queue.mark(pool));
        let object = ProviderKey { group: kind.group.clone(), kind: kind.kind.clone(), key };
        directory.referring_to(&object).into_iter().for_each(|pool| queue.mark(pool));
    }
}

/// The pools among the owners of an object.
fn owning_pools<'a>(
    namespace: &'a str,
    owners: impl Iterator<Item = &'a OwnerReference> + 'a,
) -> impl Iterator<Item = Key> + 'a {
    let is_pool =
        |owner: &&OwnerReference| owner.kind == POOL_KIND && owner.api_version.split('/').next() == Some(POOL_GROUP);
    owners.filter(is_pool).map(move |owner| Key { namespace: namespace.to_owned(), name: owner.name.clone() })
}

#[cfg(test)]
mod tests {
    use seaworthy_runtime::Leadership;
    use seaworthy_testkit::Embedded;

    use super::*;

    #[tokio::test]
    async fn stopped_operator_leaves_no_cache_behind() {
        let context = OperatorContext {
            client: Embedded::start().await.client(),
            leadership: Leadership::always(),
            metrics: Arc::default(),
            clock: Arc::new(jiff::Timestamp::now),
            build: "test".into(),
            namespace: "default".into(),
        };
        let caches = Caches::default();
        let queue = Arc::default();
        drop(controller(&context, &caches, caches.set(), &queue));
        let counts = [
            Arc::strong_count(&caches.pools),
            Arc::strong_count(&caches.clusters),
            Arc::strong_count(&caches.machines),
            Arc::strong_count(&caches.definitions),
        ];
        assert_eq!(counts, [1; 4]);
    }
}
