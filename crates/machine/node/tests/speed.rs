//! Cost of an update that changes many files; the duration is measured by `cargo xtask bench daemon`.

use crate::support::{Node, config, file, files};
use seaworthy_api::vocabulary::machineconfiguration::State;
use seaworthy_host::FakeHost;
use seaworthy_node::Config;
use serde_json::Value;

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
