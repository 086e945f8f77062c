//! Machines in memory with the real daemon on each, under the real controllers.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Api, Client, Resource};
use seaworthy_api::machineconfiguration::{ControllerConfig, MachineConfig, MachineConfigPool};
use seaworthy_api::vocabulary::machineconfiguration::node as annotation;
use seaworthy_host::FakeHost;
use seaworthy_machineconfig::operator::MachineConfigOptions;
use seaworthy_machineconfig::{Context, operator};
use seaworthy_node::target::TargetEntry;
use seaworthy_node::{AgentOptions, Daemon, DaemonIntervals, TargetState, paths};
use seaworthy_runtime::NAMESPACE;
use seaworthy_testkit::Cluster;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// How long anything may take before a test gives up. Nothing waits for it to pass.
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(120);

pub struct Fleet {
    pub client: Client,
    pub hosts: BTreeMap<String, FakeHost>,
    boots: Arc<Mutex<BTreeMap<String, usize>>>,
    tasks: Vec<JoinHandle<()>>,
    _cluster: Cluster,
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Fleet {
    pub async fn start(workers: usize) -> Fleet {
        let cluster = Cluster::start().await;
        let client = cluster.client();
        operator::install(&client, NAMESPACE).await.unwrap();
        let context = Context::new(client.clone());
        let plane = tokio::spawn(async move { operator::run(context, MachineConfigOptions::default()).await.unwrap() });
        let mut fleet =
            Fleet { client, hosts: BTreeMap::new(), boots: Arc::default(), tasks: vec![plane], _cluster: cluster };
        fleet.create::<ControllerConfig>(controller_config()).await;
        let pool = fleet.pool_is("worker", |pool| target(pool).is_some()).await;
        let rendered: MachineConfig = fleet.api().get(target(&pool).unwrap()).await.unwrap();
        for nth in 0..workers {
            fleet.join(&format!("w{nth}"), &rendered).await;
        }
        fleet.pool_is("worker", |pool| is_updated(pool, workers)).await;
        fleet
    }

    pub fn api<K: Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.client.clone())
    }

    pub async fn create<K>(&self, object: Value)
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + serde::Serialize,
    {
        let object: K = serde_json::from_value(object).unwrap();
        self.api::<K>().create(&PostParams::default(), &object).await.unwrap();
    }

    pub async fn until<K>(&self, name: &str, is: impl Fn(&K) -> bool) -> K
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        let found = await_condition(self.api::<K>(), name, |object: Option<&K>| object.is_some_and(&is));
        match tokio::time::timeout(WAIT_TIMEOUT, found).await {
            Ok(found) => found.unwrap().unwrap(),
            Err(_) => {
                let found = self.api::<K>().get_opt(name).await;
                panic!("{} {name} does not become as it should: {found:#?}", K::kind(&()));
            }
        }
    }

    pub async fn pool_is(&self, name: &str, is: impl Fn(&MachineConfigPool) -> bool) -> MachineConfigPool {
        self.until(name, is).await
    }

    /// A machine that Ignition has written.
    pub async fn join(&mut self, name: &str, rendered: &MachineConfig) {
        self.bring(name, machine(name, rendered)).await;
    }

    /// Machines with their daemons, which are started again after every boot.
    pub async fn bring(&mut self, name: &str, host: FakeHost) {
        self.create::<Node>(seaworthy_testkit::node(name, "worker", None)).await;
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let nodes: Api<Node> = self.api();
        nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(&ready)).await.unwrap();
        self.hosts.insert(name.to_owned(), host.clone());
        let (client, name, boots) = (self.client.clone(), name.to_owned(), Arc::clone(&self.boots));
        self.tasks.push(tokio::spawn(async move {
            let intervals = DaemonIntervals {
                initial_retry_delay: Duration::from_millis(50),
                max_retry_delay: Duration::from_millis(200),
                // Longer than any test: what is found, is reported by a watch.
                drift_check_interval: Duration::from_secs(3600),
                debounce_delay: Duration::from_millis(1),
                ..DaemonIntervals::default()
            };
            loop {
                Daemon::new(client.clone(), &name, host.clone(), AgentOptions::default(), intervals).run().await;
                host.boot_orderly();
                *boots.lock().unwrap().entry(name.clone()).or_default() += 1;
            }
        }));
    }

    pub async fn apply(&self, name: &str, spec: Value) {
        let object = json!({
            "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "MachineConfig",
            "metadata": {"name": name, "labels": {"machineconfiguration.openshift.io/role": "worker"}},
            "spec": spec,
        });
        let params = PatchParams::apply("test").force();
        let pool: MachineConfigPool = self.api().get("worker").await.unwrap();
        self.api::<MachineConfig>().patch(name, &params, &Patch::Apply(&object)).await.unwrap();
        self.pool_is("worker", |now| target(now) != target(&pool)).await;
    }

    /// Waits until every worker is up to date, and looks for a file.
    pub async fn everywhere(&self, path: &str, text: &str) {
        self.pool_is("worker", |pool| is_updated(pool, self.hosts.len())).await;
        for (name, host) in &self.hosts {
            assert_eq!(host.text(path).as_deref(), Some(text), "{name}");
        }
    }

    pub fn boots(&self) -> usize {
        self.boots.lock().unwrap().values().sum()
    }
}

/// A machine that Ignition has written.
pub fn machine(name: &str, rendered: &MachineConfig) -> FakeHost {
    let config = rendered.metadata.name.clone().unwrap();
    let host = FakeHost::new(name);
    let target = TargetState::parse(&config, Arc::new(rendered.spec.clone()), None).unwrap();
    for (path, wanted) in &target.paths {
        if let TargetEntry::File { bytes, mode, .. } = wanted {
            host.put(path, bytes, *mode);
        }
    }
    for (unit, wanted) in &target.units {
        use seaworthy_host::Host as _;
        if wanted.is_enabled == Some(true) && wanted.has_contents {
            host.enable(&[unit]).unwrap();
            host.sync().unwrap();
        }
    }
    let annotations = json!({
        annotation::CURRENT_CONFIG.as_str(): config,
        annotation::DESIRED_CONFIG.as_str(): config,
        annotation::STATE.as_str(): "Done",
    });
    host.put(paths::INITIAL_ANNOTATIONS, annotations.to_string().as_bytes(), 0o644);
    host.boot_orderly();
    host
}

pub fn target(pool: &MachineConfigPool) -> Option<&str> {
    pool.spec.configuration.as_ref()?.name.as_deref().filter(|name| !name.is_empty())
}

pub fn is_updated(pool: &MachineConfigPool, nodes: usize) -> bool {
    let value = serde_json::to_value(pool).unwrap();
    let status = &value["status"];
    let is_true = status["conditions"]
        .as_array()
        .is_some_and(|all| all.iter().any(|it| it["type"] == "Updated" && it["status"] == "True"));
    let is_reached = status["configuration"]["name"] == value["spec"]["configuration"]["name"];
    is_reached && status["updatedMachineCount"] == nodes && status["machineCount"] == nodes && is_true
}

pub fn file(path: &str, text: &str) -> Value {
    let source = seaworthy_ignition::data_url::encode(text.as_bytes());
    json!({"config": {"ignition": {"version": "3.5.0"}, "storage": {"files": [
        {"path": path, "mode": 0o644, "contents": {"source": source}},
    ]}}})
}

pub fn controller_config() -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "ControllerConfig",
        "metadata": {"name": "machine-config-controller"},
        "spec": {
            "clusterDNSIP": "10.96.0.10", "cloudProviderConfig": "", "etcdDiscoveryDomain": "", "ipFamilies": "IPv4",
            "baseOSContainerImage": "", "kubeAPIServerServingCAData": "Y2E=", "osImageURL": "", "releaseImage": "", "rootCAData": "Y2E=",
            "additionalTrustBundle": null, "images": {},
            "infra": {"apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": {},
                      "spec": {"cloudConfig": {"name": ""}}},
            "dns": {"apiVersion": "config.openshift.io/v1", "kind": "DNS", "metadata": {},
                    "spec": {"baseDomain": "example.com"}},
        },
    })
}
