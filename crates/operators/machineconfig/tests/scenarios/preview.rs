//! Previews: what is predicted is what the controllers do.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use seaworthy_api::machineconfiguration::{ContainerRuntimeConfig, MachineConfig, MachineConfigPool};
use seaworthy_api::vocabulary::machineconfiguration::node as annotation;
use seaworthy_api::vocabulary::seaworthy::annotation::PINNED_CONFIGURATION;
use seaworthy_fetch::{MemorySnapshots, Policy};
use seaworthy_machineconfig::MachineConfigOperator;
use seaworthy_machineconfig::cluster_state::{ClusterState, ReadScope};
use seaworthy_machineconfig::operator::definitions;
use seaworthy_machineconfig::preview::{Preview, PreviewInputs, preview_changes, reverted_target};
use seaworthy_machineconfig::render::render_pool::Remote;
use seaworthy_plan::disruption::Level;
use seaworthy_preview::{Admission, ApplyOutcome};
use seaworthy_runtime::{Operator as _, admission_policies};
use serde_json::{Value, json};

use crate::drain::create_blocked_pod;
use crate::fleet::{Fleet, condition, file, has_reached, target};

/// The admission of this operator's kinds.
fn admission() -> Admission {
    Admission::of(definitions(), MachineConfigOperator::default().admission_rules())
}

pub async fn preview_of(fleet: &Fleet, manifest: &Value) -> Preview {
    preview_after(fleet, |cluster| {
        let now = k8s_openapi::jiff::Timestamp::now();
        let applied = cluster.apply(manifest, "default", &admission().for_changes(), now).unwrap();
        assert!(applied.outcome != ApplyOutcome::Ignored && applied.dropped.is_empty(), "{applied:?}");
    })
    .await
}

async fn preview_after(fleet: &Fleet, change: impl FnOnce(&mut ClusterState)) -> Preview {
    let now = k8s_openapi::jiff::Timestamp::now();
    let parts = MachineConfigOperator::default().preview_parts();
    let before = ClusterState::read(&fleet.client, ReadScope::Preview(&parts)).await.unwrap();
    let mut after = before.clone();
    change(&mut after);
    let remote =
        Remote { policy: Policy::default(), snapshots: Arc::new(MemorySnapshots::new(1 << 20)), is_offline: true };
    let build = seaworthy_machineconfig::Context::new(fleet.client.clone()).build.to_string();
    preview_changes(&before, after, &PreviewInputs { parts, remote, build, now, is_cluster: true }).await
}

/// Whether a node has been given a configuration.
fn is_ordered(node: &Node, config: &str) -> bool {
    annotation::DESIRED_CONFIG.of(&node.metadata) == Some(config)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_predicted_orders_are_the_first_given_orders() {
    let fleet = Fleet::with_workers(3).await;
    // Nodes do not complete their orders, so that the first can be observed.
    fleet.machines.behave(|behaviour| behaviour.update_duration = Duration::from_secs(3600));
    let manifest = file("50-motd", "worker", "/etc/motd", "a");
    let preview = preview_of(&fleet, &manifest).await;
    assert_eq!(preview.problems, []);
    let master = preview.pools.iter().find(|pool| pool.name == "master").unwrap();
    assert!(master.outlook.chosen.is_empty() && master.before == master.after);
    let worker = preview.pools.iter().find(|pool| pool.name == "worker").unwrap();
    assert!(worker.failure.is_none(), "{:?}", worker.failure);
    let after = worker.after.as_ref().unwrap().metadata.name.clone().unwrap();
    assert_eq!(worker.outlook.chosen.len(), 1);
    assert_eq!(worker.outlook.level(), Level::Reboot);
    assert_eq!(worker.outlook.forecast.waves.len(), 3);

    fleet.create::<MachineConfig>(manifest).await;
    fleet.pool_is("worker", |pool| target(pool) == Some(&after)).await;
    let first = &worker.outlook.chosen[0];
    fleet.node_is(first, |node| is_ordered(node, &after)).await;
    for node in ["w0", "w1", "w2"].into_iter().filter(|node| node != first) {
        assert!(!is_ordered(&fleet.get::<Node>(node).await, &after), "{node}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn preview_of_a_revert_returns_the_nodes_that_have_begun() {
    let fleet = Fleet::with_workers(2).await;
    fleet.machines.behave(|behaviour| behaviour.update_duration = Duration::from_secs(3600));
    let before = target(&fleet.get::<MachineConfigPool>("worker").await).unwrap().to_owned();
    let manifest = file("50-motd", "worker", "/etc/motd", "a");
    fleet.create::<MachineConfig>(manifest.clone()).await;
    let node = fleet.node_is("w0", |node| !is_ordered(node, &before)).await;
    let under_way = annotation::DESIRED_CONFIG.of(&node.metadata).unwrap().to_owned();
    let revert = |cluster: &mut ClusterState| {
        cluster.delete(&manifest, "default", &admission().for_changes()).unwrap();
    };
    let waves = |preview: &Preview| {
        let worker = preview.pools.iter().find(|pool| pool.name == "worker").unwrap();
        let waves = worker.outlook.forecast.waves.iter().map(|wave| wave.nodes.clone()).collect::<Vec<_>>();
        (waves, worker.outlook.level())
    };
    // As long as it has not begun, its order is recalled.
    assert_eq!(waves(&preview_after(&fleet, revert).await).1, Level::None);

    // It boots, and is unavailable for a while.
    let nodes = fleet.api::<Node>();
    let boots = json!({"metadata": {"annotations": {annotation::STATE.as_str(): "Rebooting"}}});
    nodes.patch("w0", &PatchParams::default(), &Patch::Merge(boots)).await.unwrap();
    let away = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    nodes.patch_status("w0", &PatchParams::default(), &Patch::Merge(away)).await.unwrap();
    let preview = preview_after(&fleet, revert).await;
    assert_eq!(waves(&preview), (vec![vec!["w0".to_owned()]], Level::Reboot));
    let worker = preview.pools.iter().find(|pool| pool.name == "worker").unwrap();
    assert_eq!(worker.outlook.nodes[0].from.as_ref(), Some(&under_way));
    assert_eq!(worker.moved_nodes.keys().collect::<Vec<_>>(), ["w0"]);
    let why: Vec<String> = worker.outlook.waiting.iter().map(|waiting| waiting.reason.stable_text()).collect();
    assert_eq!(why, [format!("still updating to {under_way}")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn preview_of_settings_is_what_is_generated() {
    let fleet = Fleet::with_workers(1).await;
    let manifest = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "ContainerRuntimeConfig",
        "metadata": {"name": "set-pids-limit"},
        "spec": {
            "machineConfigPoolSelector": {"matchLabels": {"pools.operator.machineconfiguration.openshift.io/worker": ""}},
            "containerRuntimeConfig": {"pidsLimit": 2048},
        },
    });
    let preview = preview_of(&fleet, &manifest).await;
    let worker = preview.pools.iter().find(|pool| pool.name == "worker").unwrap();
    assert!(worker.failure.is_none() && preview.problems.is_empty(), "{:?} {:?}", worker.failure, preview.problems);
    assert_ne!(worker.before, worker.after);
    let after = worker.after.as_ref().unwrap().metadata.name.clone().unwrap();
    let first = target(&fleet.get::<MachineConfigPool>("worker").await).unwrap().to_owned();
    fleet.create::<ContainerRuntimeConfig>(manifest.clone()).await;
    fleet.pool_is("worker", |pool| has_reached(pool, &after)).await;

    // And after their deletion.
    let preview = preview_after(&fleet, |cluster| {
        let deleted = cluster.delete(&manifest, "default", &admission().for_changes()).unwrap();
        assert_eq!(deleted.outcome, ApplyOutcome::Deleted);
    });
    let preview = preview.await;
    let worker = preview.pools.iter().find(|pool| pool.name == "worker").unwrap();
    assert_eq!(worker.after.as_ref().unwrap().metadata.name.as_deref(), Some(first.as_str()));
    fleet.api::<ContainerRuntimeConfig>().delete("set-pids-limit", &Default::default()).await.unwrap();
    fleet.pool_is("worker", |pool| has_reached(pool, &first)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn preview_of_a_partial_manifest_is_what_is_applied() {
    let fleet = Fleet::with_workers(3).await;
    let api = fleet.api::<MachineConfigPool>();
    let params = PatchParams::apply("kubectl").force();
    let manifest = |spec: Value| {
        let metadata = json!({"name": "worker"});
        json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool", "metadata": metadata, "spec": spec})
    };
    let planned = async |manifest: &Value| {
        let mut cluster = ClusterState::read(&fleet.client, ReadScope::Preview(&[])).await.unwrap();
        let now = k8s_openapi::jiff::Timestamp::now();
        cluster.apply(manifest, "default", &admission().for_changes(), now).unwrap();
        cluster.pool("worker").unwrap().spec.clone()
    };
    let first = fleet.get::<MachineConfigPool>("worker").await;
    // A field stays while it is applied, and is removed when it is not; fields of others stay.
    for spec in [json!({"maxUnavailable": 2, "paused": true}), json!({"maxUnavailable": 2})] {
        let manifest = manifest(spec);
        let predicted = planned(&manifest).await;
        let done = api.patch("worker", &params, &Patch::Apply(&manifest)).await.unwrap();
        assert_eq!(predicted, done.spec, "{manifest:#}");
        assert_eq!(done.spec.machine_config_selector, first.spec.machine_config_selector);
        assert_eq!(target(&done), target(&first));
    }
    let done = fleet.get::<MachineConfigPool>("worker").await;
    assert_eq!((done.spec.paused, done.spec.node_selector), (None, first.spec.node_selector));

    // A change of the budget alone moves no node.
    let preview = preview_of(&fleet, &manifest(json!({"maxUnavailable": 3}))).await;
    for pool in &preview.pools {
        assert!(pool.failure.is_none(), "{}: {:?}", pool.name, pool.failure);
        assert_eq!(pool.before, pool.after);
        assert!(pool.outlook.chosen.is_empty());
    }
    let worker = preview.pools.iter().find(|pool| pool.name == "worker").unwrap();
    assert_eq!(worker.outlook.max_unavailable, Ok(3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn moved_nodes_are_those_that_the_manifest_moves() {
    let fleet = Fleet::with_workers(2).await;
    fleet.machines.behave(|behaviour| behaviour.update_duration = Duration::from_secs(3600));
    let moved = |preview: &Preview| {
        let all = preview.pools.iter().flat_map(|pool| pool.moved_nodes.clone());
        all.map(|(node, from)| (node, from.unwrap_or_default())).collect::<Vec<_>>()
    };
    let of_worker =
        |nodes: &[&str]| nodes.iter().map(|node| ((*node).to_owned(), "worker".to_owned())).collect::<Vec<_>>();
    let paused = |is_paused: bool| {
        json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
            "metadata": {"name": "worker"}, "spec": {"paused": is_paused},
        })
    };
    let before = target(&fleet.get::<MachineConfigPool>("worker").await).unwrap().to_owned();
    assert_eq!(moved(&preview_of(&fleet, &paused(true)).await), []);
    fleet.patch::<MachineConfigPool>("worker", json!({"spec": {"paused": true}})).await;
    let change = file("50-motd", "worker", "/etc/motd", "a");
    assert_eq!(moved(&preview_of(&fleet, &change).await), of_worker(&["w0", "w1"]));
    fleet.create::<MachineConfig>(change).await;
    fleet.pool_is("worker", |pool| target(pool).is_some_and(|target| target != before)).await;
    // Nodes that wait for the end of a pause are moved by its end, and by nothing else.
    assert_eq!(moved(&preview_of(&fleet, &file("50-motd", "worker", "/etc/motd", "a")).await), []);
    assert_eq!(moved(&preview_of(&fleet, &paused(false)).await), of_worker(&["w0", "w1"]));
    // Also those behind one whose pods cannot be evicted.
    create_blocked_pod(&fleet, "w0").await;
    assert_eq!(moved(&preview_of(&fleet, &paused(false)).await), of_worker(&["w0", "w1"]));
    fleet.patch::<MachineConfigPool>("worker", json!({"spec": {"paused": false}})).await;
    assert_eq!(moved(&preview_of(&fleet, &paused(false)).await), []);
    // A policy that changes the disruption of an update.
    fleet.until("w0", |node: Option<&Node>| node.is_some_and(|node| !is_ordered(node, &before))).await;
    let policy = json!({
        "apiVersion": "operator.openshift.io/v1", "kind": "MachineConfiguration", "metadata": {"name": "cluster"},
        "spec": {"nodeDisruptionPolicy": {"files": [{"path": "/etc/motd", "actions": [{"type": "None"}]}]}},
    });
    assert_eq!(moved(&preview_of(&fleet, &policy).await), of_worker(&["w1"]));
    // Also a node that is updating to another configuration than the pool's present target, after a pause.
    fleet.patch::<MachineConfigPool>("worker", json!({"spec": {"paused": true}})).await;
    let under_way = target(&fleet.get::<MachineConfigPool>("worker").await).unwrap().to_owned();
    fleet.create::<MachineConfig>(file("60-more", "worker", "/etc/more", "a")).await;
    fleet.pool_is("worker", |pool| target(pool).is_some_and(|target| target != under_way)).await;
    assert_eq!(moved(&preview_of(&fleet, &paused(false)).await), of_worker(&["w0", "w1"]));
    let preview = preview_of(&fleet, &paused(true)).await;
    let worker = preview.pools.iter().find(|pool| pool.name == "worker").unwrap();
    assert_eq!(worker.outlook.forecast.waves, [], "no node moves in a paused pool");

    // A node that joins is moved by its manifest.
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "w9", "labels": {"node-role.kubernetes.io/worker": ""}},
    });
    assert_eq!(moved(&preview_of(&fleet, &node).await), [("w9".to_owned(), String::new())]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_deletion_changes_nothing_in_the_preview() {
    let fleet = Fleet::with_workers(1).await;
    let named = |name: &str| json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig", "metadata": {"name": name}});
    let rendered = target(&fleet.get::<MachineConfigPool>("worker").await).unwrap().to_owned();
    let mut cluster = ClusterState::read(&fleet.client, ReadScope::Preview(&[])).await.unwrap();
    let count = cluster.machine_configs().len();
    for (name, why) in [("00-worker", "part of the platform"), (&*rendered, "rendered"), ("50-none", "not found")] {
        let refused = cluster.delete(&named(name), "default", &admission().for_changes()).unwrap_err();
        assert!(refused[0].is_refusal() && refused[0].message.contains(why), "{refused:?}");
    }
    assert_eq!(cluster.machine_configs().len(), count);
    // Nor are the ControllerConfig and built-in pools deleted.
    for (kind, name, why) in [
        ("MachineConfigPool", "worker", "seaworthy rollout pause worker"),
        ("ControllerConfig", "machine-config-controller", "kubectl edit controllerconfig machine-config-controller"),
    ] {
        let manifest =
            json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": kind, "metadata": {"name": name}});
        let admission = admission_policies::for_changes_to(&fleet.client, admission()).await;
        let refused = cluster.delete(&manifest, "default", &admission).unwrap_err();
        assert!(refused[0].is_refusal() && refused[0].message.contains(why), "{refused:?}");
    }
    assert!(cluster.pool("worker").is_some() && cluster.controller_config().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn target_in_a_manifest_is_reported_as_reverted() {
    let fleet = Fleet::with_workers(1).await;
    let pool = |config: &str| {
        json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
            "metadata": {"name": "worker"}, "spec": {"configuration": {"name": config}}})
    };
    let before = target(&fleet.get::<MachineConfigPool>("worker").await).unwrap().to_owned();
    let cluster = ClusterState::read(&fleet.client, ReadScope::Own).await.unwrap();
    assert_eq!(reverted_target(&cluster, &pool(&before)), None);
    let preview = preview_of(&fleet, &pool("rendered-worker-other")).await;
    let problem = reverted_target(&cluster, &pool("rendered-worker-other")).unwrap();
    assert_eq!((problem.code, problem.path.as_str()), ("reverted", "spec.configuration.name"));
    assert!(problem.message.contains("seaworthy rollout undo worker --to NAME"), "{problem:?}");
    let worker = preview.pools.iter().find(|pool| pool.name == "worker").unwrap();
    assert!(worker.before == worker.after && worker.moved_nodes.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pool_that_selects_no_base_gets_a_warning() {
    let fleet = Fleet::with_workers(1).await;
    let pool = |roles: &[&str]| {
        let role = json!({"key": "machineconfiguration.openshift.io/role", "operator": "In", "values": roles});
        json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
            "metadata": {"name": "infra"}, "spec": {"machineConfigSelector": {"matchExpressions": [role]},
                "nodeSelector": {"matchLabels": {"node-role.kubernetes.io/infra": ""}}}})
    };
    let codes = async |roles: &[&str]| {
        let problems = preview_of(&fleet, &pool(roles)).await.problems;
        problems.iter().map(|problem| (problem.code, problem.message.clone())).collect::<Vec<_>>()
    };
    assert_eq!(codes(&["worker", "infra"]).await, []);
    let found = codes(&["infra"]).await;
    let [("no-base", message)] = found.as_slice() else { panic!("{found:?}") };
    assert!(message.contains("values: [worker, infra]"), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policy_with_another_name_or_a_relative_path_is_reported_as_ignored() {
    let fleet = Fleet::with_workers(1).await;
    let policy = |name: &str, path: &str| {
        json!({
            "apiVersion": "operator.openshift.io/v1", "kind": "MachineConfiguration", "metadata": {"name": name},
            "spec": {"managementState": "Managed", "nodeDisruptionPolicy": {"files": [
                {"path": path, "actions": [{"type": "None"}]},
            ]}},
        })
    };
    let problems = async |name: &str, path: &str| {
        let preview = preview_of(&fleet, &policy(name, path)).await;
        preview.problems.into_iter().map(|problem| (problem.code, problem.message)).collect::<Vec<_>>()
    };
    let found = problems("mine", "/etc/motd").await;
    let [("misnamed", message)] = found.as_slice() else { panic!("{found:?}") };
    assert!(message.starts_with("MachineConfiguration mine:") && message.contains("\"cluster\""), "{message}");
    assert_eq!(problems("cluster", "/etc/motd").await, []);
    let found = problems("cluster", "etc/motd").await;
    let [("relative-path", message)] = found.as_slice() else { panic!("{found:?}") };
    assert!(message.contains("files[0].path: \"etc/motd\"") && message.ends_with("write \"/etc/motd\""), "{message}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pinned_pool_is_rolled_back_and_follows_its_configs_again_when_it_is_released() {
    let fleet = Fleet::with_workers(2).await;
    let before = target(&fleet.get::<MachineConfigPool>("worker").await).unwrap().to_owned();
    fleet.create::<MachineConfig>(file("50-motd", "worker", "/etc/motd", "a")).await;
    let pool = fleet.pool_is("worker", |pool| target(pool).is_some_and(|target| target != before)).await;
    let after = target(&pool).unwrap().to_owned();
    fleet.pool_is("worker", |pool| has_reached(pool, &after)).await;

    let pin = |name: Option<&str>| json!({"metadata": {"annotations": {PINNED_CONFIGURATION.as_str(): name}}});
    fleet.patch::<MachineConfigPool>("worker", pin(Some(&before))).await;
    fleet.pool_is("worker", |pool| has_reached(pool, &before)).await;
    // A change does not reach a pinned pool.
    fleet.create::<MachineConfig>(file("51-motd", "worker", "/etc/motd", "b")).await;
    let preview = preview_of(&fleet, &file("52-motd", "worker", "/etc/motd", "c")).await;
    let worker = preview.pools.iter().find(|pool| pool.name == "worker").unwrap();
    assert_eq!(worker.outlook.pinned.as_deref(), Some(before.as_str()));
    assert_eq!(worker.before, worker.after);

    fleet.patch::<MachineConfigPool>("worker", pin(Some("rendered-worker-nowhere"))).await;
    let is_reported = |pool: &MachineConfigPool| {
        condition(pool, "RenderDegraded")
            .is_some_and(|found| found.reason.as_deref() == Some("PinnedConfigurationUnusable"))
    };
    let pool = fleet.pool_is("worker", is_reported).await;
    assert_eq!(target(&pool), Some(before.as_str()), "it keeps what it has");

    fleet.patch::<MachineConfigPool>("worker", pin(None)).await;
    let is_new =
        |pool: &MachineConfigPool| target(pool).is_some_and(|target| ![&before, &after].contains(&&target.to_owned()));
    let pool = fleet.pool_is("worker", is_new).await;
    let newest = target(&pool).unwrap().to_owned();
    fleet.pool_is("worker", |pool| has_reached(pool, &newest)).await;
}
