//! Base controller: generates the platform's MachineConfigs and the built-in pools from the ControllerConfig and the templates.

pub mod deleted_pools;

use std::sync::Arc;

use kube::core::ObjectMeta;
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigPool};
use seaworthy_api::vocabulary::machineconfiguration::CONTROLLER_CONFIG;
use seaworthy_generate::base::{self, Templates};
use seaworthy_plan::rendering::is_rendered;
use seaworthy_runtime::{Applier, Controller, Queue, Requeue, WriteError};

use crate::base::deleted_pools::DeletedPools;
use crate::context::Context;

pub struct BaseController {
    context: Context,
    applier: Applier,
    templates: Arc<Templates>,
    deleted_pools: DeletedPools,
}

impl BaseController {
    /// The controller and the queue that the caches feed. There is one decision for all objects, so the key is `()`.
    pub fn new(context: &Context, templates: Arc<Templates>, deleted_pools: DeletedPools) -> (Self, Arc<Queue<()>>) {
        let queue = Arc::new(Queue::default());
        let caches = &context.caches;
        let mark = Arc::clone(&queue);
        caches.controller_configs.listen(move |_| mark.mark(()));
        let mark = Arc::clone(&queue);
        caches.pools.listen(move |delta| {
            let fields = |pool: &Option<Arc<_>>| pool.as_ref().map(relevant_fields);
            if fields(&delta.before) != fields(&delta.after) {
                mark.mark(());
            }
        });
        let mark = Arc::clone(&queue);
        caches.machine_configs.listen(move |delta| {
            if delta.sides().any(|side| !is_rendered(side)) {
                mark.mark(());
            }
        });
        let applier = context.applier(Self::NAME);
        (BaseController { context: context.clone(), applier, templates, deleted_pools }, queue)
    }
}

/// The fields of a pool that the base depends on, to compare.
fn relevant_fields(pool: &Arc<MachineConfigPool>) -> impl PartialEq + use<> {
    let ObjectMeta { labels, uid, deletion_timestamp, finalizers, .. } = &pool.metadata;
    (labels.clone(), uid.clone(), deletion_timestamp.is_some(), finalizers.clone())
}

impl Controller for BaseController {
    type Key = ();
    type Error = WriteError;
    const NAME: &'static str = base::MANAGER;

    async fn reconcile(&self, (): &()) -> Result<Requeue, WriteError> {
        let caches = &self.context.caches;
        // Without a ControllerConfig there is no base: the cluster's machines were provisioned by other means.
        let controller_config = caches.controller_configs.named(CONTROLLER_CONFIG);
        let is_kept = controller_config.as_ref().is_some_and(|found| found.metadata.deletion_timestamp.is_none());
        self.deleted_pools.release(&self.applier, caches, is_kept).await?;
        let Some(controller_config) = controller_config else {
            return Ok(Requeue::on_change());
        };
        let saved = self.deleted_pools.saved();
        let decide = |machine_configs: &[Arc<MachineConfig>]| {
            base::desired(&base::BaseInputs {
                controller_config: &controller_config,
                templates: &self.templates,
                cluster_tls: None,
                pools: &caches.pools.all(),
                deleted_pools: &saved,
                machine_configs,
                build: &self.context.build,
                now: self.context.time(),
            })
        };
        let machine_configs = caches.sources();
        let mut decision = decide(&machine_configs);
        if !decision.report.unattributed.is_empty() {
            decision =
                decide(&with_field_managers(&self.applier, machine_configs, &decision.report.unattributed).await?);
        }
        for problem in &decision.report.problems {
            tracing::warn!(problem, "cannot generate the base");
        }
        let performed = self.applier.perform(&decision).await;
        // A pool has to own what it is pinned to before it is rendered.
        self.deleted_pools.adopt(&self.applier, caches).await?;
        performed.result()?;
        self.deleted_pools.forget(&self.applier, caches).await?;
        Ok(Requeue::on_change())
    }
}

/// The objects, with those of these names read from the API: caches leave out field managers, which show which client created
/// and edited an object.
pub async fn with_field_managers(
    applier: &Applier,
    mut machine_configs: Vec<Arc<MachineConfig>>,
    names: &[String],
) -> Result<Vec<Arc<MachineConfig>>, WriteError> {
    for name in names {
        if let Some(found) = applier.read::<MachineConfig>(name).await? {
            match machine_configs.iter_mut().find(|known| known.metadata.name == found.metadata.name) {
                Some(known) => *known = Arc::new(found),
                None => machine_configs.push(Arc::new(found)),
            }
        }
    }
    Ok(machine_configs)
}
