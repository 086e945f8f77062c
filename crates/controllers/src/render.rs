//! The render controller: a pool's MachineConfigs merged into one, which the pool then targets.
//!
//! - Level-triggered by everything that rendering looks at: pools, MachineConfigs with their labels, the ControllerConfig,
//!   KubeletConfigs and ContainerRuntimeConfigs that are still to become MachineConfigs.
//! - On failure the last good rendered MachineConfig stays targeted, and the pool says why, every culprit named.
//! - A rendered MachineConfig is written before a pool targets it, remote content before what was made from it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource as _, ResourceExt as _};
use seaworthy_api::machineconfiguration::{
    ControllerConfig, MachineConfig, MachineConfigPool, PoolConfiguration, SettingsStatus,
};
use seaworthy_api::meta::{LabelSelector, ObjectReference, Selection};
use seaworthy_api::vocabulary::machineconfiguration::{CONTROLLER_CONFIG, PoolEvent, RenderReason, WORKER, annotation};
use seaworthy_fetch::{Environment, Fetcher, Policy, Run};
use seaworthy_generate::base::is_complete;
use seaworthy_ignition::Node;
use seaworthy_plan::reconcilable::{self, Side, Source, irreconcilable};
use seaworthy_plan::render_condition::{self, Failure};
use seaworthy_render::remote::{Resolver, Unavailable, Wanted};
use seaworthy_render::{Controller as Renderer, MachineConfig as Input, Pool, Prepared, prepare, render};
use seaworthy_runtime::{Applier, Controller, Delta, Events, Gravity, Key, Next, Queue, WriteError};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::context::Context;
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
    policy: Policy,
    /// Since when a pool waits for its inputs.
    waiting: Mutex<BTreeMap<String, Instant>>,
}

/// A pool's new configuration.
struct Made {
    object: MachineConfig,
    sources: Vec<String>,
    is_image_overridden: bool,
}

impl RenderController {
    /// The controller and the queue that the caches feed.
    pub fn new(context: &Context, snapshots: Arc<ClusterSnapshots>, policy: Policy) -> (Self, Arc<Queue<String>>) {
        let queue = Arc::new(Queue::default());
        let caches = &context.caches;
        let mark = Arc::clone(&queue);
        caches.pools.listen(move |delta| {
            if seen(&delta.before) != seen(&delta.after) {
                mark_sides(&mark, delta);
            }
        });
        let every_pool = {
            let (queue, pools) = (Arc::clone(&queue), Arc::clone(&caches.pools));
            move || pools.all().iter().for_each(|pool| queue.mark(pool.name_any()))
        };
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
                if delta.sides().any(|side| selection.matches(side.metadata.labels.as_ref())) {
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
        let controller = RenderController {
            context: context.clone(),
            applier: context.applier(Self::NAME),
            events: context.events(Self::NAME),
            snapshots,
            policy,
            waiting: Mutex::default(),
        };
        (controller, queue)
    }

    /// What has to be made first by another controller; rendering before would roll out a state that nobody wants.
    fn unready(&self, pool: &MachineConfigPool, inputs: &[Arc<MachineConfig>]) -> Option<String> {
        let caches = &self.context.caches;
        let controller_config = caches.controller_configs.named(CONTROLLER_CONFIG);
        if controller_config.is_some_and(|found| !is_complete(&found)) {
            return Some(
                "the base MachineConfigs of ControllerConfig machine-config-controller are being made".to_owned(),
            );
        }
        let labels = pool.metadata.labels.as_ref();
        let is_behind = |selector: Option<&LabelSelector>, generation: Option<i64>, status: Option<&SettingsStatus>| {
            let selection = selector.and_then(|selector| Selection::of(selector).ok()).unwrap_or_default();
            let observed = status.and_then(|status| status.observed_generation);
            !selection.is_empty() && selection.matches(labels) && observed != generation
        };
        for object in caches.kubelet_configs.all() {
            let selector = object.spec.machine_config_pool_selector.as_ref();
            if is_behind(selector, object.metadata.generation, object.status.as_ref()) {
                return Some(format!("KubeletConfig {} is being turned into MachineConfigs", object.name_any()));
            }
        }
        for object in caches.container_runtime_configs.all() {
            let selector = object.spec.machine_config_pool_selector.as_ref();
            if is_behind(selector, object.metadata.generation, object.status.as_ref()) {
                return Some(format!(
                    "ContainerRuntimeConfig {} is being turned into MachineConfigs",
                    object.name_any()
                ));
            }
        }
        let is_stale = |input: &&Arc<MachineConfig>| {
            let build = annotation::GENERATED_BY_CONTROLLER_VERSION.of(&input.metadata).unwrap_or_default();
            let is_made_here = input.owner_references().iter().any(|owner| {
                ["ControllerConfig", "KubeletConfig", "ContainerRuntimeConfig"].contains(&owner.kind.as_str())
            });
            is_made_here && !build.is_empty() && build != &*self.context.build
        };
        inputs
            .iter()
            .find(is_stale)
            .map(|input| format!("MachineConfig {} was made by another build and is being made anew", input.name_any()))
    }

    async fn make(&self, pool: &MachineConfigPool, inputs: &[Arc<MachineConfig>]) -> Result<Made, Failure> {
        let texts: Vec<Value> = inputs.iter().filter_map(|input| serde_json::to_value(&**input).ok()).collect();
        let read: Vec<Input<'_>> = texts.iter().zip(0..).map(|(text, nth)| numbered(text, nth)).collect();
        let mut prepared: Vec<Prepared<'_>> = read.iter().map(prepare).collect();
        let mut object = serde_json::to_value(pool).unwrap_or_default();
        if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
            // Which nodes and how many at a time is the roll-out's matter; a mistake there is told there.
            spec.retain(|key, _| !["maxUnavailable", "nodeSelector", "paused"].contains(&key.as_str()));
        }
        let view = Pool::read(&Node::from_json(&object)).map_err(|findings| Failure::of_findings(&findings))?;
        self.resolve(&mut prepared).await;
        let context = self.rendering()?;
        let rendered = render(&view, &prepared, &context).map_err(|findings| {
            let failure = Failure::of_findings(&findings);
            if failure.reason == RenderReason::TooLarge { with_largest(failure, &texts) } else { failure }
        })?;

        let mut bytes = Vec::new();
        let unwritable = |error: &dyn std::fmt::Display| Failure {
            reason: RenderReason::InvalidMachineConfig,
            message: format!("the rendered MachineConfig cannot be written: {error}"),
        };
        rendered.write_json(&mut bytes).map_err(|error| unwritable(&error))?;
        let mut object: MachineConfig = serde_json::from_slice(&bytes).map_err(|error| unwritable(&error))?;
        object.metadata.owner_references = owner(pool).map(|owner| vec![owner]);
        let is_image_overridden = annotation::OS_IMAGE_URL_OVERRIDDEN.of(&object.metadata) == Some("true");
        let sources: Vec<String> = rendered.input_names().map(str::to_owned).collect();

        let new =
            Side { config: rendered.spec.get("config"), is_fips: rendered.spec.bool_of("fips").unwrap_or_default() };
        self.check_reconcilable(pool, &object, new, &prepared)?;
        Ok(Made { object, sources, is_image_overridden })
    }

    /// Refuses what nodes that run the present target could not take over.
    fn check_reconcilable(
        &self,
        pool: &MachineConfigPool,
        made: &MachineConfig,
        new: Side<'_>,
        prepared: &[Prepared<'_>],
    ) -> Result<(), Failure> {
        let Some(current) = targeted(pool).filter(|name| *name != made.name_any()) else { return Ok(()) };
        // Where the targeted one is gone there is nothing to compare with.
        let Some(current_object) = self.context.caches.machine_configs.named(current) else { return Ok(()) };
        let text = serde_json::to_value(&current_object.spec).unwrap_or_default();
        let node = Node::from_json(&text);
        let old = Side { config: node.get("config"), is_fips: node.bool_of("fips").unwrap_or_default() };
        let sources: Vec<Source<'_>> = prepared
            .iter()
            .map(|input| Source {
                name: input.source.name(),
                side: Side {
                    config: input.config.as_ref(),
                    is_fips: input.source.field("fips").and_then(Node::as_bool).unwrap_or_default(),
                },
            })
            .collect();
        match irreconcilable(old, new, &[], &sources).as_slice() {
            [] => Ok(()),
            found => {
                let message = reconcilable::message(current, found);
                Err(Failure { reason: RenderReason::Irreconcilable, message })
            }
        }
    }

    /// Embeds what inputs refer to. What cannot be had becomes a finding of the input.
    async fn resolve(&self, prepared: &mut [Prepared<'_>]) {
        let mut resolver = Resolver::new(u32::try_from(prepared.len()).unwrap_or(u32::MAX));
        let mut run: Option<Run> = None;
        loop {
            let wanted: Vec<Wanted> = prepared.iter_mut().flat_map(|input| resolver.resolve(input)).collect();
            if wanted.is_empty() {
                return;
            }
            let run = run.get_or_insert_with(|| {
                let fetcher = Fetcher::new(self.policy.clone(), Arc::new(SystemTime::now))
                    .with_environment(Environment::of_process());
                Run::new(fetcher, self.snapshots.clone())
            });
            let (keys, requests): (Vec<_>, Vec<_>) =
                wanted.into_iter().map(|wanted| (wanted.key, (wanted.key, wanted.request))).unzip();
            for (key, outcome) in keys.into_iter().zip(run.obtain(&requests).await) {
                for problem in &outcome.problems {
                    tracing::warn!(%problem, "a snapshot cannot be kept");
                }
                resolver.answer(key, outcome.content.map_err(Unavailable::from));
            }
        }
    }

    fn rendering(&self) -> Result<seaworthy_render::Context, Failure> {
        let caches = &self.context.caches;
        let controller_config: Option<Arc<ControllerConfig>> = caches.controller_configs.named(CONTROLLER_CONFIG);
        let controller_config = match controller_config {
            Some(found) => {
                let text = serde_json::to_value(&*found).unwrap_or_default();
                let read = seaworthy_render::ControllerConfig::read(&Node::from_json(&text));
                read.map_err(|findings| Failure::of_findings(&findings))?
            }
            None => seaworthy_render::ControllerConfig::default(),
        };
        let worker = caches.pools.named(WORKER);
        let worker_stream =
            worker.and_then(|pool| pool.spec.os_image_stream.as_ref().map(|stream| stream.name.clone()));
        Ok(seaworthy_render::Context {
            // Inputs of another build are waited for, see `unready`.
            controller: Renderer { build: self.context.build.to_string(), ..Renderer::default() },
            controller_config,
            streams: None,
            worker_stream,
            keeps_references: false,
            refuses_large: true,
        })
    }

    /// Brings about that the rendered MachineConfig is there, as it should be, and that the pool targets it.
    async fn publish(&self, pool: &Arc<MachineConfigPool>, made: Made) -> Result<Arc<MachineConfigPool>, WriteError> {
        let caches = &self.context.caches;
        self.snapshots.flush(&self.applier).await?;
        let name = made.object.name_any();
        match caches.machine_configs.named(&name) {
            None => {
                match self.applier.create(&made.object).await {
                    Ok(created) => {
                        caches.machine_configs.wrote(created);
                        self.tell_new(pool, &made).await;
                    }
                    // Another leader, or a cache that lags: it is looked at again when it is seen.
                    Err(error) if error.is_conflict() => {}
                    Err(error) => return Err(error),
                }
            }
            Some(found) if found.spec != made.object.spec => {
                // Somebody has edited what nodes rely on: the name is the content.
                let mut object = made.object.clone();
                object.metadata.resource_version = found.metadata.resource_version.clone();
                object.metadata.finalizers = found.metadata.finalizers.clone();
                caches.machine_configs.wrote(self.applier.replace(&object).await?);
            }
            Some(_) => {}
        }
        let configuration = configuration(&name, &made.sources);
        if pool.spec.configuration.as_ref() == Some(&configuration) {
            return Ok(Arc::clone(pool));
        }
        let patch = json!({"spec": {"configuration": configuration}});
        let patched = self.applier.patch(&**pool, patch).await?;
        caches.pools.wrote(patched.clone());
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
        self.events.tell(pool, Gravity::Normal, PoolEvent::RenderedConfigGenerated.as_str(), message).await;
        if made.is_image_overridden {
            let message = format!("a MachineConfig chooses the operating system image of {}", made.object.name_any());
            self.events.tell(pool, Gravity::Normal, PoolEvent::OsImageUrlOverridden.as_str(), message).await;
        }
    }

    async fn report(&self, pool: &MachineConfigPool, outcome: Result<(), &Failure>) -> Result<(), WriteError> {
        let Some(conditions) = render_condition::conditions(pool, outcome, &self.context.time()) else { return Ok(()) };
        if let Err(failure) = outcome {
            tracing::warn!(pool = pool.name_any(), reason = failure.reason.as_str(), failure.message, "not rendered");
        }
        let patch = json!({"status": {"conditions": conditions}});
        self.context.caches.pools.wrote(self.applier.patch_status(pool, patch).await?);
        Ok(())
    }

    /// How long the pool has waited.
    fn waited(&self, pool: &str) -> Duration {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.entry(pool.to_owned()).or_insert_with(Instant::now).elapsed()
    }
}

impl Controller for RenderController {
    type Key = String;
    type Error = WriteError;
    const NAME: &'static str = "seaworthy-render";

    async fn reconcile(&self, name: &String) -> Result<Next, WriteError> {
        let caches = &self.context.caches;
        let Some(pool) = caches.pools.named(name).filter(|pool| pool.metadata.deletion_timestamp.is_none()) else {
            self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
            return Ok(Next::change());
        };
        let selection = pool.spec.machine_config_selector.as_ref().and_then(|selector| Selection::of(selector).ok());
        if selection.as_ref().is_some_and(Selection::is_empty) && pool.spec.machine_config_selector.is_some() {
            let message = "the machineConfigSelector is empty and would select all MachineConfigs; nothing is rendered";
            self.events.tell(&*pool, Gravity::Warning, PoolEvent::SelectingAll.as_str(), message).await;
        }
        let inputs: Vec<Arc<MachineConfig>> = sources(caches)
            .into_iter()
            .filter(|input| {
                selection.as_ref().is_some_and(|selection| selection.matches(input.metadata.labels.as_ref()))
            })
            .collect();
        if let Some(what) = self.unready(&pool, &inputs) {
            let waited = self.waited(name);
            if waited < PATIENCE {
                return Ok(Next::after(PATIENCE - waited));
            }
            let message = format!("{what}; that takes longer than {} s", PATIENCE.as_secs());
            self.report(&pool, Err(&Failure { reason: RenderReason::InputsNotReady, message })).await?;
            return Ok(Next::change());
        }
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        match self.make(&pool, &inputs).await {
            Ok(made) => {
                let is_overridden = i64::from(made.is_image_overridden);
                let label = seaworthy_runtime::metrics::PoolLabel { pool: name.clone() };
                self.context.metrics.image_override.get_or_create(&label).set(is_overridden);
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

fn numbered(text: &Value, nth: u32) -> Input<'_> {
    let mut node = Node::from_json(text);
    node.number(nth);
    Input::read(node)
}

fn owner(pool: &MachineConfigPool) -> Option<OwnerReference> {
    let mut owner = pool.controller_owner_ref(&())?;
    owner.block_owner_deletion = Some(true);
    Some(owner)
}

/// Names the MachineConfigs that add most to a result that is too large.
fn with_largest(failure: Failure, inputs: &[Value]) -> Failure {
    const NAMED: usize = 3;
    let name = |input: &Value| input["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let mut sizes: Vec<(usize, String)> =
        inputs.iter().map(|input| (input["spec"].to_string().len(), name(input))).collect();
    sizes.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let named: Vec<String> =
        sizes.iter().take(NAMED).map(|(size, name)| format!("MachineConfig {name} ({size} bytes)")).collect();
    Failure { message: format!("{}. The largest: {}", failure.message, named.join(", ")), ..failure }
}

fn targeted(pool: &MachineConfigPool) -> Option<&str> {
    pool.spec.configuration.as_ref()?.name.as_deref().filter(|name| !name.is_empty())
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
