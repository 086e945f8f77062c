//! From a pool's target to every node.

use k8s_openapi::api::core::v1::Node;
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigNode, MachineConfigPool};
use seaworthy_api::vocabulary::machineconfiguration::node as annotation;
use serde_json::json;

use crate::fleet::{Fleet, file, has_reached, is_true, target};

fn runs(node: &Node, config: &str) -> bool {
    annotation::CURRENT_CONFIG.of(&node.metadata) == Some(config)
        && annotation::STATE.of(&node.metadata) == Some("Done")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_machine_config_reaches_every_node_and_its_machine_config_node_says_so() {
    let fleet = Fleet::with_workers(4).await;
    let before = target(&fleet.get::<MachineConfigPool>("worker").await).unwrap().to_owned();
    fleet.create::<MachineConfig>(file("50-motd", "worker", "/etc/motd", "a")).await;
    let pool = fleet.pool_is("worker", |pool| target(pool).is_some_and(|target| target != before)).await;
    let after = target(&pool).unwrap().to_owned();
    fleet.pool_is("worker", |pool| has_reached(pool, &after)).await;
    for nth in 0..4 {
        assert!(runs(&fleet.get::<Node>(&format!("w{nth}")).await, &after));
        let name = format!("w{nth}");
        let is_told = |found: Option<&MachineConfigNode>| {
            let status = found.and_then(|found| found.status.as_ref());
            let conditions = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
            conditions.into_iter().any(|condition| condition.type_ == "Updated" && condition.status.as_str() == "True")
        };
        let found = fleet.until(&name, is_told).await.unwrap();
        assert_eq!(found.spec.config_version.desired, after);
        assert_eq!(found.spec.pool.name, "worker");
    }
    let master: Node = fleet.get("m0").await;
    assert_ne!(annotation::CURRENT_CONFIG.of(&master.metadata), Some(after.as_str()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paused_pool_moves_no_node_until_it_is_resumed() {
    let fleet = Fleet::with_workers(2).await;
    let before = target(&fleet.get::<MachineConfigPool>("worker").await).unwrap().to_owned();
    fleet.patch::<MachineConfigPool>("worker", json!({"spec": {"paused": true}})).await;
    fleet.create::<MachineConfig>(file("50-motd", "worker", "/etc/motd", "a")).await;
    let pool = fleet
        .pool_is("worker", |pool| target(pool).is_some_and(|target| target != before) && !is_true(pool, "Updated"))
        .await;
    let after = target(&pool).unwrap().to_owned();
    assert!(!is_true(&pool, "Updating"));
    let why = |found: Option<&MachineConfigNode>| {
        let status = found.and_then(|found| found.status.as_ref());
        let conditions = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
        conditions.into_iter().any(|condition| condition.type_ == "Updated" && condition.reason == "PoolPaused")
    };
    for node in ["w0", "w1"] {
        fleet.until(node, why).await;
        assert!(runs(&fleet.get::<Node>(node).await, &before));
    }
    fleet.patch::<MachineConfigPool>("worker", json!({"spec": {"paused": false}})).await;
    fleet.pool_is("worker", |pool| has_reached(pool, &after)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revert_reaches_the_broken_node_first() {
    let fleet = Fleet::with_workers(3).await;
    let before = target(&fleet.get::<MachineConfigPool>("worker").await).unwrap().to_owned();
    // Nodes fail on whatever is new.
    fleet.patch::<MachineConfigPool>("worker", json!({"spec": {"paused": true}})).await;
    fleet.create::<MachineConfig>(file("50-bad", "worker", "/etc/motd", "bad")).await;
    let pool = fleet.pool_is("worker", |pool| target(pool).is_some_and(|target| target != before)).await;
    let bad = target(&pool).unwrap().to_owned();
    fleet
        .machines
        .behave(|manners| drop(manners.fails_on.insert(bad.clone(), "unit chronyd.service failed".to_owned())));
    fleet.patch::<MachineConfigPool>("worker", json!({"spec": {"paused": false}})).await;
    let pool = fleet.pool_is("worker", |pool| is_true(pool, "NodeDegraded")).await;
    let message = crate::fleet::condition(&pool, "NodeDegraded").unwrap().message.clone().unwrap();
    assert!(message.contains("unit chronyd.service failed"), "{message}");
    assert_eq!(pool.status.as_ref().unwrap().degraded_machine_count, Some(1), "the budget is one node");

    fleet.api::<MachineConfig>().delete("50-bad", &Default::default()).await.unwrap();
    fleet.pool_is("worker", |pool| has_reached(pool, &before)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_that_a_node_has_not_begun_is_taken_back_and_given_anew() {
    let fleet = Fleet::with_workers(3).await;
    let before = target(&fleet.get::<MachineConfigPool>("worker").await).unwrap().to_owned();
    // Daemons that say nothing, as if they were dead.
    fleet.machines.behave(|manners| manners.takes = std::time::Duration::from_secs(100_000));
    let ordered = |node: &Node| annotation::DESIRED_CONFIG.of(&node.metadata).map(str::to_owned);
    let new_target = async |old: &str| {
        let pool = fleet.pool_is("worker", |pool| target(pool).is_some_and(|target| target != old)).await;
        target(&pool).unwrap().to_owned()
    };
    fleet.create::<MachineConfig>(file("50-bad", "worker", "/etc/motd", "bad")).await;
    let bad = new_target(&before).await;
    let node = fleet.node_is("w0", |node| ordered(node).as_ref() == Some(&bad)).await;
    assert!(runs(&node, &before), "it has not begun");

    // What is wanted now replaces what was; nobody else is taken away for it.
    let edit = file("50-bad", "worker", "/etc/motd", "better")["spec"].clone();
    fleet.patch::<MachineConfig>("50-bad", json!({"spec": edit})).await;
    let better = new_target(&bad).await;
    fleet.node_is("w0", |node| ordered(node).as_ref() == Some(&better)).await;
    for node in ["w1", "w2"] {
        assert_eq!(ordered(&fleet.get::<Node>(node).await).as_ref(), Some(&before), "{node}");
    }

    // The revert is done with the order itself.
    fleet.api::<MachineConfig>().delete("50-bad", &Default::default()).await.unwrap();
    fleet.pool_is("worker", |pool| has_reached(pool, &before)).await;
    assert_eq!(ordered(&fleet.get::<Node>("w0").await).as_ref(), Some(&before));
}
