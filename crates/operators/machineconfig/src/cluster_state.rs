//! Cluster state: the objects of a cluster at one moment, for commands to read and for previews to change in memory.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::api::ListParams;
use kube::core::Request;
use kube::{Client, Resource};
use seaworthy_api::machineconfiguration::{
    ContainerRuntimeConfig, ControllerConfig, KubeletConfig, MachineConfig, MachineConfigNode, MachineConfigPool,
};
use seaworthy_api::operator::MachineConfiguration;
use seaworthy_api::vocabulary::machineconfiguration::CONTROLLER_CONFIG;
use seaworthy_change::memory::{self, Table};
use seaworthy_change::{Decision, ResourceType, Scope};
use seaworthy_runtime::cluster::{ClusterError, call_error};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::preview::PreviewProblem;
use crate::rollout::to_second;

/// The objects of a cluster at one moment.
#[derive(Clone, Debug, Default)]
pub struct ClusterState {
    pub pools: Vec<Arc<MachineConfigPool>>,
    /// Sources, generated and rendered ones.
    pub machine_configs: Vec<Arc<MachineConfig>>,
    pub kubelet_configs: Vec<Arc<KubeletConfig>>,
    pub container_runtime_configs: Vec<Arc<ContainerRuntimeConfig>>,
    pub controller_configs: Vec<Arc<ControllerConfig>>,
    pub nodes: Vec<Arc<Node>>,
    /// The progress of each node.
    pub progress: Vec<Arc<MachineConfigNode>>,
    /// Node disruption policies.
    pub policies: Vec<Arc<MachineConfiguration>>,
    /// `None` if they were not read.
    pub pods: Option<Vec<Arc<Pod>>>,
    /// Limits of drains.
    pub budgets: Vec<Arc<PodDisruptionBudget>>,
}

impl ClusterState {
    /// Reads a cluster. Pods are many, so they are read only on request.
    ///
    /// # Errors
    ///
    /// If something cannot be read.
    pub async fn read(client: &Client, wants_pods: bool) -> Result<ClusterState, ClusterError> {
        Ok(ClusterState {
            pools: list(client, "MachineConfigPools").await?,
            machine_configs: list(client, "MachineConfigs").await?,
            kubelet_configs: list(client, "KubeletConfigs").await?,
            container_runtime_configs: list(client, "ContainerRuntimeConfigs").await?,
            controller_configs: list(client, "ControllerConfigs").await?,
            nodes: list(client, "Nodes").await?,
            progress: list(client, "MachineConfigNodes").await?,
            policies: list(client, "MachineConfigurations").await?,
            pods: if wants_pods { Some(list(client, "Pods").await?) } else { None },
            budgets: list(client, "PodDisruptionBudgets").await?,
        })
    }

    /// Performs a decision on these objects, as the applier would on the cluster. A change that cannot be performed is a bug,
    /// and returned as a problem.
    #[must_use = "a change that was not performed is a problem to report"]
    pub fn perform<R>(&mut self, decision: &Decision<'_, R>, now: Timestamp) -> Option<PreviewProblem> {
        let tables: &mut [&mut dyn Table] = &mut [
            &mut self.pools,
            &mut self.machine_configs,
            &mut self.kubelet_configs,
            &mut self.container_runtime_configs,
            &mut self.controller_configs,
            &mut self.nodes,
            &mut self.progress,
        ];
        let error = memory::perform(decision, tables, &to_second(now).to_string()).err()?;
        Some(PreviewProblem::unperformed(&error))
    }

    pub fn controller_config(&self) -> Option<&Arc<ControllerConfig>> {
        named(&self.controller_configs, CONTROLLER_CONFIG)
    }

    pub fn pool(&self, name: &str) -> Option<&Arc<MachineConfigPool>> {
        named(&self.pools, name)
    }

    pub fn machine_config(&self, name: &str) -> Option<&Arc<MachineConfig>> {
        named(&self.machine_configs, name)
    }
}

/// The object with a name.
pub fn named<'w, K: Resource>(objects: &'w [Arc<K>], name: &str) -> Option<&'w Arc<K>> {
    objects.iter().find(|object| object.meta().name.as_deref() == Some(name))
}

/// Replaces the object with the same name, or adds it.
pub fn upsert<K: Resource>(objects: &mut Vec<Arc<K>>, object: K) {
    let name = object.meta().name.clone();
    match objects.iter_mut().find(|known| known.meta().name == name) {
        Some(known) => *known = Arc::new(object),
        None => objects.push(Arc::new(object)),
    }
}

/// All objects of a kind. They are parsed one by one from the pages, so that only the parser is compiled for every kind.
async fn list<K>(client: &Client, plural: &str) -> Result<Vec<Arc<K>>, ClusterError>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
    K::Scope: Scope,
{
    let items = list_raw(client, &ResourceType::of::<K>(), plural).await?;
    let parse = |item: Box<RawValue>| serde_json::from_str::<K>(item.get()).map(Arc::new);
    let parsed: Result<Vec<Arc<K>>, serde_json::Error> = items.into_iter().map(parse).collect();
    parsed.map_err(|error| list_error(plural, &kube::Error::SerdeError(error)))
}

/// A page of a list.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: ListMeta,
    items: Vec<Box<RawValue>>,
}

async fn list_raw(client: &Client, resource: &ResourceType, plural: &str) -> Result<Vec<Box<RawValue>>, ClusterError> {
    const PAGE_SIZE: u32 = 500;
    let mut params = ListParams::default().limit(PAGE_SIZE);
    let mut found = Vec::new();
    loop {
        let request = Request::new(resource.path(None)).list(&params).map_err(kube::Error::BuildRequest);
        let page = match request {
            Ok(request) => client.request::<Page>(request).await,
            Err(error) => Err(error),
        };
        let page = page.map_err(|error| list_error(plural, &error))?;
        found.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(found),
        }
    }
}

fn list_error(plural: &str, error: &kube::Error) -> ClusterError {
    call_error(&format!("list {plural}"), error)
}
