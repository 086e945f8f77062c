//! The base controller: the platform's own MachineConfigs and pools, kept as the ControllerConfig and the templates say.

use std::sync::Arc;

use kube::ResourceExt as _;
use kube::core::ObjectMeta;
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigPool};
use seaworthy_api::vocabulary::machineconfiguration::{CONTROLLER_CONFIG, MachineConfigEvent};
use seaworthy_generate::Write;
use seaworthy_generate::base::{self, Templates};
use seaworthy_runtime::{Applier, Controller, Events, Gravity, Next, Queue, WriteError};

use crate::context::Context;
use crate::edits::tell_made_again;
use crate::remaking::{self, Remaking};
use crate::world::put;
use crate::writes::{carry_out, is_rendered, sources};

/// Keeps the base.
pub struct BaseController {
    context: Context,
    applier: Applier,
    events: Events,
    templates: Arc<Templates>,
    remaking: Remaking,
}

impl BaseController {
    /// The controller and the queue that the caches feed. There is one thing to look at, so the key says nothing.
    pub fn new(context: &Context, templates: Arc<Templates>, remaking: Remaking) -> (Self, Arc<Queue<()>>) {
        let queue = Arc::new(Queue::default());
        let caches = &context.caches;
        let mark = Arc::clone(&queue);
        caches.controller_configs.listen(move |_| mark.mark(()));
        let mark = Arc::clone(&queue);
        caches.pools.listen(move |delta| {
            let seen = |pool: &Option<Arc<_>>| pool.as_ref().map(looked_at);
            if seen(&delta.before) != seen(&delta.after) {
                mark.mark(());
            }
        });
        let mark = Arc::clone(&queue);
        caches.machine_configs.listen(move |delta| {
            if delta.sides().any(|side| !is_rendered(side)) {
                mark.mark(());
            }
        });
        let (applier, events) = (context.applier(Self::NAME), context.events(Self::NAME));
        (BaseController { context: context.clone(), applier, events, templates, remaking }, queue)
    }
}

/// What is looked at of a pool: its labels, who it is, whether it goes, and what holds it.
fn looked_at(pool: &Arc<MachineConfigPool>) -> impl PartialEq + use<> {
    let ObjectMeta { labels, uid, deletion_timestamp, finalizers, .. } = &pool.metadata;
    (labels.clone(), uid.clone(), deletion_timestamp.is_some(), finalizers.clone())
}

impl Controller for BaseController {
    type Key = ();
    type Error = WriteError;
    const NAME: &'static str = base::MANAGER;

    async fn reconcile(&self, (): &()) -> Result<Next, WriteError> {
        let caches = &self.context.caches;
        // Without a ControllerConfig there is no base: the cluster's machines were set up by somebody else.
        let controller_config = caches.controller_configs.named(CONTROLLER_CONFIG);
        let is_kept = controller_config.as_ref().is_some_and(|found| found.metadata.deletion_timestamp.is_none());
        self.remaking.let_go(&self.applier, caches, is_kept).await?;
        let Some(controller_config) = controller_config else {
            return Ok(Next::change());
        };
        let decide = |machine_configs: &[Arc<MachineConfig>]| {
            base::desired(&base::Inputs {
                controller_config: &controller_config,
                templates: &self.templates,
                cluster_tls: None,
                pools: &caches.pools.all(),
                machine_configs,
                build: &self.context.build,
                now: self.context.time(),
            })
        };
        let mut machine_configs = sources(caches);
        let mut decision = decide(&machine_configs);
        if !decision.taken.is_empty() {
            // Who wrote what tells whether it is somebody's own, and caches do not keep that.
            for name in &decision.taken {
                if let Some(found) = self.applier.read::<MachineConfig>(name).await? {
                    put(&mut machine_configs, found);
                }
            }
            decision = decide(&machine_configs);
        }
        for problem in &decision.problems {
            tracing::warn!(problem, "the base cannot be made");
        }
        for name in &decision.taken {
            if let Some(found) = caches.machine_configs.named(name) {
                let (reason, message) = (MachineConfigEvent::NameTaken, base::taken_message(name));
                self.events.tell(&*found, Gravity::Warning, reason.as_str(), message).await;
            }
        }
        // What is made for the first time was not deleted by anybody.
        let is_restored = base::is_complete(&controller_config);
        let made = decision.writes.iter().filter_map(|write| match write {
            Write::Create(made) if is_restored => Some(made.name_any()),
            _ => None,
        });
        let made: Vec<String> = made.collect();
        let doing = (&self.applier, &self.events);
        let (writes, remade) = self.remaking.as_they_were(decision.writes);
        let carried_out = carry_out(doing, caches, &caches.controller_configs, &controller_config, writes).await;
        // What a pool is pinned to has to be its own, so that comes before what may take its time.
        let adopted = self.remaking.adopt(&self.applier, caches).await;
        for pool in remade.iter().filter_map(|name| caches.pools.named(name)) {
            remaking::tell(&self.events, &pool).await;
        }
        carried_out.and(adopted)?;
        self.remaking.settle(&self.applier, caches).await?;
        for name in made {
            if let Some(made) = caches.machine_configs.named(&name) {
                tell_made_again(&self.events, &made).await;
            }
        }
        Ok(Next::change())
    }
}
