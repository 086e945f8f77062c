//! Preview equivalence: for random clusters and manifests, the preview is what the controllers then do on the embedded server:
//! which manifests are refused, what each pool targets, which nodes are ordered to it first, and why the others wait.
//!
//! Time is tokio's and passes only while all tasks are idle. `SEAWORTHY_CLUSTERS` sets how many clusters are tried,
//! `SEAWORTHY_SEED` tries the one with that seed.
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt as _};
use seaworthy_api::machineconfiguration::{
    ContainerRuntimeConfig, ControllerConfig, KubeletConfig, MachineConfig, MachineConfigNode, MachineConfigPool,
};
use seaworthy_api::vocabulary::machineconfiguration::node as annotation;
use seaworthy_fetch::{MemorySnapshots, Policy};
use seaworthy_machineconfig::MachineConfigOperator;
use seaworthy_machineconfig::cluster_state::{ClusterState, ReadScope};
use seaworthy_machineconfig::operator::{MachineConfigOptions, definitions};
use seaworthy_machineconfig::preview::{Preview, PreviewInputs, preview_changes};
use seaworthy_machineconfig::render::render_pool::Remote;
use seaworthy_machineconfig::{Context, operator};
use seaworthy_plan::rendering::targeted;
use seaworthy_plan::rollout::waiting::Waiting;
use seaworthy_preview::{Admission, ApplyResult};
use seaworthy_runtime::{NAMESPACE, Operator as _};
use seaworthy_testkit::{Embedded, NodeBehaviour, NodeSimulator, SeededRandom, controller_config, file};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::sleep;

/// How many clusters the normal run tries.
const CLUSTERS: u64 = 12;
/// Virtual time for the controllers to become idle.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(120);
/// The custom pools that there may be.
const CUSTOM: [&str; 2] = ["edge", "infra"];

/// The field manager of planned manifests. Fields of others stay.
const KUBECTL: &str = "kubectl";
/// An unknown field.
const MISSPELT: &str = "maxUnavailabel";

fn settings(kind: &str, name: &str, pool: &str, spec: Value) -> Value {
    let mut all = json!({
        "machineConfigPoolSelector": {"matchLabels": {format!("pools.operator.machineconfiguration.openshift.io/{pool}"): ""}},
    });
    all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": kind, "metadata": {"name": name}, "spec": all})
}

fn custom_pool(name: &str, max: Value, paused: bool) -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
        "metadata": {"name": name, "labels": {format!("pools.operator.machineconfiguration.openshift.io/{name}"): ""}},
        "spec": {
            "machineConfigSelector": {"matchExpressions": [
                {"key": "machineconfiguration.openshift.io/role", "operator": "In", "values": ["worker", name]},
            ]},
            "nodeSelector": {"matchLabels": {format!("node-role.kubernetes.io/{name}"): ""}},
            "maxUnavailable": max,
            "paused": paused,
        },
    })
}

fn budget(chance: &mut SeededRandom) -> Value {
    let of = [json!(1), json!(2), json!(3), json!(0), json!("50%"), json!("0%"), json!("150%"), json!(-1)];
    of[usize::try_from(chance.below(of.len() as u64)).unwrap()].clone()
}

/// A random manifest; some are invalid.
fn manifest(chance: &mut SeededRandom, nth: u64) -> Value {
    let role = ["worker", "worker", "infra", "edge", "master"][usize::try_from(chance.below(5)).unwrap()];
    let custom = CUSTOM[usize::try_from(chance.below(2)).unwrap()];
    match chance.below(20) {
        0..=2 => file(&format!("50-motd-{nth}"), role, "/etc/motd", &format!("text-{nth}")),
        3 => file(&format!("51-relative-{nth}"), role, "etc/motd", "x"),
        4 => {
            let mut object = file(&format!("52-arguments-{nth}"), role, "/etc/a", "a");
            object["spec"]["kernelArguments"] = json!(["nosmt", format!("x={nth}")]);
            object
        }
        5 => {
            let mut object = file(&format!("53-kind-{nth}"), role, "/etc/a", "a");
            object["spec"]["kernelArguments"] = json!("nosmt");
            object
        }
        6 => settings("KubeletConfig", "set-max-pods", role, json!({"kubeletConfig": {"maxPods": 100 + nth}})),
        7 => settings("KubeletConfig", "set-nonsense", role, json!({"kubeletConfig": {"maxPodz": 1}})),
        8 => settings("KubeletConfig", "set-level", role, json!({"logLevel": 9 + nth % 4})),
        9..=10 => {
            let limit = [19, 20, 2048, 4096][usize::try_from(chance.below(4)).unwrap()];
            settings(
                "ContainerRuntimeConfig",
                "set-pids",
                role,
                json!({"containerRuntimeConfig": {"pidsLimit": limit}}),
            )
        }
        11..=12 => custom_pool(custom, budget(chance), chance.below(4) == 0),
        13 => custom_pool(custom, json!("many"), false),
        // A partial manifest: other fields stay.
        15..=16 => {
            let name = ["worker", custom][usize::try_from(chance.below(2)).unwrap()];
            let mut object = custom_pool(name, json!(1), false);
            object["spec"] = json!({"maxUnavailable": budget(chance)});
            object
        }
        17 => {
            let labels = json!({format!("node-role.kubernetes.io/{custom}"): ""});
            let name = format!("n{}", chance.below(3));
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
        }
        14 => {
            let mut object = custom_pool(custom, budget(chance), false);
            object["spec"]["nodeSelector"]["matchLabels"] = json!({"node-role.kubernetes.io/worker": ""});
            object
        }
        _ => {
            let mut object = custom_pool(custom, budget(chance), false);
            object["spec"][MISSPELT] = json!(1);
            object
        }
    }
}

/// Applies a manifest with a field manager, as `kubectl apply --server-side` does. Untyped, so that the server validates
/// mistakes.
async fn write(client: &Client, by: &str, manifest: &Value) -> Result<(), kube::Error> {
    let list = match manifest["kind"].as_str().unwrap() {
        "MachineConfig" => MachineConfig::url_path(&(), None),
        "MachineConfigPool" => MachineConfigPool::url_path(&(), None),
        "KubeletConfig" => KubeletConfig::url_path(&(), None),
        "Node" => Node::url_path(&(), None),
        _ => ContainerRuntimeConfig::url_path(&(), None),
    };
    let url = format!("{list}/{}?fieldManager={by}&force=true", manifest["metadata"]["name"].as_str().unwrap());
    let request = http::Request::patch(url).header("content-type", "application/apply-patch+yaml");
    client.request::<Value>(request.body(serde_json::to_vec(manifest).unwrap()).unwrap()).await.map(drop)
}

async fn all<K>(client: &Client) -> Vec<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    Api::<K>::all(client.clone()).list(&ListParams::default()).await.unwrap().items
}

/// Runs the controllers until they have nothing left to do.
async fn run_until_idle(client: &Client) {
    let running = tokio::spawn(operator::run(Context::new(client.clone()), MachineConfigOptions::default()));
    sleep(SETTLE_TIMEOUT).await;
    running.abort();
    let _ = running.await;
}

/// Lets nodes join: equal ones, and some in no pool, in two pools, new or unavailable.
async fn join(client: &Client, machines: &NodeSimulator, chance: &mut SeededRandom) {
    for nth in 0..3 + chance.below(6) {
        let name = format!("n{nth}");
        let role = ["worker", "worker", "worker", "master", "unassigned"][usize::try_from(chance.below(5)).unwrap()];
        let pool: Option<MachineConfigPool> = Api::all(client.clone()).get_opt(role).await.unwrap();
        let config = pool.as_ref().and_then(targeted).filter(|_| chance.below(6) > 0).map(str::to_owned);
        machines.join(&name, role, config.as_deref()).await;
        let nodes: Api<Node> = Api::all(client.clone());
        let mut labels = json!({});
        for pool in CUSTOM {
            if chance.below(4) == 0 {
                labels[format!("node-role.kubernetes.io/{pool}")] = json!("");
            }
        }
        if chance.below(2) == 0 {
            labels["topology.kubernetes.io/zone"] = json!(format!("z{}", chance.below(2)));
        }
        let unschedulable = (chance.below(6) == 0).then_some(true);
        let patch = json!({"metadata": {"labels": labels}, "spec": {"unschedulable": unschedulable}});
        nodes.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
        if chance.below(6) == 0 {
            let status = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
            nodes.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
        }
    }
}

/// The order of each node.
async fn orders(client: &Client) -> BTreeSet<(String, Option<String>)> {
    let nodes = all::<Node>(client).await;
    nodes
        .iter()
        .map(|node| (node.name_any(), annotation::DESIRED_CONFIG.of(&node.metadata).map(str::to_owned)))
        .collect()
}

async fn cluster(seed: u64) -> usize {
    let mut chance = SeededRandom::new(seed);
    let server = Embedded::start().await;
    let client = server.client();
    operator::install(&client, NAMESPACE).await.unwrap();
    let object: ControllerConfig = serde_json::from_value(controller_config()).unwrap();
    Api::all(client.clone()).create(&PostParams::default(), &object).await.unwrap();
    for pool in CUSTOM {
        if chance.below(3) == 0 {
            let mut object = custom_pool(pool, json!(1), false);
            write(&client, "another", &object).await.unwrap();
            // So that the object counts as written by server-side apply.
            object.as_object_mut().unwrap().remove("spec");
            write(&client, KUBECTL, &object).await.unwrap();
        }
    }
    run_until_idle(&client).await;
    let machines = NodeSimulator::start(client.clone(), NodeBehaviour::default());
    join(&client, &machines, &mut chance).await;
    run_until_idle(&client).await;
    // From here on no node begins its order, so that the first orders can be observed.
    machines.behave(|behaviour| behaviour.update_duration = Duration::from_secs(100_000_000));

    let mut manifests: Vec<Value> = (0..1 + chance.below(5)).map(|nth| manifest(&mut chance, nth)).collect();
    // A node that joins a pool while that gets another target may be ordered to the old one first, and then precedes others.
    if let Some(node) = manifests.iter().find(|manifest| manifest["kind"] == "Node").cloned() {
        manifests = vec![node];
    }
    let now = Timestamp::now();
    let parts = MachineConfigOperator::default().preview_parts();
    let before = ClusterState::read(&client, ReadScope::Preview(&parts)).await.unwrap();
    let mut after = before.clone();
    let rules = MachineConfigOperator::default().admission_rules();
    let admission = Admission::of(definitions(), rules).for_changes();
    let ordered = orders(&client).await;
    for manifest in &manifests {
        let (previewed, mut found) =
            (after.apply(manifest, "default", &admission, now), write(&client, KUBECTL, manifest).await);
        if manifest["spec"].get(MISSPELT).is_some() {
            // kubectl refuses the field, whatever else is wrong; for other clients it has no effect.
            let error = found.unwrap_err().to_string();
            let is_reported =
                |applied: &ApplyResult| applied.dropped.iter().any(|found| found.path.ends_with(MISSPELT));
            assert!(
                error.contains(MISSPELT) && previewed.iter().all(is_reported),
                "seed {seed}: {error} {previewed:#?}"
            );
            let mut manifest = manifest.clone();
            manifest["spec"].as_object_mut().unwrap().remove(MISSPELT);
            found = write(&client, KUBECTL, &manifest).await;
        }
        assert_eq!(previewed.is_err(), found.is_err(), "seed {seed}: {manifest:#}\n{previewed:#?}\n{found:#?}");
        if let (Err(previewed), Err(found)) = (previewed, found) {
            let found = found.to_string();
            assert!(previewed.iter().all(|issue| found.contains(&issue.path)), "{previewed:#?} {found}");
        }
    }
    let remote =
        Remote { policy: Policy::default(), snapshots: Arc::new(MemorySnapshots::new(1 << 20)), is_offline: true };
    let build = Context::new(client.clone()).build.to_string();
    let preview = preview_changes(&before, after, &PreviewInputs { parts, remote, build, now, is_cluster: true }).await;

    run_until_idle(&client).await;
    compare(seed, &client, &preview, &ordered, &manifests).await;
    preview.pools.iter().map(|pool| pool.outlook.chosen.len()).sum()
}

/// Compares the preview with the cluster after the controllers have run.
async fn compare(
    seed: u64,
    client: &Client,
    preview: &Preview,
    ordered: &BTreeSet<(String, Option<String>)>,
    manifests: &[Value],
) {
    let context = |what: &str| format!("seed {seed}: {what}: {manifests:#?}");
    let pools = all::<MachineConfigPool>(client).await;
    let names: BTreeSet<String> = pools.iter().map(|pool| pool.name_any()).collect();
    assert_eq!(names, preview.pools.iter().map(|pool| pool.name.clone()).collect(), "{}", context("pools"));
    let mut chosen = BTreeSet::new();
    for previewed in &preview.pools {
        let pool = pools.iter().find(|pool| pool.name_any() == previewed.name).unwrap();
        let target = targeted(pool).map(str::to_owned);
        let about = |what: &str| context(&format!("pool {}, {what}", previewed.name));
        assert_eq!(target, previewed.outlook.target, "{}", about("target"));
        if let (Some(name), Some(after)) = (&target, &previewed.after) {
            let object: MachineConfig = Api::all(client.clone()).get(name).await.unwrap();
            assert_eq!(object.spec, after.spec, "{}", about("content"));
        }
        let conditions = pool.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let failed = conditions.into_iter().find(|condition| {
            condition.type_.as_deref() == Some("RenderDegraded") && condition.status.as_deref() == Some("True")
        });
        let reason = failed.and_then(|condition| condition.reason.clone());
        let expected_reason = previewed.failure.as_ref().map(|failure| failure.reason.as_str().to_owned());
        assert_eq!(reason, expected_reason, "{}", about("failure"));
        chosen.extend(previewed.outlook.chosen.iter().map(|node| (node.clone(), target.clone())));
    }
    let orders = orders(client).await;
    let new: BTreeSet<_> = orders.difference(ordered).cloned().collect();
    assert_eq!(new, chosen, "{}", context("first orders"));

    let progress = all::<MachineConfigNode>(client).await;
    let waiting = preview.pools.iter().flat_map(|pool| &pool.outlook.waiting).chain(&preview.without_pool);
    for Waiting { node, reason } in waiting {
        let found = progress.iter().find(|found| &found.name_any() == node).unwrap();
        let conditions = found.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let reported =
            conditions.into_iter().find(|condition| condition.type_ == "Updated").map(|found| &*found.reason);
        assert_eq!(reported, Some(reason.code().as_str()), "{}", context(&format!("why {node} waits")));
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is no number")))
}

#[test]
fn preview_is_what_the_controllers_do() {
    let run = |seed: u64| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(cluster(seed))
    };
    if let Some(seed) = number("SEAWORTHY_SEED") {
        run(seed);
        return;
    }
    let moved: usize = (0..number("SEAWORTHY_CLUSTERS").unwrap_or(CLUSTERS)).map(run).sum();
    assert!(moved > 0, "nothing was tried");
}
