//! Files that are added, changed and removed, and their originals.

use super::*;

#[test]
fn d17_packed_files_are_unpacked_and_unknown_packing_is_named() {
    let host = FakeHost::new("m");
    let mut node = Node::new(host, &config("old", &files(vec![])));
    let packed = "data:;base64,H4sIAAAAAAACAytITM5OTVEoSa0oAQAM9ArSCwAAAA==";
    let new = files(vec![
        file("/etc/nmstate/openshift/plain", "text"),
        json!({"path": "/etc/nmstate/openshift/packed", "contents": {"source": packed, "compression": "gzip"}}),
    ]);
    assert_eq!(node.obey(&config("new", &new)).state, State::Done);
    assert_eq!(node.host.text("/etc/nmstate/openshift/plain").unwrap(), "text");
    assert_eq!(node.host.text("/etc/nmstate/openshift/packed").unwrap(), "packed text");
    let xz = files(vec![json!({"path": "/etc/x", "contents": {"source": "data:,x", "compression": "xz"}})]);
    let report = node.obey(&config("xz", &xz));
    assert_eq!(report.state, State::Unreconcilable);
    assert!(report.reason.contains("xz"), "{}", report.reason);
}

#[rstest]
#[case("/etc/systemd/system/a.service.d/10.conf", true)]
#[case("/usr/etc/systemd/system/a.service.d/10.conf", false)]
#[case("/etc/systemd/system/b.service.d/10.conf", false)]
#[case("/etc/systemd/system/a.service.d/20.conf", false)]
fn d18_a_file_that_became_a_drop_in_of_its_path_stays(#[case] path: &str, #[case] is_kept: bool) {
    let mut node = Node::new(FakeHost::new("m"), &config("old", &files(vec![file(path, "[Service]\nNice=1\n")])));
    let new = with(json!({"systemd": {"units": [
        {"name": "a.service", "dropins": [{"name": "10.conf", "contents": "[Service]\nNice=1\n"}]},
    ]}}));
    assert_eq!(node.obey(&config("new", &spec(new))).state, State::Done);
    assert_eq!(node.host.text(path).is_some(), is_kept);
    assert!(node.host.text("/etc/systemd/system/a.service.d/10.conf").is_some());
}

#[test]
fn d26_a_file_of_nobodys_package_has_no_original_however_often_it_is_replaced() {
    let host = FakeHost::new("m");
    host.has_packages();
    host.put("/etc/nmstate/openshift/f", b"another's", 0o644);
    let mut node = Node::new(host, &config("old", &files(vec![])));
    for (name, text) in [("one", "1"), ("two", "2")] {
        assert_eq!(node.obey(&config(name, &files(vec![file("/etc/nmstate/openshift/f", text)]))).state, State::Done);
        assert!(!node.host.exists(&paths::original("/etc/nmstate/openshift/f")).unwrap());
        assert!(node.host.exists(&paths::no_original("/etc/nmstate/openshift/f")).unwrap());
    }
}

#[rstest]
#[case::unknown(false)]
#[case::owned(true)]
fn d49_the_original_file_comes_back_when_no_configuration_has_it_any_more(#[case] has_packages: bool) {
    let path = "/etc/nmstate/openshift/f";
    let host = FakeHost::new("m");
    if has_packages {
        host.vendor_owns(path);
    }
    host.put_owned(path, b"theirs", Attributes { mode: 0o640, uid: 7, gid: 8 });
    let mut node = Node::new(host, &config("old", &files(vec![])));
    node.obey(&config("one", &files(vec![file(path, "ours")])));
    node.obey(&config("two", &files(vec![file(path, "ours again")])));
    assert_eq!(node.host.text(path).unwrap(), "ours again");
    assert_eq!(node.obey(&config("three", &files(vec![]))).state, State::Done);
    assert_eq!(node.host.text(path).unwrap(), "theirs");
    let entry = node.host.entry(path).unwrap().unwrap();
    assert_eq!((entry.mode, entry.uid, entry.gid), (0o640, 7, 8));
    assert!(!node.host.exists(&paths::original(path)).unwrap());
}

#[test]
fn d48_a_write_that_fails_at_the_third_of_five_files_takes_the_first_two_back() {
    let path = |number: u32| format!("/etc/nmstate/openshift/{number}");
    let of = |text: &str| files((1..=5).map(|number| file(&path(number), text)).collect());
    let mut node = Node::new(FakeHost::new("m"), &config("old", &of("old")));
    node.host.fail(&format!("write {}", path(3)), "Read-only file system");
    let report = node.obey(&config("new", &of("new")));
    assert_eq!((report.state, report.next_attempt), (State::Degraded, NextAttempt::Backoff));
    assert!(report.reason.contains(&path(3)) && report.reason.contains("Read-only file system"), "{}", report.reason);
    assert!(node.host.calls().contains(&format!("write {}", path(2))));
    assert!((1..=5).all(|number| node.host.text(&path(number)).unwrap() == "old"));
    // The cause is gone.
    node.host.clear_faults();
    assert_eq!(node.settle().state, State::Done);
    assert!((1..=5).all(|number| node.host.text(&path(number)).unwrap() == "new"));
}

#[test]
fn files_in_another_order_change_nothing_and_the_node_is_done() {
    let [a, b] = ["a", "b"].map(|name| file(&format!("/etc/{name}"), name));
    let mut node = Node::new(FakeHost::new("m"), &config("old", &files(vec![a.clone(), b.clone()])));
    let report = node.obey(&config("new", &files(vec![b, a])));
    assert_eq!((report.state, node.boots), (State::Done, 0));
    assert!(node.drains.is_empty());
    assert!(!node.host.calls().iter().any(|call| call == "write /etc/a" || call == "write /etc/b"));
}
