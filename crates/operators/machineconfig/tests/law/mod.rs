//! The law that what is planned is what is done: for random clusters and manifests, what `preview` foresees is what the
//! controllers then do on the embedded server: which manifests are refused, what each pool targets, who is given it first,
//! and why the others wait.
//!
//! Time is tokio's and stands still while anybody works. `SEAWORTHY_LAWS` sets how many clusters are tried,
//! `SEAWORTHY_SEED` tries the one with that seed.
#![allow(clippy::unwrap_used)]

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
use seaworthy_generate::base::Templates;
use seaworthy_machineconfig::operator::{NAMESPACE, Options};
use seaworthy_machineconfig::preview::{Admission, Application, Foresight, Means, foresee};
use seaworthy_machineconfig::render::render_pool::Remote;
use seaworthy_machineconfig::world::World;
use seaworthy_machineconfig::{Context, operator};
use seaworthy_plan::rendering::targeted;
use seaworthy_plan::rollout::waiting::Waiting;
use seaworthy_testkit::{Chance, Embedded, Machines, Manners, controller_config, file};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::sleep;

/// How many clusters the normal run tries.
const CLUSTERS: u64 = 12;
/// Time for the plane to come to rest. Nobody waits for it to pass.
const REST: Duration = Duration::from_secs(120);
/// The custom pools that there may be.
const CUSTOM: [&str; 2] = ["edge", "infra"];

/// Who applies what is planned. What others applied before stays.
const KUBECTL: &str = "kubectl";
/// A field that no kind has.
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

fn budget(chance: &mut Chance) -> Value {
    let of = [json!(1), json!(2), json!(3), json!(0), json!("50%"), json!("0%"), json!("150%"), json!(-1)];
    of[usize::try_from(chance.below(of.len() as u64)).unwrap()].clone()
}

/// Something that somebody may want of a cluster; some of it is wrong.
fn manifest(chance: &mut Chance, nth: u64) -> Value {
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
        // Only a part: what is not said stays.
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

/// Applies a manifest under a name, as `kubectl apply --server-side` does under its own. Untyped, as what is wrong is the
/// server's to judge.
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

/// Runs the plane until it has nothing left to do.
async fn until_rest(client: &Client) {
    let running = tokio::spawn(operator::run(Context::new(client.clone()), Options::default()));
    sleep(REST).await;
    running.abort();
    let _ = running.await;
}

/// Lets nodes join: some like others, some in no pool, in two, new, away.
async fn join(client: &Client, machines: &Machines, chance: &mut Chance) {
    for nth in 0..3 + chance.below(6) {
        let name = format!("n{nth}");
        let role = ["worker", "worker", "worker", "master", "stray"][usize::try_from(chance.below(5)).unwrap()];
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

/// What each node was told to run.
async fn orders(client: &Client) -> BTreeSet<(String, Option<String>)> {
    let nodes = all::<Node>(client).await;
    nodes
        .iter()
        .map(|node| (node.name_any(), annotation::DESIRED_CONFIG.of(&node.metadata).map(str::to_owned)))
        .collect()
}

async fn cluster(seed: u64) -> usize {
    let mut chance = Chance::new(seed);
    let server = Embedded::start().await;
    let client = server.client();
    operator::install(&client, NAMESPACE).await.unwrap();
    let object: ControllerConfig = serde_json::from_value(controller_config()).unwrap();
    Api::all(client.clone()).create(&PostParams::default(), &object).await.unwrap();
    for pool in CUSTOM {
        if chance.below(3) == 0 {
            let mut object = custom_pool(pool, json!(1), false);
            write(&client, "another", &object).await.unwrap();
            // So that it is known that this is done on the server's side.
            object.as_object_mut().unwrap().remove("spec");
            write(&client, KUBECTL, &object).await.unwrap();
        }
    }
    until_rest(&client).await;
    let machines = Machines::start(client.clone(), Manners::default());
    join(&client, &machines, &mut chance).await;
    until_rest(&client).await;
    // From here on nobody begins what they are told, so that who was told first can be seen.
    machines.behave(|manners| manners.takes = Duration::from_secs(100_000_000));

    let mut manifests: Vec<Value> = (0..1 + chance.below(5)).map(|nth| manifest(&mut chance, nth)).collect();
    // A node that comes into a pool while that gets another target may be given the old one first, and then is ahead of others.
    if let Some(node) = manifests.iter().find(|manifest| manifest["kind"] == "Node").cloned() {
        manifests = vec![node];
    }
    let now = Timestamp::now();
    let before = World::read(&client, true).await.unwrap();
    let mut after = before.clone();
    let admission = Admission::of_changes();
    let ordered = orders(&client).await;
    for manifest in &manifests {
        let (foreseen, mut found) = (after.apply(manifest, &admission, now), write(&client, KUBECTL, manifest).await);
        if manifest["spec"].get(MISSPELT).is_some() {
            // That is what kubectl refuses, whatever else is wrong; others come as far as without it.
            let said = found.unwrap_err().to_string();
            let is_told = |applied: &Application| applied.dropped.iter().any(|found| found.path.ends_with(MISSPELT));
            assert!(said.contains(MISSPELT) && foreseen.iter().all(is_told), "seed {seed}: {said} {foreseen:#?}");
            let mut manifest = manifest.clone();
            manifest["spec"].as_object_mut().unwrap().remove(MISSPELT);
            found = write(&client, KUBECTL, &manifest).await;
        }
        assert_eq!(foreseen.is_err(), found.is_err(), "seed {seed}: {manifest:#}\n{foreseen:#?}\n{found:#?}");
        if let (Err(foreseen), Err(found)) = (foreseen, found) {
            let found = found.to_string();
            assert!(foreseen.iter().all(|objection| found.contains(&objection.path)), "{foreseen:#?} {found}");
        }
    }
    let remote =
        Remote { policy: Policy::default(), snapshots: Arc::new(MemorySnapshots::new(1 << 20)), is_offline: true };
    let build = Context::new(client.clone()).build.to_string();
    let foresight =
        foresee(&before, after, &Means { remote, templates: Templates::default(), build, now, is_cluster: true }).await;

    until_rest(&client).await;
    compare(seed, &client, &foresight, &ordered, &manifests).await;
    foresight.pools.iter().map(|pool| pool.outlook.chosen.len()).sum()
}

/// What was foreseen, and what has come of it.
async fn compare(
    seed: u64,
    client: &Client,
    foresight: &Foresight,
    ordered: &BTreeSet<(String, Option<String>)>,
    manifests: &[Value],
) {
    let told = |what: &str| format!("seed {seed}: {what}: {manifests:#?}");
    let pools = all::<MachineConfigPool>(client).await;
    let names: BTreeSet<String> = pools.iter().map(|pool| pool.name_any()).collect();
    assert_eq!(names, foresight.pools.iter().map(|pool| pool.name.clone()).collect(), "{}", told("pools"));
    let mut chosen = BTreeSet::new();
    for foreseen in &foresight.pools {
        let pool = pools.iter().find(|pool| pool.name_any() == foreseen.name).unwrap();
        let target = targeted(pool).map(str::to_owned);
        let about = |what: &str| told(&format!("pool {}, {what}", foreseen.name));
        assert_eq!(target, foreseen.outlook.target, "{}", about("target"));
        if let (Some(name), Some(after)) = (&target, &foreseen.after) {
            let object: MachineConfig = Api::all(client.clone()).get(name).await.unwrap();
            assert_eq!(object.spec, after.spec, "{}", about("content"));
        }
        let conditions = pool.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let failed = conditions.into_iter().find(|condition| {
            condition.type_.as_deref() == Some("RenderDegraded") && condition.status.as_deref() == Some("True")
        });
        let reason = failed.and_then(|condition| condition.reason.clone());
        let foreseen_reason = foreseen.failure.as_ref().map(|failure| failure.reason.as_str().to_owned());
        assert_eq!(reason, foreseen_reason, "{}", about("failure"));
        chosen.extend(foreseen.outlook.chosen.iter().map(|node| (node.clone(), target.clone())));
    }
    let orders = orders(client).await;
    let new: BTreeSet<_> = orders.difference(ordered).cloned().collect();
    assert_eq!(new, chosen, "{}", told("who is first"));

    let progress = all::<MachineConfigNode>(client).await;
    let waiting = foresight.pools.iter().flat_map(|pool| &pool.outlook.waiting).chain(&foresight.without_pool);
    for Waiting { node, reason } in waiting {
        let found = progress.iter().find(|found| &found.name_any() == node).unwrap();
        let conditions = found.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let said = conditions.into_iter().find(|condition| condition.type_ == "Updated").map(|found| &*found.reason);
        assert_eq!(said, Some(reason.word().as_str()), "{}", told(&format!("why {node} waits")));
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is no number")))
}

#[test]
fn what_is_planned_is_what_the_controllers_do() {
    let run = |seed: u64| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(cluster(seed))
    };
    if let Some(seed) = number("SEAWORTHY_SEED") {
        run(seed);
        return;
    }
    let moved: usize = (0..number("SEAWORTHY_LAWS").unwrap_or(CLUSTERS)).map(run).sum();
    assert!(moved > 0, "nothing was tried");
}
