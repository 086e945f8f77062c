//! Drains: evictions within PodDisruptionBudgets, and cordons of users.

use k8s_openapi::api::core::v1::{Node, Pod, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigNode, MachineConfigPool};
use seaworthy_api::vocabulary::machineconfiguration::node as annotation;
use serde_json::{Value, json};

use crate::fleet::{Fleet, condition, file, has_reached, progress, target};
use crate::preview::preview_of;

/// Creates a pod `db` on a node, with a budget that allows no eviction. Returns the generation of the budget.
pub async fn create_blocked_pod(fleet: &Fleet, node: &str) -> Option<i64> {
    let accounts: Api<ServiceAccount> = Api::namespaced(fleet.client.clone(), "default");
    let account: ServiceAccount = serde_json::from_value(json!({"metadata": {"name": "default"}})).unwrap();
    // Where a controller creates it, it may exist already.
    let _ = accounts.create(&PostParams::default(), &account).await;
    let pods: Api<Pod> = Api::namespaced(fleet.client.clone(), "default");
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "db", "labels": {"app": "db"}},
        "spec": {"nodeName": node, "containers": [{"name": "db", "image": "db"}], "terminationGracePeriodSeconds": 1},
    }))
    .unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    let running = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    pods.patch_status("db", &PatchParams::default(), &Patch::Merge(&running)).await.unwrap();
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(fleet.client.clone(), "default");
    let budget: PodDisruptionBudget = serde_json::from_value(json!({
        "metadata": {"name": "db"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "db"}}},
    }))
    .unwrap();
    let generation = budgets.create(&PostParams::default(), &budget).await.unwrap().metadata.generation;
    budgets.patch_status("db", &PatchParams::default(), &Patch::Merge(&allowance(generation, 0))).await.unwrap();
    generation
}

/// The status that the disruption controller gives a budget that allows so many evictions.
fn allowance(generation: Option<i64>, count: i32) -> Value {
    json!({"status": {"observedGeneration": generation, "disruptionsAllowed": count,
        "currentHealthy": 1 + count, "desiredHealthy": 1, "expectedPods": 1 + count}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disruption_budget_blocks_a_drain_before_the_node_is_cordoned() {
    let fleet = Fleet::with_workers(2).await;
    let before = target(&fleet.get::<MachineConfigPool>("worker").await).unwrap().to_owned();
    fleet.machines.behave(|behaviour| behaviour.drains = true);
    let generation = create_blocked_pod(&fleet, "w0").await;
    let pods: Api<Pod> = Api::namespaced(fleet.client.clone(), "default");
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(fleet.client.clone(), "default");
    // The preview knows that the drain is blocked: that node has no wave, and neither have those behind it.
    let preview = preview_of(&fleet, &file("50-motd", "worker", "/etc/motd", "a")).await;
    let worker = preview.pools.iter().find(|pool| pool.name == "worker").unwrap();
    let forecast = &worker.outlook.forecast;
    assert_eq!((&forecast.blocked, &forecast.behind), (&vec!["w0".to_owned()], &vec!["w1".to_owned()]));
    assert_eq!((forecast.waves.as_slice(), forecast.seconds), (&[][..], 0));
    // A user has cordoned the other node.
    fleet.patch::<Node>("w1", json!({"spec": {"unschedulable": true}})).await;

    fleet.create::<MachineConfig>(file("50-motd", "worker", "/etc/motd", "a")).await;
    let pool = fleet.pool_is("worker", |pool| target(pool).is_some_and(|target| target != before)).await;
    let after = target(&pool).unwrap().to_owned();
    fleet.patch::<MachineConfigPool>("worker", json!({"spec": {"maxUnavailable": 2}})).await;
    let blocked = |found: Option<&MachineConfigNode>| {
        progress(found, "Drained").is_some_and(|condition| condition.reason == "DrainBlocked")
    };
    let found = fleet.until("w0", blocked).await.unwrap();
    let message = &progress(Some(&found), "Drained").unwrap().message;
    assert!(message.contains("default/db"), "{message}");
    assert!(fleet.event_message("DrainBlocked", "w0").await.contains("PDB default/db"));
    let reports_both = |pool: &MachineConfigPool| {
        let updating = condition(pool, "Updating").and_then(|found| found.message.clone()).unwrap_or_default();
        updating.contains("Node w0: drain blocked by PDB default/db") && updating.contains("Node w1: cordoned")
    };
    fleet.pool_is("worker", reports_both).await;
    let node: Node = fleet.get("w0").await;
    assert_ne!(node.spec.unwrap().unschedulable, Some(true), "a blocked drain cordons nothing");
    let waits = |found: Option<&MachineConfigNode>| {
        progress(found, "Updated").is_some_and(|condition| condition.reason == "Cordoned")
    };
    fleet.until("w1", waits).await;

    budgets.patch_status("db", &PatchParams::default(), &Patch::Merge(&allowance(generation, 1))).await.unwrap();
    let is_leaving = |pod: Option<&Pod>| pod.is_none_or(|pod| pod.metadata.deletion_timestamp.is_some());
    await_condition(pods.clone(), "db", is_leaving).await.unwrap();
    let node: Node = fleet.get("w0").await;
    assert_eq!(node.spec.unwrap().unschedulable, Some(true), "it takes no new pods while the old ones leave");
    // The kubelet's part.
    let _ = pods.delete("db", &DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() }).await;
    let has_moved = |node: &Node| {
        annotation::CURRENT_CONFIG.of(&node.metadata) == Some(after.as_str())
            && node.spec.as_ref().and_then(|spec| spec.unschedulable) != Some(true)
    };
    fleet.node_is("w0", has_moved).await;

    // The user's cordon stays, and the node moves once it is removed.
    let node: Node = fleet.get("w1").await;
    assert_eq!(node.spec.unwrap().unschedulable, Some(true));
    assert_eq!(annotation::CURRENT_CONFIG.of(&node.metadata), Some(before.as_str()));
    fleet.patch::<Node>("w1", json!({"spec": {"unschedulable": null}})).await;
    fleet.pool_is("worker", |pool| has_reached(pool, &after)).await;
}
