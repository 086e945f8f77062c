//! Waits of a node that take too long: for a drain, for a reboot, and for its current configuration.

use crate::support;

use crate::support::{Config, ManualClock, Node, config, file, files, spec};
use rstest::rstest;
use seaworthy_api::vocabulary::machineconfiguration::State;
use seaworthy_host::{FakeHost, Host as _};
use seaworthy_node::order::NextAttempt;
use seaworthy_node::{Agent, AgentOptions, Report, paths};
use serde_json::json;

const LOUD: &str = "/etc/random";

fn with_clock(first: &Config, clock: &ManualClock) -> Node {
    let mut node = Node::new(FakeHost::new("m"), first);
    node.agent = Agent::new(node.host.clone(), AgentOptions::default()).with_clock(clock.source());
    node
}

/// An attempt; requests are not granted.
fn attempt(node: &mut Node) -> Report {
    let report = node.agent.sync(&node.order, &mut |_| true);
    if let Some(request) = &report.drain_request {
        node.order.desired_drain = Some(request.clone());
    }
    if !report.is_rebooting {
        node.order.state = Some(report.state);
    }
    report
}

// === Drains ===

#[rstest]
#[case::drain("drain-new", 59, "FailedToDrain", "1 hour")]
#[case::uncordon("uncordon-new", 9, "FailedToUncordon", "10 minutes")]
fn a_drain_request_is_reported_with_its_time_and_fails_after_its_limit(
    #[case] request: &str,
    #[case] minutes: u32,
    #[case] event: &str,
    #[case] limit: &str,
) {
    let clock = ManualClock::default();
    let new = config("new", &files(vec![file(LOUD, "x")]));
    let mut node = match request {
        "drain-new" => with_clock(&config("old", &files(vec![])), &clock),
        _ => with_clock(&new, &clock),
    };
    node.order.desired = Some(new);
    if request == "uncordon-new" {
        node.order.last_applied_drain = Some("drain-new".to_owned());
        node.order.desired_drain = Some("drain-new".to_owned());
    }
    let first = attempt(&mut node);
    assert_eq!((first.drain_request.as_deref(), first.state), (Some(request), State::Working));
    assert!(first.reason.starts_with("waiting for ") && first.reason.contains(request), "{}", first.reason);
    clock.advance_minutes(minutes);
    let second = attempt(&mut node);
    assert_eq!((second.drain_request, second.state), (None, State::Working));
    // The same words, so that nothing is written again and again.
    assert_eq!(second.reason, first.reason);
    clock.advance_minutes(1);
    let late = attempt(&mut node);
    assert_eq!(
        (late.state, late.next_attempt, late.events[0].0.as_str()),
        (State::Degraded, NextAttempt::OnChange, event)
    );
    assert!(late.reason.contains(request) && late.reason.contains(limit), "{}", late.reason);
    clock.advance_minutes(1);
    assert_eq!(attempt(&mut node).reason, late.reason);
    // It comes after all.
    node.order.last_applied_drain = Some(request.to_owned());
    let report = node.settle();
    assert_eq!((report.state, report.reason.as_str()), (State::Done, ""));
}

#[test]
fn the_wait_for_another_order_starts_again() {
    let clock = ManualClock::default();
    let mut node = with_clock(&config("old", &files(vec![])), &clock);
    node.order.desired = Some(config("new", &files(vec![file(LOUD, "x")])));
    attempt(&mut node);
    clock.advance_minutes(61);
    assert_eq!(attempt(&mut node).state, State::Degraded);
    node.order.desired = Some(config("newer", &files(vec![file(LOUD, "y")])));
    let report = attempt(&mut node);
    assert_eq!(report.drain_request.as_deref(), Some("drain-newer"));
    assert!(report.reason.contains("drain-newer"), "{}", report.reason);
    clock.advance_minutes(59);
    assert!(attempt(&mut node).reason.starts_with("waiting for "));
}

#[test]
fn a_failed_node_reports_the_cause_while_it_waits() {
    let clock = ManualClock::default();
    let mut node = with_clock(&config("old", &files(vec![])), &clock);
    node.order.state = Some(State::Degraded);
    node.order.desired = Some(config("new", &files(vec![file(LOUD, "x")])));
    // No reason is reported, so the earlier one stays.
    for _ in 0..3 {
        let report = attempt(&mut node);
        assert_eq!((report.state, report.reason.as_str()), (State::Degraded, ""));
        clock.advance_minutes(20);
    }
    assert!(attempt(&mut node).reason.contains("after 1 hour"));
}

#[test]
fn a_date_that_jumps_makes_no_wait_longer_or_shorter() {
    let clock = ManualClock::default();
    let mut node = with_clock(&config("old", &files(vec![])), &clock);
    node.order.desired = Some(config("new", &files(vec![file(LOUD, "x")])));
    let first = attempt(&mut node).reason;
    assert!(first.contains("1970-01-01T00:00:00Z"), "{first}");
    clock.set(2_000_000_000);
    clock.advance_minutes(59);
    assert_eq!(attempt(&mut node).reason, first);
    clock.set(-2_000_000_000);
    clock.advance_minutes(1);
    assert_eq!(attempt(&mut node).state, State::Degraded);
}

// === Boots ===

/// A node that has asked for its boot into `new`, and is still there.
fn asked_for_boot(clock: &ManualClock) -> Node {
    let mut node = with_clock(&config("old", &files(vec![file(LOUD, "old")])), clock);
    node.order.desired = Some(config("new", &files(vec![file(LOUD, "new")])));
    node.step();
    assert!(node.step().is_rebooting);
    node
}

fn asked(node: &Node) -> usize {
    node.host.calls().iter().filter(|call| call.starts_with("reboot ")).count()
}

#[test]
fn a_boot_that_does_not_come_is_reported_and_requested_again_with_longer_pauses() {
    let clock = ManualClock::default();
    let mut node = asked_for_boot(&clock);
    clock.advance_minutes(4);
    assert!(attempt(&mut node).is_rebooting);
    assert_eq!(asked(&node), 1);
    clock.advance_minutes(1);
    let late = attempt(&mut node);
    assert_eq!((late.state, late.is_rebooting, late.next_attempt), (State::Degraded, false, NextAttempt::OnChange));
    let expected = "reboot requested at 1970-01-01T00:00:00Z (boots into new), but the machine has not rebooted";
    assert!(late.reason.starts_with(expected), "{}", late.reason);
    assert_eq!(asked(&node), 2);
    clock.advance_minutes(9);
    assert_eq!(attempt(&mut node).reason, late.reason);
    assert_eq!(asked(&node), 2);
    node.host.fail("reboot ", "Transport endpoint is not connected");
    clock.advance_minutes(1);
    let refused = attempt(&mut node);
    assert!(refused.reason.starts_with(expected) && refused.reason.contains("not connected"), "{}", refused.reason);
    for (minutes, times) in [(19, 3), (1, 4), (39, 4), (1, 5), (59, 5), (1, 6), (59, 6), (1, 7)] {
        clock.advance_minutes(minutes);
        assert_eq!(attempt(&mut node).state, State::Degraded);
        assert_eq!(asked(&node), times);
    }
    // It is rebooted by hand.
    node.host.clear_faults();
    node.host.boot_orderly();
    node.restart();
    assert_eq!(node.settle().state, State::Done);
    assert_eq!(node.host.text(LOUD).unwrap(), "new");
}

#[rstest]
#[case::changing("applying", false)]
#[case::reloading("acting", false)]
#[case::changing_back("undoing", false)]
#[case::waiting_for_its_boot("committed", true)]
#[case::waiting_for_the_boot_back("reverted", true)]
fn certificates_are_left_alone_while_files_change_and_not_while_a_boot_is_waited_for(
    #[case] phase: &str,
    #[case] are_kept: bool,
) {
    let node = asked_for_boot(&ManualClock::default());
    let journal = format!("{}/journal.json", paths::JOURNAL);
    let text = node.host.text(&journal).unwrap();
    assert!(text.contains(r#""phase": "committed""#), "{text}");
    let text = text.replace(r#""phase": "committed""#, &format!(r#""phase": "{phase}""#));
    node.host.put(&journal, text.as_bytes(), 0o600);
    let files = [(paths::KUBELET_CA.to_owned(), (b"ca".to_vec(), 0o644))].into();
    let wanted = seaworthy_node::drift::certificates::Certificates { version: None, files };
    let written = are_kept.then(|| vec![paths::KUBELET_CA.to_owned()]);
    assert_eq!(node.agent.sync_certificates(&wanted), Ok(written));
    assert_eq!(node.host.exists(paths::KUBELET_CA).unwrap(), are_kept);
}

#[rstest]
#[case::was_there_before(None, false)]
#[case::was_made_with_a_pools_configuration(Some(paths::INITIAL_ANNOTATIONS), true)]
#[case::lost_the_name_of_its_configuration(Some(paths::INITIAL_ANNOTATIONS_DONE), true)]
fn only_a_machine_that_was_there_before_keeps_its_own_authorities(#[case] made: Option<&str>, #[case] are_kept: bool) {
    let host = FakeHost::new("m");
    host.put(paths::KUBELET_CA, b"old", 0o644);
    made.into_iter().for_each(|path| host.put(path, b"{}", 0o644));
    let files = [(paths::KUBELET_CA.to_owned(), (b"new".to_vec(), 0o644))].into();
    let wanted = seaworthy_node::drift::certificates::Certificates { version: None, files };
    let written = are_kept.then(|| vec![paths::KUBELET_CA.to_owned()]);
    assert_eq!(Agent::new(host.clone(), AgentOptions::default()).sync_certificates(&wanted), Ok(written));
    assert_eq!(host.text(paths::KUBELET_CA).as_deref(), Some(if are_kept { "new" } else { "old" }));
}

#[test]
fn a_certificate_of_the_configuration_that_comes_is_its_own_before_the_disk_says_so() {
    const AUTHORITY: &str = "/etc/docker/certs.d/registry/ca.crt";
    let mut node = Node::new(FakeHost::new("m"), &config("old", &files(vec![])));
    node.order.desired = Some(config("new", &files(vec![file(AUTHORITY, "own"), file(LOUD, "new")])));
    node.host.fail(&format!("write {}", paths::CURRENT_CONFIG), "no space left on device");
    let report = node.settle();
    assert!(report.reason.contains("no space left"), "{}", report.reason);
    assert_eq!(node.host.text(AUTHORITY).as_deref(), Some("own"));
    let wanted = [(AUTHORITY.to_owned(), (b"other".to_vec(), 0o644))].into();
    let wanted = seaworthy_node::drift::certificates::Certificates { version: None, files: wanted };
    assert_eq!(node.agent.sync_certificates(&wanted), Ok(None));
    node.host.clear_faults();
    assert_eq!(node.settle().state, State::Done);
    assert_eq!(node.agent.sync_certificates(&wanted), Ok(Some(Vec::new())));
}

#[test]
fn an_order_that_is_taken_back_while_the_boot_does_not_come_is_taken_back_on_the_disk() {
    let clock = ManualClock::default();
    let mut node = asked_for_boot(&clock);
    node.order.desired = node.order.current.clone().map(|old| config(&old.name, &files(vec![file(LOUD, "old")])));
    // It may still come at any moment.
    assert!(attempt(&mut node).is_rebooting);
    clock.advance_minutes(5);
    let report = attempt(&mut node);
    assert_eq!(report.state, State::Degraded);
    assert!(report.reason.contains("no longer ordered"), "{}", report.reason);
    assert_eq!(node.host.text(LOUD).unwrap(), "old");
    assert!(attempt(&mut node).is_rebooting);
    node.host.boot_orderly();
    node.restart();
    let report = node.settle();
    assert_eq!((report.state, report.current.unwrap().name.as_str()), (State::Done, "old"));
}

#[test]
fn a_first_boot_that_does_not_come_is_reported_as_well() {
    let clock = ManualClock::default();
    let first = config("first", &spec(json!({"kernelArguments": ["a=1"]})));
    let host = FakeHost::new("m");
    host.put(paths::INITIAL_ANNOTATIONS, b"{}", 0o644);
    let mut agent = Agent::new(host.clone(), AgentOptions::default()).with_clock(clock.source());
    let order = support::order(&first, &first);
    assert!(agent.sync(&order, &mut |_| true).is_rebooting);
    clock.advance_minutes(5);
    let report = agent.sync(&order, &mut |_| true);
    assert_eq!((report.state, report.is_rebooting), (State::Degraded, false));
    assert!(report.reason.starts_with("reboot requested at 1970-01-01T00:00:00Z ("), "{}", report.reason);
}

// === A node that has lost what it is in ===

#[test]
fn a_broken_current_config_is_named_and_a_deleted_one_is_rebuilt_from_the_cluster() {
    let first = config("old", &files(vec![file("/etc/a", "a")]));
    let mut node = Node::new(FakeHost::new("m"), &first);
    node.order.current = Some(first.clone());
    let good = node.host.text(paths::CURRENT_CONFIG).unwrap();
    node.host.put(paths::CURRENT_CONFIG, b"{", 0o644);
    let report = node.step();
    assert_eq!(report.state, State::Degraded);
    assert!(report.reason.contains(paths::CURRENT_CONFIG), "{}", report.reason);
    node.host.delete_file(paths::CURRENT_CONFIG);
    assert_eq!(node.step().state, State::Done);
    assert_eq!(node.host.text(paths::CURRENT_CONFIG).unwrap(), good);
}

#[rstest]
#[case::argument(json!({"kernelArguments": ["a=1"]}), "a=1")]
#[case::image(json!({"osImageURL": "image-2"}), "image-2")]
#[case::kernel(json!({"kernelType": "realtime"}), "realtime")]
fn a_serving_node_that_has_lost_its_configuration_is_never_booted_for_what_differs(
    #[case] wanted: serde_json::Value,
    #[case] word: &str,
) {
    let first = config("first", &spec(wanted));
    let mut node = Node::new(FakeHost::new("m"), &first);
    let booted = node.host.boot().unwrap();
    node.host.delete_file(paths::CURRENT_CONFIG);
    node.order.current = Some(first.clone());
    let plain = FakeHost::new("m").boot().unwrap();
    node.host.change_boot(|boot| {
        (boot.arguments, boot.image, boot.kernel) = (plain.arguments, Some("other".to_owned()), plain.kernel);
    });
    let report = node.step();
    assert_eq!((report.state, report.is_rebooting), (State::Degraded, false));
    assert!(report.reason.contains(word) && report.reason.contains(paths::CURRENT_CONFIG), "{}", report.reason);
    assert!(!node.host.is_reboot_requested() && node.host.calls().is_empty(), "{:?}", node.host.calls());
    // Its boot is right again: it is what the cluster says.
    node.host.change_boot(|boot| *boot = booted);
    assert_eq!(node.settle().state, State::Done);
    assert_eq!(node.boots, 0);
}

#[test]
fn force_brings_image_kernel_arguments_and_extensions_to_a_node_that_has_lost_them() {
    let all = json!({
        "kernelArguments": ["a=1"], "osImageURL": "image-2", "kernelType": "realtime", "extensions": ["sysstat"],
    });
    let (old, first) = (config("old", &spec(json!({}))), config("first", &spec(all)));
    let mut node = Node::new(FakeHost::new("m"), &old);
    let plain = node.host.boot().unwrap();
    assert_eq!(node.obey(&first).state, State::Done);
    let wanted = node.host.snapshot().boot;
    for is_lost in [true, false] {
        if is_lost {
            node.host.delete_file(paths::CURRENT_CONFIG);
        }
        node.order.current = Some(first.clone());
        let boots = node.boots;
        node.host.change_boot(|boot| {
            (boot.arguments, boot.kernel) = (plain.arguments.clone(), plain.kernel);
            (boot.image, boot.packages) = (Some("other".to_owned()), Vec::new());
        });
        let report = node.agent.check(&node.order, &mut |_| true);
        assert_eq!(report.state, State::Degraded, "{}", report.reason);
        node.note(&report);
        node.host.put(paths::FORCE, b"", 0o644);
        let report = node.settle();
        assert_eq!((report.state, node.boots), (State::Done, boots + 1), "{}", report.reason);
        assert_eq!(node.host.snapshot().boot, wanted);
        assert_eq!(node.agent.check(&node.order, &mut |_| true).state, State::Done);
    }
}
