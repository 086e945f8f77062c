//! The rows of server-and-daemon.md, part E, about the daemon. The number is in the name of the test, here or where the table
//! says; `every_row_is_a_test_or_left_out_with_a_reason` reads the names.
//!
//! | rows | where |
//! |---|---|
//! | D-12 to D-16, D-33 | `src/kernel_arguments.rs` |
//! | D-27, D-28 | `src/extensions.rs` |
//! | D-25 | `tests/disruption.rs` of `plan` |
//! | D-42 to D-44 | `tests/drain.rs` of `plan`, and as a whole in the suite `plane` of `controllers` |
//! | D-45, D-46 | `tests/node_status.rs` of `plan` |
//! | all others | here |
//!
//! Left out: D-47, the forms of a path for once-from. There is no such mode: a machine without a cluster is configured by
//! Ignition itself, and `seaworthy daemon --first-boot` completes that.

#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;

use rstest::rstest;
use seaworthy_api::operator::machine_configuration::StorageSection;
use seaworthy_api::vocabulary::machineconfiguration::State;
use seaworthy_host::{Attributes, FakeHost, Host, Kernel};
use seaworthy_node::decide::{Move, Standing, decide};
use seaworthy_node::observed::observe;
use seaworthy_node::order::Again;
use seaworthy_node::validate::{Aspect, validate};
use seaworthy_node::{Agent, Config, Order, Settings, Step, Target, places, steps};
use seaworthy_plan::disruption::{Action, Level, least_disruption};
use serde_json::{Value, json};
use support::{Node, config, file, files, order, source, spec};

/// What differs, and how much of a disruption that is.
fn differs(old: Value, new: Value) -> (Vec<String>, Level) {
    let found = least_disruption(&spec(old), &spec(new), None);
    (found.causes.into_iter().map(|cause| cause.what).collect(), found.level)
}

fn with(section: Value) -> Value {
    json!({"config": section})
}

fn core(user: Value) -> Value {
    with(json!({"passwd": {"users": [user]}}))
}

// === Differences ===

#[test]
fn d01_two_empty_configs_do_not_differ_and_no_list_is_an_empty_list() {
    let nothing = (Vec::new(), Level::None);
    assert_eq!(differs(json!({}), json!({})), nothing);
    assert_eq!(differs(json!({"kernelArguments": []}), json!({})), nothing);
    assert_eq!(differs(json!({"kernelType": ""}), json!({"kernelType": "default"})), nothing);
}

#[test]
fn d02_a_new_image_is_an_update_of_the_operating_system_only() {
    let found = differs(json!({"osImageURL": "a"}), json!({"osImageURL": "b"}));
    assert_eq!(found, (vec!["osImageURL".to_owned()], Level::Reboot));
}

#[rstest]
#[case(json!({"name": "core", "sshAuthorizedKeys": ["k"]}), json!({"name": "core", "sshAuthorizedKeys": ["k", "l"]}))]
#[case(json!({"name": "core", "passwordHash": "x"}), json!({"name": "core", "passwordHash": "y"}))]
fn d03_keys_and_passwords_are_differences_of_accounts(#[case] old: Value, #[case] new: Value) {
    let account = (vec!["user core".to_owned()], Level::None);
    assert_eq!(differs(core(old), core(new.clone())), account);
    assert_eq!(differs(json!({}), core(new)), account);
}

#[test]
fn d04_built_images_are_seen() {
    let base = config("base", &spec(json!({"osImageURL": "base"})));
    let mut node = Node::new(FakeHost::new("m"), &base);
    for (name, image, differs, booted) in [
        ("enabling", Some("i"), true, "i"),
        ("the same image", Some("i"), false, "i"),
        ("another image", Some("j"), true, "j"),
        ("reverting", None, true, "base"),
    ] {
        let boots = node.boots;
        node.order.desired =
            Some(Config { image: image.map(str::to_owned), ..config(name, base.spec.as_ref().unwrap()) });
        let disruption = node.step().disruption.unwrap();
        let causes: Vec<&str> = disruption.causes.iter().map(|cause| cause.what.as_str()).collect();
        assert_eq!(causes, if differs { vec!["image"] } else { vec![] }, "{name}");
        assert_eq!(node.settle().state, State::Done, "{name}");
        assert_eq!(node.boots - boots, usize::from(differs), "{name}");
        assert_eq!(node.host.boot().unwrap().image.as_deref(), Some(booted), "{name}");
    }
}

#[test]
fn d05_files_and_images_change_in_place() {
    let host = FakeHost::new("m");
    let first = config("a", &files(vec![file("/etc/nmstate/openshift/a", "a")]));
    let mut node = Node::new(host, &first);
    for (next, what) in [
        (
            config("b", &files(vec![file("/etc/nmstate/openshift/a", "a"), file("/etc/nmstate/openshift/b", "b")])),
            vec!["file /etc/nmstate/openshift/b"],
        ),
        (config("c", &files(vec![])), vec!["file /etc/nmstate/openshift/a", "file /etc/nmstate/openshift/b"]),
        (config("d", &spec(json!({"osImageURL": "image-2"}))), vec!["osImageURL"]),
    ] {
        let before = node.agent.on_disk_config().unwrap().unwrap();
        let found = least_disruption(&before.spec, next.spec.as_ref().unwrap(), None);
        assert_eq!(found.causes.iter().map(|cause| cause.what.as_str()).collect::<Vec<_>>(), what);
        let report = node.obey(&next);
        assert_eq!((report.state, report.reason.as_str()), (State::Done, ""));
    }
    assert_eq!(node.host.boot().unwrap().image.as_deref(), Some("image-2"));
    assert_eq!(node.boots, 1);
}

// === What cannot be taken over ===

fn refusal(old: Value, new: Value) -> Option<String> {
    let mut node = Node::new(FakeHost::new("m"), &config("old", &spec(old)));
    let calls = node.host.acts();
    let report = node.obey(&config("new", &spec(new)));
    if report.state == State::Done {
        return None;
    }
    assert_eq!((report.state, report.again), (State::Unreconcilable, Again::OnChange));
    assert_eq!(node.host.acts(), calls, "nothing is touched");
    assert_eq!(node.order.desired_drain, None, "nobody leaves for nothing");
    Some(report.reason)
}

#[rstest]
#[case("disks", StorageSection::Disks, json!({"disks": [{"device": "/dev/a", "wipeTable": true}]}))]
#[case("filesystems", StorageSection::FileSystems, json!({"filesystems": [{"device": "/dev/a", "format": "xfs", "path": "/var"}]}))]
#[case("raid", StorageSection::Raid, json!({"raid": [{"name": "r", "level": "raid1", "devices": ["/dev/a", "/dev/b"]}]}))]
fn d06_storage_changes_only_where_it_is_allowed(
    #[case] word: &str,
    #[case] section: StorageSection,
    #[case] storage: Value,
) {
    let reason = refusal(json!({}), with(json!({"storage": storage.clone()}))).unwrap();
    assert!(reason.contains(word), "{reason}");
    let mut node = Node::new(FakeHost::new("m"), &config("old", &spec(json!({}))));
    node.order.allowed = vec![section];
    assert_eq!(node.obey(&config("new", &spec(with(json!({"storage": storage}))))).state, State::Done);
}

#[test]
fn d07_an_ignition_version_of_the_future_is_refused() {
    let mut node = Node::new(FakeHost::new("m"), &config("old", &spec(json!({}))));
    let mut future = spec(with(json!({})));
    future.config = Some(json!({"ignition": {"version": "4.0.0"}}));
    let report = node.obey(&config("new", &future));
    assert_eq!(report.state, State::Unreconcilable);
    assert!(report.reason.contains("4.0.0") && report.reason.contains("new"), "{}", report.reason);
}

#[rstest]
#[case(with(json!({"passwd": {"groups": [{"name": "g"}]}})), "Groups")]
#[case(with(json!({"kernelArguments": {"shouldExist": ["a"]}})), "kargs")]
#[case(json!({"fips": true}), "FIPS")]
fn d08_groups_kernel_arguments_of_ignition_and_fips_are_refused(#[case] new: Value, #[case] word: &str) {
    let reason = refusal(json!({}), new).unwrap();
    assert!(reason.contains(word), "{reason}");
}

#[test]
fn d09_encrypted_devices_may_go() {
    let luks = with(json!({"storage": {"luks": [{"name": "l", "device": "/dev/a", "clevis": {"tpm2": true}}]}}));
    assert_eq!(refusal(luks, json!({})), None);
}

#[rstest]
#[case(json!([{"name": "core", "sshAuthorizedKeys": ["k2"]}]), true)]
#[case(json!([{"name": "bob", "sshAuthorizedKeys": ["k2"]}]), false)]
#[case(json!([{"name": "core", "sshAuthorizedKeys": ["k2"], "homeDir": "/h"}]), false)]
#[case(json!([{"name": "core", "sshAuthorizedKeys": ["k1"]}, {"name": "bob", "sshAuthorizedKeys": ["k2"]}]), false)]
#[case(json!([{"name": "core"}]), false)]
#[case(json!([]), true)]
fn d10_only_the_keys_of_core_change(#[case] users: Value, #[case] is_fine: bool) {
    let old = core(json!({"name": "core", "sshAuthorizedKeys": ["k1"]}));
    let reason = refusal(old, with(json!({"passwd": {"users": users}})));
    assert_eq!(reason.is_none(), is_fine, "{reason:?}");
}

#[rstest]
#[case("etc/a", false)]
#[case("/etc/../a", false)]
#[case("/etc/nmstate/openshift/a", true)]
fn d11_a_path_is_absolute_and_plain(#[case] path: &str, #[case] is_fine: bool) {
    let reason = refusal(json!({}), with(json!({"storage": {"files": [file(path, "a")]}})));
    assert_eq!(reason.is_none(), is_fine, "{reason:?}");
    assert!(reason.is_none_or(|reason| reason.contains(path)));
}

// === Files ===

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
    host.put("/etc/nmstate/openshift/f", b"somebody's", 0o644);
    let mut node = Node::new(host, &config("old", &files(vec![])));
    for (name, text) in [("one", "1"), ("two", "2")] {
        assert_eq!(node.obey(&config(name, &files(vec![file("/etc/nmstate/openshift/f", text)]))).state, State::Done);
        assert!(!node.host.exists(&places::original("/etc/nmstate/openshift/f")).unwrap());
        assert!(node.host.exists(&places::no_original("/etc/nmstate/openshift/f")).unwrap());
    }
}

#[rstest]
#[case::unknown(false)]
#[case::owned(true)]
fn d49_what_stood_there_comes_back_when_no_configuration_has_it_any_more(#[case] has_packages: bool) {
    let path = "/etc/nmstate/openshift/f";
    let host = FakeHost::new("m");
    if has_packages {
        host.vendor_owns(path);
    }
    host.put_of(path, b"theirs", Attributes { mode: 0o640, uid: 7, gid: 8 });
    let mut node = Node::new(host, &config("old", &files(vec![])));
    node.obey(&config("one", &files(vec![file(path, "ours")])));
    node.obey(&config("two", &files(vec![file(path, "ours again")])));
    assert_eq!(node.host.text(path).unwrap(), "ours again");
    assert_eq!(node.obey(&config("three", &files(vec![]))).state, State::Done);
    assert_eq!(node.host.text(path).unwrap(), "theirs");
    let entry = node.host.entry(path).unwrap().unwrap();
    assert_eq!((entry.mode, entry.uid, entry.gid), (0o640, 7, 8));
    assert!(!node.host.exists(&places::original(path)).unwrap());
}

#[test]
fn d48_a_write_that_fails_at_the_third_of_five_files_takes_the_first_two_back() {
    let path = |number: u32| format!("/etc/nmstate/openshift/{number}");
    let of = |text: &str| files((1..=5).map(|number| file(&path(number), text)).collect());
    let mut node = Node::new(FakeHost::new("m"), &config("old", &of("old")));
    node.host.fail(&format!("write {}", path(3)), "Read-only file system");
    let report = node.obey(&config("new", &of("new")));
    assert_eq!((report.state, report.again), (State::Degraded, Again::Backoff));
    assert!(report.reason.contains(&path(3)) && report.reason.contains("Read-only file system"), "{}", report.reason);
    assert!(node.host.calls().contains(&format!("write {}", path(2))));
    assert!((1..=5).all(|number| node.host.text(&path(number)).unwrap() == "old"));
    // The cause is gone.
    node.host.heal();
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

// === What a change does ===

fn needs(paths: &[&str]) -> (Level, Vec<Action>) {
    let of = |text: &str| files(paths.iter().map(|path| file(path, text)).collect());
    let found = least_disruption(&of("old"), &of("new"), None);
    (found.level, found.actions)
}

const REGISTRIES: &str = "/etc/containers/registries.conf";
const POLICY: &str = "/etc/containers/policy.json";
const USER_CA: &str = "/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt";

#[test]
fn d19_a_file_of_which_nothing_is_known_needs_a_reboot() {
    assert_eq!(needs(&["/etc/random"]).0, Level::Reboot);
}

#[test]
fn d20_pull_secret_kubelet_ca_and_keys_need_nothing() {
    assert_eq!(needs(&["/var/lib/kubelet/config.json"]).0, Level::None);
    let old = spec(core(json!({"name": "core", "sshAuthorizedKeys": ["a"]})));
    let new = spec(core(json!({"name": "core", "sshAuthorizedKeys": ["b"]})));
    assert_eq!(least_disruption(&old, &new, None).level, Level::None);
    // The kubelet's CA is kept right by somebody else: neither written nor looked at.
    let of = |text: &str| files(vec![file(places::KUBELET_CA, text)]);
    let mut node = Node::new(FakeHost::new("m"), &config("old", &of("old")));
    assert_eq!(node.obey(&config("new", &of("new"))).state, State::Done);
    assert_eq!((node.boots, node.drains.len()), (0, 0));
    assert_eq!(node.host.text(places::KUBELET_CA).unwrap(), "old");
}

#[test]
fn d21_d22_d23_container_files_reload_or_restart_crio() {
    let reload = || vec![Action::Reload("crio.service".to_owned())];
    assert_eq!(needs(&[POLICY]).1, reload());
    assert_eq!(needs(&["/etc/machine-config-daemon/no-reboot/containers-gpg.pub"]).1, reload());
    let restarts = needs(&[USER_CA, "/etc/machine-config-daemon/no-reboot/containers-gpg.pub"]).1;
    assert!(restarts.contains(&Action::Restart("crio.service".to_owned())), "{restarts:?}");
    assert!(!restarts.contains(&reload()[0]), "{restarts:?}");
    let mirror = |name: &str| {
        format!(
            "[[registry]]\nlocation=\"{name}\"\n[[registry.mirror]]\nlocation=\"m\"\npull-from-mirror=\"digest-only\"\n"
        )
    };
    let old = files(vec![file(REGISTRIES, &mirror("a")), file("/var/lib/kubelet/config.json", "old")]);
    let both = mirror("a") + &mirror("b");
    let new = files(vec![file(REGISTRIES, &both), file("/var/lib/kubelet/config.json", "new")]);
    assert_eq!(least_disruption(&old, &new, None).actions, reload());
    // One that goes is read again too.
    let gone = least_disruption(&files(vec![file(REGISTRIES, &mirror("a"))]), &files(vec![]), None);
    assert!(gone.actions.contains(&reload()[0]) && gone.level != Level::Reboot, "{gone:?}");
}

/// What a change of registries.conf asks of a node.
fn asked_for(old: &str, new: &str) -> Vec<String> {
    let of = |text: &str| files(vec![file(REGISTRIES, text)]);
    let mut node = Node::new(FakeHost::new("m"), &config("old", &of(old)));
    node.host.add_service("crio.service", &[REGISTRIES]);
    let report = node.obey(&config("new", &of(new)));
    assert_eq!((report.state, report.reason.as_str(), node.boots), (State::Done, "", 0));
    assert_eq!(node.host.loaded("crio.service", REGISTRIES).as_deref(), Some(new));
    node.drains
}

const BY_DIGEST: &str =
    "[[registry]]\nlocation=\"a\"\n[[registry.mirror]]\nlocation=\"m\"\npull-from-mirror=\"digest-only\"\n";
const ONLY_BY_DIGEST: &str = "[[registry]]\nlocation=\"a\"\nmirror-by-digest-only=true\n";

#[rstest]
#[case::nothing(BY_DIGEST, "# only a remark\n{old}")]
#[case::registry(
    BY_DIGEST,
    "{old}[[registry]]\nlocation=\"b\"\n[[registry.mirror]]\nlocation=\"n\"\npull-from-mirror=\"digest-only\"\n"
)]
#[case::mirror(BY_DIGEST, "{old}[[registry.mirror]]\nlocation=\"n\"\npull-from-mirror=\"digest-only\"\n")]
#[case::search("unqualified-search-registries=[\"a\"]\n", "unqualified-search-registries=[\"a\", \"b\"]\n")]
#[case::mirror_by_digest_only(ONLY_BY_DIGEST, "{old}[[registry.mirror]]\nlocation=\"n\"\n")]
fn d30_registries_that_change_safely_need_no_drain(#[case] old: &str, #[case] new: &str) {
    assert_eq!(asked_for(old, &new.replace("{old}", old)), Vec::<String>::new());
}

#[rstest]
#[case::without_mirror(BY_DIGEST, "{old}[[registry]]\nlocation=\"b\"\n")]
#[case::registry_removed(BY_DIGEST, "")]
#[case::mirror_removed(BY_DIGEST, "[[registry]]\nlocation=\"a\"\n")]
#[case::search_removed("unqualified-search-registries=[\"a\", \"b\"]\n", "unqualified-search-registries=[\"a\"]\n")]
#[case::search_reordered(
    "unqualified-search-registries=[\"a\", \"b\"]\n",
    "unqualified-search-registries=[\"b\", \"a\"]\n"
)]
#[case::prefix(ONLY_BY_DIGEST, "{old}prefix=\"c\"\n")]
#[case::blocked(ONLY_BY_DIGEST, "{old}blocked=true\n")]
fn d31_registries_that_could_bring_other_images_need_a_drain(#[case] old: &str, #[case] new: &str) {
    assert_eq!(asked_for(old, &new.replace("{old}", old)), ["drain-new", "uncordon-new"]);
}

#[test]
fn d24_image_or_kernel_arguments_with_others_need_a_reboot() {
    for what in [json!({"osImageURL": "b"}), json!({"kernelArguments": ["b"]})] {
        let mut new = what;
        new["config"] = json!({"storage": {"files": [file(POLICY, "x")]}});
        assert_eq!(least_disruption(&spec(json!({})), &spec(new), None).actions, [Action::Reboot]);
    }
}

#[test]
fn d29_pods_leave_for_a_reboot_and_stay_when_nothing_is_needed() {
    let mut node = Node::new(FakeHost::new("m"), &config("old", &files(vec![])));
    assert_eq!(node.obey(&config("quiet", &files(vec![file("/etc/nmstate/openshift/a", "")]))).state, State::Done);
    assert!(node.drains.is_empty());
    assert_eq!(node.obey(&config("loud", &files(vec![file("/etc/random", "")]))).state, State::Done);
    assert_eq!(node.drains, ["drain-loud", "uncordon-loud"]);
    assert_eq!(node.boots, 1);
}

#[test]
fn a_node_that_is_alone_keeps_its_pods() {
    let mut node = Node::new(FakeHost::new("m"), &config("old", &files(vec![])));
    node.order.is_single = true;
    assert_eq!(node.obey(&config("loud", &files(vec![file("/etc/random", "")]))).state, State::Done);
    assert_eq!((node.drains.len(), node.boots), (0, 1));
}

#[test]
fn d50_the_password_of_an_account_that_is_no_longer_configured_is_locked() {
    let host = FakeHost::new("m");
    let mut node = Node::new(host, &config("old", &spec(json!({}))));
    let user = json!({"name": "core", "sshAuthorizedKeys": ["k"], "passwordHash": "$6$x"});
    assert_eq!(node.obey(&config("with", &spec(core(user)))).state, State::Done);
    assert_eq!(node.host.user("core").unwrap().unwrap().password, "$6$x");
    let keys = "/home/core/.ssh/authorized_keys.d/ignition";
    assert_eq!(node.host.text(keys).unwrap(), "k\n");
    let entry = node.host.entry(keys).unwrap().unwrap();
    assert_eq!((entry.mode, entry.uid), (0o600, 1000));
    assert_eq!(node.obey(&config("without", &spec(json!({})))).state, State::Done);
    assert_eq!(node.host.user("core").unwrap().unwrap().password, "*");
    assert_eq!(node.host.text(keys).unwrap(), "");
    assert_eq!(node.boots, 0);
}

#[test]
fn d52_a_reload_that_fails_puts_the_old_files_back_and_has_them_read_again() {
    let of = |text: &str| files(vec![file(POLICY, text)]);
    let mut node = Node::new(FakeHost::new("m"), &config("old", &of("old")));
    node.host.fail_times("reload crio.service", "policy.json: line 1: not JSON", 1);
    let report = node.obey(&config("new", &of("new")));
    assert_eq!(report.state, State::Degraded);
    assert!(report.reason.contains("crio.service") && report.reason.contains("line 1"), "{}", report.reason);
    assert!(report.reason.contains("old is back in place"), "{}", report.reason);
    assert_eq!(report.current.unwrap().name, "old");
    assert_eq!(node.host.text(POLICY).unwrap(), "old");
    assert_eq!(node.host.loaded("crio.service", POLICY).unwrap(), "old");
    assert_eq!(node.host.calls().iter().filter(|call| call.starts_with("reload crio")).count(), 2);
    // It is tried again, and the state stays what it was until that has succeeded.
    let report = node.settle();
    assert_eq!(report.state, State::Done);
    assert_eq!(*node.said.last().unwrap(), State::Degraded);
    assert_eq!(node.host.loaded("crio.service", POLICY).unwrap(), "new");
}

// === Whether the machine is what it should be ===

fn everything() -> Config {
    let packed = "data:;base64,H4sIAAAAAAACAytITM5OTVEoSa0oAQAM9ArSCwAAAA==";
    config(
        "all",
        &spec(with(json!({
            "storage": {"files": [
                file("/etc/file", "text"),
                {"path": "/etc/packed", "mode": 0o600, "contents": {"source": packed, "compression": "gzip"}},
            ]},
            "systemd": {"units": [{
                "name": "a.service", "enabled": true, "contents": "[Service]\n",
                "dropins": [{"name": "10.conf", "contents": "[Unit]\n"}, {"name": "20.conf", "contents": ""}],
            }]},
        }))),
    )
}

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
            node.host.take(path);
            Aspect::Missing
        }
        "replaced" => {
            node.host.take(path);
            node.host.symlink(path, "/etc/elsewhere").unwrap();
            Aspect::Kind
        }
        "mode" => {
            node.host.put(path, text.as_bytes(), 0o4755);
            Aspect::Mode
        }
        _ => {
            node.host.put_of(path, text.as_bytes(), Attributes { mode, uid: 99, gid: 0 });
            Aspect::Owner
        }
    };
    let target = Target::parse("all", all.spec.as_ref().unwrap(), None).unwrap();
    let found = validate(&node.host, &target).unwrap();
    let found: Vec<_> = found.iter().filter(|finding| finding.subject == path).collect();
    assert_eq!((found.len(), found[0].aspect), (1, aspect), "{found:?}");
    let report = node.agent.check(&node.order, &mut |_| true);
    assert_eq!(report.state, State::Degraded);
    assert_eq!(report.events[0].0, "ConfigDriftDetected");
    assert!(report.reason.starts_with("unexpected on-disk state validating against all: "), "{}", report.reason);
    assert!(report.reason.contains(path) && !report.reason.contains("other"), "{}", report.reason);
    node.note(&report);
    // It stays Degraded, and nothing is done about it, until it is put right.
    assert_eq!(node.step().state, State::Degraded);
    node.host.take(path);
    node.host.put(path, text.as_bytes(), mode);
    assert_eq!(node.step().state, State::Done);
}

#[test]
fn d51_an_owner_that_changed_is_drift_and_is_named() {
    let mut node = Node::new(FakeHost::new("m"), &config("one", &files(vec![file("/etc/a", "a")])));
    node.host.put_of("/etc/a", b"a", Attributes { mode: 0o644, uid: 0, gid: 7 });
    let report = node.agent.check(&node.order, &mut |_| true);
    assert_eq!(report.state, State::Degraded);
    assert!(report.reason.contains("/etc/a") && report.reason.contains("0:7"), "{}", report.reason);
    node.host.put("/etc/a", b"a", 0o644);
    assert_eq!(node.agent.check(&node.order, &mut |_| true).state, State::Done);
}

#[test]
fn d40_touching_a_file_and_content_of_a_masked_unit_are_no_drift() {
    let masked = with(json!({"systemd": {"units": [{"name": "a.service", "mask": true, "contents": "[Service]\n"}]}}));
    let mut node = Node::new(FakeHost::new("m"), &config("old", &everything().spec.unwrap()));
    let text = node.host.text("/etc/file").unwrap();
    node.host.put("/etc/file", text.as_bytes(), 0o644);
    assert_eq!(node.agent.check(&node.order, &mut |_| true).state, State::Done);
    let report = node.obey(&config("masked", &spec(masked)));
    assert_eq!(report.state, State::Done, "{}", report.reason);
    assert!(node.host.is_link_to("/etc/systemd/system/a.service", "/dev/null").unwrap());
    assert_eq!(node.agent.check(&node.order, &mut |_| true).state, State::Done);
}

#[test]
fn a_file_that_somebody_lets_grow_is_drift_and_is_not_read() {
    let small = config("small", &files(vec![file("/etc/small", "small")]));
    let node = Node::new(FakeHost::new("m"), &small);
    let target = Target::parse("small", small.spec.as_ref().unwrap(), None).unwrap();
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
    let target = Target::parse("two", &two, None).unwrap();
    assert_eq!(validate(&host, &target).unwrap(), []);
    host.put("/etc/a", b"first", 0o644);
    assert_eq!(validate(&host, &target).unwrap().len(), 1);
}

#[test]
fn units_are_validated_as_enabled_and_disabled() {
    let all = everything();
    let node = Node::new(FakeHost::new("m"), &all);
    node.host.disable(&["a.service"]).unwrap();
    let target = Target::parse("all", all.spec.as_ref().unwrap(), None).unwrap();
    let found = validate(&node.host, &target).unwrap();
    assert_eq!((found.len(), found[0].aspect), (1, Aspect::Enablement));
}

// === What is done next ===

fn named(name: &str) -> Config {
    Config { name: name.to_owned(), ..Config::default() }
}

fn next(order: &Order, disk: (&str, Option<&str>), desired: (&str, Option<&str>)) -> Move {
    decide(order, Standing { disk, desired, is_forced: false, needs_drain: false })
}

#[test]
fn d34_d35_d36_the_disk_decides_what_the_node_runs() {
    let [one, two] = ["test1", "test2"].map(named);
    assert_eq!(next(&order(&one, &two), ("test1", None), ("test2", None)), Move::Update);
    assert_eq!(next(&order(&one, &one), ("test1", None), ("test1", None)), Move::Nothing);
    assert_eq!(next(&order(&one, &two), ("test3", None), ("test2", None)), Move::Update);
    // In full: the update is from what the disk says.
    let of = |text: &str| files(vec![file("/etc/nmstate/openshift/a", text)]);
    let mut node = Node::new(FakeHost::new("m"), &config("test3", &of("3")));
    node.order.current = Some(config("test1", &of("1")));
    let report = node.obey(&config("test2", &of("2")));
    assert_eq!(report.state, State::Done, "{}", report.reason);
    assert_eq!(node.host.text("/etc/nmstate/openshift/a").unwrap(), "2");
}

#[test]
fn d37_d38_images_count_like_configurations() {
    let one = named("test1");
    let mut fresh = order(&one, &one);
    fresh.state = None;
    assert_eq!(next(&fresh, ("test1", Some("i")), ("test1", Some("i"))), Move::SayDone);
    assert_eq!(next(&order(&one, &one), ("test1", Some("i")), ("test1", Some("i"))), Move::Nothing);
    assert_eq!(next(&order(&one, &one), ("test1", Some("image2")), ("test1", Some("image1"))), Move::Update);
    let mut node = Node::new(FakeHost::new("m"), &config("a", &spec(json!({}))));
    let built = Config { image: Some("built-1".to_owned()), ..config("a", &spec(json!({}))) };
    assert_eq!(node.obey(&built).state, State::Done);
    assert_eq!(node.host.boot().unwrap().image.as_deref(), Some("built-1"));
    assert_eq!(node.host.text(places::CURRENT_IMAGE).unwrap(), "built-1");
}

#[test]
fn a_drain_is_asked_for_once_waited_for_and_ended_with_an_uncordon() {
    let [old, new] = ["old", "new"].map(named);
    let mut order = order(&old, &new);
    let standing = |disk| Standing { disk: (disk, None), desired: ("new", None), is_forced: false, needs_drain: true };
    assert_eq!(decide(&order, standing("old")), Move::Ask("drain-new".to_owned()));
    order.desired_drain = Some("drain-new".to_owned());
    assert_eq!(decide(&order, standing("old")), Move::Wait("drain-new".to_owned()));
    order.last_applied_drain = Some("drain-new".to_owned());
    assert_eq!(decide(&order, standing("old")), Move::Update);
    assert_eq!(decide(&order, standing("new")), Move::Ask("uncordon-new".to_owned()));
    order.desired_drain = Some("uncordon-new".to_owned());
    assert_eq!(decide(&order, standing("new")), Move::Wait("uncordon-new".to_owned()));
    order.last_applied_drain = Some("uncordon-new".to_owned());
    assert_eq!(decide(&order, standing("new")), Move::SayDone);
}

#[test]
fn a_revert_while_the_drain_is_under_way_ends_it() {
    let (old, new) = (config("old", &files(vec![])), config("new", &files(vec![file("/etc/random", "")])));
    let mut node = Node::new(FakeHost::new("m"), &old);
    node.order.desired = Some(new);
    assert_eq!(node.agent.sync(&node.order, &mut |_| true).ask.as_deref(), Some("drain-new"));
    node.order.desired_drain = Some("drain-new".to_owned());
    let report = node.agent.sync(&node.order, &mut |_| true);
    assert_eq!((report.ask, report.state), (None, State::Working));
    let report = node.obey(&old);
    assert_eq!(report.state, State::Done);
    assert_eq!((node.drains.as_slice(), node.boots), (&["uncordon-old".to_owned()][..], 0));
}

#[test]
fn a_revert_while_an_update_fails_is_followed_at_the_next_attempt() {
    let of = |text: &str| files(vec![file("/etc/nmstate/openshift/a", text)]);
    let (old, new) = (config("old", &of("old")), config("new", &of("new")));
    let mut node = Node::new(FakeHost::new("m"), &old);
    node.host.fail("write /etc/nmstate/openshift/a", "Input/output error");
    assert_eq!(node.obey(&new).state, State::Degraded);
    let report = node.obey(&old);
    assert_eq!((report.state, report.reason.as_str()), (State::Done, ""));
}

// === Overrides and odd states ===

#[test]
fn the_force_file_skips_the_checks_writes_everything_and_boots_once() {
    let all = everything();
    let mut node = Node::new(FakeHost::new("m"), &all);
    node.host.put("/etc/file", b"drifted", 0o600);
    assert_eq!(node.agent.check(&node.order, &mut |_| true).state, State::Degraded);
    node.host.put(places::FORCE, b"", 0o644);
    let report = node.settle();
    assert_eq!((report.state, node.boots), (State::Done, 1));
    assert_eq!(node.host.text("/etc/file").unwrap(), "text");
    assert!(!node.host.exists(places::FORCE).unwrap());
}

#[test]
fn the_force_file_does_not_bring_what_cannot_be_taken_over() {
    let mut node = Node::new(FakeHost::new("m"), &config("old", &files(vec![])));
    node.host.put(places::FORCE, b"", 0o644);
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
fn an_owner_that_nobody_knows_is_named_with_its_file() {
    let mut node = Node::new(FakeHost::new("m"), &config("old", &files(vec![])));
    let mut one = file("/etc/nmstate/openshift/a", "x");
    one["user"] = json!({"name": "nobody-here"});
    let new = config("new", &files(vec![one]));
    let report = node.obey(&new);
    assert!(
        report.reason.contains("/etc/nmstate/openshift/a") && report.reason.contains("nobody-here"),
        "{}",
        report.reason
    );
    node.host.add_user(
        "nobody-here",
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
    node.host.take("/etc/nmstate/openshift/a/below");
    assert_eq!(node.settle().state, State::Done);
}

#[test]
fn a_kernel_argument_that_no_boot_brings_sends_the_machine_back_and_is_not_tried_again() {
    let (old, new) = (config("old", &spec(json!({}))), config("new", &spec(json!({"kernelArguments": ["a=1"]}))));
    let mut node = Node::new(FakeHost::new("m"), &old);
    node.order.desired = Some(new);
    let mut last = None;
    for _ in 0..40 {
        let report = node.step();
        if report.is_rebooting || node.host.is_reboot_asked() {
            // The staged deployment is lost each time.
            node.host.cut();
            node.host.power_on(seaworthy_host::Unsynced::Kept);
            node.boots += 1;
            node.restart();
        }
        last = Some(report);
    }
    let report = last.unwrap();
    assert_eq!((report.state, report.again), (State::Degraded, Again::OnChange));
    assert!(report.reason.contains("kernel argument a=1"), "{}", report.reason);
    assert_eq!(report.current.unwrap().name, "old");
    assert_eq!(node.boots, 5, "one for the update, three more, one back");
    assert_eq!(node.obey(&old).state, State::Done);
}

#[rstest]
#[case::extension_that_comes(json!({}), json!({"extensions": ["sysstat"]}), Some("e-2"))]
#[case::extension_that_goes(json!({"extensions": ["sysstat"]}), json!({}), Some("e-2"))]
#[case::kernel(json!({}), json!({"kernelType": "realtime"}), Some("e-2"))]
#[case::image_below_extensions(json!({"extensions": ["sysstat"]}), json!({"extensions": ["sysstat"], "osImageURL": "i-2"}), Some("e-2"))]
#[case::image_alone(json!({}), json!({"osImageURL": "i-2"}), None)]
#[case::arguments_alone(json!({"extensions": ["sysstat"]}), json!({"extensions": ["sysstat"], "kernelArguments": ["a"]}), None)]
fn packages_are_taken_from_the_image_that_the_new_configuration_names(
    #[case] old: Value,
    #[case] new: Value,
    #[case] image: Option<&str>,
) {
    let named = |mut value: Value, name: &str| {
        value["baseOSExtensionsContainerImage"] = json!(name);
        target(value)
    };
    let host = FakeHost::new("m");
    let (old, new) = (named(old, "e-1"), named(new, "e-2"));
    host.change_boot(|boot| boot.packages.extend(old.extensions.clone()));
    let found = steps(&old, &new, &observe(&host, &old, &new).unwrap()).unwrap();
    let [Step::Boot(change)] = &found[..] else { panic!("{found:?}") };
    assert_eq!(change.extensions_image.as_deref(), image);
}

#[test]
fn another_kernel_is_put_into_the_next_image_anew() {
    let of = |image: &str| target(json!({"kernelType": "realtime", "osImageURL": image}));
    let host = FakeHost::new("m");
    let (old, new) = (of("image-1"), of("image-2"));
    let found = steps(&old, &new, &observe(&host, &old, &new).unwrap()).unwrap();
    let [Step::Boot(change)] = &found[..] else { panic!("{found:?}") };
    assert_eq!(change.kernel, Some((Kernel::Realtime, Kernel::Realtime)));
}

/// Lets a node go on, booting whenever it asks for it, until it waits for another order.
fn at_rest(node: &mut Node) -> seaworthy_node::Report {
    for _ in 0..40 {
        let report = node.step();
        if node.host.is_reboot_asked() {
            node.host.boot_orderly();
            node.boots += 1;
            node.restart();
        } else if report.again == Again::OnChange && report.ask.is_none() {
            return report;
        }
    }
    panic!("the node does not come to rest: {:#?}", node.host.calls());
}

fn boots() -> (Config, Config) {
    let old = json!({"kernelArguments": ["a=1"], "osImageURL": "image-1"});
    let new = json!({
        "kernelArguments": ["b=2", "c=3"], "osImageURL": "image-2", "kernelType": "realtime", "extensions": ["sysstat"],
    });
    (config("old", &spec(old)), config("new", &spec(new)))
}

#[test]
fn a_machine_that_boots_into_part_of_a_change_and_is_sent_back_boots_what_it_had() {
    let (old, new) = boots();
    let mut node = Node::new(FakeHost::new("m"), &old);
    let before = node.host.snapshot().boot;
    node.host.lose_argument("c=3");
    node.order.desired = Some(new);
    let report = at_rest(&mut node);
    assert_eq!(report.state, State::Degraded);
    assert!(report.reason.ends_with("lacks kernel argument c=3"), "{}", report.reason);
    assert_eq!(node.host.snapshot().boot, before);
    assert_eq!(node.boots, 5, "one for the update, three more, one back");
    assert_eq!(node.obey(&old).state, State::Done);
}

#[test]
fn what_a_boot_has_of_a_change_does_not_come_a_second_time() {
    let (old, new) = boots();
    let mut node = Node::new(FakeHost::new("m"), &old);
    node.host.lose_argument("c=3");
    node.order.desired = Some(new);
    for _ in 0..2 {
        while !node.host.is_reboot_asked() {
            node.step();
        }
        node.host.boot_orderly();
        node.restart();
    }
    node.host.lose_no_argument();
    assert_eq!(at_rest(&mut node).state, State::Done);
    let (image, arguments, kernel, packages) = node.host.snapshot().boot;
    assert_eq!((image.as_deref(), kernel, packages), (Some("image-2"), Kernel::Realtime, vec!["sysstat".to_owned()]));
    assert_eq!(arguments, ["root=/dev/vda", "quiet", "b=2", "c=3"]);
}

#[test]
fn a_way_back_that_is_lost_is_taken_again_and_one_that_leads_nowhere_is_said() {
    let (old, new) = boots();
    let mut node = Node::new(FakeHost::new("m"), &old);
    node.host.lose_argument("c=3");
    node.order.desired = Some(new.clone());
    while node.host.calls().iter().filter(|call| call.starts_with("reboot returns to old")).count() < 1 {
        node.step();
        if node.host.is_reboot_asked() && !node.host.calls().last().unwrap().contains("returns") {
            node.host.boot_orderly();
            node.restart();
        }
    }
    // The deployment that leads back is lost with the power, and then the registry is away for a while.
    node.host.cut();
    node.host.power_on(seaworthy_host::Unsynced::Kept);
    node.restart();
    node.host.fail_times("stage", "registry is away", 5);
    for _ in 0..5 {
        let report = node.step();
        assert!(report.reason.contains("registry is away"), "{}", report.reason);
    }
    node.host.lose_argument("a=1");
    let mut reasons = Vec::new();
    for _ in 0..40 {
        let report = node.step();
        reasons.push(report.reason);
        if node.host.is_reboot_asked() {
            node.host.boot_orderly();
            node.restart();
        }
    }
    let said = "after 3 more boots back into old this machine still lacks kernel argument a=1";
    assert!(reasons.iter().any(|reason| reason == said), "{reasons:#?}");
    // Nothing is under way any more: it is drift, and another order counts.
    assert!(reasons.last().unwrap().contains("missing expected kernel arguments: a=1"), "{reasons:#?}");
    node.host.lose_no_argument();
    assert!(node.host.snapshot().boot.0.as_deref() == Some("image-1"));
}

// === Least disruption ===

fn sysctl(value: u32) -> Config {
    config(&format!("v{value}"), &files(vec![file("/etc/sysctl.d/90.conf", &format!("vm.swappiness = {value}\n"))]))
}

#[test]
fn a_setting_of_the_kernel_is_in_force_without_a_reboot() {
    let host = FakeHost::new("m");
    host.add_setting("/proc/sys/vm/swappiness", "60");
    let mut node = Node::new(host, &sysctl(10));
    assert_eq!(node.obey(&sysctl(20)).state, State::Done);
    assert_eq!((node.boots, node.drains.len()), (0, 0));
    assert_eq!(node.host.text("/proc/sys/vm/swappiness").unwrap(), "20\n");
}

#[test]
fn a_setting_that_is_not_in_force_afterwards_is_taken_back_and_then_booted_into() {
    let host = FakeHost::new("m");
    host.add_setting("/proc/sys/vm/swappiness", "60");
    let mut node = Node::new(host, &sysctl(10));
    // Another file that systemd reads later keeps its own value; the running one is somebody else's.
    let mut said = Vec::new();
    node.order.desired =
        Some(config("odd", &files(vec![file("/etc/sysctl.d/90.conf", "vm.swappiness = 20\nvm.unknown = 1\n")])));
    let report = node.agent.sync(&node.order, &mut |state| {
        said.push(state);
        true
    });
    assert_eq!(report.state, State::Degraded);
    assert!(report.reason.contains("vm/unknown"), "{}", report.reason);
    assert_eq!(node.host.text("/proc/sys/vm/swappiness").unwrap(), "10\n");
    node.note(&report);
    let report = node.settle();
    assert_eq!((report.state, node.boots), (State::Done, 1));
    assert_eq!(node.drains, ["drain-odd", "uncordon-odd"]);
}

#[test]
fn settings_that_are_linked_there_by_the_distribution_are_no_hindrance() {
    let host = FakeHost::new("m");
    host.add_setting("/proc/sys/vm/swappiness", "60");
    host.put("/etc/sysctl.conf", b"# nothing\n", 0o644);
    host.symlink("/etc/sysctl.d/99-sysctl.conf", "../sysctl.conf").unwrap();
    // Of the same name in two folders the one in /etc counts, and a folder of the vendor's is read as well.
    host.put("/usr/lib/sysctl.d/90.conf", b"vm.swappiness = 1\n", 0o644);
    host.symlink("/usr/lib/sysctl.d/99-lost.conf", "nowhere").unwrap();
    let mut node = Node::new(host, &sysctl(10));
    let report = node.obey(&sysctl(20));
    assert_eq!((report.state, node.boots), (State::Done, 0), "{}", report.reason);
}

#[test]
fn only_the_file_that_changes_is_applied_and_only_where_it_has_the_last_word() {
    let host = FakeHost::new("m");
    for (key, value) in [("vm/swappiness", "60"), ("net/ipv4/ip_forward", "0"), ("kernel/panic", "0")] {
        host.add_setting(&format!("/proc/sys/{key}"), value);
    }
    host.put("/usr/lib/sysctl.d/50-vendor.conf", b"net.ipv4.ip_forward = 0\nvm.swappiness = 30\n", 0o644);
    host.put("/usr/lib/sysctl.d/95-last.conf", b"kernel.panic = 10\n", 0o644);
    let of = |swappiness: u32| {
        let text = format!("vm.swappiness = {swappiness}\nkernel.panic = {swappiness}\n");
        config(&format!("v{swappiness}"), &files(vec![file("/etc/sysctl.d/90.conf", &text)]))
    };
    let mut node = Node::new(host, &of(1));
    // The network has its own idea since the machine has booted.
    node.host.put("/proc/sys/net/ipv4/ip_forward", b"1\n", 0o644);
    let report = node.obey(&of(2));
    assert_eq!((report.state, node.boots), (State::Done, 0), "{}", report.reason);
    let running = |key: &str| node.host.text(&format!("/proc/sys/{key}")).unwrap();
    assert_eq!(running("vm/swappiness"), "2\n");
    assert_eq!(running("net/ipv4/ip_forward"), "1\n", "somebody else's");
    assert_eq!(running("kernel/panic"), "10\n", "a later file has the last word");
    assert!(!node.host.calls().iter().any(|call| call.starts_with("restart")), "{:#?}", node.host.calls());
}

#[test]
fn settings_that_are_taken_back_run_as_they_ran_before() {
    let host = FakeHost::new("m");
    host.add_setting("/proc/sys/vm/swappiness", "60");
    host.add_setting("/proc/sys/kernel/panic", "0");
    let mut node = Node::new(host, &sysctl(10));
    // One more setting, and one that is not to be had: it is not in force afterwards.
    let text = "vm.swappiness = 20\nkernel.panic = 5\nvm.unknown = 1\n";
    node.order.desired = Some(config("odd", &files(vec![file("/etc/sysctl.d/90.conf", text)])));
    let report = node.step();
    assert_eq!(report.state, State::Degraded, "{}", report.reason);
    let running = |key: &str| node.host.text(&format!("/proc/sys/{key}")).unwrap();
    assert_eq!((running("vm/swappiness").as_str(), running("kernel/panic").as_str()), ("10\n", "0\n"));
}

#[test]
fn what_only_our_knowledge_asks_for_is_done_by_a_reboot_where_it_fails() {
    let host = FakeHost::new("m");
    host.add_setting("/proc/sys/vm/swappiness", "60");
    let mut node = Node::new(host, &sysctl(10));
    node.host.fail("settings /etc/sysctl.d/90.conf", "Operation not permitted");
    let report = node.obey(&sysctl(20));
    assert_eq!((report.state, node.boots), (State::Degraded, 0), "{}", report.reason);
    let report = node.settle();
    assert_eq!((report.state, node.boots), (State::Done, 1), "{}", report.reason);
    assert_eq!(node.host.text("/etc/sysctl.d/90.conf").unwrap(), "vm.swappiness = 20\n");
}

#[test]
fn a_service_that_fails_after_its_restart_is_taken_back_by_name() {
    let of = |nice: u32| {
        let unit = format!("[Service]\nNice={nice}\n");
        spec(with(json!({"systemd": {"units": [{"name": "a.service", "enabled": true, "contents": unit}]}})))
    };
    let mut node = Node::new(FakeHost::new("m"), &config("old", &of(1)));
    node.host.add_service("a.service", &["/etc/systemd/system/a.service"]);
    node.host.sicken("a.service");
    node.order.desired = Some(config("new", &of(2)));
    let report = node.agent.sync(&node.order, &mut |_| true);
    assert_eq!(report.state, State::Degraded);
    assert!(report.reason.contains("a.service has failed after restart"), "{}", report.reason);
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
    assert!(report.reason.contains("old is back in place"), "{}", report.reason);
    assert!(node.host.text(&path(2)).is_none());
    node.host.heal();
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
    node.host.take("/home/core/.ssh");
    assert_eq!(node.obey(&config("new", &of("k1"))).state, State::Done);
}

#[test]
fn a_unit_is_restarted_and_a_module_loaded_without_a_reboot() {
    let of = |nice: u32, module: &str| {
        let unit = format!("[Service]\nNice={nice}\n");
        spec(with(json!({
            "storage": {"files": [file("/etc/modules-load.d/a.conf", module)]},
            "systemd": {"units": [{"name": "a.service", "enabled": true, "contents": unit}]},
        })))
    };
    let mut node = Node::new(FakeHost::new("m"), &config("old", &of(1, "dummy\n")));
    let report = node.obey(&config("new", &of(2, "dummy\nbr_netfilter\n")));
    assert_eq!((report.state, node.boots), (State::Done, 0), "{}", report.reason);
    let calls = node.host.calls();
    let at = |call: &str| calls.iter().position(|it| it == call).unwrap_or_else(|| panic!("{call}: {calls:#?}"));
    assert!(at("daemon-reload ") < at("restart a.service"));
    assert_eq!(node.host.loaded("a.service", "/etc/systemd/system/a.service").unwrap(), "[Service]\nNice=2\n");
    assert!(node.host.text("/proc/modules").unwrap().contains("br_netfilter"));
    // Taken away again, it needs a boot.
    node.obey(&config("less", &of(2, "dummy\n")));
    assert_eq!(node.boots, 1);
}

#[test]
fn the_same_configuration_gives_no_steps() {
    let all = everything();
    let node = Node::new(FakeHost::new("m"), &all);
    let target = Target::parse("all", all.spec.as_ref().unwrap(), None).unwrap();
    let observed = observe(&node.host, &target, &target).unwrap();
    assert_eq!(steps(&target, &target, &observed).unwrap(), Vec::<Step>::new());
}

// === First boot ===

#[test]
fn a_first_boot_brings_what_ignition_cannot_and_survives_a_cut() {
    use seaworthy_node::first_boot::{FirstBoot, first_boot};
    let host = FakeHost::new("m");
    assert_eq!(first_boot(&host).unwrap(), FirstBoot::Complete);
    let given = json!({"metadata": {"name": "rendered-a"}, "spec": {
        "kernelArguments": ["quiet", "a=1"], "kernelType": "realtime", "osImageURL": "image-2", "extensions": ["usbguard"],
    }});
    host.put(places::ENCAPSULATED, given.to_string().as_bytes(), 0o644);
    assert_eq!(first_boot(&host).unwrap(), FirstBoot::Rebooting);
    // What was staged is lost.
    host.cut();
    host.power_on(seaworthy_host::Unsynced::Lost);
    assert_eq!(first_boot(&host).unwrap(), FirstBoot::Rebooting);
    host.boot_orderly();
    assert_eq!(first_boot(&host).unwrap(), FirstBoot::Complete);
    let boot = host.boot().unwrap();
    assert_eq!(
        (boot.image.as_deref(), boot.kernel, boot.packages),
        (Some("image-2"), Kernel::Realtime, vec!["usbguard".to_owned()])
    );
    assert_eq!(boot.arguments.iter().filter(|it| *it == "quiet" || *it == "a=1").count(), 2);
    assert!(!host.exists(places::ENCAPSULATED).unwrap() && host.exists(places::ENCAPSULATED_DONE).unwrap());
}

#[test]
fn a_first_boot_that_lacks_nothing_does_not_boot_again_and_a_broken_one_is_named() {
    use seaworthy_node::first_boot::{FirstBoot, first_boot};
    let host = FakeHost::new("m");
    host.put(places::ENCAPSULATED, json!({"spec": {"kernelArguments": ["quiet"]}}).to_string().as_bytes(), 0o644);
    assert_eq!(first_boot(&host).unwrap(), FirstBoot::Complete);
    host.put(places::ENCAPSULATED, b"<html>", 0o644);
    assert!(first_boot(&host).unwrap_err().to_string().contains(places::ENCAPSULATED));
}

#[test]
fn a_machine_that_joined_without_its_kernel_arguments_gets_them_before_it_is_done() {
    let first = config("first", &spec(json!({"kernelArguments": ["a=1"]})));
    let host = FakeHost::new("m");
    let mut node = Node {
        agent: Agent::new(host.clone(), Settings::default()),
        host,
        order: Order { state: None, ..order(&first, &first) },
        said: Vec::new(),
        drains: Vec::new(),
        boots: 0,
    };
    node.host.put(places::INITIAL_ANNOTATIONS, b"{}", 0o644);
    assert_eq!(node.settle().state, State::Done);
    assert_eq!(node.boots, 1);
    assert!(node.host.boot().unwrap().arguments.contains(&"a=1".to_owned()));
    assert!(!node.host.exists(places::INITIAL_ANNOTATIONS).unwrap());
}

#[test]
fn hundreds_of_nodes_follow_their_orders_in_one_process() {
    let spec_of =
        |text: &str| Arc::new(files((0..20).map(|n| file(&format!("/etc/nmstate/openshift/{n}"), text)).collect()));
    let of = |name: &str| Config { name: name.to_owned(), spec: Some(spec_of(name)), image: None };
    let (old, new) = (of("old"), of("new"));
    let mut nodes: Vec<Node> = (0..300).map(|n| Node::new(FakeHost::new(&format!("n{n}")), &old)).collect();
    assert!(nodes.iter_mut().all(|node| node.obey(&new).state == State::Done));
}

#[test]
fn d41_a_monitor_that_is_started_twice_listens_once_and_stops_when_it_is_told_to() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let all = everything();
    let node = Node::new(FakeHost::new("m"), &all);
    let target = Target::parse("all", all.spec.as_ref().unwrap(), None).unwrap();
    let heard = Arc::new(AtomicUsize::new(0));
    let listener = || -> seaworthy_host::Changed {
        let heard = Arc::clone(&heard);
        Arc::new(move || {
            heard.fetch_add(1, Ordering::SeqCst);
        })
    };
    let mut monitor = seaworthy_node::Monitor::default();
    assert!(monitor.start(&node.host, &target, listener()).unwrap());
    assert!(!monitor.start(&node.host, &target, listener()).unwrap());
    assert_eq!((node.host.watches(), monitor.is_running()), (1, true));
    node.host.put("/etc/file", b"x", 0o644);
    node.host.put("/etc/nobodys", b"x", 0o644);
    assert_eq!(heard.load(Ordering::SeqCst), 1);
    assert!(monitor.stop());
    assert!(!monitor.stop());
    assert_eq!((node.host.watches(), monitor.is_running()), (0, false));
    node.host.put("/etc/file", b"y", 0o644);
    assert_eq!(heard.load(Ordering::SeqCst), 1);
}

/// What is not offered, with the reason at the head of this file.
const LEFT_OUT: [u32; 1] = [47];

#[test]
fn every_row_is_a_test_or_left_out_with_a_reason() {
    let sources = [
        include_str!("rows.rs"),
        include_str!("../src/kernel_arguments.rs"),
        include_str!("../src/extensions.rs"),
        include_str!("../../plan/tests/disruption.rs"),
        include_str!("../../plan/tests/drain.rs"),
        include_str!("../../plan/tests/node_status.rs"),
    ];
    // `fn d21_d22_d23_…` is the test of three rows.
    let names = sources.iter().flat_map(|source| source.lines()).filter_map(|line| line.trim().strip_prefix("fn "));
    let rows: std::collections::BTreeSet<u32> = names
        .filter(|name| name.starts_with('d') || name.starts_with("row"))
        .flat_map(|name| name.split('_'))
        .filter_map(|word| word.strip_prefix('d')?.parse().ok())
        .collect();
    let wanted = (1..=52).filter(|row| !LEFT_OUT.contains(row));
    let missing: Vec<u32> = wanted.filter(|row| !rows.contains(row)).collect();
    assert!(missing.is_empty(), "rows without a test: {missing:?}");
    assert!(LEFT_OUT.iter().all(|row| !rows.contains(row)), "a row that is left out has a test");
}
