//! One history: a pool, its nodes, one or two processes, injected faults and edits by users; then no more faults.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt as _};
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigNode, MachineConfigPool};
use seaworthy_api::vocabulary::seaworthy::annotation as ours;
use seaworthy_machineconfig::operator::MachineConfigOptions;
use seaworthy_machineconfig::{Context, operator};
use seaworthy_runtime::NAMESPACE;
use seaworthy_runtime::{LeaderElector, LeaseTimings};
use seaworthy_testkit::{
    Embedded, FaultCounts, FaultInjector, FaultRates, NodeBehaviour, NodeSimulator, Observer, SeededRandom,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

/// The number of random events in a history.
const EVENTS: usize = 24;
/// How long it may take until all nodes run the target once faults have stopped. Virtual time.
const CONVERGENCE_TIMEOUT: Duration = Duration::from_secs(60 * 60);
/// How long nothing may be written then.
const QUIET_PERIOD: Duration = Duration::from_secs(10 * 60);

/// How many requests controllers may send after faults have stopped: two processes that revert each other's writes without a
/// pause exceed it.
const MAX_REQUESTS: u64 = 3000;

/// The figures of one history, or of several.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    pub orders: usize,
    pub most: usize,
    pub changes: usize,
    pub processes: usize,
    pub injected: FaultCounts,
    /// Virtual seconds from the end of faults to convergence.
    pub longest_convergence: u64,
    /// Writes in ten minutes without faults, renewals of leases excluded.
    pub idle_writes: u64,
}

impl Figures {
    pub fn add(&mut self, other: &Figures) {
        self.orders += other.orders;
        self.most = self.most.max(other.most);
        self.changes += other.changes;
        self.processes += other.processes;
        self.longest_convergence = self.longest_convergence.max(other.longest_convergence);
        self.idle_writes += other.idle_writes;
        let (sum, more) = (&mut self.injected, other.injected);
        sum.requests += more.requests;
        sum.conflicts += more.conflicts;
        sum.errors += more.errors;
        sum.answers_lost += more.answers_lost;
        sum.late += more.late;
        sum.hung += more.hung;
        sum.watches_dropped += more.watches_dropped;
        sum.watches_late += more.watches_late;
    }
}

/// Controller processes for one cluster, one after the other or at once.
struct Processes {
    server: Embedded,
    injector: FaultInjector,
    /// Seconds by which the wall clock is wrong.
    jump: Arc<AtomicI64>,
    start: Instant,
    is_elected: bool,
    running: Vec<JoinHandle<()>>,
    started: usize,
}

impl Processes {
    fn run_one(&mut self) {
        self.started += 1;
        let (client, is_elected) = (self.server.client_with_faults(&self.injector), self.is_elected);
        let identity = format!("controllers-{}", self.started);
        let (jump, start) = (Arc::clone(&self.jump), self.start);
        let epoch: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let clock = move || {
            let passed = SignedDuration::try_from(start.elapsed()).unwrap();
            epoch + passed + SignedDuration::from_secs(jump.load(Ordering::Relaxed))
        };
        let clock: seaworthy_machineconfig::context::Clock = Arc::new(clock);
        self.running.push(tokio::spawn(async move {
            // A process that ends is started again.
            loop {
                let mut context = Context::new(client.clone());
                context.clock = Arc::clone(&clock);
                if is_elected {
                    let (mut elector, leadership) = LeaderElector::new(
                        client.clone(),
                        NAMESPACE,
                        "seaworthy-controllers",
                        &identity,
                        LeaseTimings::default(),
                    );
                    context.leadership = leadership;
                    tokio::select! {
                        () = elector.run() => {}
                        _ = operator::run(context, MachineConfigOptions::default()) => {}
                    }
                } else {
                    let _ = operator::run(context, MachineConfigOptions::default()).await;
                }
                sleep(Duration::from_secs(1)).await;
            }
        }));
    }

    fn kill(&mut self, at: u64) {
        if !self.running.is_empty() {
            let at = usize::try_from(at).unwrap() % self.running.len();
            self.running.swap_remove(at).abort();
        }
    }
}

fn machine_config(text: &str) -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfig",
        "metadata": {"name": "50-motd", "labels": {"machineconfiguration.openshift.io/role": "worker"}},
        "spec": {"config": {
            "ignition": {"version": "3.5.0"},
            "storage": {"files": [{"path": "/etc/motd", "mode": 420, "contents": {"source": format!("data:,{text}")}}]},
        }},
    })
}

async fn create<K>(client: &Client, object: Value)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + serde::Serialize,
{
    let object: K = serde_json::from_value(object).unwrap();
    Api::<K>::all(client.clone()).create(&PostParams::default(), &object).await.unwrap();
}

async fn patch<K>(client: &Client, name: &str, patch: Value)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    // The object may be deleted.
    let _ = Api::<K>::all(client.clone()).patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await;
}

async fn pool(client: &Client) -> MachineConfigPool {
    Api::all(client.clone()).get("worker").await.unwrap()
}

fn target(pool: &MachineConfigPool) -> Option<&str> {
    pool.spec.configuration.as_ref()?.name.as_deref().filter(|name| !name.is_empty())
}

/// A random event: an edit, a restart or a failure.
async fn random_event(
    client: &Client,
    machines: &NodeSimulator,
    processes: &mut Processes,
    chance: &mut SeededRandom,
    seed: u64,
    nth: usize,
) {
    let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await.unwrap().items;
    let node = nodes[usize::try_from(chance.below(nodes.len() as u64)).unwrap()].name_any();
    match chance.below(20) {
        0..=3 => {
            // Sometimes a text of an earlier MachineConfig.
            let text = format!("text-{seed}-{}", if chance.below(3) == 0 { 0 } else { nth });
            patch::<MachineConfig>(client, "50-motd", json!({"spec": machine_config(&text)["spec"].clone()})).await;
        }
        4..=6 => {
            let at = chance.draw();
            processes.kill(at);
            processes.run_one();
        }
        7 => {
            // A second process for a while.
            processes.run_one();
            if processes.running.len() > 2 {
                let at = chance.draw();
                processes.kill(at);
            }
        }
        8..=9 => {
            let max = 1 + chance.below(3);
            patch::<MachineConfigPool>(client, "worker", json!({"spec": {"maxUnavailable": max}})).await;
        }
        10 => {
            let is_paused = pool(client).await.spec.paused == Some(true);
            patch::<MachineConfigPool>(client, "worker", json!({"spec": {"paused": !is_paused}})).await;
        }
        11 => {
            if nodes.len() > 3 {
                let all: Api<Node> = Api::all(client.clone());
                let _ = all.delete(&node, &DeleteParams::default()).await;
            }
        }
        12 => {
            let name = format!("w{}", nth + 10);
            machines.join(&name, "worker", target(&pool(client).await)).await;
        }
        13 => processes.jump.store(i64::try_from(chance.below(20_000)).unwrap() - 10_000, Ordering::Relaxed),
        14 => {
            let text = json!({"config": "x", "nodes": {node: "99999999"}}).to_string();
            let text = if chance.below(2) == 0 { text } else { "{no JSON".to_owned() };
            // Only added reservations: removing one disables the budget on purpose.
            if ours::RESERVED_NODES.of(&pool(client).await.metadata).is_none() {
                patch::<MachineConfigPool>(
                    client,
                    "worker",
                    json!({"metadata": {"annotations": {ours::RESERVED_NODES.as_str(): text}}}),
                )
                .await;
            }
        }
        15 => {
            let all: Api<MachineConfigNode> = Api::all(client.clone());
            let _ = all.delete(&node, &DeleteParams::default()).await;
        }
        16 => {
            if let Some(name) = target(&pool(client).await) {
                // With a controller's field manager, or the policy would refuse it.
                let edit = Patch::Merge(json!({"spec": {"kernelArguments": ["edited"]}}));
                let all: Api<MachineConfig> = Api::all(client.clone());
                let _ = all.patch(name, &PatchParams::apply("seaworthy-chaos"), &edit).await;
            }
        }
        17 => {
            let is_ready = if chance.below(2) == 0 { "True" } else { "False" };
            let status = json!({"status": {"conditions": [{"type": "Ready", "status": is_ready}]}});
            let all: Api<Node> = Api::all(client.clone());
            let _ = all.patch_status(&node, &PatchParams::default(), &Patch::Merge(&status)).await;
        }
        18 => patch::<Node>(client, &node, json!({"spec": {"unschedulable": chance.below(2) == 0}})).await,
        _ => patch::<MachineConfigPool>(client, "worker", json!({"spec": {"maxUnavailable": "50%"}})).await,
    }
}

pub async fn history(seed: u64) -> Figures {
    let mut chance = SeededRandom::new(seed);
    let server = Embedded::start().await;
    let client = server.client();
    operator::install(&client, NAMESPACE).await.unwrap();
    create::<MachineConfigPool>(
        &client,
        json!({
            "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "MachineConfigPool",
            "metadata": {"name": "worker"},
            "spec": {
                "machineConfigSelector": {"matchLabels": {"machineconfiguration.openshift.io/role": "worker"}},
                "nodeSelector": {"matchLabels": {"node-role.kubernetes.io/worker": ""}},
                "maxUnavailable": 1 + chance.below(2),
            },
        }),
    )
    .await;
    create::<MachineConfig>(&client, machine_config(&format!("text-{seed}-0"))).await;
    let behaviour = NodeBehaviour {
        update_duration: Duration::from_millis(chance.below(20_000)),
        reports_working: chance.below(2) == 0,
        ..NodeBehaviour::default()
    };
    let machines = NodeSimulator::start(client.clone(), behaviour);
    for nth in 0..3 + chance.below(5) {
        machines.join(&format!("w{nth}"), "worker", Some("before")).await;
    }
    let observer = Observer::start(client.clone(), "worker");
    let injector = FaultInjector::new(FaultRates::all(), seed);
    let is_elected = seed.is_multiple_of(2);
    let mut processes = Processes {
        server,
        injector: injector.clone(),
        jump: Arc::default(),
        start: Instant::now(),
        is_elected,
        running: Vec::new(),
        started: 0,
    };
    // Without an election, two processes act at once.
    for _ in 0..1 + chance.below(2) {
        processes.run_one();
    }
    for nth in 0..EVENTS {
        sleep(Duration::from_millis(chance.below(15_000))).await;
        random_event(&client, &machines, &mut processes, &mut chance, seed, nth).await;
        if std::env::var_os("SEAWORTHY_SEED").is_some() {
            let (passed, seen) = (processes.start.elapsed(), observer.observations());
            println!(
                "{passed:?}: {} changes, {:?} under order, {:?}",
                seen.changes,
                seen.under_order,
                injector.injected()
            );
        }
        let seen = observer.observations();
        assert!(seen.excesses.is_empty(), "seed {seed}: {:#?}\n{}", seen.excesses, seen.log.join("\n"));
    }

    let is_verbose = std::env::var_os("SEAWORTHY_SEED").is_some();
    // Faults stop.
    injector.set_rates(FaultRates::default());
    let (faults_end, requests) = (Instant::now(), injector.injected().requests);
    for node in Api::<Node>::all(client.clone()).list(&ListParams::default()).await.unwrap() {
        let name = node.name_any();
        patch::<Node>(&client, &name, json!({"spec": {"unschedulable": null}})).await;
        let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let all: Api<Node> = Api::all(client.clone());
        all.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    }
    patch::<MachineConfigPool>(&client, "worker", json!({"spec": {"paused": null, "maxUnavailable": 2}})).await;
    let text = format!("text-{seed}-end");
    patch::<MachineConfig>(&client, "50-motd", json!({"spec": machine_config(&text)["spec"].clone()})).await;
    let arrives = async {
        loop {
            if has_converged(&client, &text).await {
                return;
            }
            if is_verbose && faults_end.elapsed().as_secs().is_multiple_of(60) {
                let (passed, seen) = (faults_end.elapsed(), observer.observations());
                println!(
                    "converging {passed:?}: {} changes, {:?} under order, {:?}",
                    seen.changes,
                    seen.under_order,
                    injector.injected()
                );
            }
            sleep(Duration::from_secs(1)).await;
        }
    };
    if timeout(CONVERGENCE_TIMEOUT, arrives).await.is_err() {
        let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await.unwrap().items;
        let nodes: Vec<_> = nodes.iter().map(|node| (node.name_any(), node.annotations())).collect();
        panic!("seed {seed}: it does not converge: {:#?} {nodes:#?}", pool(&client).await);
    }
    let longest_convergence = faults_end.elapsed().as_secs();

    // Work in progress may complete; after that nothing is written.
    sleep(Duration::from_secs(5 * 60)).await;
    let before = written(&client).await;
    sleep(QUIET_PERIOD).await;
    let after = written(&client).await;
    let idle: Vec<&String> = after.iter().filter(|object| !before.contains(object)).collect();
    let seen = observer.observations();
    assert!(seen.excesses.is_empty(), "seed {seed}: {:#?}\n{}", seen.excesses, seen.log.join("\n"));
    // No event of the pool is outstanding: suspected excesses are certain now.
    assert!(seen.suspected.is_empty(), "seed {seed}: {:#?}\n{}", seen.suspected, seen.log.join("\n"));
    assert!(idle.is_empty(), "seed {seed}: nothing changes, and something is written: {idle:#?}");
    // Leases are among them.
    let requests = injector.injected().requests - requests;
    assert!(requests < MAX_REQUESTS, "seed {seed}: {requests} requests since faults stopped");
    let idle_writes = idle.len() as u64;
    for process in &processes.running {
        process.abort();
    }
    Figures {
        orders: seen.orders,
        most: seen.most,
        changes: seen.changes,
        processes: processes.started,
        injected: injector.injected(),
        longest_convergence,
        idle_writes,
    }
}

/// Whether every node runs the last MachineConfig.
async fn has_converged(client: &Client, text: &str) -> bool {
    let pool = pool(client).await;
    let Some(name) = target(&pool) else { return false };
    let Ok(rendered) = Api::<MachineConfig>::all(client.clone()).get(name).await else { return false };
    let is_last = serde_json::to_string(&rendered.spec).unwrap().contains(text);
    let status = pool.status.as_ref();
    let is_updated = status.and_then(|status| status.conditions.as_ref()).is_some_and(|conditions| {
        let is = |type_: &str, word: &str| {
            conditions
                .iter()
                .any(|found| found.type_.as_deref() == Some(type_) && found.status.as_deref() == Some(word))
        };
        is("Updated", "True") && is("Degraded", "False") && is("RenderDegraded", "False")
    });
    let reached = status.and_then(|status| status.configuration.as_ref()?.name.as_deref());
    is_last && is_updated && reached == Some(name)
}

/// All objects that the controllers write, with resource versions.
async fn written(client: &Client) -> Vec<String> {
    async fn of<K>(client: &Client, into: &mut Vec<String>)
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        for object in Api::<K>::all(client.clone()).list(&ListParams::default()).await.unwrap() {
            into.push(format!("{} {} {:?}", K::kind(&()), object.name_any(), object.resource_version()));
        }
    }
    let mut all = Vec::new();
    of::<Node>(client, &mut all).await;
    of::<MachineConfigPool>(client, &mut all).await;
    of::<MachineConfig>(client, &mut all).await;
    of::<MachineConfigNode>(client, &mut all).await;
    of::<k8s_openapi::api::events::v1::Event>(client, &mut all).await;
    of::<k8s_openapi::api::core::v1::Secret>(client, &mut all).await;
    all
}
