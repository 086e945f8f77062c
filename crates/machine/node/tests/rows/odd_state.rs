//! Overrides, and unexpected states of a machine.

use super::*;

#[test]
fn the_force_file_skips_the_checks_writes_everything_and_boots_once() {
    let all = everything();
    let mut node = Node::new(FakeHost::new("m"), &all);
    node.host.put("/etc/file", b"drifted", 0o600);
    assert_eq!(node.agent.check(&node.order, &mut |_| true).state, State::Degraded);
    node.host.put(paths::FORCE, b"", 0o644);
    let report = node.settle();
    assert_eq!((report.state, node.boots), (State::Done, 1));
    assert_eq!(node.host.text("/etc/file").unwrap(), "text");
    assert!(!node.host.exists(paths::FORCE).unwrap());
}

#[test]
fn the_force_file_does_not_bring_what_cannot_be_taken_over() {
    let mut node = Node::new(FakeHost::new("m"), &config("old", &files(vec![])));
    node.host.put(paths::FORCE, b"", 0o644);
    let new = config("new", &spec(with(json!({"passwd": {"groups": [{"name": "g"}]}}))));
    node.order.desired = Some(new);
    node.order.is_single = true;
    assert_eq!(node.step().state, State::Unreconcilable);
}

#[test]
fn an_order_for_a_configuration_that_is_not_there_names_it_and_waits() {
    let mut node = Node::new(FakeHost::new("m"), &config("old", &files(vec![])));
    let report = node.obey(&named("rendered-gone"));
    assert_eq!(report.state, State::Degraded);
    assert!(report.reason.contains("rendered-gone"), "{}", report.reason);
    assert_eq!(node.obey(&config("rendered-gone", &files(vec![]))).state, State::Done);
}

#[test]
fn an_order_whose_current_configuration_was_not_read_is_read_again_when_the_disk_has_lost_its_record() {
    let old = config("old", &files(vec![]));
    let mut node = Node::new(FakeHost::new("m"), &old);
    node.order.current = Some(Config { spec: ConfigSpec::NotRead, ..old.clone() });
    assert_eq!(node.step().state, State::Done, "the disk has it");
    node.order.current = Some(Config { spec: ConfigSpec::NotRead, ..old.clone() });
    node.host.delete_file(paths::CURRENT_CONFIG);
    let report = node.step();
    assert_eq!((report.next_attempt, report.reason.as_str(), report.events), (NextAttempt::Now, "", vec![]));
    node.order.current = Some(old);
    assert_eq!(node.step().state, State::Done);
    assert!(node.host.exists(paths::CURRENT_CONFIG).unwrap());

    node.order.current = Some(named("old"));
    node.host.delete_file(paths::CURRENT_CONFIG);
    let report = node.step();
    assert!(report.state == State::Degraded && report.reason.contains("does not exist"), "{}", report.reason);
}

#[test]
fn an_unknown_owner_is_named_with_its_file() {
    let mut node = Node::new(FakeHost::new("m"), &config("old", &files(vec![])));
    let mut one = file("/etc/nmstate/openshift/a", "x");
    one["user"] = json!({"name": "missing-user"});
    let new = config("new", &files(vec![one]));
    let report = node.obey(&new);
    assert!(
        report.reason.contains("/etc/nmstate/openshift/a") && report.reason.contains("missing-user"),
        "{}",
        report.reason
    );
    node.host.add_user(
        "missing-user",
        seaworthy_host::User { uid: 5, gid: 5, home: "/".to_owned(), password: "*".to_owned() },
    );
    assert_eq!(node.obey(&new).state, State::Done);
    assert_eq!(node.host.entry("/etc/nmstate/openshift/a").unwrap().unwrap().uid, 5);
}

#[test]
fn a_directory_in_the_way_is_named_and_nothing_is_touched() {
    let mut node = Node::new(FakeHost::new("m"), &config("old", &files(vec![])));
    node.host.put("/etc/nmstate/openshift/a/below", b"", 0o644);
    let report = node.obey(&config("new", &files(vec![file("/etc/nmstate/openshift/a", "x")])));
    assert_eq!(report.state, State::Degraded);
    assert!(
        report.reason.contains("/etc/nmstate/openshift/a") && report.reason.contains("directory"),
        "{}",
        report.reason
    );
    node.host.delete_file("/etc/nmstate/openshift/a/below");
    assert_eq!(node.settle().state, State::Done);
}

#[test]
fn a_disk_that_is_full_of_the_update_is_emptied_of_it() {
    let path = |number: u32| format!("/etc/nmstate/openshift/{number}");
    let of = |text: &str, count: u32| files((1..=count).map(|number| file(&path(number), text)).collect());
    let mut node = Node::new(FakeHost::new("m"), &config("old", &of("old", 1)));
    // From the third file on nothing can be written, the journal's own progress included.
    node.host.fill_from(&format!("write {}", path(3)));
    let report = node.obey(&config("new", &of("new", 5)));
    assert_eq!(report.state, State::Degraded);
    assert!(report.reason.contains("rolled back to old"), "{}", report.reason);
    assert!(node.host.text(&path(2)).is_none());
    node.host.clear_faults();
    assert_eq!(node.settle().state, State::Done);
}

#[test]
fn a_file_in_the_place_of_a_directory_is_named_before_anything_is_touched() {
    let of = |key: &str| spec(with(json!({"passwd": {"users": [{"name": "core", "sshAuthorizedKeys": [key]}]}})));
    let mut node = Node::new(FakeHost::new("m"), &config("old", &files(vec![])));
    node.host.put("/home/core/.ssh", b"mine", 0o600);
    let report = node.obey(&config("new", &of("k1")));
    assert_eq!(report.state, State::Degraded);
    assert!(report.reason.contains("/home/core/.ssh") && report.reason.contains("move it away"), "{}", report.reason);
    assert_eq!(node.host.text("/home/core/.ssh").unwrap(), "mine");
    // The way back is open, and so is the way on.
    assert_eq!(node.obey(&config("old", &files(vec![]))).state, State::Done);
    node.host.delete_file("/home/core/.ssh");
    assert_eq!(node.obey(&config("new", &of("k1"))).state, State::Done);
}
