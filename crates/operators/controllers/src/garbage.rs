//! Forgets rendered MachineConfigs that nothing uses, and keeps those in use from being deleted.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::ResourceExt as _;
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigNode};
use seaworthy_api::vocabulary::machineconfiguration::{MachineConfigEvent, node as annotation};
use seaworthy_api::vocabulary::seaworthy::IN_USE;
use seaworthy_plan::fleet::{NodeView, PoolView};
use seaworthy_plan::garbage::{self, Limits};
use seaworthy_runtime::{Applier, Controller, Events, Gravity, Next, Queue, WriteError};
use serde_json::json;

use crate::context::Context;
use crate::machine::Machine;
use crate::writes::is_rendered;

/// Nothing is urgent here, and every node's change is a reason to look.
const REST: Duration = Duration::from_secs(10);

/// Forgets what is not needed any more.
pub struct GarbageController {
    context: Context,
    applier: Applier,
    events: Events,
    /// The identities of what somebody has deleted and was told of: its end may take days, and every change of a node is a
    /// reason to look.
    told: Mutex<BTreeSet<String>>,
    limits: Limits,
}

impl GarbageController {
    /// The controller and the queue that the caches feed. There is one thing to look at, so the key says nothing.
    pub fn new(context: &Context, limits: Limits) -> (Self, Arc<Queue<()>>) {
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
            fn used(node: &Option<Arc<Machine>>) -> Option<[Option<&str>; 2]> {
                let node = node.as_ref()?;
                Some([node.annotation(annotation::CURRENT_CONFIG), node.annotation(annotation::DESIRED_CONFIG)])
            }
            if used(&delta.before) != used(&delta.after) {
                mark.mark(());
            }
        });
        let (applier, events) = (context.applier(Self::NAME), context.events(Self::NAME));
        (GarbageController { context: context.clone(), applier, events, told: Mutex::default(), limits }, queue)
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

    async fn reconcile(&self, (): &()) -> Result<Next, WriteError> {
        let caches = &self.context.caches;
        let rendered = caches.machine_configs.filter(is_rendered);
        let (nodes, pools, progress) = (caches.nodes.all(), caches.pools.all(), caches.machine_config_nodes.all());
        let machine_configs: Vec<&MachineConfig> = rendered.iter().map(|found| &**found).collect();
        let views: Vec<NodeView<'_>> = nodes.iter().map(|node| NodeView::of(node, None)).collect();
        let progress: Vec<&MachineConfigNode> = progress.iter().map(|found| &**found).collect();
        let pools: Vec<PoolView<'_>> = pools.iter().map(|pool| PoolView::of(pool)).collect();
        let decision = garbage::decide(&garbage::Inputs {
            machine_configs: &machine_configs,
            nodes: &views,
            progress: &progress,
            pools: &pools,
            also_used: &[],
            limits: self.limits,
            now: self.context.now(),
        });
        for name in &decision.protect {
            self.set_finalizers(name, |finalizers| finalizers.push(IN_USE.into())).await?;
        }
        for name in &decision.release {
            self.set_finalizers(name, |finalizers| finalizers.retain(|found| found != IN_USE.as_str())).await?;
        }
        for name in &decision.delete {
            if let Some(found) = caches.machine_configs.named(name) {
                self.applier.delete(&*found).await?;
            }
        }
        for (name, users) in &decision.held {
            let Some(found) = caches.machine_configs.named(name) else { continue };
            if self.told.lock().unwrap_or_else(PoisonError::into_inner).insert(found.uid().unwrap_or_default()) {
                let message = format!("deleted, but it stays as long as it is needed: {users}");
                self.events.tell(&*found, Gravity::Warning, MachineConfigEvent::DeletionHeld.as_str(), message).await;
            }
        }
        let recheck = decision.recheck.and_then(|wait| Duration::try_from(wait).ok());
        Ok(Next { recheck, rest: REST })
    }
}

impl GarbageController {
    async fn set_finalizers(&self, name: &str, change: impl FnOnce(&mut Vec<String>)) -> Result<(), WriteError> {
        let cache = &self.context.caches.machine_configs;
        let Some(found) = cache.named(name) else { return Ok(()) };
        let mut finalizers = found.finalizers().to_vec();
        change(&mut finalizers);
        match self.applier.patch(&*found, json!({"metadata": {"finalizers": finalizers}})).await {
            Ok(patched) => cache.wrote(patched),
            // The last finalizer of what was being deleted.
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
