//! Disruption of a change.

use super::*;

fn needs(paths: &[&str]) -> (Level, Vec<Action>) {
    let of = |text: &str| files(paths.iter().map(|path| file(path, text)).collect());
    let found = least_disruption(&of("old"), &of("new"), None);
    (found.level, found.actions)
}

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
    // The kubelet's CA is renewed by another component: neither written nor compared.
    let of = |text: &str| files(vec![file(paths::KUBELET_CA, text)]);
    let mut node = Node::new(FakeHost::new("m"), &config("old", &of("old")));
    assert_eq!(node.obey(&config("new", &of("new"))).state, State::Done);
    assert_eq!((node.boots, node.drains.len()), (0, 0));
    assert_eq!(node.host.text(paths::KUBELET_CA).unwrap(), "old");
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
fn d52_a_reload_that_fails_restores_the_old_files_and_has_them_read_again() {
    let of = |text: &str| files(vec![file(POLICY, text)]);
    let mut node = Node::new(FakeHost::new("m"), &config("old", &of("old")));
    node.host.fail_times("reload crio.service", "policy.json: line 1: not JSON", 1);
    let report = node.obey(&config("new", &of("new")));
    assert_eq!(report.state, State::Degraded);
    assert!(report.reason.contains("crio.service") && report.reason.contains("line 1"), "{}", report.reason);
    assert!(report.reason.contains("rolled back to old"), "{}", report.reason);
    assert_eq!(report.current.unwrap().name, "old");
    assert_eq!(node.host.text(POLICY).unwrap(), "old");
    assert_eq!(node.host.loaded("crio.service", POLICY).unwrap(), "old");
    assert_eq!(node.host.calls().iter().filter(|call| call.starts_with("reload crio")).count(), 2);
    // It is tried again, and the state stays what it was until that has succeeded.
    let report = node.settle();
    assert_eq!(report.state, State::Done);
    assert_eq!(*node.reported.last().unwrap(), State::Degraded);
    assert_eq!(node.host.loaded("crio.service", POLICY).unwrap(), "new");
}
