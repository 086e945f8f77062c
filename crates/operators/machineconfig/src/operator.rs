//! The machineconfig operator: its options, definitions and controllers.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt as _, select_all};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use seaworthy_api::machineconfiguration::{self, ContainerRuntimeConfig, KubeletConfig};
use seaworthy_deploy::{Account, OperatorManifest};
use seaworthy_fetch::Policy;
use seaworthy_generate::base::Templates;
use seaworthy_plan::rendering::garbage::RetentionLimits;
use seaworthy_runtime::install::InstallError;
use seaworthy_runtime::operator::ControllersResult;
use seaworthy_runtime::{Controller, EnabledControllers, Operator, OperatorContext, OperatorInstance, Queue, worker};

use crate::base::BaseController;
use crate::base::deleted_pools::DeletedPools;
use crate::context::Context;
use crate::garbage::GarbageController;
use crate::metrics::PoolMetrics;
use crate::protection::{ProtectionController, policy};
use crate::render::RenderController;
use crate::render::snapshots::ClusterSnapshots;
use crate::rights;
use crate::rollout::RolloutController;
use crate::rollout::active_drains::ActiveDrains;
use crate::rollout::drain::DrainController;
use crate::settings::SettingsController;

/// The platform's own MachineConfigs and pools, and their protection.
pub const BASE: &str = "base";
/// MachineConfigs from KubeletConfigs.
pub const KUBELET: &str = "kubelet";
/// MachineConfigs from ContainerRuntimeConfigs.
pub const CONTAINER_RUNTIME: &str = "container-runtime";
/// One rendered MachineConfig for each pool.
pub const RENDER: &str = "render";
/// Orders for nodes, drains and MachineConfigNodes.
pub const ROLLOUT: &str = "rollout";
/// Deletion of rendered MachineConfigs that nothing uses.
pub const GARBAGE: &str = "garbage";

/// The namespace of what operators store for themselves, unless another is named.
pub const NAMESPACE: &str = "seaworthy-system";

/// Options of the operator.
#[derive(Clone)]
pub struct MachineConfigOptions {
    pub controllers: EnabledControllers,
    /// The hosts that remote content may come from.
    pub remote: Policy,
    pub templates: Arc<Templates>,
    /// How much history of rendered MachineConfigs is kept.
    pub limits: RetentionLimits,
    pub namespace: String,
    /// The node that this process runs on, if it runs in the cluster.
    pub own_node: Option<String>,
}

impl Default for MachineConfigOptions {
    fn default() -> Self {
        MachineConfigOptions {
            controllers: EnabledControllers::All,
            remote: Policy::default(),
            templates: Arc::default(),
            limits: RetentionLimits::default(),
            namespace: NAMESPACE.to_owned(),
            own_node: None,
        }
    }
}

/// The operator. Controllers and namespace of its options are replaced by those of the process that runs it.
#[derive(Clone, Default)]
pub struct MachineConfigOperator {
    pub options: MachineConfigOptions,
}

impl Operator for MachineConfigOperator {
    fn name(&self) -> &'static str {
        "machineconfig"
    }

    fn summary(&self) -> &'static str {
        "renders MachineConfigs for pools and rolls them out to nodes"
    }

    fn controller_names(&self) -> &'static [&'static str] {
        &[BASE, KUBELET, CONTAINER_RUNTIME, RENDER, ROLLOUT, GARBAGE]
    }

    fn definitions(&self) -> Vec<CustomResourceDefinition> {
        definitions()
    }

    fn manifest(&self, account: &Account) -> OperatorManifest {
        OperatorManifest {
            definitions: definitions(),
            cluster_rules: rights::cluster_rules(),
            namespace_rules: rights::namespace_rules(),
            policies: policy::objects(&account.user).into(),
        }
    }

    fn start(&self, context: &OperatorContext, enabled: &EnabledControllers) -> OperatorInstance {
        let context_of_run = Context::of(context);
        let namespace = context.namespace.as_ref().to_owned();
        let options = MachineConfigOptions { controllers: enabled.clone(), namespace, ..self.options.clone() };
        OperatorInstance {
            caches: context_of_run.caches.set(),
            controllers: controllers(context_of_run, options).boxed(),
        }
    }
}

/// The definitions of the operator's kinds.
pub fn definitions() -> Vec<CustomResourceDefinition> {
    machineconfiguration::definitions().into_iter().chain(seaworthy_api::operator::definitions()).collect()
}

/// Installs the operator's definitions, and the namespace.
///
/// # Errors
///
/// If they cannot be written, or are not established in time.
pub async fn install(client: &Client, namespace: &str) -> Result<(), InstallError> {
    seaworthy_runtime::install::install(client, &definitions(), namespace).await
}

/// Runs caches and controllers until leadership is lost, on a cluster that serves the definitions.
///
/// # Errors
///
/// If its snapshots or saved pools cannot be read from the cluster.
pub async fn run(context: Context, options: MachineConfigOptions) -> ControllersResult {
    let leadership = context.leadership.clone();
    // Caches are filled while another process leads, so that taking over takes no time.
    let caches = context.caches.set().run(&context.client);
    let controllers = async {
        leadership.acquired().await;
        controllers(context, options).await
    };
    tokio::select! {
        () = caches => Ok(()),
        result = controllers => result,
        () = async { leadership.acquired().await; leadership.lost().await } => Ok(()),
    }
}

/// Clears the metrics when the controllers stop.
struct ClearMetrics(Arc<PoolMetrics>);

impl Drop for ClearMetrics {
    fn drop(&mut self) {
        self.0.clear();
    }
}

async fn controllers(context: Context, options: MachineConfigOptions) -> ControllersResult {
    let _metrics = ClearMetrics(context.metrics.set());
    let snapshots = Arc::new(ClusterSnapshots::load(&context.client, &options.namespace).await?);
    let mut running = Vec::new();
    let is_enabled = |name: &str| options.controllers.contains(name);
    if is_enabled(BASE) {
        let (controller, queue) = ProtectionController::new(&context);
        running.push(work(&context, controller, queue));
        let deleted_pools = DeletedPools::load(&context.client, &options.namespace).await?;
        let (controller, queue) = BaseController::new(&context, options.templates, deleted_pools);
        running.push(work(&context, controller, queue));
    }
    if is_enabled(KUBELET) {
        let (controller, queue) = SettingsController::<KubeletConfig>::new(&context);
        running.push(work(&context, controller, queue));
    }
    if is_enabled(CONTAINER_RUNTIME) {
        let (controller, queue) = SettingsController::<ContainerRuntimeConfig>::new(&context);
        running.push(work(&context, controller, queue));
    }
    if is_enabled(RENDER) {
        let (controller, queue) = RenderController::new(&context, snapshots, options.remote);
        running.push(work(&context, controller, queue));
    }
    if is_enabled(ROLLOUT) {
        let drains = ActiveDrains::default();
        let (controller, rollout) = RolloutController::new(&context, drains.clone(), options.own_node);
        running.push(work(&context, controller, Arc::clone(&rollout)));
        let (controller, queue) = DrainController::new(&context, drains, rollout);
        running.push(work(&context, controller, queue));
    }
    if is_enabled(GARBAGE) {
        let (controller, queue) = GarbageController::new(&context, options.limits);
        running.push(work(&context, controller, queue));
    }
    if running.is_empty() {
        return std::future::pending().await;
    }
    select_all(running).await;
    Ok(())
}

fn work<C: Controller + 'static>(
    context: &Context,
    controller: C,
    queue: Arc<Queue<C::Key>>,
) -> BoxFuture<'static, ()> {
    let context = context.clone();
    async move {
        // A decision on a cache that is not filled would take what is missing for deleted.
        context.caches.set().synced().await;
        worker::run(&controller, &queue, &context.leadership, &*context.metrics).await;
    }
    .boxed()
}
