//! Roll-outs: from a pool's target to every node.

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::jiff::Timestamp;
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigNode, MachineConfigPool};
use seaworthy_api::vocabulary::machineconfiguration::node as annotation;
use seaworthy_machineconfig::cluster_state::{ClusterState, ReadScope};
use seaworthy_machineconfig::preview::outlook;
use seaworthy_plan::disruption::Level;
use seaworthy_plan::fleet::NodeView;
use seaworthy_plan::history::revision::{previous, revisions};
use seaworthy_plan::rollout::forecast::past_update;
use seaworthy_plan::rollout::reservation::Reservation;
use serde_json::json;

use crate::fleet::{Fleet, WAIT_TIMEOUT, file, has_reached, is_true, target};

fn runs(node: &Node, config: &str) -> bool {
    annotation::CURRENT_CONFIG.of(&node.metadata) == Some(config)
        && annotation::STATE.of(&node.metadata) == Some("Done")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_machine_config_reaches_every_node_and_its_machine_config_node_reports_it() {
    let fleet = Fleet::with_workers(4).await;
    let before = target(&fleet.get::<MachineConfigPool>("worker").await).unwrap().to_owned();
    fleet.create::<MachineConfig>(file("50-motd", "worker", "/etc/motd", "a")).await;
    let pool = fleet.pool_is("worker", |pool| target(pool).is_some_and(|target| target != before)).await;
    let after = target(&pool).unwrap().to_owned();
    fleet.pool_is("worker", |pool| has_reached(pool, &after)).await;
    for nth in 0..4 {
        assert!(runs(&fleet.get::<Node>(&format!("w{nth}")).await, &after));
        let name = format!("w{nth}");
        let is_reported = |found: Option<&MachineConfigNode>| {
            let status = found.and_then(|found| found.status.as_ref());
            let conditions = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
            conditions.into_iter().any(|condition| condition.type_ == "Updated" && condition.status.as_str() == "True")
        };
        let found = fleet.until(&name, is_reported).await.unwrap();
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
    // Nodes fail on the new configuration.
    fleet.patch::<MachineConfigPool>("worker", json!({"spec": {"paused": true}})).await;
    fleet.create::<MachineConfig>(file("50-bad", "worker", "/etc/motd", "bad")).await;
    let pool = fleet.pool_is("worker", |pool| target(pool).is_some_and(|target| target != before)).await;
    let bad = target(&pool).unwrap().to_owned();
    fleet
        .machines
        .behave(|behaviour| drop(behaviour.fails_on.insert(bad.clone(), "unit chronyd.service failed".to_owned())));
    fleet.patch::<MachineConfigPool>("worker", json!({"spec": {"paused": false}})).await;
    let pool = fleet.pool_is("worker", |pool| is_true(pool, "NodeDegraded")).await;
    let message = crate::fleet::condition(&pool, "NodeDegraded").unwrap().message.clone().unwrap();
    assert!(message.contains("unit chronyd.service failed"), "{message}");
    assert_eq!(pool.status.as_ref().unwrap().degraded_machine_count, Some(1), "the budget is one node");

    fleet.api::<MachineConfig>().delete("50-bad", &Default::default()).await.unwrap();
    fleet.pool_is("worker", |pool| has_reached(pool, &before)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_that_a_node_has_not_begun_is_replaced_and_recalled() {
    let fleet = Fleet::with_workers(3).await;
    let before = target(&fleet.get::<MachineConfigPool>("worker").await).unwrap().to_owned();
    // Daemons that do not respond.
    fleet.machines.behave(|behaviour| behaviour.update_duration = std::time::Duration::from_secs(100_000));
    let ordered = |node: &Node| annotation::DESIRED_CONFIG.of(&node.metadata).map(str::to_owned);
    let new_target = async |old: &str| {
        let pool = fleet.pool_is("worker", |pool| target(pool).is_some_and(|target| target != old)).await;
        target(&pool).unwrap().to_owned()
    };
    fleet.create::<MachineConfig>(file("50-bad", "worker", "/etc/motd", "bad")).await;
    let bad = new_target(&before).await;
    let node = fleet.node_is("w0", |node| ordered(node).as_ref() == Some(&bad)).await;
    assert!(runs(&node, &before), "it has not begun");

    // The new target replaces the old one in the order; no other node is ordered for it.
    let edit = file("50-bad", "worker", "/etc/motd", "better")["spec"].clone();
    fleet.patch::<MachineConfig>("50-bad", json!({"spec": edit})).await;
    let better = new_target(&bad).await;
    fleet.node_is("w0", |node| ordered(node).as_ref() == Some(&better)).await;
    for node in ["w1", "w2"] {
        assert_eq!(ordered(&fleet.get::<Node>(node).await).as_ref(), Some(&before), "{node}");
    }

    // A revert only replaces the order.
    fleet.api::<MachineConfig>().delete("50-bad", &Default::default()).await.unwrap();
    fleet.pool_is("worker", |pool| has_reached(pool, &before)).await;
    assert_eq!(ordered(&fleet.get::<Node>("w0").await).as_ref(), Some(&before));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edited_target_is_reverted_and_moves_no_node() {
    let fleet = Fleet::with_workers(2).await;
    let before = target(&fleet.get::<MachineConfigPool>("worker").await).unwrap().to_owned();
    fleet.create::<MachineConfig>(file("50-motd", "worker", "/etc/motd", "a")).await;
    let is_done =
        |pool: &MachineConfigPool| target(pool).is_some_and(|target| target != before && has_reached(pool, target));
    let after = target(&fleet.pool_is("worker", is_done).await).unwrap().to_owned();
    // A reservation is on the pool before any order is given: so any order would be seen there.
    let reserved = |pool: &MachineConfigPool| Reservation::of(pool).config;
    for _ in 0..10 {
        let edit = json!({"spec": {"configuration": {"name": before}}});
        fleet.patch::<MachineConfigPool>("worker", edit).await;
        let pool = fleet.pool_is("worker", |pool| target(pool) == Some(&after)).await;
        assert_eq!(reserved(&pool), after);
    }
    fleet.pool_is("worker", |pool| has_reached(pool, &after)).await;
    for node in ["w0", "w1"] {
        assert!(runs(&fleet.get::<Node>(node).await, &after), "{node}");
    }
    let message = fleet.event_message("EditReverted", "worker").await;
    assert!(message.contains(&before) && message.contains("seaworthy rollout undo worker --to NAME"), "{message}");
    assert!(!events_of(&fleet, "SetDesiredConfig").await.iter().any(|message| message.contains(&before)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_is_in_the_order_of_targets_and_updates_have_durations() {
    let fleet = Fleet::with_workers(2).await;
    let base = target(&fleet.get::<MachineConfigPool>("worker").await).unwrap().to_owned();
    fleet.create::<MachineConfig>(file("50-a", "worker", "/etc/a", "a")).await;
    let pool = fleet.pool_is("worker", |pool| target(pool) != Some(&base)).await;
    let with_a = target(&pool).unwrap().to_owned();
    fleet.pool_is("worker", |pool| has_reached(pool, &with_a)).await;
    let samples = |target: &str| {
        let (client, target) = (fleet.client.clone(), target.to_owned());
        async move {
            let cluster = ClusterState::read(&client, ReadScope::Own).await.unwrap();
            let found = outlook(&cluster, "worker", Timestamp::now()).unwrap();
            assert_eq!(found.target.as_deref(), Some(target.as_str()));
            estimated(&cluster)
        }
    };
    // One of them is reported after the pool, so the test waits for it.
    let both = async {
        while samples(&with_a).await < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(WAIT_TIMEOUT, both).await.expect("the durations of both are not reported");

    // A rollback that no node has begun does not change the known durations.
    fleet.patch::<MachineConfigPool>("worker", json!({"spec": {"paused": true}})).await;
    fleet.api::<MachineConfig>().delete("50-a", &Default::default()).await.unwrap();
    fleet.pool_is("worker", |pool| target(pool) == Some(&base) && !is_true(pool, "Updated")).await;
    let waits = |found: Option<&MachineConfigNode>| {
        let conditions = found.and_then(|found| found.status.as_ref()?.conditions.as_ref()).into_iter().flatten();
        conditions.into_iter().any(|condition| condition.type_ == "Updated" && condition.reason == "PoolPaused")
    };
    for node in ["w0", "w1"] {
        fleet.until(node, waits).await;
    }
    assert_eq!(samples(&base).await, 2);
    fleet.patch::<MachineConfigPool>("worker", json!({"spec": {"paused": false}})).await;
    let pool = fleet.pool_is("worker", |pool| has_reached(pool, &base)).await;

    // What was rendered last is not the target, and the rollback leads to it.
    let all = fleet.api::<MachineConfig>().list(&Default::default()).await.unwrap().items;
    let found = revisions(&pool, &all);
    let names: Vec<&str> = found.iter().map(|found| found.name).collect();
    assert_eq!(names, [with_a.as_str(), base.as_str()]);
    assert_eq!(previous(&pool, &found).map(|found| found.name), Some(with_a.as_str()));
    for node in ["w0", "w1"] {
        let messages = events_of(&fleet, "SetDesiredConfig").await;
        assert!(messages.iter().any(|message| message.contains(node)), "{node}: {messages:?}");
    }
}

/// The number of worker nodes on whose past updates an estimate is based.
fn estimated(cluster: &ClusterState) -> usize {
    let annotations = |node: &Node| node.metadata.annotations.clone().unwrap_or_default();
    let ordered = cluster.nodes().iter().filter(|node| annotations(node).contains_key("seaworthy.dev/last-order"));
    let is_known = |node: &&std::sync::Arc<Node>| {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let progress = cluster.progress().iter().find(|found| found.spec.node.name == name);
        progress.is_some_and(|progress| {
            let view = NodeView::of(*node, Some(progress));
            past_update(&view, |_, _| Some(Level::Reboot)).is_some()
        })
    };
    ordered.filter(is_known).count()
}

/// The messages of all Events with a reason.
async fn events_of(fleet: &Fleet, reason: &str) -> Vec<String> {
    let all = fleet.api::<Event>().list(&Default::default()).await.unwrap().items;
    let found = all.into_iter().filter(|event| event.reason.as_deref() == Some(reason));
    found.filter_map(|event| event.note).collect()
}
