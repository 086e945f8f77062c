//! Fleet benchmark: the embedded server in memory, the controllers, and simulated nodes in one process.
//! `fleet NODES [TAKES_MS]` rolls out one change and prints its costs as JSON; `cargo xtask bench rollout` runs it and compares
//! them with limits.

mod counting_service;
mod machines;
mod meter;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::time::Duration;

use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use seaworthy_api::machineconfiguration::{ControllerConfig, MachineConfig, MachineConfigPool};
use seaworthy_machineconfig::operator::MachineConfigOptions;
use seaworthy_machineconfig::{Context, operator};
use seaworthy_runtime::NAMESPACE;
use seaworthy_testkit::{Embedded, controller_config};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::mpsc::unbounded_channel;

use counting_service::CountingService;
use meter::Meter;

/// The allocator of the product.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The pools, with their shares of all nodes in percent.
const POOLS: [(&str, usize); 4] = [("worker", 50), ("infra", 25), ("edge", 15), ("master", 10)];
/// Without writes for this long, no work is in progress: longer than any interval of a controller, which is ten seconds.
const QUIET_PERIOD: Duration = Duration::from_secs(12);
/// How long the idle cost is measured.
const IDLE_PERIOD: Duration = Duration::from_secs(20);
/// How long one stage may take.
const STAGE_TIMEOUT: Duration = Duration::from_secs(900);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), BoxError> {
    // As in the product.
    seaworthy_resident::disable_huge_pages();
    let mut args = std::env::args().skip(1);
    let nodes: usize = args.next().ok_or("how many nodes?")?.parse()?;
    let takes: u64 = args.next().map_or(Ok(0), |text| text.parse())?;
    tracing::subscriber::set_global_default(meter::DecisionSubscriber)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    println!("{}", runtime.block_on(run(nodes, Duration::from_millis(takes)))?);
    Ok(())
}

async fn run(nodes: usize, takes: Duration) -> Result<Value, BoxError> {
    let cluster = Embedded::start().await;
    let (orders, written) = unbounded_channel();
    let controllers_service = CountingService::new(cluster.server(), "plane", Some(orders));
    let machines_service = CountingService::new(cluster.server(), "machines", None);
    // Setup and observation are not counted.
    let client = cluster.client();
    operator::install(&client, NAMESPACE).await?;
    let context = Context::new(Client::new(controllers_service.clone(), "default"));
    let controllers = tokio::spawn(operator::run(context, MachineConfigOptions::default()));
    let machines = tokio::spawn(machines::follow(machines_service.clone(), written, takes));

    let work = async {
        create::<ControllerConfig>(&client, controller_config()).await?;
        for role in ["infra", "edge"] {
            create::<MachineConfigPool>(&client, custom_pool(role)).await?;
        }
        let before = targets(&client, &BTreeMap::new()).await?;
        for (pool, _) in POOLS {
            let patch = Patch::Merge(json!({"spec": {"maxUnavailable": "10%"}}));
            let api: Api<MachineConfigPool> = Api::all(client.clone());
            api.patch(pool, &PatchParams::default(), &patch).await?;
        }
        let filling = Meter::start();
        let mut members = BTreeMap::new();
        for index in 0..nodes {
            let role = role(index);
            machines::join(&machines_service, &machines::node(index, role, &before[role])).await?;
            *members.entry(role).or_insert(0_usize) += 1;
        }
        until_all_run(&client, &before, &members).await?;
        let joined = filling.wall();
        until_quiet(&controllers_service).await;
        let filled = json!({
            "wallMs": millis(joined), "cpuMs": millis(filling.cpu()),
            "planeWrites": controllers_service.writes(), "residentBytes": meter::memory("VmRSS"),
        });
        let node = machines::name(0);
        let stored: Value =
            client.request(http::Request::get(format!("/api/v1/nodes/{node}")).body(Vec::new())?).await?;

        let (controllers_before, machines_before) = (controllers_service.writes(), machines_service.writes());
        meter::decisions();
        let rolling = Meter::start();
        for role in ["worker", "master"] {
            create::<MachineConfig>(&client, file(role)).await?;
        }
        let after = targets(&client, &before).await?;
        until_all_run(&client, &after, &members).await?;
        let wall = rolling.wall();
        until_quiet(&controllers_service).await;
        let cpu = rolling.cpu();
        let decisions = meter::decisions();
        let (controllers_writes, machine_writes) =
            (since(&controllers_service, &controllers_before), since(&machines_service, &machines_before));

        let before_idle = controllers_service.writes();
        let idling = Meter::start();
        tokio::time::sleep(IDLE_PERIOD).await;
        let idle_cpu = idling.cpu();
        let idle_writes: u64 = since(&controllers_service, &before_idle).values().sum();
        Ok::<Value, BoxError>(json!({
            "nodes": nodes,
            "takesMs": millis(takes),
            "nodeBytes": stored.to_string().len(),
            "filled": filled,
            "wallMs": millis(wall),
            "cpuMs": millis(cpu),
            "planeWrites": controllers_writes,
            "machineWrites": machine_writes,
            "decisions": summary(decisions),
            "peakBytes": meter::memory("VmHWM"),
            "residentBytes": meter::memory("VmRSS"),
            "idle": {"wallMs": millis(IDLE_PERIOD), "cpuMs": millis(idle_cpu), "writes": idle_writes},
        }))
    };
    tokio::select! {
        result = work => result,
        ended = controllers => Err(format!("the controllers ended: {ended:?}").into()),
        ended = machines => Err(format!("the machines ended: {ended:?}").into()),
    }
}

/// The pool of a node; pools are mixed, as in a cluster.
fn role(index: usize) -> &'static str {
    // 37 and 100 have no common divisor, so a hundred nodes are spread over all parts.
    let place = index * 37 % 100;
    let mut end = 0;
    let found = POOLS.iter().find(|(_, part)| {
        end += part;
        place < end
    });
    found.map_or("worker", |(role, _)| role)
}

/// The targets of all pools, once they all have one that is not among `old`.
async fn targets(client: &Client, old: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, BoxError> {
    until(client, |pools| {
        let target = |pool: &MachineConfigPool| Some((name(pool), pool.spec.configuration.as_ref()?.name.clone()?));
        let targets: BTreeMap<String, String> =
            pools.iter().filter_map(target).filter(|(_, it)| !it.is_empty()).collect();
        let is_new =
            |(pool, _): &(&str, usize)| targets.get(*pool).is_some_and(|target| old.get(*pool) != Some(target));
        POOLS.iter().all(is_new).then_some(targets)
    })
    .await
}

/// Waits until every node of every pool is counted and runs its target.
async fn until_all_run(
    client: &Client,
    targets: &BTreeMap<String, String>,
    members: &BTreeMap<&str, usize>,
) -> Result<(), BoxError> {
    until(client, |pools| {
        let is_done = |pool: &MachineConfigPool| {
            let name = name(pool);
            let status = pool.status.as_ref()?;
            let config = status.configuration.as_ref()?.name.as_ref()?;
            let counted = usize::try_from(status.updated_machine_count?).ok()?;
            (targets.get(&name) == Some(config) && members.get(name.as_str()) == Some(&counted)).then_some(name)
        };
        let done: BTreeSet<String> = pools.iter().filter_map(is_done).collect();
        (done.len() == members.len()).then_some(())
    })
    .await
}

/// Polls the pools until a condition holds.
async fn until<T>(client: &Client, is: impl Fn(&[MachineConfigPool]) -> Option<T>) -> Result<T, BoxError> {
    let pools: Api<MachineConfigPool> = Api::all(client.clone());
    let begun = Meter::start();
    loop {
        let found = pools.list(&Default::default()).await?.items;
        if let Some(found) = is(&found) {
            return Ok(found);
        }
        if begun.wall() > STAGE_TIMEOUT {
            let states: Vec<_> = found.iter().map(|pool| (name(pool), &pool.status)).collect();
            return Err(format!("timed out waiting for the pools: {states:#?}").into());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn until_quiet(service: &CountingService) {
    let mut seen = None;
    while seen.as_ref() != Some(&service.writes()) {
        seen = Some(service.writes());
        tokio::time::sleep(QUIET_PERIOD).await;
    }
}

/// The writes since.
fn since(service: &CountingService, before: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let new = service.writes().into_iter().map(|(what, count)| {
        let old = before.get(&what).copied().unwrap_or(0);
        (what, count - old)
    });
    new.filter(|(_, count)| *count > 0).collect()
}

/// A summary of the decisions about the biggest pool.
fn summary(mut decisions: Vec<meter::Decision>) -> Value {
    let count = decisions.len();
    let biggest = decisions.iter().map(|decision| decision.nodes).max().unwrap_or(0);
    decisions.retain(|decision| decision.nodes == biggest);
    decisions.sort_unstable_by_key(|decision| decision.micros);
    let nth = |nth: usize| decisions.get(nth).map_or(0, |decision| decision.micros);
    json!({
        "count": count,
        "biggestPool": biggest,
        "p50Micros": nth(decisions.len() / 2),
        "maxMicros": nth(decisions.len().saturating_sub(1)),
    })
}

async fn create<K>(client: &Client, object: Value) -> Result<K, BoxError>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + serde::Serialize,
{
    Ok(Api::all(client.clone()).create(&PostParams::default(), &serde_json::from_value(object)?).await?)
}

fn name(pool: &MachineConfigPool) -> String {
    pool.metadata.name.clone().unwrap_or_default()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn custom_pool(role: &str) -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfigPool",
        "metadata": {"name": role},
        "spec": {
            "machineConfigSelector": {"matchExpressions": [
                {"key": "machineconfiguration.openshift.io/role", "operator": "In", "values": ["worker", role]},
            ]},
            "nodeSelector": {"matchLabels": {format!("node-role.kubernetes.io/{role}"): ""}},
        },
    })
}

/// A MachineConfig that writes one file.
fn file(role: &str) -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "MachineConfig",
        "metadata": {"name": format!("50-{role}-motd"), "labels": {"machineconfiguration.openshift.io/role": role}},
        "spec": {"config": {
            "ignition": {"version": "3.5.0"},
            "storage": {"files": [{"path": "/etc/motd", "mode": 420, "contents": {"source": "data:,hello"}}]},
        }},
    })
}
