//! Disruption: differences, actions and drains, with the policies of normal operation. Names with `d` and a number are explained in
//! docs/reference/upstream-behaviour.md; `d30` and `d31` are beside `registries`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use rstest::rstest;
use seaworthy_api::machineconfiguration::MachineConfigSpec;
use seaworthy_api::operator::NodeDisruptionPolicy;
use seaworthy_plan::disruption::policy::of_cluster;
use seaworthy_plan::disruption::{Action, Disruption, Level, Rule, disruption};
use serde_json::{Value, json};

fn spec(spec: Value) -> MachineConfigSpec {
    #[derive(serde::Deserialize)]
    struct Holder {
        spec: MachineConfigSpec,
    }
    serde_json::from_value::<Holder>(json!({ "spec": spec })).unwrap().spec
}

fn files(paths: &[&str]) -> Value {
    let files: Vec<Value> = paths.iter().map(|path| json!({"path": path, "contents": {"source": "data:,x"}})).collect();
    json!({"config": {"ignition": {"version": "3.5.0"}, "storage": {"files": files}}})
}

/// From nothing to something.
fn added(new: Value) -> Disruption {
    disruption(&spec(json!({})), &spec(new), None)
}

#[rstest]
#[case(json!({}), json!({}))]
#[case(json!({"kernelArguments": []}), json!({"kernelArguments": null}))]
#[case(json!({"kernelType": ""}), json!({"kernelType": "default"}))]
#[case(json!({"config": {"ignition": {"version": "3.5.0"}}}), json!({}))]
fn equal_configurations_do_nothing(#[case] old: Value, #[case] new: Value) {
    for (old, new) in [(&old, &new), (&new, &old)] {
        assert_eq!(disruption(&spec(old.clone()), &spec(new.clone()), None), Disruption::default());
    }
}

#[rstest]
#[case(json!({"osImageURL": "i"}), "osImageURL")]
#[case(json!({"kernelArguments": ["a"]}), "kernelArguments")]
#[case(json!({"fips": true}), "fips")]
#[case(json!({"kernelType": "realtime"}), "kernelType")]
#[case(json!({"extensions": ["usbguard"]}), "extensions")]
fn what_takes_effect_at_boot_is_a_reboot(#[case] new: Value, #[case] what: &str) {
    let found = added(new);
    assert_eq!((found.level, &found.actions[..]), (Level::Reboot, &[Action::Reboot][..]));
    assert_eq!((found.causes[0].what.as_str(), &found.causes[0].rule), (what, &Rule::AtBoot));
    assert!(found.needs_drain());
}

#[test]
fn file_that_matches_no_policy_is_a_reboot_and_is_reported() {
    let found = added(files(&["/etc/chrony.conf", "/var/lib/kubelet/config.json"]));
    assert_eq!(found.level, Level::Reboot);
    let decisive: Vec<String> = found.decisive().map(|cause| format!("{}: {}", cause.what, cause.rule)).collect();
    assert_eq!(decisive, ["file /etc/chrony.conf: no node disruption policy matches"]);
}

#[rstest]
#[case::pull_secret(&["/var/lib/kubelet/config.json"], Level::None, &[])]
#[case::network(&["/etc/nmstate/openshift/a.yml"], Level::None, &[])]
#[case::policy(&["/etc/containers/policy.json"], Level::Reload, &["reload crio.service"])]
#[case::key(&["/etc/machine-config-daemon/no-reboot/containers-gpg.pub"], Level::Reload, &["reload crio.service"])]
#[case::policy_and_pull_secret(
    &["/etc/containers/policy.json", "/var/lib/kubelet/config.json"],
    Level::Reload,
    &["reload crio.service"]
)]
#[case::twice_the_same_is_done_once(
    &["/etc/containers/policy.json", "/etc/crio/policies/a.json", "/etc/containers/registries.d/a.yaml"],
    Level::Reload,
    &["reload crio.service"]
)]
#[case::a_restart_makes_a_reload_needless(
    &[
        "/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt",
        "/etc/machine-config-daemon/no-reboot/containers-gpg.pub",
    ],
    Level::Restart,
    &["restart coreos-update-ca-trust.service", "restart crio.service"]
)]
#[case::systemd_reads_first(
    &["/etc/systemd/system/kubelet.service.d/40-kubelet-crio-image-credential-provider.conf"],
    Level::Restart,
    &["systemctl daemon-reload", "restart kubelet.service"]
)]
fn the_built_in_policies(#[case] paths: &[&str], #[case] level: Level, #[case] actions: &[&str]) {
    let found = added(files(paths));
    let text: Vec<String> = found.actions.iter().map(ToString::to_string).collect();
    assert_eq!((found.level, text), (level, actions.iter().map(|text| (*text).to_owned()).collect()));
    // Removing does the same as adding.
    assert_eq!(disruption(&spec(files(paths)), &spec(json!({})), None).level, level);
}

#[rstest]
#[case("/etc/a", None)]
#[case("/etc/app", Some("/etc/app"))]
#[case("/etc/app/x/y/z", Some("/etc/app/x"))]
#[case("/etc/app/x", Some("/etc/app/x"))]
#[case("/etc/app/w/v", Some("/etc/app"))]
#[case("/etc/app-2", None)]
#[case("/srv/s/t", Some("/srv/s/"))]
fn row_d25_the_nearest_folder_decides(#[case] path: &str, #[case] policy: Option<&str>) {
    let none = json!([{"type": "None"}]);
    let policies: NodeDisruptionPolicy = serde_json::from_value(json!({"files": [
        {"path": "/etc/app", "actions": none}, {"path": "/etc/app/x", "actions": none}, {"path": "/srv/s/", "actions": none},
    ]}))
    .unwrap();
    let found = disruption(&spec(json!({})), &spec(files(&[path])), Some(&of_cluster(Some(&policies))));
    let expected = policy.map_or(Rule::NoPolicy, |path| Rule::FilePolicy(path.to_owned()));
    assert_eq!(found.causes[0].rule, expected);
}

#[test]
fn an_action_is_written_down_with_what_it_is_about() {
    for (action, written) in [
        (
            Action::Settings("/etc/sysctl.d/a.conf".to_owned()),
            json!({"type": "settings", "file": "/etc/sysctl.d/a.conf"}),
        ),
        (Action::Restart("a.service".to_owned()), json!({"type": "restart", "service": "a.service"})),
        (Action::DaemonReload, json!({"type": "daemonReload"})),
    ] {
        assert_eq!(serde_json::to_value(&action).unwrap(), written);
        assert_eq!(serde_json::from_value::<Action>(written).unwrap(), action);
    }
}

fn units(contents: &str) -> Value {
    let unit = json!({"name": "a.service", "contents": "x", "dropins": [{"name": "1.conf", "contents": contents}]});
    json!({"config": {"ignition": {"version": "3.5.0"}, "systemd": {"units": [unit]}}})
}

#[test]
fn a_unit_without_a_policy_is_a_reboot_and_one_with_a_policy_makes_systemd_read_it() {
    let (old, new) = (spec(units("1")), spec(units("2")));
    assert_eq!(disruption(&old, &new, None).level, Level::Reboot);
    let policies: NodeDisruptionPolicy = serde_json::from_value(json!({"units": [
        {"name": "a.service", "actions": [{"type": "Restart", "restart": {"serviceName": "a.service"}}]},
    ]}))
    .unwrap();
    let found = disruption(&old, &new, Some(&of_cluster(Some(&policies))));
    assert_eq!(found.actions, [Action::DaemonReload, Action::Restart("a.service".to_owned())]);
    assert_eq!(found.causes[0].what, "drop-in a.service.d/1.conf");
}

#[test]
fn a_policy_of_the_user_replaces_the_built_in_one_of_the_same_path() {
    let policies: NodeDisruptionPolicy = serde_json::from_value(json!({
        "files": [{"path": "/etc/containers/policy.json", "actions": [{"type": "Drain"}, {"type": "Reload", "reload": {"serviceName": "crio.service"}}]}],
        "sshkey": {"actions": [{"type": "Reboot"}]},
    }))
    .unwrap();
    let policies = of_cluster(Some(&policies));
    let found = disruption(&spec(json!({})), &spec(files(&["/etc/containers/policy.json"])), Some(&policies));
    assert_eq!((found.level, found.needs_drain()), (Level::Drain, true));
    let user = json!({"config": {"ignition": {"version": "3.5.0"}, "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": ["k"]}]}}});
    assert_eq!(disruption(&spec(json!({})), &spec(user.clone()), Some(&policies)).level, Level::Reboot);
    assert_eq!(added(user).level, Level::None);
}

#[test]
fn registries_need_a_drain_only_where_pods_could_get_another_image() {
    let conf = |text: &str| {
        let source: String = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let source = format!("data:,{source}");
        json!({"config": {"ignition": {"version": "3.5.0"}, "storage": {"files": [
            {"path": "/etc/containers/registries.conf", "contents": {"source": source}},
        ]}}})
    };
    let old = "unqualified-search-registries = [\"a\"]\n";
    let level = |new: &str| disruption(&spec(conf(old)), &spec(conf(new)), None).level;
    assert_eq!(level("unqualified-search-registries = [\"a\", \"b\"]\n"), Level::Reload);
    assert_eq!(level("unqualified-search-registries = [\"b\"]\n"), Level::Drain);
    assert_eq!(level("no toml ["), Level::Drain);
}

#[test]
fn order_of_lists_does_nothing_and_sections_for_new_machines_are_reported() {
    let (old, new) = (files(&["/a", "/b"]), files(&["/b", "/a"]));
    assert_eq!(disruption(&spec(old), &spec(new), None), Disruption::default());
    let luks =
        json!({"config": {"ignition": {"version": "3.5.0"}, "storage": {"luks": [{"name": "l", "device": "/dev/a"}]}}});
    let found = added(luks);
    assert_eq!((found.level, &found.causes[0].rule), (Level::None, &Rule::NewMachinesOnly));
}
