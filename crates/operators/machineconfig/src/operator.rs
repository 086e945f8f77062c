//! The machineconfig operator: its options, definitions and controllers.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt as _, select_all};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Client, ResourceExt as _};
use seaworthy_api::machineconfiguration::{self, ContainerRuntimeConfig, KubeletConfig};
use seaworthy_change::ResourceType;
use seaworthy_deploy::{Account, OperatorManifest};
use seaworthy_fetch::Policy;
use seaworthy_generate::base::Templates;
use seaworthy_plan::rendering::garbage::RetentionLimits;
use seaworthy_preview::{AdmissionRule, PreviewPart};
use seaworthy_runtime::install::InstallError;
use seaworthy_runtime::operator::ControllersResult;
use seaworthy_runtime::{Controller, EnabledControllers, Operator, OperatorContext, OperatorInstance, Queue, worker};

use crate::base::BaseController;
use crate::base::deleted_pools::DeletedPools;
use crate::caches::Caches;
use crate::context::Context;
use crate::garbage::GarbageController;
use crate::metrics::PoolMetrics;
use crate::preview;
use crate::protection::{ProtectionController, ProtectionRule, policy};
use crate::render::RenderController;
use crate::render::snapshots::ContentSnapshots;
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

/// Options of the operator.
#[derive(Clone, Default)]
pub struct MachineConfigOptions {
    /// The hosts that remote content may come from.
    pub remote: Policy,
    pub templates: Arc<Templates>,
    /// How much history of rendered MachineConfigs is kept.
    pub limits: RetentionLimits,
    /// The node that this process runs on, if it runs in the cluster.
    pub own_node: Option<String>,
}

/// The operator.
#[derive(Clone, Default)]
pub struct MachineConfigOperator {
    pub options: MachineConfigOptions,
}

impl Operator for MachineConfigOperator {
    fn name(&self) -> &'static str {
        "machineconfig"
    }

    fn controller_names(&self) -> &'static [&'static str] {
        &[BASE, KUBELET, CONTAINER_RUNTIME, RENDER, ROLLOUT, GARBAGE]
    }

    /// The name that builds with one lease for everything used, so that one of them and this one never act at once.
    fn lease(&self) -> String {
        "seaworthy-controllers".to_owned()
    }

    fn required_definitions(&self) -> Vec<CustomResourceDefinition> {
        let name = |resource: ResourceType| format!("{}.{}", resource.plural, resource.group);
        let read: Vec<String> = Caches::default().set().resources().map(name).collect();
        definitions().into_iter().filter(|definition| read.contains(&definition.name_any())).collect()
    }

    fn manifest(&self, account: &Account) -> OperatorManifest {
        OperatorManifest {
            definitions: definitions(),
            cluster_rules: rights::cluster_rules(),
            namespace_rules: rights::namespace_rules(),
            server_rules: rights::server_rules(),
            daemon_rules: rights::daemon_rules(),
            policies: policy::objects(&account.user).into(),
        }
    }

    fn preview_parts(&self) -> Vec<Box<dyn PreviewPart>> {
        preview::parts(Arc::clone(&self.options.templates))
    }

    fn admission_rules(&self) -> Vec<Box<dyn AdmissionRule>> {
        vec![Box::new(ProtectionRule)]
    }

    fn start(&self, context: &OperatorContext, enabled: &EnabledControllers) -> OperatorInstance {
        let context_of_run = Context::of(context);
        OperatorInstance {
            caches: context_of_run.caches.set(),
            controllers: controllers(context_of_run, self.options.clone(), enabled.clone()).boxed(),
        }
    }
}

/// The definitions of the operator's kinds. Some are read by commands and nodes only.
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
        controllers(context, options, EnabledControllers::All).await
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

async fn controllers(
    context: Context,
    options: MachineConfigOptions,
    enabled: EnabledControllers,
) -> ControllersResult {
    let _metrics = ClearMetrics(context.metrics.set());
    let snapshots = Arc::new(ContentSnapshots::load(&context.client, &context.namespace).await?);
    let mut running = Vec::new();
    let is_enabled = |name: &str| enabled.contains(name);
    if is_enabled(BASE) {
        let (controller, queue) = ProtectionController::new(&context);
        running.push(work(&context, controller, queue));
        let deleted_pools = DeletedPools::load(&context.client, &context.namespace).await?;
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

#[cfg(test)]
mod tests {
    use seaworthy_runtime::NAMESPACE;
    use seaworthy_testkit::Embedded;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn stopped_operator_leaves_no_cache_behind() {
        let client = Embedded::start().await.client();
        let context = Context::new(client.clone());
        let caches = context.caches.clone();
        let snapshots = Arc::new(ContentSnapshots::load(&client, NAMESPACE).await.unwrap());
        let deleted_pools = DeletedPools::load(&client, NAMESPACE).await.unwrap();
        let drains = ActiveDrains::default();
        let rollout = RolloutController::new(&context, drains.clone(), None);
        let controllers = (
            DrainController::new(&context, drains, Arc::clone(&rollout.1)),
            rollout,
            ProtectionController::new(&context),
            BaseController::new(&context, Arc::default(), deleted_pools),
            SettingsController::<KubeletConfig>::new(&context),
            SettingsController::<ContainerRuntimeConfig>::new(&context),
            RenderController::new(&context, snapshots, Policy::default()),
            GarbageController::new(&context, RetentionLimits::default()),
        );
        drop((controllers, context));
        assert_eq!(
            [
                Arc::strong_count(&caches.machine_configs),
                Arc::strong_count(&caches.pools),
                Arc::strong_count(&caches.kubelet_configs),
                Arc::strong_count(&caches.container_runtime_configs),
                Arc::strong_count(&caches.controller_configs),
                Arc::strong_count(&caches.nodes),
                Arc::strong_count(&caches.machine_config_nodes),
                Arc::strong_count(&caches.disruption_budgets),
            ],
            [1; 8]
        );
    }

    #[test]
    fn operator_runs_without_the_definitions_that_no_controller_reads() {
        let names = |definitions: Vec<CustomResourceDefinition>| -> Vec<String> {
            definitions.iter().map(|definition| definition.name_any()).collect()
        };
        let required = names(MachineConfigOperator::default().required_definitions());
        let others: Vec<String> = names(definitions()).into_iter().filter(|name| !required.contains(name)).collect();
        let not_read =
            ["pinnedimagesets.machineconfiguration.openshift.io", "machineconfigurations.operator.openshift.io"];
        assert_eq!(others, not_read);
        assert_eq!(required.len(), 6, "{required:?}");
    }
}
