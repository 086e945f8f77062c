//! The base controller: the platform's own MachineConfigs and pools, kept as the ControllerConfig and the templates say.

use std::sync::Arc;

use seaworthy_api::vocabulary::machineconfiguration::CONTROLLER_CONFIG;
use seaworthy_generate::base::{self, Templates};
use seaworthy_runtime::{Applier, Controller, Next, Queue, WriteError};

use crate::context::Context;
use crate::writes::{carry_out, is_rendered, sources};

/// Keeps the base.
pub struct BaseController {
    context: Context,
    applier: Applier,
    templates: Arc<Templates>,
}

impl BaseController {
    /// The controller and the queue that the caches feed. There is one thing to look at, so the key says nothing.
    pub fn new(context: &Context, templates: Arc<Templates>) -> (Self, Arc<Queue<()>>) {
        let queue = Arc::new(Queue::default());
        let caches = &context.caches;
        let mark = Arc::clone(&queue);
        caches.controller_configs.listen(move |_| mark.mark(()));
        let mark = Arc::clone(&queue);
        caches.pools.listen(move |delta| {
            let seen = |pool: &Option<Arc<_>>| pool.as_ref().map(labels);
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
        (BaseController { context: context.clone(), applier: context.applier(Self::NAME), templates }, queue)
    }
}

fn labels(
    pool: &Arc<seaworthy_api::machineconfiguration::MachineConfigPool>,
) -> Option<std::collections::BTreeMap<String, String>> {
    pool.metadata.labels.clone()
}

impl Controller for BaseController {
    type Key = ();
    type Error = WriteError;
    const NAME: &'static str = "seaworthy-base";

    async fn reconcile(&self, (): &()) -> Result<Next, WriteError> {
        let caches = &self.context.caches;
        // Without a ControllerConfig there is no base: the cluster's machines were set up by somebody else.
        let Some(controller_config) = caches.controller_configs.named(CONTROLLER_CONFIG) else {
            return Ok(Next::change());
        };
        let decision = base::desired(&base::Inputs {
            controller_config: &controller_config,
            templates: &self.templates,
            cluster_tls: None,
            pools: &caches.pools.all(),
            machine_configs: &sources(caches),
            build: &self.context.build,
            now: self.context.time(),
        });
        for problem in &decision.problems {
            tracing::warn!(problem, "the base cannot be made");
        }
        carry_out(&self.applier, caches, &caches.controller_configs, &controller_config, decision.writes).await?;
        Ok(Next::change())
    }
}
