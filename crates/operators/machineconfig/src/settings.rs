//! The controllers of KubeletConfigs and ContainerRuntimeConfigs: an object of settings becomes one MachineConfig for each
//! pool that it selects.
//!
//! Everything the decision looks at is watched (objects of the kind, pools, source MachineConfigs, the ControllerConfig),
//! so a pool that is labelled later is served at once and what was edited by hand is put right.

use std::sync::Arc;

use kube::Resource;
use seaworthy_api::machineconfiguration::{
    ContainerRuntimeConfig, ControllerConfig, KubeletConfig, MachineConfig, MachineConfigPool,
};
use seaworthy_api::vocabulary::machineconfiguration::CONTROLLER_CONFIG;
use seaworthy_change::{Change, Purpose, Stage};
use seaworthy_generate::container_runtime::AdditionalStores;
use seaworthy_generate::{Decision, Inputs, container_runtime, kubelet};
use seaworthy_plan::rendering::built_in::missing_pool;
use seaworthy_plan::rendering::is_rendered;
use seaworthy_runtime::{Applier, Cache, Controller, Key, Next, Queue, WriteError};

use crate::base::attributed;
use crate::base::deleted_pools::comes_or_goes;
use crate::caches::Caches;
use crate::context::Context;
use crate::world::World;

/// A kind of settings, for the controller of its kind.
pub trait Kind: Resource<DynamicType = ()> + Sized + Send + Sync + 'static {
    /// The kind's name.
    const KIND: &'static str;
    /// The controller's name.
    const CONTROLLER: &'static str;
    /// Where its objects are.
    fn cache(caches: &Caches) -> &Arc<Cache<Self>>;
    /// Where they are in a cluster that is only thought of.
    fn of_world(world: &mut World) -> &mut Vec<Arc<Self>>;
    /// Decides about one of them.
    fn desired(inputs: &Inputs<'_, Self>) -> Decision;
    /// What objects that are gone have left behind.
    fn orphans(
        all: &[Arc<Self>],
        pools: &[Arc<MachineConfigPool>],
        machine_configs: &[Arc<MachineConfig>],
        build: &str,
    ) -> Vec<Change>;
}

impl Kind for KubeletConfig {
    const KIND: &'static str = "KubeletConfig";
    const CONTROLLER: &'static str = "seaworthy-kubelet";

    fn cache(caches: &Caches) -> &Arc<Cache<Self>> {
        &caches.kubelet_configs
    }

    fn of_world(world: &mut World) -> &mut Vec<Arc<Self>> {
        &mut world.kubelet_configs
    }

    fn desired(inputs: &Inputs<'_, Self>) -> Decision {
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

impl Kind for ContainerRuntimeConfig {
    const KIND: &'static str = "ContainerRuntimeConfig";
    const CONTROLLER: &'static str = "seaworthy-container-runtime";

    fn cache(caches: &Caches) -> &Arc<Cache<Self>> {
        &caches.container_runtime_configs
    }

    fn of_world(world: &mut World) -> &mut Vec<Arc<Self>> {
        &mut world.container_runtime_configs
    }

    fn desired(inputs: &Inputs<'_, Self>) -> Decision {
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

/// What is looked at: one object, or what is left of those that are gone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// An object by name.
    Object(String),
    /// What objects that are gone have left behind.
    Orphans,
}

/// The controller of one kind of settings.
pub struct SettingsController<K> {
    context: Context,
    applier: Applier,
    kind: std::marker::PhantomData<fn() -> K>,
}

impl<K: Kind> SettingsController<K> {
    /// The controller and the queue that the caches feed.
    pub fn new(context: &Context) -> (Self, Arc<Queue<Subject>>) {
        let queue = Arc::new(Queue::default());
        let caches = &context.caches;
        let cache = K::cache(caches);
        let mark = Arc::clone(&queue);
        cache.listen(move |delta| match &delta.after {
            Some(object) => mark.mark(Subject::Object(Key::of(&**object).name)),
            None => mark.mark(Subject::Orphans),
        });
        // Which object a change concerns is a question of selectors, before and after; there are a handful of objects, and
        // a decision that finds nothing to do writes nothing. So all are asked.
        let mark_all = {
            let (queue, cache) = (Arc::clone(&queue), Arc::clone(cache));
            move || {
                for object in cache.all() {
                    queue.mark(Subject::Object(Key::of(&*object).name));
                }
                queue.mark(Subject::Orphans);
            }
        };
        let mark = mark_all.clone();
        caches.pools.listen(move |delta| {
            let labels = |side: &Option<Arc<_>>| side.as_ref().map(concerns_selectors);
            if labels(&delta.before) != labels(&delta.after) || comes_or_goes(delta) {
                mark();
            }
        });
        let mark = mark_all.clone();
        caches.machine_configs.listen(move |delta| {
            let is_source = delta.sides().any(|side| !is_rendered(side));
            let content = |side: &Option<Arc<MachineConfig>>| side.as_ref().map(|side| (side.spec.clone(), meta(side)));
            if is_source && content(&delta.before) != content(&delta.after) {
                mark();
            }
        });
        caches.controller_configs.listen(move |_| mark_all());
        let applier = context.applier(K::CONTROLLER);
        (SettingsController { context: context.clone(), applier, kind: std::marker::PhantomData }, queue)
    }
}

/// What a selector of pools, or the merge of a pool's sources, can see of it.
fn concerns_selectors(
    pool: &Arc<MachineConfigPool>,
) -> (Option<std::collections::BTreeMap<String, String>>, Option<seaworthy_api::meta::LabelSelector>, Option<String>) {
    (pool.metadata.labels.clone(), pool.spec.machine_config_selector.clone(), pool.metadata.uid.clone())
}

type Meta =
    (Option<std::collections::BTreeMap<String, String>>, Option<std::collections::BTreeMap<String, String>>, bool);

fn meta(object: &MachineConfig) -> Meta {
    let metadata = object.meta();
    (metadata.labels.clone(), metadata.annotations.clone(), metadata.owner_references.is_some())
}

impl<K: Kind> Controller for SettingsController<K> {
    type Key = Subject;
    type Error = WriteError;
    const NAME: &'static str = K::CONTROLLER;

    async fn reconcile(&self, subject: &Subject) -> Result<Next, WriteError> {
        let caches = &self.context.caches;
        let cache = K::cache(caches);
        let machine_configs = caches.sources();
        let controller_config: Option<Arc<ControllerConfig>> = caches.controller_configs.named(CONTROLLER_CONFIG);
        // What was generated for a pool that is being created again is not withdrawn; its return is a reason to decide.
        if missing_pool(controller_config.as_deref(), &caches.pools.all()).is_some() {
            return Ok(Next::change());
        }
        let Subject::Object(name) = subject else {
            let orphans = K::orphans(&cache.all(), &caches.pools.all(), &machine_configs, &self.context.build);
            let decision = seaworthy_change::Decision::of([Stage::sequence(Purpose::Write, orphans)]);
            self.applier.perform(&decision).await.result()?;
            return Ok(Next::change());
        };
        let Some(object) = cache.named(name) else { return Ok(Next::change()) };
        let decide = |machine_configs: &[Arc<MachineConfig>]| {
            K::desired(&Inputs {
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
            decision = decide(&attributed(&self.applier, machine_configs, &decision.report.unattributed).await?);
        }
        self.applier.perform(&decision).await.result()?;
        Ok(Next::change())
    }
}
