//! Caches: one for each kind, shared by all controllers.

use std::borrow::Cow;
use std::sync::{Arc, Weak};

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use seaworthy_api::machineconfiguration::{
    ContainerRuntimeConfig, ControllerConfig, KubeletConfig, MachineConfig, MachineConfigNode, MachineConfigPool,
};
use seaworthy_api::vocabulary::machineconfiguration::CONTROLLER_CONFIG;
use seaworthy_plan::rendering::choice::ChoiceObjects;
use seaworthy_plan::rendering::is_rendered;
use seaworthy_runtime::{Cache, CacheSet};

use crate::cached_node::{self, CachedNode};
use crate::text_interner::TextInterner;

/// One cache per kind. Cloning shares them.
#[derive(Clone)]
pub struct Caches {
    /// Sources, generated and rendered ones.
    pub machine_configs: Arc<Cache<MachineConfig>>,
    pub pools: Arc<Cache<MachineConfigPool>>,
    pub kubelet_configs: Arc<Cache<KubeletConfig>>,
    pub container_runtime_configs: Arc<Cache<ContainerRuntimeConfig>>,
    pub controller_configs: Arc<Cache<ControllerConfig>>,
    pub nodes: Arc<Cache<CachedNode>>,
    /// The progress of each node.
    pub machine_config_nodes: Arc<Cache<MachineConfigNode>>,
    /// Limits of drains.
    pub disruption_budgets: Arc<Cache<PodDisruptionBudget>>,
}

/// The caches, for their own listeners: a cache whose listener keeps it is never freed.
#[derive(Clone)]
pub struct WeakCaches {
    pools: Weak<Cache<MachineConfigPool>>,
    nodes: Weak<Cache<CachedNode>>,
}

impl WeakCaches {
    pub fn pools(&self) -> Vec<Arc<MachineConfigPool>> {
        self.pools.upgrade().map(|pools| pools.all()).unwrap_or_default()
    }

    pub fn has_pool(&self, name: &str) -> bool {
        self.pools.upgrade().is_some_and(|pools| pools.named(name).is_some())
    }

    pub fn has_node(&self, name: &str) -> bool {
        self.nodes.upgrade().is_some_and(|nodes| nodes.named(name).is_some())
    }
}

impl Default for Caches {
    fn default() -> Self {
        Caches {
            machine_configs: Arc::default(),
            pools: Arc::default(),
            kubelet_configs: Arc::default(),
            container_runtime_configs: Arc::default(),
            controller_configs: Arc::default(),
            nodes: Arc::new(Cache::with_transform(cached_node::share_texts())),
            machine_config_nodes: Arc::new(Cache::with_transform(share_condition_texts())),
            disruption_budgets: Arc::default(),
        }
    }
}

impl Caches {
    /// All of them, for the applier and to keep them current.
    pub fn set(&self) -> CacheSet {
        CacheSet::new([
            Arc::clone(&self.machine_configs) as _,
            Arc::clone(&self.pools) as _,
            Arc::clone(&self.kubelet_configs) as _,
            Arc::clone(&self.container_runtime_configs) as _,
            Arc::clone(&self.controller_configs) as _,
            Arc::clone(&self.nodes) as _,
            Arc::clone(&self.machine_config_nodes) as _,
            Arc::clone(&self.disruption_budgets) as _,
        ])
    }

    /// For listeners of these caches.
    pub fn downgrade(&self) -> WeakCaches {
        WeakCaches { pools: Arc::downgrade(&self.pools), nodes: Arc::downgrade(&self.nodes) }
    }

    /// The MachineConfigs that are not rendered ones.
    pub fn sources(&self) -> Vec<Arc<MachineConfig>> {
        self.machine_configs.filter(|machine_config| !is_rendered(machine_config))
    }

    /// What the choice about a pool looks at.
    pub fn choice_objects(&self) -> ChoiceObjects<'_> {
        ChoiceObjects {
            pools: Cow::Owned(self.pools.all()),
            sources: self.sources(),
            find: Box::new(|name: &str| self.machine_configs.named(name)),
            controller_config: self.controller_configs.named(CONTROLLER_CONFIG),
            kubelet_configs: Cow::Owned(self.kubelet_configs.all()),
            container_runtime_configs: Cow::Owned(self.container_runtime_configs.all()),
        }
    }

    pub fn rendered(&self) -> Vec<Arc<MachineConfig>> {
        self.machine_configs.filter(is_rendered)
    }
}

/// The conditions of ten thousand nodes have a few hundred distinct texts: each is kept once.
fn share_condition_texts() -> impl Fn(&mut MachineConfigNode) + Send + Sync {
    let texts = TextInterner::default();
    move |object| {
        let conditions = object.status.as_mut().and_then(|status| status.conditions.as_mut());
        let Some(conditions) = conditions else { return };
        conditions.shrink_to_fit();
        let condition_texts =
            conditions.iter_mut().flat_map(|found| [&mut found.type_, &mut found.reason, &mut found.message]);
        texts.intern(condition_texts);
    }
}
