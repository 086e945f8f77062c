//! Configurations that cannot be applied to a running machine.

use super::*;

fn refusal(old: Value, new: Value) -> Option<String> {
    let mut node = Node::new(FakeHost::new("m"), &config("old", &spec(old)));
    let calls = node.host.write_calls();
    let report = node.obey(&config("new", &spec(new)));
    if report.state == State::Done {
        return None;
    }
    assert_eq!((report.state, report.next_attempt), (State::Unreconcilable, NextAttempt::OnChange));
    assert_eq!(node.host.write_calls(), calls, "nothing is touched");
    assert_eq!(node.order.desired_drain, None, "no drain for nothing");
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
