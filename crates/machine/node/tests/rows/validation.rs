//! Validation of a machine against its configuration.

use super::*;

#[rstest]
fn d39_whatever_becomes_of_a_managed_file_is_drift(
    #[values("/etc/file", "/etc/packed", "/etc/systemd/system/a.service", "/etc/systemd/system/a.service.d/10.conf")]
    path: &str,
    #[values("content", "renamed", "deleted", "replaced", "mode", "owner")] what: &str,
) {
    let all = everything();
    let mut node = Node::new(FakeHost::new("m"), &all);
    let (text, mode) = (node.host.text(path).unwrap(), node.host.entry(path).unwrap().unwrap().mode);
    let aspect = match what {
        "content" => {
            node.host.put(path, b"other", mode);
            Aspect::Content
        }
        "renamed" => {
            node.host.rename(path, "/etc/elsewhere").unwrap();
            Aspect::Missing
        }
        "deleted" => {
            node.host.delete_file(path);
            Aspect::Missing
        }
        "replaced" => {
            node.host.delete_file(path);
            node.host.symlink(path, "/etc/elsewhere").unwrap();
            Aspect::Kind
        }
        "mode" => {
            node.host.put(path, text.as_bytes(), 0o4755);
            Aspect::Mode
        }
        _ => {
            node.host.put_owned(path, text.as_bytes(), Attributes { mode, uid: 99, gid: 0 });
            Aspect::Owner
        }
    };
    let target = TargetState::parse("all", all.spec.found().unwrap().clone(), None).unwrap();
    let found = validate(&node.host, &target).unwrap();
    let found: Vec<_> = found.iter().filter(|finding| finding.subject == path).collect();
    assert_eq!((found.len(), found[0].aspect), (1, aspect), "{found:?}");
    let report = node.agent.check(&node.order, &mut |_| true);
    assert_eq!(report.state, State::Degraded);
    assert_eq!(report.events[0].0.as_str(), "ConfigDriftDetected");
    assert!(report.reason.starts_with("unexpected on-disk state validating against all: "), "{}", report.reason);
    assert!(report.reason.contains(path) && !report.reason.contains("other"), "{}", report.reason);
    node.note(&report);
    // It stays Degraded without repair, until it is fixed.
    assert_eq!(node.step().state, State::Degraded);
    node.host.delete_file(path);
    node.host.put(path, text.as_bytes(), mode);
    assert_eq!(node.step().state, State::Done);
}

#[test]
fn d51_an_owner_that_changed_is_drift_and_is_named() {
    let mut node = Node::new(FakeHost::new("m"), &config("one", &files(vec![file("/etc/a", "a")])));
    node.host.put_owned("/etc/a", b"a", Attributes { mode: 0o644, uid: 0, gid: 7 });
    let report = node.agent.check(&node.order, &mut |_| true);
    assert_eq!(report.state, State::Degraded);
    assert!(report.reason.contains("/etc/a") && report.reason.contains("0:7"), "{}", report.reason);
    node.host.put("/etc/a", b"a", 0o644);
    assert_eq!(node.agent.check(&node.order, &mut |_| true).state, State::Done);
}

#[test]
fn d40_touching_a_file_and_content_of_a_masked_unit_are_no_drift() {
    let masked = with(json!({"systemd": {"units": [{"name": "a.service", "mask": true, "contents": "[Service]\n"}]}}));
    let mut node = Node::new(FakeHost::new("m"), &config("old", everything().spec.found().unwrap()));
    let text = node.host.text("/etc/file").unwrap();
    node.host.put("/etc/file", text.as_bytes(), 0o644);
    assert_eq!(node.agent.check(&node.order, &mut |_| true).state, State::Done);
    let report = node.obey(&config("masked", &spec(masked)));
    assert_eq!(report.state, State::Done, "{}", report.reason);
    assert!(node.host.is_link_to("/etc/systemd/system/a.service", "/dev/null").unwrap());
    assert_eq!(node.agent.check(&node.order, &mut |_| true).state, State::Done);
}

#[test]
fn a_file_that_has_grown_is_drift_and_is_not_read() {
    let small = config("small", &files(vec![file("/etc/small", "small")]));
    let node = Node::new(FakeHost::new("m"), &small);
    let target = TargetState::parse("small", small.spec.found().unwrap().clone(), None).unwrap();
    node.host.put("/etc/small", &vec![b'x'; 5 * 1024 * 1024], 0o644);
    let before = node.host.bytes_read();
    let findings = validate(&node.host, &target).unwrap();
    let text = seaworthy_node::difference::differences(&node.host, &target).unwrap()[0].to_string();
    assert_eq!(node.host.bytes_read(), before);
    assert_eq!(findings.len(), 1);
    assert!(findings[0].message.contains("expected 5 bytes, found 5242880"), "{}", findings[0].message);
    assert!(text.contains("too long"), "{text}");
}

#[test]
fn d32_of_a_path_that_spec_2_has_twice_the_last_counts() {
    let entry = |text: &str| json!({"filesystem": "root", "path": "/etc/a", "mode": 0o644, "contents": {"source": source(text)}});
    let mut two = spec(with(json!({})));
    two.config = Some(json!({"ignition": {"version": "2.2.0"}, "storage": {"files": [entry("first"), entry("last")]}}));
    let host = FakeHost::new("m");
    host.put("/etc/a", b"last", 0o644);
    let target = TargetState::parse("two", Arc::new(two), None).unwrap();
    assert_eq!(validate(&host, &target).unwrap(), []);
    host.put("/etc/a", b"first", 0o644);
    assert_eq!(validate(&host, &target).unwrap().len(), 1);
}

#[test]
fn units_are_validated_as_enabled_and_disabled() {
    let all = everything();
    let node = Node::new(FakeHost::new("m"), &all);
    node.host.disable(&["a.service"]).unwrap();
    let target = TargetState::parse("all", all.spec.found().unwrap().clone(), None).unwrap();
    let found = validate(&node.host, &target).unwrap();
    assert_eq!((found.len(), found[0].aspect), (1, Aspect::Enablement));
}

#[test]
fn the_same_configuration_gives_no_steps() {
    let all = everything();
    let node = Node::new(FakeHost::new("m"), &all);
    let target = TargetState::parse("all", all.spec.found().unwrap().clone(), None).unwrap();
    let observed = observe(&node.host, &target, &target).unwrap();
    assert_eq!(steps(&target, &target, &observed).unwrap(), Vec::<Step>::new());
}

#[test]
fn d41_a_monitor_that_is_started_twice_listens_once_and_stops_on_request() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let all = everything();
    let node = Node::new(FakeHost::new("m"), &all);
    let target = TargetState::parse("all", all.spec.found().unwrap().clone(), None).unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let listener = || -> seaworthy_host::ChangeCallback {
        let calls = Arc::clone(&calls);
        Arc::new(move || {
            calls.fetch_add(1, Ordering::SeqCst);
        })
    };
    let mut monitor = seaworthy_node::drift::file_watch::FileWatch::default();
    assert!(monitor.start(&node.host, &target, listener()).unwrap());
    assert!(!monitor.start(&node.host, &target, listener()).unwrap());
    assert_eq!((node.host.watches(), monitor.is_running()), (1, true));
    node.host.put("/etc/file", b"x", 0o644);
    node.host.put("/etc/nobodys", b"x", 0o644);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    assert!(monitor.stop());
    assert!(!monitor.stop());
    assert_eq!((node.host.watches(), monitor.is_running()), (0, false));
    node.host.put("/etc/file", b"y", 0o644);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}
