//! Workload clusters: the connections of this process, one for each Cluster that has pools.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use seaworthy_runtime::{AnyCache, Applier, CacheSet, Key, OperatorContext};
use tokio::sync::{Semaphore, watch};

pub use super::connection_task::{Connection, ConnectionView};

use super::connection_task::{ConnectionTask, PublishedView};
use super::node_cache::NodeCache;
use crate::cluster_facts::ClusterFacts;
use crate::metrics::{ClusterLabels, MachinePoolMetrics};
use crate::pool_directory::PoolDirectory;
use crate::pool_queue::PoolQueue;
use crate::task_guard::TaskGuard;

/// How many clusters connect at a time. Each may hold a page of Nodes meanwhile; one that does not answer gives its place up after
/// ten seconds.
const MAX_CONCURRENT_CONNECTS: usize = 64;

pub struct WorkloadClusters {
    context: OperatorContext,
    /// The field manager of writes there.
    manager: &'static str,
    directory: Arc<PoolDirectory>,
    queue: Arc<PoolQueue>,
    metrics: Arc<MachinePoolMetrics>,
    permits: Arc<Semaphore>,
    clusters: Mutex<HashMap<Key, WorkloadCluster>>,
}

struct WorkloadCluster {
    facts: watch::Sender<ClusterFacts>,
    view: Arc<PublishedView>,
    _task: TaskGuard,
}

impl WorkloadClusters {
    pub fn new(
        context: OperatorContext,
        manager: &'static str,
        directory: Arc<PoolDirectory>,
        queue: Arc<PoolQueue>,
    ) -> WorkloadClusters {
        let metrics = context.metrics.set();
        let permits = Arc::new(Semaphore::new(MAX_CONCURRENT_CONNECTS));
        WorkloadClusters { context, manager, directory, queue, metrics, permits, clusters: Mutex::default() }
    }

    /// The connection to a Cluster, which is made if there is none.
    pub fn view(&self, cluster: &Key, facts: &ClusterFacts) -> ConnectionView {
        let mut clusters = self.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        // A Cluster that was created again under its name is another one.
        if clusters.get(cluster).is_some_and(|found| found.facts.borrow().uid != facts.uid) {
            clusters.remove(cluster);
        }
        // Under the lock: the pool may have gone meanwhile, and with it the Cluster's last one.
        if !clusters.contains_key(cluster) && self.directory.of_cluster(cluster).is_empty() {
            return ConnectionView::Pending;
        }
        clusters.entry(cluster.clone()).or_insert_with(|| self.start(cluster, facts)).view.get()
    }

    /// The Cluster has changed.
    pub fn change(&self, cluster: &Key, facts: &ClusterFacts) {
        let clusters = self.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = clusters.get(cluster).filter(|found| found.facts.borrow().uid == facts.uid) {
            found.facts.send_if_modified(|held| {
                let is_changed = held != facts;
                held.clone_from(facts);
                is_changed
            });
        }
    }

    /// The Cluster is gone, or has no pool any more.
    pub fn stop(&self, cluster: &Key) {
        let stopped = self.clusters.lock().unwrap_or_else(PoisonError::into_inner).remove(cluster);
        drop(stopped);
        self.metrics.cluster_connected.remove(&ClusterLabels::of(cluster));
    }

    fn start(&self, cluster: &Key, facts: &ClusterFacts) -> WorkloadCluster {
        let (sender, receiver) = watch::channel(facts.clone());
        let (directory, queue, of) = (Arc::clone(&self.directory), Arc::clone(&self.queue), cluster.clone());
        let view = Arc::new(PublishedView::new(move || {
            directory.of_cluster(&of).into_iter().for_each(|pool| queue.mark(pool));
        }));
        let (directory, queue, of) = (Arc::clone(&self.directory), Arc::clone(&self.queue), cluster.clone());
        let nodes = Arc::new(NodeCache::new(move |name, provider_ids| {
            directory.of_node(&of, name, provider_ids).into_iter().for_each(|pool| queue.mark(pool));
        }));
        let (leadership, metrics) = (self.context.leadership.clone(), Arc::clone(&self.context.metrics));
        let (manager, held) = (self.manager, Arc::clone(&nodes) as Arc<dyn AnyCache>);
        let applier = move |client| {
            let caches = CacheSet::new([Arc::clone(&held)]);
            Applier::new(client, manager, leadership.clone(), Arc::clone(&metrics), caches)
        };
        let task = ConnectionTask {
            cluster: cluster.clone(),
            management: self.context.client.clone(),
            facts: receiver,
            nodes,
            applier: Box::new(applier),
            permits: Arc::clone(&self.permits),
            clock: Arc::clone(&self.context.clock),
            metrics: Arc::clone(&self.metrics),
            view: Arc::clone(&view),
        };
        WorkloadCluster { facts: sender, view, _task: TaskGuard::spawn(task.run()) }
    }
}
