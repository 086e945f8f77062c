//! The render controller: a pool's MachineConfigs merged into one, which the pool then targets.
//!
//! - Level-triggered by everything that rendering looks at: pools, MachineConfigs with their labels, the ControllerConfig,
//!   KubeletConfigs and ContainerRuntimeConfigs that are still to become MachineConfigs.
//! - On failure the last good rendered MachineConfig stays targeted, and the pool says why, every culprit named.
//! - A pool that is pinned (`seaworthy rollout undo`) targets what it is pinned to and is not rendered.
//! - A rendered MachineConfig is written before a pool targets it, remote content before what was made from it.

pub mod render_pool;
pub mod snapshots;
pub mod targets;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::ResourceExt as _;
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigPool};
use seaworthy_api::meta::Selection;
use seaworthy_api::vocabulary::machineconfiguration::{CONTROLLER_CONFIG, PoolEvent, RenderReason, WORKER};
use seaworthy_change::{Change, Event, ObjectRef};
use seaworthy_fetch::Policy;
use seaworthy_plan::history::pin;
use seaworthy_plan::rendering::choice::{self, Choice, Unready};
use seaworthy_plan::rendering::condition::{self, Failure};
use seaworthy_plan::rendering::publication::{self, Outcome};
use seaworthy_plan::rendering::transition::check_return;
use seaworthy_plan::rendering::{RenderedPool, is_rendered, targeted};
use seaworthy_runtime::{Applier, Controller, Delta, Key, Next, Queue, WriteError};
use tokio::time::Instant;

use crate::base::deleted_pools::comes_or_goes;
use crate::context::Context;
use crate::metrics::{PoolLabel, PoolMetrics};
use crate::render::render_pool::{Remote, Surroundings};
use crate::render::snapshots::ClusterSnapshots;

/// How long inputs may be missing before the pool's status reports it, and how long until remote content is tried again.
const INPUTS_TIMEOUT: Duration = Duration::from_secs(60);

/// The shortest time between two new targets of a pool: every target is an order for nodes, and two processes that see
/// different MachineConfigs would replace each other's target without end.
const MIN_TARGET_INTERVAL: Duration = Duration::from_secs(1);

/// Renders pools.
pub struct RenderController {
    context: Context,
    applier: Applier,
    snapshots: Arc<ClusterSnapshots>,
    remote: Remote,
    metrics: Arc<PoolMetrics>,
    /// Since when a pool waits for its inputs.
    waiting: Mutex<BTreeMap<String, Instant>>,
}

impl RenderController {
    /// The controller and the queue that the caches feed.
    pub fn new(context: &Context, snapshots: Arc<ClusterSnapshots>, policy: Policy) -> (Self, Arc<Queue<String>>) {
        let queue = Arc::new(Queue::default());
        let caches = &context.caches;
        let every_pool = {
            let (queue, pools) = (Arc::clone(&queue), Arc::clone(&caches.pools));
            move || pools.all().iter().for_each(|pool| queue.mark(pool.name_any()))
        };
        let (mark, mark_every_pool) = (Arc::clone(&queue), every_pool.clone());
        caches.pools.listen(move |delta| {
            if seen(&delta.before) != seen(&delta.after) {
                mark_sides(&mark, delta);
            }
            // Everybody waits for a built-in pool that is missing, and custom pools take the workers' stream over.
            let stream = |side: &Option<Arc<MachineConfigPool>>| side.as_ref()?.spec.os_image_stream.clone();
            let is_worker = delta.sides().any(|side| side.name_any() == WORKER);
            if comes_or_goes(delta) || (is_worker && stream(&delta.before) != stream(&delta.after)) {
                mark_every_pool();
            }
        });
        let (mark, pools) = (Arc::clone(&queue), Arc::clone(&caches.pools));
        caches.machine_configs.listen(move |delta: &Delta<MachineConfig>| {
            if delta.sides().any(|side| is_rendered(side)) {
                // Of its own results the pool that they belong to is interested in.
                for side in delta.sides() {
                    for owner in side.owner_references().iter().filter(|owner| owner.kind == "MachineConfigPool") {
                        mark.mark(owner.name.clone());
                    }
                }
                return;
            }
            if content(&delta.before) == content(&delta.after) {
                return;
            }
            for pool in pools.all() {
                let Some(selector) = &pool.spec.machine_config_selector else { continue };
                // A selector that cannot be read is the pool's own mistake; rendering it says so.
                let Ok(selection) = Selection::of(selector) else { continue };
                // One that has found none says what there is instead.
                let is_told_of_all =
                    targeted(&pool).is_none() || condition::reason(&pool) == Some(RenderReason::NoMachineConfigs);
                if is_told_of_all || delta.sides().any(|side| selection.matches(side.metadata.labels.as_ref())) {
                    mark.mark(pool.name_any());
                }
            }
        });
        let mark = every_pool.clone();
        caches.controller_configs.listen(move |_| mark());
        let mark = every_pool;
        caches.kubelet_configs.listen({
            let mark = mark.clone();
            move |_| mark()
        });
        caches.container_runtime_configs.listen(move |_| mark());
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

    async fn render(&self, pool: &MachineConfigPool, inputs: &[Arc<MachineConfig>]) -> Result<RenderedPool, Failure> {
        let caches = &self.context.caches;
        let controller_config = caches.controller_configs.named(CONTROLLER_CONFIG);
        let worker = caches.pools.named(WORKER);
        let current = self.current(pool);
        let around = Surroundings {
            controller_config: controller_config.as_deref(),
            worker_stream: worker.and_then(|pool| pool.spec.os_image_stream.as_ref().map(|stream| stream.name.clone())),
            current: current.as_deref(),
            build: &self.context.build,
            wants_findings: false,
            sources: &if inputs.is_empty() { caches.sources() } else { Vec::new() },
        };
        render_pool::make(pool, inputs, &around, &self.remote).await
    }

    /// What a pool targets now, if it exists.
    fn current(&self, pool: &MachineConfigPool) -> Option<Arc<MachineConfig>> {
        self.context.caches.machine_configs.named(targeted(pool)?)
    }

    /// Publishes the outcome of a pool's rendering. Whether the pool has another target since.
    async fn publish(&self, pool: &MachineConfigPool, outcome: &Result<Target, Failure>) -> Result<bool, WriteError> {
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
            publication::desired(&publication::Inputs { pool, outcome, existing, build, now })
        };
        let mut decision = decide(pool, existing.as_deref());
        let report = &decision.report;
        if report.needs_pool_managers || report.needs_config_managers {
            // Caches leave out field managers, which tell who has edited what.
            let read = match &name {
                Some(name) if report.needs_config_managers => self.applier.read::<MachineConfig>(name).await?,
                _ => None,
            };
            let read_pool = match report.needs_pool_managers {
                true => self.applier.read::<MachineConfigPool>(&pool.name_any()).await?,
                false => None,
            };
            // At the revision that was decided on: what was edited since is another decision.
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
        match (&decision.report.target, outcome) {
            (Some(target), _) => self.context.targets.want(&pool.name_any(), target),
            // The pool keeps the last target that could be rendered, or what a user has set to get on.
            (None, _) => self.context.targets.forget(&pool.name_any()),
        }
        if let Err(failure) = outcome
            && !decision.is_empty()
        {
            tracing::warn!(pool = pool.name_any(), reason = failure.reason.as_str(), failure.message, "not rendered");
        }
        if let Ok(Target::Rendered(_)) = outcome {
            self.snapshots.flush(&self.applier).await?;
        }
        self.applier.perform(&decision).await.result()?;
        Ok(decision.report.is_new_target)
    }

    /// Waits for what another controller has to generate first, and reports it if that takes long.
    async fn wait(&self, pool: &MachineConfigPool, for_: Unready) -> Result<Next, WriteError> {
        let Unready { what, will_pass, .. } = for_;
        let waited = self.waiting().entry(pool.name_any()).or_insert_with(Instant::now).elapsed();
        if will_pass && waited < INPUTS_TIMEOUT {
            return Ok(Next::after(INPUTS_TIMEOUT - waited));
        }
        let message =
            if will_pass { format!("{what}; that takes longer than {} s", INPUTS_TIMEOUT.as_secs()) } else { what };
        self.publish(pool, &Err(Failure { reason: RenderReason::InputsNotReady, message })).await?;
        Ok(Next::change())
    }

    fn waits_no_more(&self, pool: &str) {
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

    async fn reconcile(&self, name: &String) -> Result<Next, WriteError> {
        let next = self.look(name).await?;
        let is_there = |name: &str| self.context.caches.machine_configs.named(name).is_some();
        let later = self.snapshots.collect(&self.applier, is_there).await?;
        Ok(Next { recheck: [next.recheck, later].into_iter().flatten().min(), ..next })
    }
}

impl RenderController {
    async fn look(&self, name: &str) -> Result<Next, WriteError> {
        let caches = &self.context.caches;
        let pool = caches.pools.named(name);
        let controller_config = caches.controller_configs.named(CONTROLLER_CONFIG);
        let choice = match &pool {
            None => Choice::Deleted,
            Some(pool) => choice::choose(&choice::Inputs {
                pool,
                pools: &caches.pools.all(),
                sources: &caches.sources(),
                find: &|name| caches.machine_configs.named(name),
                controller_config: controller_config.as_deref(),
                kubelet_configs: &caches.kubelet_configs.all(),
                container_runtime_configs: &caches.container_runtime_configs.all(),
                build: &self.context.build,
                is_cluster: true,
                accepts_other_builds: false,
            }),
        };
        let label = PoolLabel { pool: name.to_owned() };
        if !matches!(choice, Choice::Wait(_)) {
            self.waits_no_more(name);
        }
        let (Some(pool), false) = (pool, matches!(choice, Choice::Deleted)) else {
            self.context.targets.forget(name);
            self.metrics.image_override.remove(&label);
            return Ok(Next::change());
        };
        let selection = pool.spec.machine_config_selector.as_ref().and_then(|selector| Selection::of(selector).ok());
        if selection.as_ref().is_some_and(Selection::is_empty) {
            let message = "the machineConfigSelector is empty and would select all MachineConfigs; nothing is rendered"
                .to_owned();
            let reason = PoolEvent::SelectingAll.as_str();
            let event = Event { is_warning: true, reason, message, related: None };
            self.applier.change(Change::emit(ObjectRef::of(&*pool), event)).await?;
        }
        let outcome = match choice {
            Choice::Deleted => return Ok(Next::change()),
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
            // What failed on the network may work next time; what is wrong waits for an edit.
            Err(failure) if failure.reason == RenderReason::RemoteFetchFailed => Next::after(INPUTS_TIMEOUT),
            Ok(Target::Rendered(_)) if is_new => Next { recheck: None, rest: MIN_TARGET_INTERVAL },
            _ => Next::change(),
        })
    }
}

/// What a pool should target.
enum Target {
    /// What was rendered for it.
    Rendered(Box<RenderedPool>),
    /// What it is pinned to.
    Pinned(Arc<MachineConfig>),
}

/// What rendering looks at of a pool, and what it writes there.
fn seen(pool: &Option<Arc<MachineConfigPool>>) -> Option<impl PartialEq> {
    let pool = pool.as_ref()?;
    let degraded = pool.status.as_ref().and_then(|status| status.conditions.clone()).map(|mut conditions| {
        conditions.retain(|condition| condition.type_.as_deref() == Some("RenderDegraded"));
        conditions
    });
    Some((
        pool.metadata.labels.clone(),
        pool.metadata.uid.clone(),
        pin::name(pool).map(str::to_owned),
        pool.spec.machine_config_selector.clone(),
        pool.spec.configuration.clone(),
        pool.spec.os_image_stream.clone(),
        degraded,
    ))
}

/// What rendering looks at of a MachineConfig.
fn content(machine_config: &Option<Arc<MachineConfig>>) -> Option<impl PartialEq> {
    let found = machine_config.as_ref()?;
    let metadata = &found.metadata;
    Some((found.spec.clone(), metadata.labels.clone(), metadata.annotations.clone(), metadata.owner_references.clone()))
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
    use seaworthy_testkit::{Embedded, controller_config};

    use super::*;
    use serde_json::json;

    use crate::operator::{NAMESPACE, definitions};
    use seaworthy_runtime::install::install;

    #[tokio::test(start_paused = true)]
    async fn pool_that_cannot_be_made_again_is_named_after_a_while_and_not_before() {
        let cluster = Embedded::start().await;
        let client = cluster.client();
        install(&client, &definitions(), NAMESPACE).await.unwrap();
        let context = Context::new(client.clone());
        let caches = &context.caches;
        let mut made: ControllerConfig = serde_json::from_value(controller_config()).unwrap();
        made.status = Some(Default::default());
        caches.controller_configs.wrote(made);
        let pools: Api<MachineConfigPool> = Api::all(client.clone());
        let infra = json!({"metadata": {"name": "infra"}, "spec": {}});
        let infra = pools.create(&PostParams::default(), &serde_json::from_value(infra).unwrap()).await.unwrap();
        caches.pools.wrote(infra);
        let snapshots = Arc::new(ClusterSnapshots::load(&client, NAMESPACE).await.unwrap());
        let (controller, _) = RenderController::new(&context, snapshots, Policy::default());
        let look = async || {
            let next = controller.reconcile(&"infra".to_owned()).await.unwrap();
            let conditions =
                pools.get("infra").await.unwrap().status.unwrap_or_default().conditions.unwrap_or_default();
            (
                next.recheck,
                conditions.into_iter().find_map(|found| found.message.filter(|said| said.contains("missing"))),
            )
        };
        assert_eq!(look().await, (Some(INPUTS_TIMEOUT), None));
        tokio::time::advance(INPUTS_TIMEOUT).await;
        let (recheck, said) = look().await;
        assert_eq!(recheck, None, "the pool's return is looked at");
        let said = said.unwrap();
        assert!(said.contains("MachineConfigPool master is missing and is being created again; that takes"), "{said}");

        // A pool that did not wait in between has its time again.
        let pin = |to: Option<&str>| json!({"metadata": {"annotations": {PINNED_CONFIGURATION.as_str(): to}}});
        let edit = async |patch: serde_json::Value| {
            let patch = kube::api::Patch::Merge(patch);
            caches.pools.wrote(pools.patch("infra", &Default::default(), &patch).await.unwrap());
        };
        edit(pin(Some("rendered-infra-none"))).await;
        look().await;
        edit(pin(None)).await;
        assert_eq!(look().await.0, Some(INPUTS_TIMEOUT));
    }
}
