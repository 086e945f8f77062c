//! What an update costs that changes many files.

#![allow(clippy::unwrap_used)]

mod support;

use std::fs::File;
use std::io::Write as _;
use std::time::{Duration, Instant};

use seaworthy_api::vocabulary::machineconfiguration::State;
use seaworthy_host::{FakeHost, FolderHost};
use seaworthy_node::order::Again;
use seaworthy_node::{Agent, Config, Settings};
use serde_json::Value;
use support::{Node, config, file, files, order};

const QUIET: &str = "/etc/nmstate/openshift";

fn many(name: &str, count: usize, text: &str) -> Config {
    let all: Vec<Value> = (0..count).map(|nth| file(&format!("{QUIET}/{nth}"), &text.repeat(400))).collect();
    config(name, &files(all))
}

/// How often an update waits for the disk.
fn waits(count: usize) -> usize {
    let mut node = Node::new(FakeHost::new("m"), &many("old", count, "old"));
    node.host.forget_calls();
    assert_eq!(node.obey(&many("new", count, "new")).state, State::Done);
    let calls = node.host.calls();
    assert!(calls.iter().filter(|call| call.contains(QUIET)).count() >= count);
    let is_waiting = |call: &&String| call.starts_with("sync") || call.starts_with("write /etc/machine-config-daemon/");
    calls.iter().filter(is_waiting).count()
}

#[test]
fn five_hundred_files_wait_for_the_disk_as_often_as_one() {
    assert_eq!(waits(500), waits(1));
}

/// `cargo test --release -p seaworthy-node --test speed -- --ignored --nocapture`
#[test]
#[ignore = "it measures, and judges nothing"]
fn time_of_five_hundred_files_beside_plain_calls() {
    const COUNT: usize = 500;
    let median = |mut all: Vec<Duration>| {
        all.sort();
        all[all.len() / 2]
    };
    let (mut plain, mut ours) = (Vec::new(), Vec::new());
    // In the folder of the build: what stands below /tmp may be in memory only.
    let place = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    for _ in 0..5 {
        let root = tempfile::tempdir_in(place).unwrap();
        let start = Instant::now();
        for nth in 0..COUNT {
            let mut file = File::create(root.path().join(nth.to_string())).unwrap();
            file.write_all("new".repeat(400).as_bytes()).unwrap();
            file.sync_all().unwrap();
        }
        plain.push(start.elapsed());

        let root = tempfile::tempdir_in(place).unwrap();
        let first = many("first", 0, "");
        let mut agent = Agent::new(FolderHost::open(root.path()).unwrap(), Settings::default());
        let mut order = order(&first, &first);
        assert_eq!(agent.sync(&order, &mut |_| true).state, State::Done);
        order.desired = Some(many("new", COUNT, "new"));
        let start = Instant::now();
        loop {
            let report = agent.sync(&order, &mut |_| true);
            order.state = Some(report.state);
            if report.again != Again::Now {
                assert_eq!(report.state, State::Done, "{}", report.reason);
                break;
            }
        }
        ours.push(start.elapsed());
    }
    let (plain, ours) = (median(plain), median(ours));
    println!("plain {plain:?}, ours {ours:?}, {:.2} times", ours.as_secs_f64() / plain.as_secs_f64());
}
