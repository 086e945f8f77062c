//! Settings controllers: KubeletConfigs and ContainerRuntimeConfigs become one MachineConfig for each pool that they select.
//!
//! Everything that the decision reads is watched (objects of the kind, pools, source MachineConfigs, the ControllerConfig),
//! so a pool that is labelled later is served at once and manual edits are reverted.

use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::ClusterResourceScope;
use kube::Resource;
use seaworthy_api::machineconfiguration::{
    ContainerRuntimeConfig, ControllerConfig, KubeletConfig, MachineConfig, MachineConfigPool,
};
use seaworthy_api::vocabulary::machineconfiguration::CONTROLLER_CONFIG;
use seaworthy_change::{Change, Purpose, Stage};
use seaworthy_generate::container_runtime::AdditionalStores;
use seaworthy_generate::{SettingsDecision, SettingsInputs, container_runtime, kubelet};
use seaworthy_plan::rendering::built_in::missing_pool;
use seaworthy_plan::rendering::is_rendered;
use seaworthy_runtime::{Applier, Cache, Controller, Key, Queue, Requeue, WriteError};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::base::deleted_pools::changes_presence;
use crate::base::with_field_managers;
use crate::caches::Caches;
use crate::context::Context;

/// A kind that the settings controller handles.
pub trait SettingsKind:
    Resource<DynamicType = (), Scope = ClusterResourceScope>
    + Clone
    + Debug
    + PartialEq
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
    const CONTROLLER: &'static str;
    fn cache(caches: &Caches) -> &Arc<Cache<Self>>;
    fn desired(inputs: &SettingsInputs<'_, Self>) -> SettingsDecision;
    /// Deletions of what deleted objects have left behind.
    fn orphans(
        all: &[Arc<Self>],
        pools: &[Arc<MachineConfigPool>],
        machine_configs: &[Arc<MachineConfig>],
        build: &str,
    ) -> Vec<Change>;
}

impl SettingsKind for KubeletConfig {
    const CONTROLLER: &'static str = "seaworthy-kubelet";

    fn cache(caches: &Caches) -> &Arc<Cache<Self>> {
        &caches.kubelet_configs
    }

    fn desired(inputs: &SettingsInputs<'_, Self>) -> SettingsDecision {
        kubelet::desired(inputs, None)
    }

    fn orphans(
        all: &[Arc<Self>],
        pools: &[Arc<MachineConfigPool>],
        machine_configs: &[Arc<MachineConfig>],
        build: &str,
    ) -> Vec<Change> {
        kubelet::orphans(all, pools, machine_configs, build)
    }
}

impl SettingsKind for ContainerRuntimeConfig {
    const CONTROLLER: &'static str = "seaworthy-container-runtime";

    fn cache(caches: &Caches) -> &Arc<Cache<Self>> {
        &caches.container_runtime_configs
    }

    fn desired(inputs: &SettingsInputs<'_, Self>) -> SettingsDecision {
        container_runtime::desired(inputs, AdditionalStores::Allowed)
    }

    fn orphans(
        all: &[Arc<Self>],
        pools: &[Arc<MachineConfigPool>],
        machine_configs: &[Arc<MachineConfig>],
        build: &str,
    ) -> Vec<Change> {
        container_runtime::orphans(all, pools, machine_configs, build)
    }
}

/// A key of the queue: one object, or what deleted objects have left behind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SettingsKey {
    /// An object by name.
    Object(String),
    Orphans,
}

/// The controller of one kind of settings.
pub struct SettingsController<K> {
    context: Context,
    applier: Applier,
    kind: std::marker::PhantomData<fn() -> K>,
}

impl<K: SettingsKind> SettingsController<K> {
    /// The controller and the queue that the caches feed.
    pub fn new(context: &Context) -> (Self, Arc<Queue<SettingsKey>>) {
        let queue = Arc::new(Queue::default());
        let caches = &context.caches;
        let cache = K::cache(caches);
        let mark = Arc::clone(&queue);
        cache.listen(move |delta| match &delta.after {
            Some(object) => mark.mark(SettingsKey::Object(Key::of(&**object).name)),
            None => mark.mark(SettingsKey::Orphans),
        });
        // Which objects a change affects depends on selectors, before and after; there are a handful of objects, and a
        // decision that finds nothing to do writes nothing. So all are reconciled.
        let mark_all = {
            // The cache holds its listeners, and they must not hold it.
            let (queue, cache) = (Arc::clone(&queue), Arc::downgrade(cache));
            move || {
                for object in cache.upgrade().map(|cache| cache.all()).unwrap_or_default() {
                    queue.mark(SettingsKey::Object(Key::of(&*object).name));
                }
                queue.mark(SettingsKey::Orphans);
            }
        };
        let mark = mark_all.clone();
        caches.pools.listen(move |delta| {
            if selector_fields(&delta.before) != selector_fields(&delta.after) || changes_presence(delta) {
                mark();
            }
        });
        let mark = mark_all.clone();
        caches.machine_configs.listen(move |delta| {
            let is_source = delta.sides().any(|side| !is_rendered(side));
            if is_source && content(&delta.before) != content(&delta.after) {
                mark();
            }
        });
        caches.controller_configs.listen(move |_| mark_all());
        let applier = context.applier(K::CONTROLLER);
        (SettingsController { context: context.clone(), applier, kind: std::marker::PhantomData }, queue)
    }
}

/// The fields of a pool that selectors and the merge of its sources read, to compare.
fn selector_fields(pool: &Option<Arc<MachineConfigPool>>) -> Option<impl PartialEq> {
    let pool = pool.as_ref()?;
    Some((&pool.metadata.labels, &pool.spec.machine_config_selector, &pool.metadata.uid))
}

/// The fields of a MachineConfig that the decision reads, to compare.
fn content(machine_config: &Option<Arc<MachineConfig>>) -> Option<impl PartialEq> {
    let found = machine_config.as_ref()?;
    let metadata = &found.metadata;
    Some((&found.spec, &metadata.labels, &metadata.annotations, metadata.owner_references.is_some()))
}

impl<K: SettingsKind> Controller for SettingsController<K> {
    type Key = SettingsKey;
    type Error = WriteError;
    const NAME: &'static str = K::CONTROLLER;

    async fn reconcile(&self, key: &SettingsKey) -> Result<Requeue, WriteError> {
        let caches = &self.context.caches;
        let cache = K::cache(caches);
        let machine_configs = caches.sources();
        let controller_config: Option<Arc<ControllerConfig>> = caches.controller_configs.named(CONTROLLER_CONFIG);
        // What was generated for a pool that is being created again is kept; its return triggers a decision.
        if missing_pool(controller_config.as_deref(), &caches.pools.all()).is_some() {
            return Ok(Requeue::on_change());
        }
        let SettingsKey::Object(name) = key else {
            let orphans = K::orphans(&cache.all(), &caches.pools.all(), &machine_configs, &self.context.build);
            let decision = seaworthy_change::Decision::of([Stage::sequence(Purpose::Write, orphans)]);
            self.applier.perform(&decision).await.result()?;
            return Ok(Requeue::on_change());
        };
        let Some(object) = cache.named(name) else { return Ok(Requeue::on_change()) };
        let decide = |machine_configs: &[Arc<MachineConfig>]| {
            K::desired(&SettingsInputs {
                object: &*object,
                all: &cache.all(),
                pools: &caches.pools.all(),
                machine_configs,
                controller_config: controller_config.as_deref(),
                build: &self.context.build,
                now: self.context.time(),
            })
        };
        let mut decision = decide(&machine_configs);
        if !decision.report.unattributed.is_empty() {
            decision =
                decide(&with_field_managers(&self.applier, machine_configs, &decision.report.unattributed).await?);
        }
        self.applier.perform(&decision).await.result()?;
        Ok(Requeue::on_change())
    }
}
