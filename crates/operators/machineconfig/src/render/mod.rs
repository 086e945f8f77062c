//! Render controller: merges a pool's MachineConfigs into one and makes it the pool's target.
//!
//! - Level-triggered by everything that rendering reads: pools, MachineConfigs with their labels, the ControllerConfig,
//!   KubeletConfigs and ContainerRuntimeConfigs that are still to become MachineConfigs.
//! - On failure the last good rendered MachineConfig stays the target, and the pool's condition names every cause.
//! - A pinned pool (`seaworthy rollout undo`) targets what it is pinned to and is not rendered.
//! - A rendered MachineConfig is written before a pool targets it, and remote content before what was rendered from it.

pub mod pool_targets;
pub mod render_pool;
pub mod snapshots;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::ResourceExt as _;
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigPool, StatusCondition};
use seaworthy_api::meta::{LabelSelector, Selection, is_owner};
use seaworthy_api::vocabulary::machineconfiguration::{CONTROLLER_CONFIG, PoolEvent, RenderReason, WORKER};
use seaworthy_change::{Change, Event, ObjectRef};
use seaworthy_fetch::Policy;
use seaworthy_plan::history::pin;
use seaworthy_plan::rendering::choice::{self, Choice, ChoiceInputs, MissingInput};
use seaworthy_plan::rendering::condition::{self, RenderFailure};
use seaworthy_plan::rendering::publication::{self, Outcome};
use seaworthy_plan::rendering::transition::check_return;
use seaworthy_plan::rendering::{RenderedPool, is_rendered, targeted};
use seaworthy_runtime::{Applier, Controller, Delta, Key, Queue, Requeue, WriteError};
use tokio::time::Instant;

use crate::base::deleted_pools::changes_presence;
use crate::context::Context;
use crate::metrics::{PoolLabel, PoolMetrics};
use crate::render::render_pool::{Remote, RenderContext};
use crate::render::snapshots::ContentSnapshots;

/// How long inputs may be missing before the pool's status reports it, and how long until a failed fetch is retried.
const INPUTS_TIMEOUT: Duration = Duration::from_secs(60);

/// The shortest time between two new targets of a pool: every target is an order for nodes, and two processes that see
/// different MachineConfigs would replace each other's target without end.
const MIN_TARGET_INTERVAL: Duration = Duration::from_secs(1);

pub struct RenderController {
    context: Context,
    applier: Applier,
    snapshots: Arc<ContentSnapshots>,
    remote: Remote,
    metrics: Arc<PoolMetrics>,
    /// Since when a pool waits for its inputs, by pool.
    waiting: Mutex<BTreeMap<String, Instant>>,
}

impl RenderController {
    /// The controller and the queue that the caches feed.
    pub fn new(context: &Context, snapshots: Arc<ContentSnapshots>, policy: Policy) -> (Self, Arc<Queue<String>>) {
        let queue = Arc::new(Queue::default());
        let caches = &context.caches;
        let every_pool = {
            let (queue, held) = (Arc::clone(&queue), caches.downgrade());
            move || held.pools().iter().for_each(|pool| queue.mark(pool.name_any()))
        };
        let (mark, mark_every_pool) = (Arc::clone(&queue), every_pool.clone());
        caches.pools.listen(move |delta| {
            if pool_fields(&delta.before) != pool_fields(&delta.after) {
                mark_sides(&mark, delta);
            }
            // All pools wait for a built-in pool that is missing, and custom pools inherit the worker pool's stream.
            let stream = |side: &Option<Arc<MachineConfigPool>>| side.as_ref()?.spec.os_image_stream.clone();
            let is_worker = delta.sides().any(|side| side.name_any() == WORKER);
            if changes_presence(delta) || (is_worker && stream(&delta.before) != stream(&delta.after)) {
                mark_every_pool();
            }
        });
        let (mark, held) = (Arc::clone(&queue), caches.downgrade());
        caches.machine_configs.listen(move |delta: &Delta<MachineConfig>| {
            if delta.sides().any(|side| is_rendered(side)) {
                // Rendered MachineConfigs concern the pool that owns them.
                for side in delta.sides() {
                    for owner in side.owner_references().iter().filter(|owner| is_owner::<MachineConfigPool>(owner)) {
                        mark.mark(owner.name.clone());
                    }
                }
                return;
            }
            if content(&delta.before) == content(&delta.after) {
                return;
            }
            for pool in held.pools() {
                let Some(selector) = &pool.spec.machine_config_selector else { continue };
                // An invalid selector is reported when the pool is rendered.
                let Ok(selection) = Selection::of(selector) else { continue };
                // A pool that selects none lists what it could select.
                let lists_all =
                    targeted(&pool).is_none() || condition::reason(&pool) == Some(RenderReason::NoMachineConfigs);
                if lists_all || delta.sides().any(|side| selection.matches(side.metadata.labels.as_ref())) {
                    mark.mark(pool.name_any());
                }
            }
        });
        let mark = every_pool.clone();
        caches.controller_configs.listen(move |_| mark());
        let mark = every_pool.clone();
        caches.kubelet_configs.listen(move |_| mark());
        caches.container_runtime_configs.listen(move |_| every_pool());
        let remote = Remote { policy, snapshots: snapshots.clone(), is_offline: false };
        let controller = RenderController {
            context: context.clone(),
            applier: context.applier(Self::NAME),
            snapshots,
            remote,
            metrics: context.metrics.set(),
            waiting: Mutex::default(),
        };
        (controller, queue)
    }

    async fn render(
        &self,
        pool: &MachineConfigPool,
        inputs: &[Arc<MachineConfig>],
    ) -> Result<RenderedPool, RenderFailure> {
        let caches = &self.context.caches;
        let controller_config = caches.controller_configs.named(CONTROLLER_CONFIG);
        let worker = caches.pools.named(WORKER);
        let current = self.current(pool);
        let context = RenderContext {
            controller_config: controller_config.as_deref(),
            worker_stream: worker.and_then(|pool| pool.spec.os_image_stream.as_ref().map(|stream| stream.name.clone())),
            current: current.as_deref(),
            build: &self.context.build,
            wants_findings: false,
            sources: &if inputs.is_empty() { caches.sources() } else { Vec::new() },
        };
        render_pool::render_pool(pool, inputs, &context, &self.remote).await
    }

    /// A pool's present target, if it exists.
    fn current(&self, pool: &MachineConfigPool) -> Option<Arc<MachineConfig>> {
        self.context.caches.machine_configs.named(targeted(pool)?)
    }

    /// Publishes the outcome of a pool's rendering. Returns whether the pool has a new target.
    async fn publish(
        &self,
        pool: &MachineConfigPool,
        outcome: &Result<Target, RenderFailure>,
    ) -> Result<bool, WriteError> {
        let caches = &self.context.caches;
        let name = match outcome {
            Ok(Target::Rendered(rendered)) => Some(rendered.object.name_any()),
            Ok(Target::Pinned(_)) | Err(_) => None,
        };
        let existing = name.as_ref().and_then(|name| caches.machine_configs.named(name));
        let decide = |pool: &MachineConfigPool, existing: Option<&MachineConfig>| {
            let outcome = match outcome {
                Ok(Target::Rendered(rendered)) => Outcome::Rendered(rendered),
                Ok(Target::Pinned(object)) => Outcome::Pinned(object),
                Err(failure) => Outcome::Failed(failure),
            };
            let (build, now) = (&*self.context.build, self.context.now());
            publication::desired(&publication::PublicationInputs { pool, outcome, existing, build, now })
        };
        let mut decision = decide(pool, existing.as_deref());
        self.applier.perform(&decision.warnings).await.result()?;
        let report = &decision.report;
        if report.needs_pool_managers || report.needs_config_managers {
            // Caches leave out field managers, which show which client edited which field.
            let read = match &name {
                Some(name) if report.needs_config_managers => self.applier.read::<MachineConfig>(name).await?,
                _ => None,
            };
            let read_pool = match report.needs_pool_managers {
                true => self.applier.read::<MachineConfigPool>(&pool.name_any()).await?,
                false => None,
            };
            // At the resource version that was decided on: a later edit is another decision.
            let managed = |found: &MachineConfigPool| MachineConfigPool {
                metadata: kube::core::ObjectMeta {
                    managed_fields: Some(found.metadata.managed_fields.clone().unwrap_or_default()),
                    ..pool.metadata.clone()
                },
                ..pool.clone()
            };
            let managed = read_pool.as_ref().map(managed);
            decision = decide(managed.as_ref().unwrap_or(pool), read.as_ref().or(existing.as_deref()));
        }
        if let Err(failure) = outcome
            && !decision.pool.is_empty()
        {
            tracing::warn!(
                pool = pool.name_any(),
                reason = failure.reason.as_str(),
                failure.message,
                "cannot render pool"
            );
        }
        if let Ok(Target::Rendered(_)) = outcome {
            self.snapshots.flush(&self.applier).await?;
        }
        self.applier.perform(&decision.config).await.result()?;
        match &decision.report.target {
            // Only now: while the rendered MachineConfig cannot be written, the nodes go on to the target that the pool has.
            Some(target) => self.context.targets.set(&pool.name_any(), target),
            // The pool keeps the last target that could be rendered, or one that a user has set to continue.
            None => self.context.targets.forget(&pool.name_any()),
        }
        self.applier.perform(&decision.pool).await.result()?;
        Ok(decision.report.is_new_target)
    }

    /// Waits for what another controller has to generate first, and reports it if that takes long.
    async fn wait(&self, pool: &MachineConfigPool, for_: MissingInput) -> Result<Requeue, WriteError> {
        let MissingInput { what, is_transient, .. } = for_;
        let waited = self.waiting().entry(pool.name_any()).or_insert_with(Instant::now).elapsed();
        if is_transient && waited < INPUTS_TIMEOUT {
            return Ok(Requeue::after(INPUTS_TIMEOUT - waited));
        }
        let message =
            if is_transient { format!("{what}; that takes longer than {} s", INPUTS_TIMEOUT.as_secs()) } else { what };
        self.publish(pool, &Err(RenderFailure { reason: RenderReason::InputsNotReady, message })).await?;
        Ok(Requeue::on_change())
    }

    fn stop_waiting(&self, pool: &str) {
        self.waiting().remove(pool);
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Instant>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Controller for RenderController {
    type Key = String;
    type Error = WriteError;
    const NAME: &'static str = "seaworthy-render";

    async fn reconcile(&self, name: &String) -> Result<Requeue, WriteError> {
        let requeue = self.reconcile_pool(name).await?;
        let is_there = |name: &str| self.context.caches.machine_configs.named(name).is_some();
        let later = self.snapshots.collect(&self.applier, is_there).await?;
        Ok(Requeue { recheck: [requeue.recheck, later].into_iter().flatten().min(), ..requeue })
    }
}

impl RenderController {
    async fn reconcile_pool(&self, name: &str) -> Result<Requeue, WriteError> {
        let caches = &self.context.caches;
        let pool = caches.pools.named(name);
        let choice = match &pool {
            None => Choice::Deleted,
            Some(pool) => choice::choose(&ChoiceInputs {
                pool,
                objects: &caches.choice_objects(),
                build: &self.context.build,
                is_cluster: true,
                accepts_other_builds: false,
            }),
        };
        let label = PoolLabel { pool: name.to_owned() };
        if !matches!(choice, Choice::Wait(_)) {
            self.stop_waiting(name);
        }
        let (Some(pool), false) = (pool, matches!(choice, Choice::Deleted)) else {
            self.context.targets.forget(name);
            self.metrics.image_override.remove(&label);
            return Ok(Requeue::on_change());
        };
        if pool.spec.machine_config_selector.as_ref().is_some_and(LabelSelector::is_empty) {
            let message = "the machineConfigSelector is empty and would select all MachineConfigs; nothing is rendered"
                .to_owned();
            let reason = PoolEvent::SelectorMatchesAll.as_str();
            let event = Event { is_warning: true, reason, message, related: None };
            self.applier.change(Change::emit(ObjectRef::of(&*pool), event)).await?;
        }
        let outcome = match choice {
            Choice::Deleted => return Ok(Requeue::on_change()),
            Choice::Wait(unready) => return self.wait(&pool, unready).await,
            Choice::Refused(failure) => Err(failure),
            Choice::Pinned(object) => {
                check_return(self.current(&pool).as_deref(), &object).map(|()| Target::Pinned(object))
            }
            Choice::Render(inputs) => {
                let rendered = self.render(&pool, &inputs).await;
                if let Ok(rendered) = &rendered {
                    let is_overridden = i64::from(rendered.is_image_overridden);
                    self.metrics.image_override.get_or_create(&label).set(is_overridden);
                }
                rendered.map(|rendered| Target::Rendered(Box::new(rendered)))
            }
        };
        let is_new = self.publish(&pool, &outcome).await?;
        Ok(match outcome {
            // A network failure is retried; an invalid input waits for an edit.
            Err(failure) if failure.reason == RenderReason::RemoteFetchFailed => Requeue::after(INPUTS_TIMEOUT),
            Ok(Target::Rendered(_)) if is_new => Requeue { recheck: None, min_interval: MIN_TARGET_INTERVAL },
            _ => Requeue::on_change(),
        })
    }
}

/// The new target of a pool.
enum Target {
    Rendered(Box<RenderedPool>),
    Pinned(Arc<MachineConfig>),
}

/// The fields of a pool that rendering reads or writes, to compare.
fn pool_fields(pool: &Option<Arc<MachineConfigPool>>) -> Option<impl PartialEq> {
    let pool = pool.as_ref()?;
    let conditions = pool.status.as_ref().and_then(|status| status.conditions.as_ref());
    let degraded = conditions.map(|conditions| {
        let is_degraded = |condition: &&StatusCondition| condition.type_.as_deref() == Some("RenderDegraded");
        conditions.iter().filter(is_degraded).collect::<Vec<_>>()
    });
    Some((
        &pool.metadata.labels,
        &pool.metadata.uid,
        pin::name(pool),
        &pool.spec.machine_config_selector,
        &pool.spec.configuration,
        &pool.spec.os_image_stream,
        degraded,
    ))
}

/// The fields of a MachineConfig that rendering reads, to compare.
fn content(machine_config: &Option<Arc<MachineConfig>>) -> Option<impl PartialEq> {
    let found = machine_config.as_ref()?;
    let metadata = &found.metadata;
    Some((&found.spec, &metadata.labels, &metadata.annotations, &metadata.owner_references))
}

fn mark_sides(queue: &Queue<String>, delta: &Delta<MachineConfigPool>) {
    delta.sides().for_each(|side| queue.mark(Key::of(&**side).name));
}

#[cfg(test)]
mod tests {
    use kube::Api;
    use kube::api::PostParams;
    use seaworthy_api::machineconfiguration::ControllerConfig;
    use seaworthy_api::vocabulary::seaworthy::annotation::PINNED_CONFIGURATION;
    use seaworthy_testkit::{Embedded, FaultInjector, FaultRates, controller_config, file};

    use super::*;
    use serde_json::json;

    use seaworthy_runtime::NAMESPACE;

    use crate::operator::definitions;
    use seaworthy_runtime::install::install;

    #[tokio::test(start_paused = true)]
    async fn missing_built_in_pool_is_reported_after_the_timeout_and_not_before() {
        let cluster = Embedded::start().await;
        let client = cluster.client();
        install(&client, &definitions(), NAMESPACE).await.unwrap();
        let context = Context::new(client.clone());
        let caches = &context.caches;
        let mut made: ControllerConfig = serde_json::from_value(controller_config()).unwrap();
        made.status = Some(Default::default());
        caches.controller_configs.record_write(made);
        let pools: Api<MachineConfigPool> = Api::all(client.clone());
        let infra = json!({"metadata": {"name": "infra"}, "spec": {}});
        let infra = pools.create(&PostParams::default(), &serde_json::from_value(infra).unwrap()).await.unwrap();
        caches.pools.record_write(infra);
        let snapshots = Arc::new(ContentSnapshots::load(&client, NAMESPACE).await.unwrap());
        let (controller, _) = RenderController::new(&context, snapshots, Policy::default());
        let reconcile = async || {
            let requeue = controller.reconcile(&"infra".to_owned()).await.unwrap();
            let conditions =
                pools.get("infra").await.unwrap().status.unwrap_or_default().conditions.unwrap_or_default();
            (
                requeue.recheck,
                conditions.into_iter().find_map(|found| found.message.filter(|message| message.contains("missing"))),
            )
        };
        assert_eq!(reconcile().await, (Some(INPUTS_TIMEOUT), None));
        tokio::time::advance(INPUTS_TIMEOUT).await;
        let (recheck, message) = reconcile().await;
        assert_eq!(recheck, None, "the pool's return triggers a reconcile");
        let message = message.unwrap();
        assert!(
            message.contains("MachineConfigPool master is missing and is being created again; that takes"),
            "{message}"
        );

        // The timeout begins again for a pool that did not wait in between.
        let pin = |to: Option<&str>| json!({"metadata": {"annotations": {PINNED_CONFIGURATION.as_str(): to}}});
        let edit = async |patch: serde_json::Value| {
            let patch = kube::api::Patch::Merge(patch);
            caches.pools.record_write(pools.patch("infra", &Default::default(), &patch).await.unwrap());
        };
        edit(pin(Some("rendered-infra-none"))).await;
        reconcile().await;
        edit(pin(None)).await;
        assert_eq!(reconcile().await.0, Some(INPUTS_TIMEOUT));
    }

    #[tokio::test(start_paused = true)]
    async fn pool_keeps_its_target_for_orders_while_the_next_one_cannot_be_written() {
        let cluster = Embedded::start().await;
        let client = cluster.client();
        install(&client, &definitions(), NAMESPACE).await.unwrap();
        let injector = FaultInjector::new(FaultRates::default(), 1);
        let context = Context::new(cluster.client_with_faults(&injector));
        let caches = &context.caches;
        let pool = json!({"metadata": {"name": "infra"}, "spec": {"machineConfigSelector": {
            "matchLabels": {"machineconfiguration.openshift.io/role": "infra"},
        }}});
        let pools: Api<MachineConfigPool> = Api::all(client.clone());
        let pool = pools.create(&PostParams::default(), &serde_json::from_value(pool).unwrap()).await.unwrap();
        caches.pools.record_write(pool);
        let configs: Api<MachineConfig> = Api::all(client.clone());
        let create = async |name: &str| {
            let object = serde_json::from_value(file(name, "infra", &format!("/etc/{name}"), "a")).unwrap();
            caches.machine_configs.record_write(configs.create(&PostParams::default(), &object).await.unwrap());
        };
        let snapshots = Arc::new(ContentSnapshots::load(&client, NAMESPACE).await.unwrap());
        let (controller, _) = RenderController::new(&context, snapshots, Policy::default());
        let target = || targeted(&caches.pools.named("infra").unwrap()).map(str::to_owned);
        let is_ordered = || context.targets.matches(&caches.pools.named("infra").unwrap());

        create("50-a").await;
        controller.reconcile(&"infra".to_owned()).await.unwrap();
        let first = target();
        assert!(first.is_some() && is_ordered());

        create("50-b").await;
        // Reads succeed, and the first write is that of the rendered MachineConfig.
        injector.set_rates(FaultRates { conflict: 1000, ..FaultRates::default() });
        controller.reconcile(&"infra".to_owned()).await.unwrap_err();
        assert!(target() == first && is_ordered(), "its nodes go on to the first target");

        injector.set_rates(FaultRates::default());
        controller.reconcile(&"infra".to_owned()).await.unwrap();
        assert!(target() != first && is_ordered());
    }
}
