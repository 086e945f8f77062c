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
use seaworthy_change::memory;
use seaworthy_change::preview::{PreviewPart, PreviewProblem};
use seaworthy_change::{Decision, ResourceType, Table, Tables};
use seaworthy_plan::rendering::is_rendered;
use seaworthy_runtime::cluster::{ClusterError, call_error};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The objects of a cluster at one moment: those of this operator, and those that the preview parts of all operators read.
#[derive(Clone, Debug)]
pub struct ClusterState(Tables);

impl Default for ClusterState {
    /// A cluster without objects, of which pods were not read.
    fn default() -> ClusterState {
        ClusterState::of(Tables::default())
    }
}

impl ClusterState {
    /// A cluster with these objects.
    pub fn of(objects: Tables) -> ClusterState {
        let mut tables = objects;
        tables.extend(own_tables());
        ClusterState(tables)
    }

    /// With tables for what these preview parts read.
    #[must_use]
    pub fn with_parts(mut self, parts: &[Box<dyn PreviewPart>]) -> ClusterState {
        for part in parts {
            self.0.extend(part.tables());
        }
        self
    }

    /// Reads a cluster. Pods are many, so they are read only on request.
    ///
    /// # Errors
    ///
    /// If something cannot be read. A kind of a preview part that the cluster does not serve has no objects: its operator is off.
    pub async fn read(
        client: &Client,
        parts: &[Box<dyn PreviewPart>],
        reads_pods: bool,
    ) -> Result<ClusterState, ClusterError> {
        let mut own = own_tables();
        if reads_pods {
            own = own.with::<Pod>();
        }
        for table in own.iter_mut() {
            fill(client, table).await.map_err(|error| list_error(&table.resource(), &error))?;
        }
        let mut others = ClusterState(Tables::default()).with_parts(parts).0;
        for table in others.iter_mut().filter(|table| own.table_mut(&table.resource()).is_none()) {
            match fill(client, table).await {
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                result => result.map_err(|error| list_error(&table.resource(), &error))?,
            }
        }
        own.extend(others);
        Ok(ClusterState(own))
    }

    /// The same without its pods, as if they were not read.
    #[must_use]
    pub fn without_pods(&self) -> ClusterState {
        ClusterState(self.0.clone().without::<Pod>())
    }

    pub fn objects(&self) -> &Tables {
        &self.0
    }

    pub fn objects_mut(&mut self) -> &mut Tables {
        &mut self.0
    }

    pub fn pools(&self) -> &[Arc<MachineConfigPool>] {
        self.0.of()
    }

    /// Sources, generated and rendered ones.
    pub fn machine_configs(&self) -> &[Arc<MachineConfig>] {
        self.0.of()
    }

    /// The MachineConfigs that are not rendered.
    pub fn sources(&self) -> Vec<Arc<MachineConfig>> {
        self.machine_configs().iter().filter(|object| !is_rendered(object)).cloned().collect()
    }

    pub fn kubelet_configs(&self) -> &[Arc<KubeletConfig>] {
        self.0.of()
    }

    pub fn container_runtime_configs(&self) -> &[Arc<ContainerRuntimeConfig>] {
        self.0.of()
    }

    pub fn nodes(&self) -> &[Arc<Node>] {
        self.0.of()
    }

    /// The progress of each node.
    pub fn progress(&self) -> &[Arc<MachineConfigNode>] {
        self.0.of()
    }

    /// Node disruption policies.
    pub fn policies(&self) -> &[Arc<MachineConfiguration>] {
        self.0.of()
    }

    /// `None` if they were not read.
    pub fn pods(&self) -> Option<&[Arc<Pod>]> {
        self.0.get()
    }

    /// Limits of drains.
    pub fn budgets(&self) -> &[Arc<PodDisruptionBudget>] {
        self.0.of()
    }

    /// Performs a decision on these objects, as the applier would on the cluster. A change that cannot be performed is a bug,
    /// and returned as a problem.
    #[must_use = "a change that was not performed is a problem to report"]
    pub fn perform<R>(&mut self, decision: &Decision<'_, R>, now: Timestamp) -> Option<PreviewProblem> {
        let error = memory::perform(decision, &mut self.0, now).err()?;
        Some(PreviewProblem::unperformed(&error))
    }

    pub fn controller_config(&self) -> Option<&Arc<ControllerConfig>> {
        named(self.0.of(), CONTROLLER_CONFIG)
    }

    pub fn pool(&self, name: &str) -> Option<&Arc<MachineConfigPool>> {
        named(self.pools(), name)
    }

    pub fn machine_config(&self, name: &str) -> Option<&Arc<MachineConfig>> {
        named(self.machine_configs(), name)
    }
}

/// Empty tables of the kinds that this operator reads; pods are read on request.
fn own_tables() -> Tables {
    Tables::default()
        .with::<MachineConfigPool>()
        .with::<MachineConfig>()
        .with::<KubeletConfig>()
        .with::<ContainerRuntimeConfig>()
        .with::<ControllerConfig>()
        .with::<Node>()
        .with::<MachineConfigNode>()
        .with::<MachineConfiguration>()
        .with::<PodDisruptionBudget>()
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

/// Fills a table with all objects of its kind. They are parsed one by one from the pages, so that only the parser is compiled
/// for every kind.
async fn fill(client: &Client, table: &mut dyn Table) -> Result<(), kube::Error> {
    const PAGE_SIZE: u32 = 500;
    let resource = table.resource();
    let mut params = ListParams::default().limit(PAGE_SIZE);
    loop {
        let request = Request::new(resource.path(None)).list(&params).map_err(kube::Error::BuildRequest)?;
        let page: Page = client.request(request).await?;
        for item in page.items {
            table.push_json(item.get()).map_err(kube::Error::SerdeError)?;
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(()),
        }
    }
}

/// A page of a list.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: ListMeta,
    items: Vec<Box<RawValue>>,
}

fn list_error(resource: &ResourceType, error: &kube::Error) -> ClusterError {
    call_error(&format!("list {}s", resource.kind), error)
}
