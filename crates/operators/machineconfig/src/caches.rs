//! What the controllers see of the cluster: one cache per kind, shared by all of them.

use std::sync::Arc;

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use seaworthy_api::machineconfiguration::{
    ContainerRuntimeConfig, ControllerConfig, KubeletConfig, MachineConfig, MachineConfigNode, MachineConfigPool,
};
use seaworthy_plan::rendering::is_rendered;
use seaworthy_runtime::{Cache, CacheSet};

use crate::cached_node::{self, CachedNode};
use crate::shared_texts::SharedTexts;

/// One cache per kind. Cloning shares them.
#[derive(Clone)]
pub struct Caches {
    /// MachineConfigs: sources, generated and rendered ones.
    pub machine_configs: Arc<Cache<MachineConfig>>,
    /// Pools.
    pub pools: Arc<Cache<MachineConfigPool>>,
    /// KubeletConfigs.
    pub kubelet_configs: Arc<Cache<KubeletConfig>>,
    /// ContainerRuntimeConfigs.
    pub container_runtime_configs: Arc<Cache<ContainerRuntimeConfig>>,
    /// The cluster's ControllerConfig.
    pub controller_configs: Arc<Cache<ControllerConfig>>,
    /// Nodes.
    pub nodes: Arc<Cache<CachedNode>>,
    /// How far each node is.
    pub machine_config_nodes: Arc<Cache<MachineConfigNode>>,
    /// What a drain has to respect.
    pub disruption_budgets: Arc<Cache<PodDisruptionBudget>>,
}

impl Default for Caches {
    fn default() -> Self {
        Caches {
            machine_configs: Arc::default(),
            pools: Arc::default(),
            kubelet_configs: Arc::default(),
            container_runtime_configs: Arc::default(),
            controller_configs: Arc::default(),
            nodes: Arc::new(Cache::slimmed(cached_node::slim())),
            machine_config_nodes: Arc::new(Cache::slimmed(machine_config_node())),
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

    /// The MachineConfigs that are not rendered ones.
    pub fn sources(&self) -> Vec<Arc<MachineConfig>> {
        self.machine_configs.filter(|machine_config| !is_rendered(machine_config))
    }

    /// The rendered MachineConfigs.
    pub fn rendered(&self) -> Vec<Arc<MachineConfig>> {
        self.machine_configs.filter(is_rendered)
    }
}

/// The conditions of ten thousand nodes say a few hundred things: each is kept once.
fn machine_config_node() -> impl Fn(&mut MachineConfigNode) + Send + Sync {
    let texts = SharedTexts::default();
    move |object| {
        let conditions = object.status.as_mut().and_then(|status| status.conditions.as_mut());
        let Some(conditions) = conditions else { return };
        conditions.shrink_to_fit();
        let said = conditions.iter_mut().flat_map(|found| [&mut found.type_, &mut found.reason, &mut found.message]);
        texts.share(said);
    }
}
