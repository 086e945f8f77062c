//! Two operators in one process: each runs when its definitions are served, and stops alone.
#![allow(clippy::unwrap_used)]

mod toy;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Api, Client, CustomResourceExt as _, Resource, ResourceExt as _};
use seaworthy_api::machineconfiguration::{ControllerConfig, MachineConfig, MachineConfigPool};
use seaworthy_controllers::process::{self, ProcessOptions};
use seaworthy_controllers::{OperatorOptions, OperatorSelection, operators};
use seaworthy_deploy::controllers_account;
use seaworthy_fetch::{MemorySnapshots, Policy};
use seaworthy_machineconfig::cluster_state::{ClusterState, ReadScope};
use seaworthy_machineconfig::pending::pending;
use seaworthy_machineconfig::preview::{PreviewInputs, preview_changes};
use seaworthy_machineconfig::render::render_pool::Remote;
use seaworthy_preview::{self as preview, Admission, ApplyOutcome, PreviewPart};
use seaworthy_runtime::{EnabledControllers, Leadership, Metrics, NAMESPACE, Operator, OperatorContext, build};
use seaworthy_testkit::{Cluster, controller_config, file};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use toy::{Buoy, BuoySpec, Toy, painted};

/// How long anything may take before a test gives up. Nothing waits for it to pass.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

struct Running {
    client: Client,
    metrics: Arc<Metrics>,
    probes: SocketAddr,
    process: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.process.abort();
    }
}

impl Running {
    /// A process with the real operators and the toy.
    async fn start(cluster: &Cluster, installs_definitions: bool) -> Running {
        let options = ProcessOptions { elects_leader: false, installs_definitions, ..ProcessOptions::new(NAMESPACE) };
        Running::with(cluster, options).await
    }

    /// A process that competes for the lease of this operator.
    async fn candidate(cluster: &Cluster, operator: &str) -> Running {
        let selection = OperatorSelection::parse(&[operator.to_owned()], &all()).unwrap();
        let options = ProcessOptions { selection, installs_definitions: true, ..ProcessOptions::new(NAMESPACE) };
        Running::with(cluster, options).await
    }

    async fn with(cluster: &Cluster, options: ProcessOptions) -> Running {
        let client = cluster.client();
        let metrics = Arc::<Metrics>::default();
        let probes = Some("127.0.0.1:0".parse().unwrap());
        let options = ProcessOptions { probes, metrics: Arc::clone(&metrics), ..options };
        let prepared = process::prepare(client.clone(), all(), options).await.unwrap();
        let probes = prepared.probes_address().unwrap();
        let process = tokio::spawn(async move { process::run(prepared, std::future::pending()).await.unwrap() });
        Running { client, metrics, probes, process }
    }

    fn api<K: Resource<DynamicType = (), Scope = k8s_openapi::ClusterResourceScope>>(&self) -> Api<K> {
        Api::all(self.client.clone())
    }

    async fn create<K>(&self, object: impl Serialize)
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::ClusterResourceScope>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned,
    {
        let object: K = serde_json::from_value(serde_json::to_value(object).unwrap()).unwrap();
        self.api::<K>().create(&PostParams::default(), &object).await.unwrap();
    }

    async fn is<K>(&self, name: &str, condition: impl Fn(&K) -> bool)
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::ClusterResourceScope>
            + Clone
            + Debug
            + DeserializeOwned
            + Send
            + 'static,
    {
        let holds = |object: Option<&K>| object.is_some_and(&condition);
        let waited = tokio::time::timeout(TEST_TIMEOUT, await_condition(self.api::<K>(), name, holds)).await;
        waited.unwrap_or_else(|_| panic!("{name} is not as expected; {}", self.metrics.encode().unwrap())).unwrap();
    }

    /// Waits until `/readyz?verbose` has this line.
    async fn reports(&self, line: &str) -> String {
        let found = async {
            loop {
                let page = self.get("/readyz?verbose").await;
                if page.lines().any(|found| found == line) {
                    return page;
                }
                tokio::task::yield_now().await;
            }
        };
        match tokio::time::timeout(TEST_TIMEOUT, found).await {
            Ok(page) => page,
            Err(_) => panic!("no line {line:?} in {}", self.get("/readyz?verbose").await),
        }
    }

    async fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.probes).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: probes\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    fn is_available(&self, operator: &str) -> bool {
        let page = self.metrics.encode().unwrap();
        let line = |value: u8| format!("seaworthy_operator_available{{operator=\"{operator}\"}} {value}\n");
        assert!(page.contains(&line(0)) || page.contains(&line(1)), "{page}");
        page.contains(&line(1))
    }
}

fn all() -> Vec<Box<dyn Operator>> {
    operators::all(OperatorOptions::default()).into_iter().chain([Box::new(Toy) as _]).collect()
}

fn target(pool: &MachineConfigPool) -> Option<String> {
    pool.spec.configuration.as_ref()?.name.clone().filter(|name| !name.is_empty())
}

const BUOYS: &str = "buoys.toy.example.com";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removed_definition_stops_its_operator_alone_and_it_starts_again_with_it() {
    let cluster = Cluster::start().await;
    let running = Running::start(&cluster, true).await;
    running.create::<Buoy>(Buoy::new("b", BuoySpec { colour: "red".to_owned() })).await;
    running.is::<Buoy>("b", |buoy| painted(buoy) == Some("red")).await;
    running.create::<ControllerConfig>(controller_config()).await;
    running.is::<MachineConfigPool>("worker", |pool| target(pool).is_some()).await;
    assert!(running.is_available("toy") && running.is_available("machineconfig"));

    running.api::<CustomResourceDefinition>().delete(BUOYS, &DeleteParams::default()).await.unwrap();
    let off = format!("[!]toy off: CustomResourceDefinition {BUOYS} not found");
    let page = running.reports(&off).await;
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("[+]machineconfig ok"), "{page}");
    assert!(!running.is_available("toy") && running.is_available("machineconfig"));
    let before = running.api::<MachineConfigPool>().get("worker").await.unwrap();
    running.create::<MachineConfig>(file("50-a", "worker", "/etc/a", "a")).await;
    running.is::<MachineConfigPool>("worker", |pool| target(pool) != target(&before)).await;

    running.create::<CustomResourceDefinition>(Buoy::crd()).await;
    running.reports("[+]toy ok").await;
    assert!(running.is_available("toy"));
    running.create::<Buoy>(Buoy::new("b", BuoySpec { colour: "green".to_owned() })).await;
    running.is::<Buoy>("b", |buoy| painted(buoy) == Some("green")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removed_definition_stops_every_operator_that_reads_its_kind() {
    let cluster = Cluster::start().await;
    let running = Running::start(&cluster, true).await;
    running.reports("[+]toy ok").await;
    let name = MachineConfig::crd().metadata.name.unwrap();
    running.api::<CustomResourceDefinition>().delete(&name, &DeleteParams::default()).await.unwrap();
    running.reports(&format!("[-]toy off: CustomResourceDefinition {name} not found")).await;
    running.reports(&format!("[-]machineconfig off: CustomResourceDefinition {name} not found")).await;
    assert!(!running.is_available("toy") && !running.is_available("machineconfig"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_with_different_operators_act_side_by_side() {
    let cluster = Cluster::start().await;
    let (machineconfig, toy) =
        (Running::candidate(&cluster, "machineconfig").await, Running::candidate(&cluster, "toy").await);
    machineconfig.create::<ControllerConfig>(controller_config()).await;
    machineconfig.is::<MachineConfigPool>("worker", |pool| target(pool).is_some()).await;
    toy.create::<Buoy>(Buoy::new("b", BuoySpec { colour: "red".to_owned() })).await;
    toy.is::<Buoy>("b", |buoy| painted(buoy) == Some("red")).await;
    let leases: Api<Lease> = Api::namespaced(cluster.client(), NAMESPACE);
    let names: Vec<String> =
        leases.list(&ListParams::default()).await.unwrap().iter().map(|lease| lease.name_any()).collect();
    assert_eq!(names, ["seaworthy-controllers", "seaworthy-toy"]);
}

#[tokio::test]
async fn every_operator_requires_the_definitions_of_the_kinds_that_it_reads() {
    let cluster = Cluster::start().await;
    let account = controllers_account(NAMESPACE);
    let name = |definition: &CustomResourceDefinition| definition.metadata.name.clone().unwrap();
    let defined: BTreeSet<String> =
        all().iter().flat_map(|it| it.manifest(&account).definitions).map(|it| name(&it)).collect();
    for operator in all() {
        let context = OperatorContext {
            client: cluster.client(),
            leadership: Leadership::always(),
            metrics: Arc::default(),
            clock: Arc::new(Timestamp::now),
            build: build().into(),
            namespace: NAMESPACE.into(),
        };
        let caches = operator.start(&context, &EnabledControllers::All).caches;
        let read: BTreeSet<String> =
            caches.resources().map(|resource| format!("{}.{}", resource.plural, resource.group)).collect();
        let required: BTreeSet<String> = operator.required_definitions().iter().map(name).collect();
        let expected: BTreeSet<String> = read.intersection(&defined).cloned().collect();
        assert_eq!(required, expected, "{}", operator.name());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_without_definitions_is_off_and_starts_when_they_are_installed() {
    let cluster = Cluster::start().await;
    let running = Running::start(&cluster, false).await;
    let page = running.reports(&format!("[!]toy off: CustomResourceDefinition {BUOYS} not found, and 1 more")).await;
    assert!(page.contains("[!]machineconfig off: CustomResourceDefinition "), "{page}");
    assert!(page.starts_with("HTTP/1.1 503"), "nothing runs: {page}");
    assert!(!running.is_available("toy") && !running.is_available("machineconfig"));

    seaworthy_machineconfig::operator::install(&running.client, NAMESPACE).await.unwrap();
    running.reports("[+]machineconfig ok").await;
    let page = running.get("/readyz").await;
    assert!(
        page.starts_with("HTTP/1.1 200"),
        "an operator that is not installed does not make the process unready: {page}"
    );
    running.create::<ControllerConfig>(controller_config()).await;
    running.is::<MachineConfigPool>("worker", |pool| target(pool).is_some()).await;
    assert!(!running.is_available("toy"));
}

#[test]
fn preview_parts_of_all_operators_use_one_type_for_each_kind() {
    let parts: Vec<Box<dyn PreviewPart>> =
        operators::preview_parts(OperatorOptions::default()).into_iter().chain(Toy.preview_parts()).collect();
    ClusterState::default().with_parts(&parts).unwrap();
    let (all, pending) = (preview::tables(&parts).unwrap(), preview::pending_tables(&parts).unwrap());
    assert!(all.has_all_of(&pending), "what is pending is decided on the kinds of the parts");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn preview_of_an_operator_shows_what_its_controllers_make_of_a_manifest() {
    let cluster = Cluster::start().await;
    let running = Running::start(&cluster, true).await;
    running.create::<ControllerConfig>(controller_config()).await;
    running.is::<MachineConfigPool>("worker", |pool| target(pool).is_some()).await;

    let parts: Vec<Box<dyn PreviewPart>> =
        operators::preview_parts(OperatorOptions::default()).into_iter().chain(Toy.preview_parts()).collect();
    let before = ClusterState::read(&running.client, ReadScope::Preview(&parts)).await.unwrap();
    let mut after = before.clone();
    let manifest = Buoy::new("b", BuoySpec { colour: "red".to_owned() });
    let admission = Admission::of(operators::definitions().into_iter().chain([Buoy::crd()]), Vec::new()).for_changes();
    let now = Timestamp::now();
    let json = serde_json::to_value(&manifest).unwrap();
    assert_eq!(after.apply(&json, "default", &admission, now).unwrap().outcome, ApplyOutcome::New);
    let wrong =
        serde_json::json!({"apiVersion": "toy.example.com/v1", "kind": "Buoy", "metadata": {"name": "c"}, "spec": {}});
    assert_eq!(after.apply(&wrong, "default", &admission, now).unwrap_err()[0].path, "spec.colour");
    let pending_in = |state: &ClusterState, pool: &str| pending(state, state.pool(pool).unwrap(), &parts, &build());
    assert_eq!(pending_in(&after, "worker").as_deref(), Some("Buoy b is not a MachineConfig yet"));
    assert_eq!(pending_in(&after, "master"), None);

    let remote =
        Remote { policy: Policy::default(), snapshots: Arc::new(MemorySnapshots::new(1 << 20)), is_offline: true };
    let state = after.clone();
    let inputs = PreviewInputs { parts, remote, build: build(), now, is_cluster: true };
    let preview = preview_changes(&before, state, &inputs).await;
    assert_eq!(preview.problems, []);
    let worker = preview.pools.iter().find(|pool| pool.name == "worker").unwrap();
    let expected = worker.after.as_ref().unwrap().metadata.name.clone();
    assert_ne!(worker.before.as_ref().unwrap().metadata.name, expected);

    running.create::<Buoy>(manifest).await;
    running.is::<MachineConfigPool>("worker", |pool| target(pool) == expected).await;
}
