//! Memory of many nodes in one process; a process of its own, so that no other test is counted.

#![allow(clippy::unwrap_used)]

mod support;

use seaworthy_api::machineconfiguration::MachineConfigPool;
use seaworthy_testkit::Cluster;
use serde_json::json;
use support::{World, file, timings};

/// What a node costs is printed: `cargo test -p seaworthy-fleet --test many -- --nocapture`.
#[tokio::test(flavor = "multi_thread")]
async fn more_than_a_hundred_nodes_follow_an_order_in_one_process() {
    const NODES: usize = 120;
    let cluster = Cluster::start().await;
    let world = World::with_workers(cluster.client(), timings(), 1).await;
    let (memory, threads) = used();
    for nth in 2..=NODES {
        world.fleet.add(&format!("w{nth}"), "worker").await.unwrap();
    }
    world.settled(NODES).await;
    let (after, most) = used();
    let each = after.saturating_sub(memory) / (NODES - 1);
    println!("{each} KiB a node, {threads} threads before and {most} with {NODES} nodes");
    assert!(each < 1024, "{each} KiB a node");
    assert!(most < NODES, "{most} threads");
    let all = json!({"spec": {"maxUnavailable": "100%"}});
    seaworthy_runtime::objects::patch::<MachineConfigPool>(&world.client, "worker", &all).await.unwrap();
    world.apply("50-motd", file("/etc/motd", "hello")).await;
    world.settled(NODES).await;
    assert!(used().1 < NODES, "{} threads", used().1);
    assert!(world.fleet.hosts("worker").values().all(|host| host.text("/etc/motd").is_some()));
}

/// How much memory this process has, in KiB, and how many threads.
fn used() -> (usize, usize) {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let number = |key: &str| {
        let line = text.lines().find(|line| line.starts_with(key)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    (number("VmRSS:"), number("Threads:"))
}
