//! Drift with repair enabled.

use crate::support;

use std::sync::Arc;

use crate::support::{ManualClock, Node, config, file, files, spec};
use rstest::rstest;
use seaworthy_api::vocabulary::machineconfiguration::{NodeEvent, State};
use seaworthy_host::{FakeHost, Host as _, Unsynced};
use seaworthy_node::{Agent, AgentOptions, Report};
use seaworthy_plan::disruption::policy::of_cluster;
use serde_json::json;

const POLICY: &str = "/etc/containers/policy.json";
const REGISTRY: &str = "/etc/containers/registries.d/a.yaml";
const UNIT: &str = "/etc/systemd/system/a.service";
const DROPIN: &str = "/etc/systemd/system/a.service.d/10.conf";

fn enable_repair(node: &mut Node, clock: &ManualClock) {
    node.agent = Agent::new(node.host.clone(), AgentOptions { is_repairing: true }).with_clock(clock.source());
    node.host.forget_calls();
}

fn check(node: &mut Node) -> Report {
    let report = node.agent.check(&node.order, &mut |_| true);
    node.note(&report);
    report
}

fn service_calls(node: &Node) -> Vec<String> {
    let is_service_call =
        |call: &String| ["daemon-reload", "reload ", "restart "].iter().any(|verb| call.starts_with(verb));
    node.host.calls().into_iter().filter(is_service_call).map(|call| call.trim().to_owned()).collect()
}

fn with_unit() -> support::Config {
    let unit = json!({
        "name": "a.service", "enabled": true, "contents": "[Service]\nNice=1\n",
        "dropins": [{"name": "10.conf", "contents": "[Unit]\n"}],
    });
    config("unit", &spec(json!({"config": {"systemd": {"units": [unit]}}})))
}

#[test]
fn everything_that_differs_is_reverted_at_once_and_its_readers_are_notified_once() {
    let ours = files(vec![file(POLICY, "ours"), file(REGISTRY, "ours")]);
    let mut node = Node::new(FakeHost::new("m"), &config("old", &ours));
    enable_repair(&mut node, &ManualClock::default());
    node.host.put(POLICY, b"theirs", 0o600);
    node.host.delete_file(REGISTRY);
    let report = check(&mut node);
    assert_eq!((report.state, report.reason.as_str()), (State::Done, ""));
    assert_eq!(report.events[0].0, NodeEvent::ConfigDriftRepaired);
    assert!(report.events[0].1.contains(POLICY) && report.events[0].1.contains(REGISTRY), "{}", report.events[0].1);
    assert_eq!(service_calls(&node), ["reload crio.service"]);
    for path in [POLICY, REGISTRY] {
        assert_eq!(node.host.text(path).unwrap(), "ours");
        assert_eq!(node.host.loaded("crio.service", path).unwrap(), "ours");
        assert_eq!(node.host.entry(path).unwrap().unwrap().mode, 0o644);
    }
}

/// Whatever comes after it in the same attempt.
#[rstest]
#[case::claim_without_an_answer("claim", State::Done)]
#[case::update_that_fails("update", State::Degraded)]
#[case::order_that_is_refused("refusal", State::Unreconcilable)]
fn what_was_reverted_is_reported_once_whatever_becomes_of_the_order(#[case] what: &str, #[case] state: State) {
    let quiet = "/etc/nmstate/openshift/a";
    let old = config("old", &files(vec![file(POLICY, "ours"), file(quiet, "old")]));
    let mut node = Node::new(FakeHost::new("m"), &old);
    enable_repair(&mut node, &ManualClock::default());
    node.host.put(POLICY, b"theirs", 0o644);
    node.order.desired = Some(match what {
        "refusal" => config("new", &spec(json!({"config": {"storage": {"directories": [{"path": "/etc/x"}]}}}))),
        _ => config("new", &files(vec![file(POLICY, "ours"), file(quiet, "new")])),
    });
    let mut events = Vec::new();
    if what == "claim" {
        let report = node.agent.sync(&node.order, &mut |_| false);
        assert!(report.events.is_empty(), "{:?}", report.events);
    }
    if what == "update" {
        node.host.fail_times(&format!("write {quiet}"), "No space left on device", 1);
    }
    let report = node.settle();
    assert_eq!(report.state, state, "{}", report.reason);
    events.extend(report.events);
    let repaired = |events: &[(NodeEvent, String)]| {
        events.iter().filter(|(reason, _)| *reason == NodeEvent::ConfigDriftRepaired).count()
    };
    assert_eq!(repaired(&events), 1, "{events:?}");
    assert_eq!(repaired(&node.step().events), 0);
}

#[test]
fn a_file_that_has_grown_is_not_read_when_its_repair_is_undone() {
    let quiet = "/etc/nmstate/openshift/a";
    let old = config("old", &files(vec![file(POLICY, "ours"), file(quiet, "ours")]));
    let mut node = Node::new(FakeHost::new("m"), &old);
    enable_repair(&mut node, &ManualClock::default());
    node.host.put(quiet, &vec![b'x'; 5 * 1024 * 1024], 0o644);
    node.host.put(POLICY, b"theirs", 0o644);
    node.host.fail(&format!("write {quiet}"), "No space left on device");
    let before = node.host.bytes_read();
    let report = check(&mut node);
    assert!(report.reason.contains("No space left on device"), "{}", report.reason);
    assert_eq!(node.host.entry(quiet).unwrap().unwrap().size, 5 * 1024 * 1024);
    assert_eq!(node.host.text(POLICY).unwrap(), "theirs");
    assert!(node.host.bytes_read() - before < 64 * 1024, "{} bytes", node.host.bytes_read() - before);
}

#[test]
fn a_unit_that_was_edited_is_read_and_started_again() {
    let mut node = Node::new(FakeHost::new("m"), &with_unit());
    enable_repair(&mut node, &ManualClock::default());
    node.host.put(UNIT, b"[Service]\nNice=19\n", 0o644);
    assert_eq!(check(&mut node).state, State::Done);
    assert_eq!(service_calls(&node), ["daemon-reload", "restart a.service"]);
    assert_eq!(node.host.loaded("a.service", UNIT).unwrap(), "[Service]\nNice=1\n");
    // One that was disabled may have been stopped as well.
    node.host.disable(&["a.service"]).unwrap();
    node.host.forget_calls();
    assert_eq!(check(&mut node).state, State::Done);
    assert_eq!(service_calls(&node), ["daemon-reload", "restart a.service"]);
}

#[rstest]
#[case::by_no_policy(None)]
#[case::by_the_cluster(Some("a.service"))]
fn a_drop_in_is_reverted_where_it_is_known_what_that_needs(#[case] policy: Option<&str>) {
    let mut node = Node::new(FakeHost::new("m"), &with_unit());
    let known = policy.map(|name| {
        let action = json!({"type": "Restart", "restart": {"serviceName": name}});
        serde_json::from_value(json!({"units": [{"name": name, "actions": [action]}]})).unwrap()
    });
    node.order.policies = Some(Arc::new(of_cluster(known.as_ref())));
    enable_repair(&mut node, &ManualClock::default());
    node.host.put(DROPIN, b"[Unit]\nAfter=b.service\n", 0o644);
    let report = check(&mut node);
    if policy.is_some() {
        assert_eq!(report.state, State::Done, "{}", report.reason);
        assert_eq!(service_calls(&node), ["daemon-reload", "restart a.service"]);
        assert_eq!(node.host.text(DROPIN).unwrap(), "[Unit]\n");
    } else {
        assert_eq!(report.state, State::Degraded);
        assert!(report.reason.contains("needs a reboot") && report.reason.contains("10.conf"), "{}", report.reason);
        assert_eq!(node.host.text(DROPIN).unwrap(), "[Unit]\nAfter=b.service\n");
    }
}

#[test]
fn what_needs_a_reboot_is_left_unchanged_and_reported() {
    let ours = files(vec![file("/etc/random", "ours"), file(POLICY, "ours")]);
    let mut node = Node::new(FakeHost::new("m"), &config("old", &ours));
    enable_repair(&mut node, &ManualClock::default());
    node.host.put("/etc/random", b"theirs", 0o644);
    node.host.put(POLICY, b"theirs", 0o644);
    let report = check(&mut node);
    assert_eq!((report.state, report.is_rebooting), (State::Degraded, false));
    assert!(report.reason.contains("needs a reboot, because of file /etc/random"), "{}", report.reason);
    assert_eq!(node.host.text("/etc/random").unwrap(), "theirs");
    assert!(node.host.calls().is_empty(), "{:?}", node.host.calls());
    // When it is fixed by hand, the rest is repaired.
    node.host.put("/etc/random", b"ours", 0o644);
    assert_eq!(check(&mut node).state, State::Done);
    assert_eq!(node.host.text(POLICY).unwrap(), "ours");
}

#[test]
fn what_needs_a_drain_is_reverted_only_on_a_node_that_is_never_drained() {
    let registries = "unqualified-search-registries = [\"example.org\"]\n";
    let path = "/etc/containers/registries.conf";
    let mut node = Node::new(FakeHost::new("m"), &config("old", &files(vec![file(path, registries)])));
    enable_repair(&mut node, &ManualClock::default());
    node.host.put(path, b"unqualified-search-registries = [\"example.com\"]\n", 0o644);
    let report = check(&mut node);
    assert_eq!(report.state, State::Degraded);
    assert!(report.reason.contains("needs a drain"), "{}", report.reason);
    node.order.is_single = true;
    assert_eq!(check(&mut node).state, State::Done);
    assert_eq!(
        (node.host.text(path).as_deref(), service_calls(&node)),
        (Some(registries), vec!["reload crio.service".to_owned()])
    );
}

#[test]
fn a_file_that_keeps_being_changed_is_named_and_no_longer_reverted() {
    let clock = ManualClock::default();
    let mut node =
        Node::new(FakeHost::new("m"), &config("old", &files(vec![file(POLICY, "ours"), file(REGISTRY, "a")])));
    enable_repair(&mut node, &clock);
    for _ in 0..3 {
        node.host.put(POLICY, b"theirs", 0o644);
        assert_eq!(check(&mut node).state, State::Done);
        clock.advance_minutes(1);
    }
    node.host.put(POLICY, b"theirs", 0o644);
    node.host.forget_calls();
    let report = check(&mut node);
    assert_eq!(report.state, State::Degraded);
    assert!(report.reason.contains(&format!("another process keeps changing {POLICY}")), "{}", report.reason);
    assert!(node.host.calls().is_empty(), "{:?}", node.host.calls());
    // By the next hour it may be over.
    clock.advance_minutes(60);
    assert_eq!(check(&mut node).state, State::Done);
    assert_eq!(node.host.text(POLICY).unwrap(), "ours");
}

#[test]
fn a_service_that_cannot_be_reloaded_is_reloaded_later_and_until_then_the_node_is_not_done() {
    let mut node = Node::new(FakeHost::new("m"), &config("old", &files(vec![file(POLICY, "ours")])));
    enable_repair(&mut node, &ManualClock::default());
    node.host.put(POLICY, b"theirs", 0o644);
    node.host.reload("crio.service").unwrap();
    node.host.fail("reload crio.service", "Job failed");
    for _ in 0..4 {
        let report = check(&mut node);
        assert_eq!(report.state, State::Degraded);
        assert!(report.reason.contains("crio.service") && report.reason.contains("Job failed"), "{}", report.reason);
    }
    node.host.clear_faults();
    enable_repair(&mut node, &ManualClock::default());
    assert_eq!(check(&mut node).state, State::Done);
    assert_eq!(node.host.loaded("crio.service", POLICY).unwrap(), "ours");
}

#[test]
fn a_power_cut_at_any_call_leaves_what_was_there_or_what_should_be() {
    let ours = files(vec![file(POLICY, "ours"), file(REGISTRY, "ours")]);
    for nth in 0.. {
        let mut node = Node::new(FakeHost::new("m"), &config("old", &ours));
        enable_repair(&mut node, &ManualClock::default());
        node.host.put(POLICY, b"theirs", 0o644);
        node.host.put(REGISTRY, b"theirs", 0o644);
        node.host.cut_at(nth);
        let report = check(&mut node);
        if !node.host.is_off() {
            assert_eq!(report.state, State::Done);
            assert!(nth > 5, "there was nothing to cut");
            return;
        }
        node.host.power_on(Unsynced::Lost);
        node.agent = Agent::new(node.host.clone(), AgentOptions::default());
        node.agent.recover().unwrap();
        let texts = [POLICY, REGISTRY].map(|path| node.host.text(path).unwrap());
        assert!(texts[0] == texts[1] && ["ours", "theirs"].contains(&texts[0].as_str()), "cut {nth}: {texts:?}");
        enable_repair(&mut node, &ManualClock::default());
        assert_eq!(check(&mut node).state, State::Done, "cut {nth}");
    }
}
