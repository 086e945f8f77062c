//! What the controllers see of the cluster: one cache per kind, shared by all of them.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::{BoxFuture, select_all};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use seaworthy_api::machineconfiguration::{
    ContainerRuntimeConfig, ControllerConfig, KubeletConfig, MachineConfig, MachineConfigNode, MachineConfigPool,
};
use seaworthy_runtime::Cache;
use serde::de::DeserializeOwned;

use crate::machine::{self, Machine};
use crate::texts::Texts;

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
    pub nodes: Arc<Cache<Machine>>,
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
            nodes: Arc::new(Cache::slimmed(machine::slim())),
            machine_config_nodes: Arc::new(Cache::slimmed(machine_config_node())),
            disruption_budgets: Arc::default(),
        }
    }
}

impl Caches {
    /// Keeps all caches true for as long as it is polled. Ends only if a watch cannot go on.
    pub fn run(&self, client: &Client) -> BoxFuture<'static, ()> {
        let watches = vec![
            follow(&self.machine_configs, client),
            follow(&self.pools, client),
            follow(&self.kubelet_configs, client),
            follow(&self.container_runtime_configs, client),
            follow(&self.controller_configs, client),
            follow(&self.nodes, client),
            follow(&self.machine_config_nodes, client),
            follow(&self.disruption_budgets, client),
        ];
        select_all(watches).map(drop).boxed()
    }

    /// Waits until the first list of every kind is whole.
    pub async fn synced(&self) {
        self.machine_configs.synced().await;
        self.pools.synced().await;
        self.kubelet_configs.synced().await;
        self.container_runtime_configs.synced().await;
        self.controller_configs.synced().await;
        self.nodes.synced().await;
        self.machine_config_nodes.synced().await;
        self.disruption_budgets.synced().await;
    }
}

fn follow<K>(cache: &Arc<Cache<K>>, client: &Client) -> BoxFuture<'static, ()>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + Sync + 'static,
{
    Arc::clone(cache).run(Api::all(client.clone()), watcher::Config::default()).boxed()
}

/// The conditions of ten thousand nodes say a few hundred things: each is kept once.
fn machine_config_node() -> impl Fn(&mut MachineConfigNode) + Send + Sync {
    let texts = Texts::default();
    move |object| {
        let conditions = object.status.as_mut().and_then(|status| status.conditions.as_mut());
        let Some(conditions) = conditions else { return };
        conditions.shrink_to_fit();
        let said = conditions.iter_mut().flat_map(|found| [&mut found.type_, &mut found.reason, &mut found.message]);
        texts.share(said);
    }
}
