//! From a pool's target to every node.

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::jiff::Timestamp;
use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigNode, MachineConfigPool};
use seaworthy_api::vocabulary::machineconfiguration::node as annotation;
use seaworthy_machineconfig::preview::outlook;
use seaworthy_machineconfig::world::World;
use seaworthy_plan::disruption::Level;
use seaworthy_plan::fleet::NodeView;
use seaworthy_plan::history::revision::{previous, revisions};
use seaworthy_plan::rollout::forecast::past;
use seaworthy_plan::rollout::reservation::Promise;
use serde_json::json;

use crate::fleet::{Fleet, PATIENCE, file, has_reached, is_true, target};

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn target_that_somebody_else_sets_is_put_back_and_moves_nobody() {
    let fleet = Fleet::with_workers(2).await;
    let before = target(&fleet.get::<MachineConfigPool>("worker").await).unwrap().to_owned();
    fleet.create::<MachineConfig>(file("50-motd", "worker", "/etc/motd", "a")).await;
    let is_done =
        |pool: &MachineConfigPool| target(pool).is_some_and(|target| target != before && has_reached(pool, target));
    let after = target(&fleet.pool_is("worker", is_done).await).unwrap().to_owned();
    // What is promised stands on the pool before any order is given: so whoever is sent anywhere is seen there.
    let promised = |pool: &MachineConfigPool| Promise::of(pool).config;
    for _ in 0..10 {
        let edit = json!({"spec": {"configuration": {"name": before}}});
        fleet.patch::<MachineConfigPool>("worker", edit).await;
        let pool = fleet.pool_is("worker", |pool| target(pool) == Some(&after)).await;
        assert_eq!(promised(&pool), after);
    }
    fleet.pool_is("worker", |pool| has_reached(pool, &after)).await;
    for node in ["w0", "w1"] {
        assert!(runs(&fleet.get::<Node>(node).await, &after), "{node}");
    }
    let told = fleet.told("PutBack", "worker").await;
    assert!(told.contains(&before) && told.contains("seaworthy rollout undo worker --to NAME"), "{told}");
    assert!(!all_told(&fleet, "SetDesiredConfig").await.iter().any(|told| told.contains(&before)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_is_in_the_order_of_targets_and_knows_how_long_updates_took() {
    let fleet = Fleet::with_workers(2).await;
    let base = target(&fleet.get::<MachineConfigPool>("worker").await).unwrap().to_owned();
    fleet.create::<MachineConfig>(file("50-a", "worker", "/etc/a", "a")).await;
    let pool = fleet.pool_is("worker", |pool| target(pool) != Some(&base)).await;
    let with_a = target(&pool).unwrap().to_owned();
    fleet.pool_is("worker", |pool| has_reached(pool, &with_a)).await;
    let samples = |target: &str| {
        let (client, target) = (fleet.client.clone(), target.to_owned());
        async move {
            let world = World::read(&client, false).await.unwrap();
            let found = outlook(&world, "worker", Timestamp::now()).unwrap();
            assert_eq!(found.target.as_deref(), Some(target.as_str()));
            estimated(&world)
        }
    };
    // One of them is told of after the pool, so it is waited for.
    let both = async {
        while samples(&with_a).await < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, both).await.expect("how long both took is never known");

    // A way back that nobody is on yet takes nothing from what is known of the way there.
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

    // What was made last is not what is targeted, and the way back leads there.
    let all = fleet.api::<MachineConfig>().list(&Default::default()).await.unwrap().items;
    let found = revisions(&pool, &all);
    let names: Vec<&str> = found.iter().map(|found| found.name).collect();
    assert_eq!(names, [with_a.as_str(), base.as_str()]);
    assert_eq!(previous(&pool, &found).map(|found| found.name), Some(with_a.as_str()));
    for node in ["w0", "w1"] {
        let told = all_told(&fleet, "SetDesiredConfig").await;
        assert!(told.iter().any(|note| note.contains(node)), "{node}: {told:?}");
    }
}

/// How many nodes of the workers an estimate for the way there rests on.
fn estimated(world: &World) -> usize {
    let manners = |node: &Node| node.metadata.annotations.clone().unwrap_or_default();
    let ordered = world.nodes.iter().filter(|node| manners(node).contains_key("seaworthy.dev/ordered"));
    let is_known = |node: &&std::sync::Arc<Node>| {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let progress = world.progress.iter().find(|found| found.spec.node.name == name);
        progress.is_some_and(|progress| {
            let view = NodeView::of(*node, Some(progress));
            past(&view, |_, _| Some(Level::Reboot)).is_some()
        })
    };
    ordered.filter(is_known).count()
}

/// What all Events with a reason say.
async fn all_told(fleet: &Fleet, reason: &str) -> Vec<String> {
    let all = fleet.api::<Event>().list(&Default::default()).await.unwrap().items;
    let told = all.into_iter().filter(|event| event.reason.as_deref() == Some(reason));
    told.filter_map(|event| event.note).collect()
}
