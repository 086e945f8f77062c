//! Garbage controller: deletes rendered MachineConfigs that nothing uses, and blocks the deletion of those in use.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::ResourceExt as _;
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigNode};
use seaworthy_api::vocabulary::machineconfiguration::node as annotation;
use seaworthy_plan::fleet::{NodeView, PoolView};
use seaworthy_plan::rendering::garbage::{self, RetentionLimits};
use seaworthy_plan::rendering::is_rendered;
use seaworthy_runtime::{Applier, Controller, Queue, Requeue, WriteError};

use crate::cached_node::CachedNode;
use crate::context::Context;

/// The shortest time between two decisions: nothing is urgent here, and every change of a node is a reason to decide.
const MIN_INTERVAL: Duration = Duration::from_secs(10);

pub struct GarbageController {
    context: Context,
    applier: Applier,
    /// The uids of those whose blocked deletion was announced.
    announced: Mutex<BTreeSet<String>>,
    limits: RetentionLimits,
}

impl GarbageController {
    /// The controller and the queue that the caches feed. There is one decision for all objects, so the key is `()`.
    pub fn new(context: &Context, limits: RetentionLimits) -> (Self, Arc<Queue<()>>) {
        let queue = Arc::new(Queue::default());
        let caches = &context.caches;
        let mark = Arc::clone(&queue);
        caches.machine_configs.listen(move |delta| {
            if delta.sides().any(|side| is_rendered(side)) {
                mark.mark(());
            }
        });
        let mark = Arc::clone(&queue);
        caches.pools.listen(move |delta| {
            let names = |pool: &Option<Arc<_>>| pool.as_ref().map(targets);
            if names(&delta.before) != names(&delta.after) {
                mark.mark(());
            }
        });
        let mark = Arc::clone(&queue);
        caches.nodes.listen(move |delta| {
            fn used(node: &Option<Arc<CachedNode>>) -> Option<[Option<&str>; 2]> {
                let node = node.as_ref()?;
                Some([node.annotation(annotation::CURRENT_CONFIG), node.annotation(annotation::DESIRED_CONFIG)])
            }
            if used(&delta.before) != used(&delta.after) {
                mark.mark(());
            }
        });
        let applier = context.applier(Self::NAME);
        (GarbageController { context: context.clone(), applier, announced: Mutex::default(), limits }, queue)
    }
}

fn targets(pool: &Arc<seaworthy_api::machineconfiguration::MachineConfigPool>) -> [Option<String>; 2] {
    let status = pool.status.as_ref().and_then(|status| status.configuration.as_ref());
    [pool.spec.configuration.as_ref(), status].map(|configuration| configuration.and_then(|found| found.name.clone()))
}

impl Controller for GarbageController {
    type Key = ();
    type Error = WriteError;
    const NAME: &'static str = "seaworthy-garbage";

    async fn reconcile(&self, (): &()) -> Result<Requeue, WriteError> {
        let caches = &self.context.caches;
        let rendered = caches.rendered();
        let (nodes, pools, progress) = (caches.nodes.all(), caches.pools.all(), caches.machine_config_nodes.all());
        let machine_configs: Vec<&MachineConfig> = rendered.iter().map(|found| &**found).collect();
        let views: Vec<NodeView<'_>> = nodes.iter().map(|node| NodeView::of(node, None)).collect();
        let progress: Vec<&MachineConfigNode> = progress.iter().map(|found| &**found).collect();
        let pools: Vec<PoolView<'_>> = pools.iter().map(|pool| PoolView::of(pool)).collect();
        let announced = self.announced.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let inputs = garbage::GarbageInputs {
            machine_configs: &machine_configs,
            nodes: &views,
            progress: &progress,
            pools: &pools,
            also_used: &[],
            limits: self.limits,
            now: self.context.now(),
        };
        let decision = garbage::desired(&inputs, &announced);
        let performed = self.applier.perform(&decision).await;
        let uid = |name: &str| rendered.iter().find(|found| found.name_any() == name)?.uid();
        let held = decision.report.held.iter().filter_map(|(name, _)| uid(name)).collect();
        *self.announced.lock().unwrap_or_else(PoisonError::into_inner) = held;
        performed.result()?;
        Ok(Requeue { recheck: decision.recheck, min_interval: MIN_INTERVAL })
    }
}
