//! The render controller: a pool's MachineConfigs merged into one, which the pool then targets.
//!
//! - Level-triggered by everything that rendering looks at: pools, MachineConfigs with their labels, the ControllerConfig,
//!   KubeletConfigs and ContainerRuntimeConfigs that are still to become MachineConfigs.
//! - On failure the last good rendered MachineConfig stays targeted, and the pool says why, every culprit named.
//! - A pool that is pinned (`seaworthy rollout undo`) targets what it is pinned to and is not rendered.
//! - A rendered MachineConfig is written before a pool targets it, remote content before what was made from it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::{Resource as _, ResourceExt as _};
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigPool, PoolConfiguration};
use seaworthy_api::meta::{ObjectReference, Selection};
use seaworthy_api::vocabulary::Annotation;
use seaworthy_api::vocabulary::machineconfiguration::{CONTROLLER_CONFIG, PoolEvent, RenderReason, WORKER, annotation};
use seaworthy_api::vocabulary::seaworthy::IN_USE;
use seaworthy_api::vocabulary::seaworthy::annotation::{SOURCES, TURNS};
use seaworthy_fetch::Policy;
use seaworthy_plan::pin::{self, Pin};
use seaworthy_plan::render_condition::{self, Failure};
use seaworthy_plan::revision;
use seaworthy_plan::turn::Turns;
use seaworthy_runtime::metrics::PoolLabel;
use seaworthy_runtime::{Applier, Controller, Delta, Events, Gravity, Key, Next, Queue, WriteError};
use serde_json::json;
use tokio::time::Instant;

use crate::context::Context;
use crate::edits::{tell_made_again, tell_put_back, tell_target_put_back};
use crate::making::{self, Made, Remote, Surroundings, Unready, targeted};
use crate::perform::{or_anew, rendered};
use crate::remaking;
use crate::snapshots::ClusterSnapshots;
use crate::writes::{is_rendered, sources};

/// How long an input may be about to change before the pool says that it waits for it.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a pool keeps a new target at least: every target is an order for nodes, and of two planes that see different
/// MachineConfigs each would set its own without end.
const REST: Duration = Duration::from_secs(1);

/// Renders pools.
pub struct RenderController {
    context: Context,
    applier: Applier,
    events: Events,
    snapshots: Arc<ClusterSnapshots>,
    remote: Remote,
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
            if remaking::comes_or_goes(delta) || (is_worker && stream(&delta.before) != stream(&delta.after)) {
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
                let is_told_of_all = targeted(&pool).is_none()
                    || render_condition::reason(&pool) == Some(RenderReason::NoMachineConfigs);
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
            events: context.events(Self::NAME),
            snapshots,
            remote,
            waiting: Mutex::default(),
        };
        (controller, queue)
    }

    async fn make(&self, pool: &MachineConfigPool, inputs: &[Arc<MachineConfig>]) -> Result<Made, Failure> {
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
            sources: &if inputs.is_empty() { sources(caches) } else { Vec::new() },
        };
        making::make(pool, inputs, &around, &self.remote).await
    }

    /// What a pool targets now, if it is there.
    fn current(&self, pool: &MachineConfigPool) -> Option<Arc<MachineConfig>> {
        self.context.caches.machine_configs.named(targeted(pool)?)
    }

    /// Brings about that a pool targets what it is pinned to.
    async fn hold(&self, pool: &Arc<MachineConfigPool>, to: &MachineConfig) -> Result<Next, WriteError> {
        if let Err(failure) = making::check_return(self.current(pool).as_deref(), to) {
            self.report(pool, Err(&failure)).await?;
            return Ok(Next::change());
        }
        let revisions = revision::revisions(pool, [to]);
        let sources = revisions.into_iter().find_map(|revision| revision.sources).unwrap_or_default();
        let pool = self.target(pool, &to.name_any(), &sources.into_keys().collect::<Vec<_>>()).await?;
        self.report(&pool, Ok(())).await?;
        Ok(Next::change())
    }

    /// Brings about that the rendered MachineConfig is there, as it should be, and that the pool targets it.
    async fn publish(&self, pool: &Arc<MachineConfigPool>, made: Made) -> Result<Arc<MachineConfigPool>, WriteError> {
        let caches = &self.context.caches;
        self.snapshots.flush(&self.applier).await?;
        let name = made.object.name_any();
        match caches.machine_configs.named(&name) {
            None => {
                // It is about to be in use, and must not be gone before anybody has seen that.
                let mut object = made.object.clone();
                object.finalizers_mut().push(IN_USE.into());
                match self.applier.create(&object).await {
                    Ok(created) => {
                        caches.machine_configs.wrote(created.clone());
                        if targeted(pool) == Some(&name) {
                            tell_made_again(&self.events, &created).await;
                        } else {
                            self.tell_new(pool, &made).await;
                        }
                    }
                    // Another leader, or a cache that lags: it is looked at again when it is seen.
                    Err(error) if error.is_conflict() => {}
                    Err(error) => return Err(error),
                }
            }
            Some(found) if found.spec != made.object.spec => {
                // Somebody has edited what nodes rely on: the name is the content.
                let edited = self.applier.read::<MachineConfig>(&name).await?;
                let mut object = made.object.clone();
                object.metadata.resource_version = found.metadata.resource_version.clone();
                object.metadata.finalizers = found.metadata.finalizers.clone();
                caches.machine_configs.wrote(self.applier.replace(&object).await?);
                tell_put_back(&self.events, edited.as_ref().unwrap_or(&found)).await;
            }
            // What it was made of has changed, and nothing came of that: else it would look older than its sources for ever.
            Some(found) if MADE.iter().any(|key| key.of(&found.metadata) != key.of(&made.object.metadata)) => {
                let word = |key: &Annotation| (key.as_str().to_owned(), json!(key.of(&made.object.metadata)));
                let said: serde_json::Map<_, _> = MADE.iter().map(word).collect();
                let patched = self.applier.patch(&*found, json!({"metadata": {"annotations": said}})).await;
                let patched = or_anew(&self.applier, &caches.machine_configs, &*found, patched).await?;
                caches.machine_configs.wrote(patched);
            }
            Some(_) => {}
        }
        self.target(pool, &name, &made.sources).await
    }

    /// Brings about that a pool targets a rendered MachineConfig.
    async fn target(
        &self,
        pool: &Arc<MachineConfigPool>,
        name: &str,
        sources: &[String],
    ) -> Result<Arc<MachineConfigPool>, WriteError> {
        let caches = &self.context.caches;
        let configuration = configuration(name, sources);
        self.context.targets.want(&pool.name_any(), name);
        if pool.spec.configuration.as_ref() == Some(&configuration) {
            return Ok(Arc::clone(pool));
        }
        let mut patch = json!({"spec": {"configuration": configuration}});
        if targeted(pool) != Some(name) {
            let finished = pool.status.as_ref().and_then(|status| status.configuration.as_ref()?.name.as_deref());
            let turns = Turns::of(pool).next(name, finished, self.context.now());
            patch["metadata"] = json!({"annotations": {TURNS.as_str(): turns}});
        }
        let edited = match targeted(pool).filter(|found| *found != name) {
            Some(_) => self.applier.read::<MachineConfigPool>(&pool.name_any()).await?,
            None => None,
        };
        let patched = self.applier.patch(&**pool, patch).await;
        let patched = or_anew(&self.applier, &caches.pools, &**pool, patched).await?;
        caches.pools.wrote(patched.clone());
        if let Some(edited) = edited {
            tell_target_put_back(&self.events, &edited).await;
        }
        Ok(Arc::new(patched))
    }

    async fn tell_new(&self, pool: &MachineConfigPool, made: &Made) {
        let metadata = made.object.meta();
        let release = annotation::RELEASE_IMAGE_VERSION.of(metadata).unwrap_or_default();
        let message = format!(
            "{} successfully generated (release version: {release}, controller version: {})",
            made.object.name_any(),
            self.context.build
        );
        let (reason, with) = (PoolEvent::RenderedConfigGenerated.as_str(), rendered(&made.object.name_any()));
        self.events.tell_of(pool, Gravity::Normal, reason, Some(with), message).await;
        if made.is_image_overridden {
            let message = format!("a MachineConfig chooses the operating system image of {}", made.object.name_any());
            let (reason, with) = (PoolEvent::OsImageUrlOverridden.as_str(), rendered(&made.object.name_any()));
            self.events.tell_of(pool, Gravity::Normal, reason, Some(with), message).await;
        }
    }

    async fn report(&self, pool: &MachineConfigPool, outcome: Result<(), &Failure>) -> Result<(), WriteError> {
        if outcome.is_err() {
            // What stands on the pool is the last that could be rendered, or what somebody has put there to get on.
            self.context.targets.forget(&pool.name_any());
        }
        let Some(conditions) = render_condition::conditions(pool, outcome, &self.context.time()) else { return Ok(()) };
        if let Err(failure) = outcome {
            tracing::warn!(pool = pool.name_any(), reason = failure.reason.as_str(), failure.message, "not rendered");
        }
        let patch = json!({"status": {"conditions": conditions}});
        let pools = &self.context.caches.pools;
        let reported = self.applier.patch_status(pool, patch).await;
        pools.wrote(or_anew(&self.applier, pools, pool, reported).await?);
        Ok(())
    }

    /// Waits for what has to be made first, and says so if that takes long.
    async fn wait(&self, pool: &MachineConfigPool, for_: Unready) -> Result<Next, WriteError> {
        let Unready { what, will_pass, .. } = for_;
        let waited = self.waiting().entry(pool.name_any()).or_insert_with(Instant::now).elapsed();
        if will_pass && waited < PATIENCE {
            return Ok(Next::after(PATIENCE - waited));
        }
        let message = if will_pass { format!("{what}; that takes longer than {} s", PATIENCE.as_secs()) } else { what };
        self.report(pool, Err(&Failure { reason: RenderReason::InputsNotReady, message })).await?;
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
        let Some(pool) = caches.pools.named(name).filter(|pool| pool.metadata.deletion_timestamp.is_none()) else {
            self.waits_no_more(name);
            self.context.targets.forget(name);
            self.context.metrics.image_override.remove(&PoolLabel { pool: name.to_owned() });
            return Ok(Next::change());
        };
        let selection = pool.spec.machine_config_selector.as_ref().and_then(|selector| Selection::of(selector).ok());
        if selection.as_ref().is_some_and(Selection::is_empty) && pool.spec.machine_config_selector.is_some() {
            let message = "the machineConfigSelector is empty and would select all MachineConfigs; nothing is rendered";
            self.events.tell(&*pool, Gravity::Warning, PoolEvent::SelectingAll.as_str(), message).await;
        }
        let pinned = pin::name(&pool).and_then(|name| caches.machine_configs.named(name));
        match pin::of(&pool, |_| pinned.as_deref()) {
            Pin::Free => {}
            Pin::To(object) => {
                self.waits_no_more(name);
                return self.hold(&pool, object).await;
            }
            Pin::Unusable(unusable) => {
                self.waits_no_more(name);
                let reason = RenderReason::PinnedConfigurationUnusable;
                self.report(&pool, Err(&Failure { reason, message: unusable.to_string() })).await?;
                return Ok(Next::change());
            }
        }
        let controller_config = caches.controller_configs.named(CONTROLLER_CONFIG);
        if let Some(role) = remaking::missing(controller_config.as_deref(), &caches.pools.all()) {
            let what = format!("MachineConfigPool {role} is missing and is being made again");
            return self.wait(&pool, Unready { what, will_pass: true, is_made_elsewhere: false }).await;
        }
        let inputs = making::inputs(&pool, sources(caches));
        let find = |name: &str| caches.machine_configs.named(name);
        if let Some(lost) = making::lost_base(&pool, controller_config.as_deref(), &caches.pools.all(), find) {
            self.waits_no_more(name);
            self.report(&pool, Err(&lost)).await?;
            return Ok(Next::change());
        }
        let unready = making::unready(
            &pool,
            &inputs,
            controller_config.as_deref(),
            &caches.kubelet_configs.all(),
            &caches.container_runtime_configs.all(),
            &self.context.build,
            |name| caches.machine_configs.named(name).is_some(),
        );
        if let Some(unready) = unready {
            return self.wait(&pool, unready).await;
        }
        self.waits_no_more(name);
        match self.make(&pool, &inputs).await {
            Ok(made) => {
                let is_overridden = i64::from(made.is_image_overridden);
                let label = PoolLabel { pool: name.to_owned() };
                self.context.metrics.image_override.get_or_create(&label).set(is_overridden);
                if !made.unkept.is_empty() {
                    let message = format!(
                        "remote content could not be kept and may be another after the next start: {}",
                        made.unkept.join("; ")
                    );
                    self.events.tell(&*pool, Gravity::Warning, PoolEvent::SnapshotNotKept.as_str(), message).await;
                }
                let published = self.publish(&pool, made).await?;
                self.report(&published, Ok(())).await?;
                let rest = if Arc::ptr_eq(&published, &pool) { Duration::ZERO } else { REST };
                Ok(Next { recheck: None, rest })
            }
            Err(failure) => {
                self.report(&pool, Err(&failure)).await?;
                // What failed on the way there may be there next time; what is wrong waits for an edit.
                let is_passing = failure.reason == RenderReason::RemoteFetchFailed;
                Ok(if is_passing { Next::after(PATIENCE) } else { Next::change() })
            }
        }
    }
}

/// What a rendered MachineConfig was made of, and by which build: that says it in its own words.
const MADE: [Annotation; 2] = [SOURCES, annotation::GENERATED_BY_CONTROLLER_VERSION];

/// What rendering looks at of a pool, and what it is to be put right of.
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

fn configuration(name: &str, sources: &[String]) -> PoolConfiguration {
    let (api_version, kind) = (MachineConfig::api_version(&()).into_owned(), MachineConfig::kind(&()).into_owned());
    let source = |name: &String| ObjectReference {
        api_version: Some(api_version.clone()),
        kind: Some(kind.clone()),
        name: Some(name.clone()),
        ..ObjectReference::default()
    };
    PoolConfiguration {
        name: Some(name.to_owned()),
        source: Some(sources.iter().map(source).collect()),
        ..PoolConfiguration::default()
    }
}

#[cfg(test)]
mod tests {
    use kube::Api;
    use kube::api::PostParams;
    use seaworthy_api::machineconfiguration::ControllerConfig;
    use seaworthy_api::vocabulary::seaworthy::annotation::PINNED_CONFIGURATION;
    use seaworthy_testkit::{Embedded, controller_config};

    use super::*;
    use crate::install::install;
    use crate::plane::NAMESPACE;

    #[tokio::test(start_paused = true)]
    async fn pool_that_cannot_be_made_again_is_named_after_a_while_and_not_before() {
        let cluster = Embedded::start().await;
        let client = cluster.client();
        install(&client, NAMESPACE).await.unwrap();
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
        assert_eq!(look().await, (Some(PATIENCE), None));
        tokio::time::advance(PATIENCE).await;
        let (recheck, said) = look().await;
        assert_eq!(recheck, None, "the pool's return is looked at");
        let said = said.unwrap();
        assert!(said.contains("MachineConfigPool master is missing and is being made again; that takes"), "{said}");

        // A pool that did not wait in between has its time again.
        let pin = |to: Option<&str>| json!({"metadata": {"annotations": {PINNED_CONFIGURATION.as_str(): to}}});
        let edit = async |patch: serde_json::Value| {
            let patch = kube::api::Patch::Merge(patch);
            caches.pools.wrote(pools.patch("infra", &Default::default(), &patch).await.unwrap());
        };
        edit(pin(Some("rendered-infra-none"))).await;
        look().await;
        edit(pin(None)).await;
        assert_eq!(look().await.0, Some(PATIENCE));
    }
}
