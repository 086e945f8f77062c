//! What the controllers see of the cluster: one cache per kind, shared by all of them.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::{BoxFuture, select_all};
use k8s_openapi::api::core::v1::{Node, NodeSpec, NodeStatus};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use seaworthy_api::machineconfiguration::{
    ContainerRuntimeConfig, ControllerConfig, GROUP, KubeletConfig, MachineConfig, MachineConfigNode, MachineConfigPool,
};
use seaworthy_api::vocabulary::seaworthy;
use seaworthy_runtime::Cache;
use serde::de::DeserializeOwned;

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
    pub nodes: Arc<Cache<Node>>,
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
            nodes: Arc::new(Cache::slimmed(node)),
            machine_config_nodes: Arc::default(),
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

/// Of a node nobody here wants to know more than who it is, what was said to it and by it, and whether it can be relied
/// on: a tenth of what there is.
fn node(node: &mut Node) {
    if let Some(annotations) = &mut node.metadata.annotations {
        let is_ours =
            |key: &str| key.split_once('/').is_some_and(|(group, _)| [GROUP, seaworthy::GROUP].contains(&group));
        annotations.retain(|key, _| is_ours(key));
    }
    if let Some(spec) = node.spec.take() {
        node.spec = Some(NodeSpec { taints: spec.taints, unschedulable: spec.unschedulable, ..NodeSpec::default() });
    }
    if let Some(status) = node.status.take() {
        let mut conditions = status.conditions;
        for condition in conditions.iter_mut().flatten() {
            condition.message = None;
            condition.reason = None;
            condition.last_heartbeat_time = None;
        }
        node.status = Some(NodeStatus { conditions, ..NodeStatus::default() });
    }
}
