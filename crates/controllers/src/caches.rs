//! What the controllers see of the cluster: one cache per kind, shared by all of them.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::{BoxFuture, select_all};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use seaworthy_api::machineconfiguration::{
    ContainerRuntimeConfig, ControllerConfig, KubeletConfig, MachineConfig, MachineConfigNode, MachineConfigPool,
};
use seaworthy_runtime::Cache;
use serde::de::DeserializeOwned;

/// One cache per kind. Cloning shares them.
#[derive(Clone, Default)]
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
    pub nodes: Arc<Cache<Node>>,
    /// How far each node is.
    pub machine_config_nodes: Arc<Cache<MachineConfigNode>>,
    /// What a drain has to respect.
    pub disruption_budgets: Arc<Cache<PodDisruptionBudget>>,
}

impl Caches {
    /// Keeps all caches true for as long as it is polled. Ends only if a watch cannot go on.
    pub fn run(&self, client: &Client) -> BoxFuture<'static, ()> {
        let watches = vec![
            follow(&self.machine_configs, client, whole),
            follow(&self.pools, client, whole),
            follow(&self.kubelet_configs, client, whole),
            follow(&self.container_runtime_configs, client, whole),
            follow(&self.controller_configs, client, whole),
            follow(&self.nodes, client, node),
            follow(&self.machine_config_nodes, client, whole),
            follow(&self.disruption_budgets, client, whole),
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

fn follow<K>(cache: &Arc<Cache<K>>, client: &Client, slim: fn(&mut K)) -> BoxFuture<'static, ()>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + Sync + 'static,
{
    Arc::clone(cache).run(Api::all(client.clone()), watcher::Config::default(), slim).boxed()
}

/// Nothing is taken away.
fn whole<K>(_: &mut K) {}

/// Of a node's images nobody here wants to know, and they are most of it.
fn node(node: &mut Node) {
    if let Some(status) = &mut node.status {
        status.images = None;
        status.volumes_attached = None;
        status.volumes_in_use = None;
    }
}
