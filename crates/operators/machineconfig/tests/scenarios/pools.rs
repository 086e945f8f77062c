//! Pools: membership, budgets, reasons for waiting, and deletion of built-in pools.

use k8s_openapi::api::core::v1::{Node, Secret};
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::runtime::wait::await_condition;
use kube::{Api, ResourceExt as _};
use seaworthy_api::machineconfiguration::{
    ControllerConfig, KubeletConfig, MachineConfig, MachineConfigNode, MachineConfigPool,
};
use seaworthy_api::vocabulary::machineconfiguration::node as annotation;
use seaworthy_api::vocabulary::seaworthy::BUILT_IN;
use seaworthy_machineconfig::Context;
use seaworthy_machineconfig::cached_node::CachedNode;
use seaworthy_machineconfig::rollout::active_drains::ActiveDrains;
use seaworthy_machineconfig::rollout::{RolloutController, RolloutKey};
use seaworthy_runtime::Controller as _;
use seaworthy_runtime::NAMESPACE;
use serde_json::{Value, json};

use crate::fleet::{Fleet, WAIT_TIMEOUT, condition, counted, file, has_reached, is_true, progress, target};

fn custom(name: &str) -> Value {
    let roles = json!(["worker", name]);
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
        "metadata": {"name": name},
        "spec": {
            "machineConfigSelector": {"matchExpressions": [
                {"key": "machineconfiguration.openshift.io/role", "operator": "In", "values": roles},
            ]},
            "nodeSelector": {"matchLabels": {format!("node-role.kubernetes.io/{name}"): ""}},
        },
    })
}

fn waits(found: Option<&MachineConfigNode>, reason: &str) -> bool {
    progress(found, "Updated").is_some_and(|condition| condition.reason == reason)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_takes_the_configuration_of_its_custom_pool_and_returns() {
    let fleet = Fleet::with_workers(2).await;
    let worker = target(&fleet.get::<MachineConfigPool>("worker").await).unwrap().to_owned();
    fleet.create::<MachineConfigPool>(custom("infra")).await;
    fleet.create::<MachineConfig>(file("50-infra", "infra", "/etc/infra", "a")).await;
    let has = |pool: &MachineConfigPool, name: &str| {
        let sources = pool.spec.configuration.as_ref().and_then(|configuration| configuration.source.clone());
        sources.unwrap_or_default().iter().any(|source| source.name.as_deref() == Some(name))
    };
    let pool = fleet.pool_is("infra", |pool| has(pool, "50-infra") && counted(pool, 0)).await;
    assert!(has(&pool, "00-worker"), "a custom pool adds to the worker's");
    let runs = |node: &Node, config: &str| {
        annotation::CURRENT_CONFIG.of(&node.metadata) == Some(config)
            && annotation::STATE.of(&node.metadata) == Some("Done")
    };
    let label = |value: Value| json!({"metadata": {"labels": {"node-role.kubernetes.io/infra": value}}});
    fleet.patch::<Node>("w1", label(json!(""))).await;
    let pool = fleet.pool_is("infra", |pool| counted(pool, 1) && is_true(pool, "Updated")).await;
    let infra = target(&pool).unwrap().to_owned();
    assert_ne!(infra, worker);
    fleet.node_is("w1", |node| runs(node, &infra)).await;
    fleet
        .until("w1", |found: Option<&MachineConfigNode>| found.is_some_and(|found| found.spec.pool.name == "infra"))
        .await;
    fleet.pool_is("worker", |pool| counted(pool, 1)).await;

    // Two custom pools select it: it stays as it is, and its MachineConfigNode reports why.
    fleet.create::<MachineConfigPool>(custom("edge")).await;
    fleet.patch::<Node>("w1", json!({"metadata": {"labels": {"node-role.kubernetes.io/edge": ""}}})).await;
    let torn = fleet.until("w1", |found| waits(found, "SeveralPools")).await.unwrap();
    let message = &progress(Some(&torn), "Updated").unwrap().message;
    assert!(message.contains("edge") && message.contains("infra"), "{message}");
    for name in ["edge", "infra"] {
        let is_reported = |pool: &MachineConfigPool| {
            let degraded = condition(pool, "Degraded");
            degraded.and_then(|found| found.reason.as_deref()) == Some("NodesInSeveralPools")
                && is_true(pool, "Degraded")
        };
        fleet.pool_is(name, is_reported).await;
        let message = fleet.event_message("NodesInSeveralPools", name).await;
        assert!(message.starts_with("Node w1 is in no pool"), "{message}");
    }
    let node = fleet.get::<Node>("w1").await;
    assert!(runs(&node, &infra), "{infra}: {:#?}", node.metadata.annotations);
    fleet.patch::<Node>("w1", json!({"metadata": {"labels": {"node-role.kubernetes.io/edge": null}}})).await;
    fleet.until("w1", |found| waits(found, "Updated")).await;
    for name in ["edge", "infra"] {
        fleet.pool_is(name, |pool| !is_true(pool, "Degraded")).await;
    }

    fleet.patch::<Node>("w1", label(Value::Null)).await;
    fleet.node_is("w1", |node| runs(node, &worker)).await;
    fleet.pool_is("worker", |pool| counted(pool, 2) && has_reached(pool, &worker)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn budget_is_kept_and_every_waiting_node_reports_why() {
    let fleet = Fleet::with_workers(5).await;
    let before = target(&fleet.get::<MachineConfigPool>("worker").await).unwrap().to_owned();
    // No node completes its update.
    fleet.machines.behave(|behaviour| {
        behaviour.update_duration = std::time::Duration::from_secs(100_000);
        behaviour.reports_working = true;
    });
    let pools = fleet.api::<MachineConfigPool>();
    let wrong = Patch::Merge(json!({"spec": {"maxUnavailable": "50 percent"}}));
    let refused = pools.patch("worker", &PatchParams::default(), &wrong).await.unwrap_err();
    assert!(refused.to_string().contains("50 percent"), "{refused}");
    fleet.patch::<MachineConfigPool>("worker", json!({"spec": {"maxUnavailable": "40%"}})).await;
    fleet.create::<MachineConfig>(file("50-motd", "worker", "/etc/motd", "a")).await;
    let pool = fleet.pool_is("worker", |pool| target(pool).is_some_and(|target| target != before)).await;
    let after = target(&pool).unwrap().to_owned();
    for nth in [0, 1] {
        fleet.until(&format!("w{nth}"), |found| waits(found, "Updating")).await;
    }
    for nth in [2, 3, 4] {
        let found = fleet.until(&format!("w{nth}"), |found| waits(found, "Budget")).await.unwrap();
        assert_eq!(progress(Some(&found), "Updated").unwrap().message, "waiting: budget 2 is used up");
        let node: Node = fleet.get(&format!("w{nth}")).await;
        assert_eq!(annotation::DESIRED_CONFIG.of(&node.metadata), Some(before.as_str()));
        let taints = node.spec.unwrap().taints.unwrap_or_default();
        assert!(
            taints.iter().any(|taint| taint.key == "UpdateInProgress" && taint.effect == "PreferNoSchedule"),
            "{taints:?}"
        );
    }
    let pool = fleet.pool_is("worker", |pool| is_true(pool, "Updating")).await;
    assert_eq!(pool.status.as_ref().unwrap().updated_machine_count, Some(0));
    let moving: Node = fleet.get("w0").await;
    assert_eq!(annotation::DESIRED_CONFIG.of(&moving.metadata), Some(after.as_str()));
    let taints = moving.spec.unwrap().taints.unwrap_or_default();
    assert!(!taints.iter().any(|taint| taint.key == "UpdateInProgress"), "{taints:?}");

    // Paused in the middle: updates in progress continue, no other begins.
    fleet.patch::<MachineConfigPool>("worker", json!({"spec": {"paused": true}})).await;
    fleet.until("w4", |found| waits(found, "PoolPaused")).await;
    let reason = condition(&fleet.get("worker").await, "Updating").and_then(|found| found.reason.clone());
    assert!(reason.is_some());

    // Reported in events and in metrics.
    let events = fleet.api::<Event>().list(&ListParams::default()).await.unwrap().items;
    let reasons: Vec<&str> = events.iter().filter_map(|event| event.reason.as_deref()).collect();
    for reason in ["RenderedConfigGenerated", "SetDesiredConfig"] {
        assert!(reasons.contains(&reason), "{reasons:?}");
    }
    let page = fleet.metrics.encode().unwrap();
    assert!(page.contains("mco_machine_count{pool=\"worker\"} 5\n"), "{page}");
    assert!(page.contains("mco_updated_machine_count{pool=\"worker\"} 0\n"), "{page}");
    assert!(page.contains("node=\"w0\",pool=\"worker\",state=\"Working\""), "{page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_built_in_pool_is_created_again_as_it_was_and_no_node_moves() {
    let fleet = Fleet::with_workers(2).await;
    let first = target(&fleet.get::<MachineConfigPool>("worker").await).unwrap().to_owned();
    fleet.create::<MachineConfigPool>(custom("infra")).await;
    fleet.patch::<Node>("w1", json!({"metadata": {"labels": {"node-role.kubernetes.io/infra": ""}}})).await;
    let settings = json!({"metadata": {"labels": {"tier": "x"}}, "spec": {"maxUnavailable": 2}});
    fleet.patch::<MachineConfigPool>("worker", settings).await;
    fleet
        .create::<KubeletConfig>(json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "KubeletConfig",
            "metadata": {"name": "pods"},
            "spec": {"machineConfigPoolSelector": {"matchLabels": {"tier": "x"}}, "kubeletConfig": {"maxPods": 99}},
        }))
        .await;
    let generated = "99-worker-generated-kubelet";
    let made = fleet.until(generated, |found: Option<&MachineConfig>| found.is_some()).await.unwrap();
    let has = |pool: &MachineConfigPool| {
        let sources = pool.spec.configuration.as_ref().and_then(|found| found.source.clone()).unwrap_or_default();
        sources.iter().any(|source| source.name.as_deref() == Some(generated)) && is_true(pool, "Updated")
    };
    fleet.pool_is("infra", |pool| has(pool) && counted(pool, 1)).await;
    fleet.pool_is("worker", |pool| has(pool) && counted(pool, 1)).await;
    // Undone: the pool is pinned to what it had first.
    let pinned = json!({"metadata": {"annotations": {"seaworthy.dev/pinned-configuration": first}}});
    fleet.patch::<MachineConfigPool>("worker", pinned).await;
    let before = fleet.pool_is("worker", |pool| has_reached(pool, &first)).await;
    let orders = || async {
        let nodes = fleet.api::<Node>().list(&ListParams::default()).await.unwrap().items;
        let order = |node: &Node| annotation::DESIRED_CONFIG.of(&node.metadata).map(str::to_owned);
        nodes.iter().map(order).collect::<Vec<_>>()
    };
    let (ordered, rendered) = (orders().await, fleet.machine_configs().await);

    let theirs: Api<MachineConfigPool> = Api::all(fleet.cluster.client_as("alice", &["system:masters"]));
    let dry = DeleteParams { dry_run: true, ..DeleteParams::default() };
    let message = fleet.denied(async || theirs.delete("worker", &dry).await).await;
    assert!(message.contains("is built in") && message.contains("seaworthy rollout pause worker"), "{message}");
    fleet.unprotected(async || theirs.delete("worker", &DeleteParams::default()).await).await;
    let is_back = |pool: &MachineConfigPool| pool.uid() != before.uid() && is_true(pool, "Updated");
    let after = fleet.pool_is("worker", is_back).await;
    assert_eq!((&after.spec, after.labels()), (&before.spec, before.labels()));
    assert_eq!(after.annotations()["seaworthy.dev/pinned-configuration"], first);
    assert!(fleet.event_message("PoolRecreated", "worker").await.contains("created again as it was"));
    // It owns its rendered MachineConfigs again: what it is pinned to, and what it may be released to.
    let mut own = 0;
    for name in rendered.iter().filter(|name| name.starts_with("rendered-worker-")) {
        let is_its = |found: Option<&MachineConfig>| {
            let owners = found.map(|found| found.owner_references().to_vec()).unwrap_or_default();
            owners.iter().any(|owner| Some(&owner.uid) == after.metadata.uid.as_ref())
        };
        let found = fleet.until(name, is_its).await.unwrap();
        assert_eq!(found.metadata.deletion_timestamp, None, "{name}");
        own += 1;
    }
    assert!(own > 1, "{rendered:?}");
    fleet.patch::<MachineConfigPool>("worker", json!({"spec": {"maxUnavailable": 1}})).await;
    fleet.pool_is("worker", |pool| has_reached(pool, &first)).await;
    assert_eq!((orders().await, fleet.machine_configs().await), (ordered, rendered), "no other order was given");
    assert_eq!(fleet.get::<MachineConfig>(generated).await.uid(), made.uid(), "it was not deleted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_of_two_roles_stays_as_it_is_while_the_pool_of_the_first_is_missing() {
    let mut fleet = Fleet::with_workers(1).await;
    fleet.patch::<Node>("m0", json!({"metadata": {"labels": {"node-role.kubernetes.io/worker": ""}}})).await;
    let is_reported = |found: Option<&MachineConfigNode>| found.is_some_and(|found| found.spec.pool.name == "master");
    fleet.until("m0", is_reported).await;
    fleet.stop().await;
    // The state that the controllers see between the deletion of a pool and its return.
    let context = Context::new(fleet.acting());
    let caches = &context.caches;
    let all = ListParams::default();
    let pools = fleet.api::<MachineConfigPool>().list(&all).await.unwrap().items;
    let (master, others): (Vec<_>, Vec<_>) = pools.into_iter().partition(|pool| pool.name_any() == "master");
    others.into_iter().for_each(|pool| caches.pools.record_write(pool));
    fleet.api::<CachedNode>().list(&all).await.unwrap().into_iter().for_each(|node| caches.nodes.record_write(node));
    let progress_of_nodes = fleet.api::<MachineConfigNode>().list(&all).await.unwrap();
    progress_of_nodes.into_iter().for_each(|found| caches.machine_config_nodes.record_write(found));
    let made = fleet.api::<MachineConfig>().list(&all).await.unwrap();
    made.into_iter().for_each(|found| caches.machine_configs.record_write(found));
    caches.controller_configs.record_write(fleet.get::<ControllerConfig>("machine-config-controller").await);
    let (controller, _) = RolloutController::new(&context, ActiveDrains::default(), None);
    let reconcile = async || {
        for key in
            [RolloutKey::Pool("worker".to_owned()), RolloutKey::Pool("master".to_owned()), RolloutKey::Unassigned]
        {
            controller.reconcile(&key).await.unwrap();
        }
        let node: Node = fleet.get("m0").await;
        let found: MachineConfigNode = fleet.get("m0").await;
        (
            annotation::DESIRED_CONFIG.of(&node.metadata).map(str::to_owned),
            found.spec.pool.name,
            found.metadata.generation,
        )
    };
    let node: Node = fleet.get("m0").await;
    let order = annotation::DESIRED_CONFIG.of(&node.metadata).map(str::to_owned);
    assert!(order.as_ref().is_some_and(|order| order.starts_with("rendered-master-")), "{order:?}");
    let before: MachineConfigNode = fleet.get("m0").await;
    let expected = (order, "master".to_owned(), before.metadata.generation);
    assert_eq!(reconcile().await, expected);
    master.into_iter().for_each(|pool| caches.pools.record_write(pool));
    assert_eq!(reconcile().await, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn saved_built_in_pool_survives_a_restart_of_the_controllers() {
    let mut fleet = Fleet::with_workers(1).await;
    let before = delete_worker(&fleet).await;
    fleet.restart().await;
    fleet.patch::<MachineConfigPool>("worker", json!({"metadata": {"finalizers": null}})).await;
    let after = fleet.pool_is("worker", |pool| pool.uid() != before.uid()).await;
    assert_eq!((&after.spec, after.labels()), (&before.spec, before.labels()));
    assert_eq!(after.finalizers(), [BUILT_IN.as_str()]);
    assert!(fleet.event_message("PoolRecreated", "worker").await.contains("created again as it was"));
    // The saved copy is not used for the next deletion.
    nothing_is_saved(&fleet).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn built_in_pool_that_a_user_creates_again_is_kept() {
    let mut fleet = Fleet::with_workers(1).await;
    delete_worker(&fleet).await;
    fleet.stop().await;
    fleet.patch::<MachineConfigPool>("worker", json!({"metadata": {"finalizers": null}})).await;
    let own: MachineConfigPool = fleet.create(custom("worker")).await;
    fleet.restart().await;
    nothing_is_saved(&fleet).await;
    let pool = fleet.pool_is("worker", |pool| target(pool).is_some() && is_true(pool, "Updated")).await;
    assert_eq!((pool.uid(), pool.spec.paused), (own.uid(), own.spec.paused));
    let events = fleet.api::<Event>().list(&ListParams::default()).await.unwrap().items;
    assert!(!events.iter().any(|event| event.reason.as_deref() == Some("PoolRecreated")), "it was created by a user");
}

/// Deletes the worker pool, which has a finalizer of another client too, so that it exists until that is removed. Returns it as
/// it was before.
async fn delete_worker(fleet: &Fleet) -> MachineConfigPool {
    let settings = json!({
        "metadata": {"labels": {"tier": "x"}, "finalizers": [BUILT_IN.as_str(), "example.com/theirs"]},
        "spec": {"paused": true, "maxUnavailable": 3},
    });
    fleet.patch::<MachineConfigPool>("worker", settings).await;
    let before = fleet.pool_is("worker", |pool| pool.finalizers().len() == 2).await;
    let theirs: Api<MachineConfigPool> = Api::all(fleet.cluster.client_as("alice", &["system:masters"]));
    fleet.unprotected(async || theirs.delete("worker", &DeleteParams::default()).await).await;
    fleet.pool_is("worker", |pool| pool.finalizers() == ["example.com/theirs"]).await;
    before
}

async fn nothing_is_saved(fleet: &Fleet) {
    let secrets: Api<Secret> = Api::namespaced(fleet.client.clone(), NAMESPACE);
    let gone = await_condition(secrets, "deleted-pool-worker", |found: Option<&Secret>| found.is_none());
    tokio::time::timeout(WAIT_TIMEOUT, gone).await.unwrap().unwrap();
}
