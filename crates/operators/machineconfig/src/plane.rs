//! All controllers together: the configuration plane of a cluster.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt as _, select_all};
use seaworthy_api::machineconfiguration::{ContainerRuntimeConfig, KubeletConfig};
use seaworthy_fetch::Policy;
use seaworthy_generate::base::Templates;
use seaworthy_plan::rendering::garbage::Limits;
use seaworthy_runtime::{Controller, Queue, worker};

use crate::base::BaseController;
use crate::context::Context;
use crate::deleted_pools::DeletedPools;
use crate::drain::DrainController;
use crate::drains::Drains;
use crate::garbage::GarbageController;
use crate::protection::ProtectionController;
use crate::render::RenderController;
use crate::rollout::RolloutController;
use crate::settings::SettingsController;
use crate::snapshots::ClusterSnapshots;

/// A part of the plane that can be run by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The platform's own MachineConfigs and pools, and their protection.
    Base,
    /// MachineConfigs from KubeletConfigs.
    Kubelet,
    /// MachineConfigs from ContainerRuntimeConfigs.
    ContainerRuntime,
    /// One rendered MachineConfig for each pool.
    Render,
    /// Orders for nodes, drains and MachineConfigNodes.
    Rollout,
    /// The end of rendered MachineConfigs that nothing uses.
    Garbage,
}

impl Part {
    /// All of them.
    pub const ALL: [Part; 6] =
        [Part::Base, Part::Kubelet, Part::ContainerRuntime, Part::Render, Part::Rollout, Part::Garbage];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Part::Base => "base",
            Part::Kubelet => "kubelet",
            Part::ContainerRuntime => "container-runtime",
            Part::Render => "render",
            Part::Rollout => "rollout",
            Part::Garbage => "garbage",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Part::ALL.into_iter().find(|part| part.as_str() == text).ok_or_else(|| {
            let names: Vec<&str> = Part::ALL.iter().map(|part| part.as_str()).collect();
            format!("{text:?} is no controller; there are {}", names.join(", "))
        })
    }
}

/// How the plane is run.
pub struct Options {
    /// Which parts are run.
    pub parts: BTreeSet<Part>,
    /// Where remote content may come from.
    pub remote: Policy,
    /// What the base is made from.
    pub templates: Templates,
    /// What is kept of rendered MachineConfigs.
    pub limits: Limits,
    /// The namespace of what the plane itself keeps.
    pub namespace: String,
    /// The node that this process runs on, if it runs in the cluster.
    pub own_node: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            parts: Part::ALL.into(),
            remote: Policy::default(),
            templates: Templates::default(),
            limits: Limits::default(),
            namespace: NAMESPACE.to_owned(),
            own_node: None,
        }
    }
}

/// The namespace of what the plane itself keeps, unless another is named.
pub const NAMESPACE: &str = "seaworthy-system";

/// Runs the plane until leadership is lost, or for as long as it is polled.
///
/// # Errors
///
/// If what it keeps in the cluster cannot be read.
pub async fn run(context: Context, options: Options) -> Result<(), kube::Error> {
    let leadership = context.leadership.clone();
    // Caches are filled while another process leads, so that taking over takes no time.
    let caches = context.caches.set().run(&context.client);
    let plane = async {
        leadership.acquired().await;
        let snapshots = Arc::new(ClusterSnapshots::load(&context.client, &options.namespace).await?);
        let mut running = Vec::new();
        let has = |part: Part| options.parts.contains(&part);
        if has(Part::Base) {
            let (controller, queue) = ProtectionController::new(&context);
            running.push(work(&context, controller, queue));
            let deleted_pools = DeletedPools::load(&context.client, &options.namespace).await?;
            let (controller, queue) = BaseController::new(&context, Arc::new(options.templates), deleted_pools);
            running.push(work(&context, controller, queue));
        }
        if has(Part::Kubelet) {
            let (controller, queue) = SettingsController::<KubeletConfig>::new(&context);
            running.push(work(&context, controller, queue));
        }
        if has(Part::ContainerRuntime) {
            let (controller, queue) = SettingsController::<ContainerRuntimeConfig>::new(&context);
            running.push(work(&context, controller, queue));
        }
        if has(Part::Render) {
            let (controller, queue) = RenderController::new(&context, snapshots, options.remote);
            running.push(work(&context, controller, queue));
        }
        if has(Part::Rollout) {
            let drains = Drains::default();
            let (controller, rollout) = RolloutController::new(&context, drains.clone(), options.own_node);
            running.push(work(&context, controller, Arc::clone(&rollout)));
            let (controller, queue) = DrainController::new(&context, drains, rollout);
            running.push(work(&context, controller, queue));
        }
        if has(Part::Garbage) {
            let (controller, queue) = GarbageController::new(&context, options.limits);
            running.push(work(&context, controller, queue));
        }
        if running.is_empty() {
            return std::future::pending().await;
        }
        select_all(running).await;
        Ok(())
    };
    tokio::select! {
        () = caches => Ok(()),
        result = plane => result,
        () = async { leadership.acquired().await; leadership.lost().await } => Ok(()),
    }
}

fn work<C: Controller + 'static>(
    context: &Context,
    controller: C,
    queue: Arc<Queue<C::Key>>,
) -> BoxFuture<'static, ()> {
    let context = context.clone();
    async move {
        // A decision before everything is known would take what is missing for gone.
        context.caches.set().synced().await;
        worker::run(&controller, &queue, &context.leadership, &*context.metrics).await;
    }
    .boxed()
}
