//! One history: a pool, its nodes, one or two planes, bad weather, and what people do; then all is calm.

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
use seaworthy_machineconfig::operator::{NAMESPACE, Options};
use seaworthy_machineconfig::{Context, operator};
use seaworthy_runtime::{Campaign, Terms};
use seaworthy_testkit::{Chance, Embedded, Faults, Injected, Machines, Manners, Observer, Weather};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

/// How many things happen to each.
const EVENTS: usize = 24;
/// How long it may take until all nodes are there once everything is calm. Nobody waits for it to pass.
const PATIENCE: Duration = Duration::from_secs(60 * 60);
/// How long nothing may be written then.
const QUIET: Duration = Duration::from_secs(10 * 60);

/// How many requests planes may make from calm to the end: so many that a loop without a rest exceeds it, in which two who
/// see differently write against each other.
const MOST_ASKED: u64 = 3000;

/// What one history, or several, came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    pub orders: usize,
    pub most: usize,
    pub changes: usize,
    pub planes: usize,
    pub injected: Injected,
    /// Virtual seconds from calm to the end.
    pub longest_to_calm: u64,
    /// Writes in the ten quiet minutes; renewals of leases are not among them.
    pub idle_writes: u64,
}

impl Figures {
    pub fn add(&mut self, other: &Figures) {
        self.orders += other.orders;
        self.most = self.most.max(other.most);
        self.changes += other.changes;
        self.planes += other.planes;
        self.longest_to_calm = self.longest_to_calm.max(other.longest_to_calm);
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

/// Planes for one cluster, by turns or at once.
struct Planes {
    server: Embedded,
    weather: Weather,
    /// Seconds by which the wall clock is wrong.
    jump: Arc<AtomicI64>,
    start: Instant,
    is_elected: bool,
    running: Vec<JoinHandle<()>>,
    started: usize,
}

impl Planes {
    fn run_one(&mut self) {
        self.started += 1;
        let (client, is_elected) = (self.server.client_in(&self.weather), self.is_elected);
        let identity = format!("plane-{}", self.started);
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
                    let (mut campaign, leadership) =
                        Campaign::new(client.clone(), NAMESPACE, "seaworthy-controllers", &identity, Terms::default());
                    context.leadership = leadership;
                    tokio::select! {
                        () = campaign.run() => {}
                        _ = operator::run(context, Options::default()) => {}
                    }
                } else {
                    let _ = operator::run(context, Options::default()).await;
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
    // What is gone cannot be changed.
    let _ = Api::<K>::all(client.clone()).patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await;
}

async fn pool(client: &Client) -> MachineConfigPool {
    Api::all(client.clone()).get("worker").await.unwrap()
}

fn target(pool: &MachineConfigPool) -> Option<&str> {
    pool.spec.configuration.as_ref()?.name.as_deref().filter(|name| !name.is_empty())
}

/// Something that people or nature do.
async fn happens(
    client: &Client,
    machines: &Machines,
    planes: &mut Planes,
    chance: &mut Chance,
    seed: u64,
    nth: usize,
) {
    let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await.unwrap().items;
    let node = nodes[usize::try_from(chance.below(nodes.len() as u64)).unwrap()].name_any();
    match chance.below(20) {
        0..=3 => {
            // Sometimes it is one that was there before.
            let text = format!("text-{seed}-{}", if chance.below(3) == 0 { 0 } else { nth });
            patch::<MachineConfig>(client, "50-motd", json!({"spec": machine_config(&text)["spec"].clone()})).await;
        }
        4..=6 => {
            let at = chance.draw();
            planes.kill(at);
            planes.run_one();
        }
        7 => {
            // A spare for a while.
            planes.run_one();
            if planes.running.len() > 2 {
                let at = chance.draw();
                planes.kill(at);
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
        13 => planes.jump.store(i64::try_from(chance.below(20_000)).unwrap() - 10_000, Ordering::Relaxed),
        14 => {
            let text = json!({"config": "x", "nodes": {node: "99999999"}}).to_string();
            let text = if chance.below(2) == 0 { text } else { "{no JSON".to_owned() };
            // Only what adds to a promise: who takes one away takes the budget into their own hands.
            if ours::PROMISED.of(&pool(client).await.metadata).is_none() {
                patch::<MachineConfigPool>(
                    client,
                    "worker",
                    json!({"metadata": {"annotations": {ours::PROMISED.as_str(): text}}}),
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
                // Under the name of a controller, or the policy would keep it off.
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
    let mut chance = Chance::new(seed);
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
    let manners = Manners {
        takes: Duration::from_millis(chance.below(20_000)),
        says_working: chance.below(2) == 0,
        ..Manners::default()
    };
    let machines = Machines::start(client.clone(), manners);
    for nth in 0..3 + chance.below(5) {
        machines.join(&format!("w{nth}"), "worker", Some("before")).await;
    }
    let observer = Observer::start(client.clone(), "worker");
    let weather = Weather::new(Faults::all(), seed);
    let is_elected = seed.is_multiple_of(2);
    let mut planes = Planes {
        server,
        weather: weather.clone(),
        jump: Arc::default(),
        start: Instant::now(),
        is_elected,
        running: Vec::new(),
        started: 0,
    };
    // Without an election, two of them are two at once.
    for _ in 0..1 + chance.below(2) {
        planes.run_one();
    }
    for nth in 0..EVENTS {
        sleep(Duration::from_millis(chance.below(15_000))).await;
        happens(&client, &machines, &mut planes, &mut chance, seed, nth).await;
        if std::env::var_os("SEAWORTHY_SEED").is_some() {
            let (passed, seen) = (planes.start.elapsed(), observer.seen());
            println!(
                "{passed:?}: {} changes, {:?} under order, {:?}",
                seen.changes,
                seen.under_order,
                weather.injected()
            );
        }
        let seen = observer.seen();
        assert!(seen.excesses.is_empty(), "seed {seed}: {:#?}\n{}", seen.excesses, seen.told.join("\n"));
    }

    let is_told = std::env::var_os("SEAWORTHY_SEED").is_some();
    // All is calm.
    weather.becomes(Faults::default());
    let (calm, asked) = (Instant::now(), weather.injected().requests);
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
            if has_arrived(&client, &text).await {
                return;
            }
            if is_told && calm.elapsed().as_secs().is_multiple_of(60) {
                let (passed, seen) = (calm.elapsed(), observer.seen());
                println!(
                    "calm {passed:?}: {} changes, {:?} under order, {:?}",
                    seen.changes,
                    seen.under_order,
                    weather.injected()
                );
            }
            sleep(Duration::from_secs(1)).await;
        }
    };
    if timeout(PATIENCE, arrives).await.is_err() {
        let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await.unwrap().items;
        let nodes: Vec<_> = nodes.iter().map(|node| (node.name_any(), node.annotations())).collect();
        panic!("seed {seed}: it does not come to an end: {:#?} {nodes:#?}", pool(&client).await);
    }
    let longest_to_calm = calm.elapsed().as_secs();

    // Whatever was under way may come to its end; after that nothing is written.
    sleep(Duration::from_secs(5 * 60)).await;
    let before = written(&client).await;
    sleep(QUIET).await;
    let after = written(&client).await;
    let idle: Vec<&String> = after.iter().filter(|object| !before.contains(object)).collect();
    let seen = observer.seen();
    assert!(seen.excesses.is_empty(), "seed {seed}: {:#?}\n{}", seen.excesses, seen.told.join("\n"));
    // Nothing is heard of the pool any more: what is suspected now is certain.
    assert!(seen.suspected.is_empty(), "seed {seed}: {:#?}\n{}", seen.suspected, seen.told.join("\n"));
    assert!(idle.is_empty(), "seed {seed}: nothing changes, and something is written: {idle:#?}");
    // Leases are among them.
    let asked = weather.injected().requests - asked;
    assert!(asked < MOST_ASKED, "seed {seed}: {asked} requests since all is calm");
    let idle_writes = idle.len() as u64;
    for plane in &planes.running {
        plane.abort();
    }
    Figures {
        orders: seen.orders,
        most: seen.most,
        changes: seen.changes,
        planes: planes.started,
        injected: weather.injected(),
        longest_to_calm,
        idle_writes,
    }
}

/// Whether every node runs what was asked for last.
async fn has_arrived(client: &Client, text: &str) -> bool {
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

/// What there is of everything that the plane writes, with revisions.
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
