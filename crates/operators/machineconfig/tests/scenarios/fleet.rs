//! Fleet: a cluster with the controllers running and simulated nodes.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::events::v1::Event;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use kube::runtime::wait::await_condition;
use kube::{Api, Client, Resource, ResourceExt as _};
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigNode, MachineConfigPool};
use seaworthy_deploy::{Component, DeploymentOptions, controllers_account, objects};
use seaworthy_fetch::Policy;
use seaworthy_machineconfig::operator::MachineConfigOptions;
pub use seaworthy_machineconfig::protection::policy::NAME as PROTECTION;
use seaworthy_machineconfig::{Context, MachineConfigOperator, operator};
use seaworthy_runtime::NAMESPACE;
use seaworthy_runtime::{Metrics, Operator as _};
use seaworthy_testkit::{Cluster, NodeBehaviour, NodeSimulator};
pub use seaworthy_testkit::{controller_config, file};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::task::JoinHandle;

/// How long a test waits for a condition. No test waits for it to pass.
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// A cluster, the controllers, and nodes.
pub struct Fleet {
    pub client: Client,
    pub machines: NodeSimulator,
    pub metrics: Arc<Metrics>,
    /// Seconds by which the controllers' clock is ahead.
    pub ahead: Arc<AtomicI64>,
    pub cluster: Cluster,
    remote: Policy,
    controllers: JoinHandle<()>,
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.controllers.abort();
    }
}

impl Fleet {
    /// A cluster with a ControllerConfig, one master and `workers` workers, all up to date.
    pub async fn with_workers(workers: usize) -> Fleet {
        Fleet::start().await.grown(workers).await
    }

    /// This cluster with a ControllerConfig, one master and `workers` workers, all up to date.
    pub async fn grown(self, workers: usize) -> Fleet {
        let fleet = self;
        fleet.create::<seaworthy_api::machineconfiguration::ControllerConfig>(controller_config()).await;
        for pool in ["master", "worker"] {
            fleet.pool_is(pool, |pool| target(pool).is_some()).await;
        }
        fleet.join("m0", "master").await;
        for nth in 0..workers {
            fleet.join(&format!("w{nth}"), "worker").await;
        }
        fleet.pool_is("worker", |pool| counted(pool, workers) && is_true(pool, "Updated")).await;
        fleet
    }

    /// A cluster with the controllers running on it and nothing else.
    pub async fn start() -> Fleet {
        Fleet::fetching(Policy::default()).await
    }

    /// The same, with remote content from these hosts.
    pub async fn fetching(remote: Policy) -> Fleet {
        let cluster = Cluster::start().await;
        let client = cluster.client();
        operator::install(&client, NAMESPACE).await.unwrap();
        deploy(&client).await;
        let machines = NodeSimulator::start(client.clone(), NodeBehaviour::default());
        let (metrics, ahead) = (Arc::default(), Arc::default());
        let controllers = run(&acting(&cluster), &ahead, &metrics, &remote);
        Fleet { client, machines, metrics, ahead, cluster, remote, controllers }
    }

    /// Stops the controllers.
    pub async fn stop(&mut self) {
        self.controllers.abort();
        let _ = std::mem::replace(&mut self.controllers, tokio::spawn(async {})).await;
    }

    /// Stops the controllers, and starts them with an empty state.
    pub async fn restart(&mut self) {
        self.stop().await;
        self.metrics = Arc::default();
        self.controllers = run(&acting(&self.cluster), &self.ahead, &self.metrics, &self.remote);
    }

    /// A node joins with the configuration that its pool has, as the Ignition endpoint would give it.
    pub async fn join(&self, name: &str, role: &str) {
        let pool = self.get::<MachineConfigPool>(role).await;
        self.machines.join(name, role, target(&pool)).await;
    }

    /// The controllers' own client.
    pub fn acting(&self) -> Client {
        acting(&self.cluster)
    }

    pub fn api<K: Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.client.clone())
    }

    pub async fn create<K>(&self, object: Value) -> K
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + serde::Serialize,
    {
        let object: K = serde_json::from_value(object).unwrap();
        self.api::<K>().create(&PostParams::default(), &object).await.unwrap()
    }

    pub async fn get<K>(&self, name: &str) -> K
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        self.api::<K>().get(name).await.unwrap()
    }

    pub async fn patch<K>(&self, name: &str, patch: Value) -> K
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap()
    }

    /// Waits until the object is as `is` says.
    pub async fn until<K>(&self, name: &str, is: impl Fn(Option<&K>) -> bool) -> Option<K>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        match tokio::time::timeout(WAIT_TIMEOUT, await_condition(self.api::<K>(), name, is)).await {
            Ok(found) => found.unwrap(),
            Err(_) => {
                let found = self.api::<K>().get_opt(name).await;
                panic!("{} {name} does not become as it should: {found:#?}", K::kind(&()));
            }
        }
    }

    pub async fn pool_is(&self, name: &str, is: impl Fn(&MachineConfigPool) -> bool) -> MachineConfigPool {
        self.until(name, |pool: Option<&MachineConfigPool>| pool.is_some_and(&is)).await.unwrap()
    }

    pub async fn node_is(&self, name: &str, is: impl Fn(&Node) -> bool) -> Node {
        self.until(name, |node: Option<&Node>| node.is_some_and(&is)).await.unwrap()
    }

    /// Waits for an Event with a reason about an object, and returns its message.
    pub async fn event_message(&self, reason: &str, name: &str) -> String {
        let is_it = |event: &&Event| {
            let about = event.regarding.as_ref().and_then(|about| about.name.as_deref());
            event.reason.as_deref() == Some(reason) && about == Some(name)
        };
        let found = async {
            loop {
                let all = self.api::<Event>().list(&ListParams::default()).await.unwrap().items;
                match all.iter().find(is_it) {
                    Some(event) => return event.note.clone().unwrap_or_default(),
                    None => tokio::task::yield_now().await,
                }
            }
        };
        tokio::time::timeout(WAIT_TIMEOUT, found).await.unwrap()
    }

    /// The policy's message for an attempt that it denies. The policy takes effect a moment after it was written.
    pub async fn denied<T>(&self, mut attempt: impl AsyncFnMut() -> kube::Result<T>) -> String {
        let denied = async {
            loop {
                match attempt().await {
                    Err(kube::Error::Api(status)) if status.code == 403 => return status.message,
                    Err(error) => panic!("{error}"),
                    Ok(_) => tokio::task::yield_now().await,
                }
            }
        };
        tokio::time::timeout(WAIT_TIMEOUT, denied).await.expect("nothing denies it")
    }

    /// Does what the policy forbids. The controllers restore the policy, so it is deleted before each attempt.
    pub async fn unprotected<T>(&self, mut attempt: impl AsyncFnMut() -> kube::Result<T>) -> T {
        let bindings = self.api::<ValidatingAdmissionPolicyBinding>();
        let done = async {
            loop {
                let _ = bindings.delete(PROTECTION, &DeleteParams::default()).await;
                match attempt().await {
                    Ok(done) => return done,
                    Err(kube::Error::Api(status)) if status.code == 403 => tokio::task::yield_now().await,
                    Err(error) => panic!("{error}"),
                }
            }
        };
        tokio::time::timeout(WAIT_TIMEOUT, done).await.expect("the policy is always there")
    }

    /// The names of all MachineConfigs.
    pub async fn machine_configs(&self) -> Vec<String> {
        let found = self.api::<MachineConfig>().list(&ListParams::default()).await.unwrap();
        found.items.iter().map(|object| object.name_any()).collect()
    }
}

/// Applies everything that `seaworthy manifests` prints, so that the controllers run with the rights that they have in
/// production. No kubelet runs the pods, so the workloads are validated only.
async fn deploy(client: &Client) {
    let options = DeploymentOptions {
        namespace: NAMESPACE.to_owned(),
        image: "seaworthy".to_owned(),
        apiserver_url: Some("https://api.example.com:6443".to_owned()),
        node_kubeconfig: "/var/lib/kubelet/kubeconfig".to_owned(),
        components: Component::ALL.into(),
    };
    let (installed, tried) = (["Namespace", "CustomResourceDefinition"], ["Deployment", "DaemonSet"]);
    let operator = MachineConfigOperator::default().manifest(&controllers_account(NAMESPACE));
    for object in objects(&options, &[operator]) {
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let types = object.types.clone().unwrap();
        if installed.contains(&types.kind.as_str()) {
            continue;
        }
        let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(&types).unwrap());
        let api: Api<DynamicObject> = match object.namespace() {
            Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        let mut params = PatchParams::apply("kubectl").validation_strict();
        params.dry_run = tried.contains(&types.kind.as_str());
        api.patch(&object.name_any(), &params, &Patch::Apply(&object)).await.unwrap();
    }
}

fn acting(cluster: &Cluster) -> Client {
    let user = Component::Controllers.user(NAMESPACE).unwrap();
    cluster.client_as(&user, &["system:serviceaccounts", "system:authenticated"])
}

fn run(client: &Client, ahead: &Arc<AtomicI64>, metrics: &Arc<Metrics>, remote: &Policy) -> JoinHandle<()> {
    let mut context = Context::new(client.clone());
    let ahead = Arc::clone(ahead);
    context.clock = Arc::new(move || Timestamp::now() + SignedDuration::from_secs(ahead.load(Ordering::Relaxed)));
    context.metrics = Arc::clone(metrics);
    let options = MachineConfigOptions { remote: remote.clone(), ..MachineConfigOptions::default() };
    tokio::spawn(async move { operator::run(context, options).await.unwrap() })
}

/// A condition of a MachineConfigNode.
pub fn progress<'n>(found: Option<&'n MachineConfigNode>, type_: &str) -> Option<&'n seaworthy_api::meta::Condition> {
    let conditions = found?.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == type_)
}

pub fn target(pool: &MachineConfigPool) -> Option<&str> {
    pool.spec.configuration.as_ref()?.name.as_deref().filter(|name| !name.is_empty())
}

pub fn condition<'p>(
    pool: &'p MachineConfigPool,
    type_: &str,
) -> Option<&'p seaworthy_api::machineconfiguration::StatusCondition> {
    let conditions = pool.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_.as_deref() == Some(type_))
}

pub fn is_true(pool: &MachineConfigPool, type_: &str) -> bool {
    condition(pool, type_).is_some_and(|condition| condition.status.as_deref() == Some("True"))
}

pub fn counted(pool: &MachineConfigPool, machines: usize) -> bool {
    pool.status.as_ref().and_then(|status| status.machine_count) == Some(i32::try_from(machines).unwrap())
}

/// Whether the pool targets `config`, and every node runs it.
pub fn has_reached(pool: &MachineConfigPool, config: &str) -> bool {
    let reached = pool.status.as_ref().and_then(|status| status.configuration.as_ref()?.name.as_deref());
    target(pool) == Some(config) && reached == Some(config) && is_true(pool, "Updated")
}
