//! Merging of the Ignition configs of two MachineConfigs.

use seaworthy_ignition::Severity;
use serde_json::{Value, json};

use crate::support::*;

const PACKED: &str = "data:;base64,H4sIAAAAAAACAytITM5OTVEoSa0oAQAM9ArSCwAAAA==";
const HASH: &str = "sha256-abababababababababababababababababababababababababababababababab";

/// The config of two inputs, `00` and `01`.
fn both(parent: Value, child: Value) -> Value {
    rendered(&worker(), &[ign("00", parent), ign("01", child)]).spec["config"].clone()
}

/// The file `/a` of two inputs.
fn both_files(mut parent: Value, mut child: Value) -> Value {
    parent["path"] = "/a".into();
    child["path"] = "/a".into();
    both(files(json!([parent])), files(json!([child])))["storage"]["files"][0].clone()
}

fn both_in(section: &str, list: &str, parent: Value, child: Value) -> Value {
    both(json!({section: {list: parent}}), json!({section: {list: child}}))[section][list].clone()
}

/// Two inputs that are valid each for itself and not together, and the places that the error must name.
fn clash(parent: Value, child: Value, expected: [&str; 2]) -> String {
    for alone in [&parent, &child] {
        rendered(&worker(), &[ign("00", alone.clone())]);
    }
    let findings = refused(&worker(), &[ign("00", parent), ign("01", child)]);
    let finding = one(&findings);
    assert_eq!(finding.pool.as_deref(), Some("worker"));
    let mut named = places(finding);
    named.sort();
    assert_eq!(named, expected, "{finding}");
    assert!(finding.to_string().contains("MachineConfig 00") && finding.to_string().contains("MachineConfig 01"));
    finding.to_string()
}

#[test]
fn row_23_a_packed_file_stays_packed_when_only_its_mode_changes() {
    assert_eq!(
        both_files(json!({"contents": {"source": PACKED, "compression": "gzip"}, "mode": 420}), json!({"mode": 384})),
        json!({
            "path": "/a", "contents": {"source": PACKED, "compression": "gzip"}, "mode": 384, "overwrite": true,
        })
    );
}

#[test]
fn row_24_a_plain_body_over_a_packed_one_is_plain() {
    let file = both_files(
        json!({"contents": {"source": PACKED, "compression": "gzip"}}),
        json!({"contents": {"source": "data:,plain"}}),
    );
    assert_eq!(file["contents"], json!({"source": "data:,plain"}));
}

#[test]
fn row_25_a_packed_body_over_a_plain_one_is_packed() {
    let packed = json!({"source": PACKED, "compression": "gzip"});
    let file = both_files(json!({"contents": {"source": "data:,plain"}}), json!({"contents": packed}));
    assert_eq!(file["contents"], packed);
}

#[test]
fn row_26_a_new_source_drops_the_hash_of_the_old_one() {
    let hashed = json!({"source": "data:,a", "verification": {"hash": HASH}});
    let file = both_files(json!({"contents": hashed}), json!({"contents": {"source": "data:,b"}}));
    assert_eq!(file["contents"], json!({"source": "data:,b"}));
    // The same body, with something else changed, keeps it.
    assert_eq!(both_files(json!({"contents": hashed}), json!({"mode": 384}))["contents"], hashed);
}

#[test]
fn row_27_mode_and_owner_are_inherited_by_a_new_body() {
    let parent = json!({"contents": {"source": "data:,a"}, "mode": 0o600, "user": {"name": "u"}, "group": {"id": 5}});
    assert_eq!(
        both_files(parent, json!({"contents": {"source": "data:,b"}})),
        json!({
            "path": "/a", "contents": {"source": "data:,b"}, "mode": 0o600, "user": {"name": "u"}, "group": {"id": 5},
            "overwrite": true,
        })
    );
}

#[test]
fn row_28_overwrite_is_true_unless_it_is_set() {
    let body = json!({"source": "data:,a"});
    let alone = |file: Value| rendered(&worker(), &[ign("00", files(json!([file])))]).files()[0]["overwrite"].clone();
    assert_eq!(alone(json!({"path": "/a", "contents": body})), true);
    assert_eq!(alone(json!({"path": "/a", "contents": body, "overwrite": false})), false);
    assert_eq!(both_files(json!({"contents": body, "overwrite": false}), json!({"mode": 1}))["overwrite"], false);
    assert_eq!(both_files(json!({"contents": body}), json!({"mode": 1}))["overwrite"], true);
}

/// Upstream publishes it, and the next machine that boots with it fails.
#[test]
fn row_29_a_file_without_contents_is_an_error_that_names_its_inputs() {
    let findings = refused(&worker(), &[ign("00", files(json!([{"path": "/a"}])))]);
    let finding = one(&findings);
    assert_eq!(places(finding), ["00 spec.config.storage.files[0]"]);
    assert_eq!(finding.subject, "file /a");
    assert!(finding.message.contains("overwrite must be false if source is unspecified"), "{finding}");

    let inputs = [
        ign("00", files(json!([{"path": "/a", "mode": 1}]))),
        ign("01", files(json!([{"path": "/b", "contents": {"source": "data:,"}}, {"path": "/a", "mode": 2}]))),
        ign("02", files(json!([{"path": "/a", "user": {"id": 0}}]))),
    ];
    let findings = refused(&worker(), &inputs);
    let mut names: Vec<_> = one(&findings).places.iter().map(|place| place.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["00", "01", "02"]);
    // With `overwrite: false` it only sets the mode of what is there.
    let outcome = rendered(&worker(), &[ign("00", files(json!([{"path": "/a", "mode": 1, "overwrite": false}])))]);
    assert_eq!(*outcome.files(), json!([{"path": "/a", "mode": 1, "overwrite": false}]));
}

#[test]
fn row_30_overwrite_without_a_source_is_refused_at_its_path() {
    let findings = refused(&worker(), &[ign("00", files(json!([{"path": "/a", "overwrite": true}])))]);
    let finding = one(&findings);
    assert_eq!(places(finding), ["00 spec.config.storage.files[0].overwrite"]);
    assert!(finding.message.starts_with("overwrite must be false if source is unspecified"), "{finding}");
}

#[test]
fn row_31_an_entry_of_another_kind_takes_the_path() {
    let parent = json!({"storage": {"files": [file("/a", "data:,")], "directories": [{"path": "/d"}]}});
    let child = json!({"storage": {"links": [{"path": "/a", "target": "/t"}], "files": [file("/d", "data:,")]}});
    assert_eq!(
        both(parent, child)["storage"],
        json!({
            "links": [{"path": "/a", "target": "/t"}],
            "files": [{"path": "/d", "contents": {"source": "data:,"}, "overwrite": true}],
        })
    );
}

#[test]
fn row_32_a_path_given_twice_in_one_config_is_refused() {
    let findings = refused(&worker(), &[ign("00", files(json!([file("/a", "data:,"), file("/a", "data:,")])))]);
    let finding = one(&findings);
    assert_eq!(places(finding), ["00 spec.config.storage.files[1]"]);
    assert!(finding.message.starts_with("duplicate entry defined"), "{finding}");
}

fn dropin(name: &str, text: &str) -> Value {
    json!({"name": name, "contents": format!("[Unit]\nDescription={text}\n")})
}

#[test]
fn row_34_units_are_merged_by_name_and_their_dropins_too() {
    let parent = json!([
        {"name": "a.service", "contents": "[Unit]\nA=1\n", "enabled": true, "dropins": [dropin("10.conf", "old")]}
    ]);
    let child = json!([
        {"name": "b.service", "mask": true},
        {"name": "a.service", "dropins": [dropin("10.conf", "new"), dropin("20.conf", "x")]},
    ]);
    assert_eq!(
        both(units(parent), units(child))["systemd"]["units"],
        json!([
            {
                "name": "a.service", "contents": "[Unit]\nA=1\n", "enabled": true,
                "dropins": [dropin("10.conf", "new"), dropin("20.conf", "x")],
            },
            {"name": "b.service", "mask": true},
        ])
    );
}

#[test]
fn row_35_dropins_keep_the_parents_order_and_new_ones_follow() {
    let unit = |dropins: Value| units(json!([{"name": "a.service", "dropins": dropins}]));
    let config = both(
        unit(json!([dropin("20.conf", "a"), dropin("10.conf", "a")])),
        unit(json!([dropin("15.conf", "a"), dropin("10.conf", "b")])),
    );
    assert_eq!(
        config["systemd"]["units"][0]["dropins"],
        json!([dropin("20.conf", "a"), dropin("10.conf", "b"), dropin("15.conf", "a")])
    );
}

#[test]
fn row_36_a_mask_survives_new_contents() {
    let config = both(
        units(json!([{"name": "a.service", "mask": true}])),
        units(json!([{"name": "a.service", "contents": "[Unit]\nA=1\n"}])),
    );
    let unit = json!([{"name": "a.service", "mask": true, "contents": "[Unit]\nA=1\n"}]);
    assert_eq!(config["systemd"]["units"], unit);
}

#[test]
fn row_37_false_and_the_empty_text_are_values() {
    let config = both(
        units(json!([{"name": "a.service", "enabled": true, "contents": "[Unit]\nA=1\n"}])),
        units(json!([{"name": "a.service", "enabled": false, "contents": ""}])),
    );
    assert_eq!(config["systemd"]["units"], json!([{"name": "a.service", "enabled": false, "contents": ""}]));
}

#[test]
fn row_38_keys_and_groups_of_users_are_united() {
    let parent = json!([{"name": "core", "sshAuthorizedKeys": ["k1", "k2"], "groups": ["a"]}]);
    let child = json!([
        {"name": "x"},
        {"name": "core", "sshAuthorizedKeys": ["k2", "k3"], "groups": ["b", "a"], "passwordHash": "h"},
    ]);
    assert_eq!(
        both_in("passwd", "users", parent, child),
        json!([
            {"name": "core", "sshAuthorizedKeys": ["k1", "k2", "k3"], "groups": ["a", "b"], "passwordHash": "h"},
            {"name": "x"},
        ])
    );
}

#[test]
fn row_39_a_group_given_twice_is_one_with_both_fields() {
    let groups = both_in("passwd", "groups", json!([{"name": "g", "gid": 1}]), json!([{"name": "g", "system": true}]));
    assert_eq!(groups, json!([{"name": "g", "gid": 1, "system": true}]));
}

#[test]
fn row_40_a_kernel_argument_is_wanted_or_not_but_never_both() {
    let config = both(
        json!({"kernelArguments": {"shouldExist": ["a", "b"]}}),
        json!({"kernelArguments": {"shouldNotExist": ["a"], "shouldExist": ["c"]}}),
    );
    assert_eq!(config["kernelArguments"], json!({"shouldExist": ["b", "c"], "shouldNotExist": ["a"]}));
}

#[test]
fn row_41_luks_devices_are_merged_by_name() {
    let tang = |url: &str, print: &str| json!({"url": url, "thumbprint": print});
    let parent = json!([{
        "name": "r", "device": "/dev/a", "options": ["o1"], "openOptions": ["p1"],
        "clevis": {"tang": [tang("http://t1", "x")], "threshold": 1},
    }]);
    let child = json!([{
        "name": "r", "device": "/dev/b", "options": ["o1"], "openOptions": ["p1", "p2"],
        "clevis": {"tang": [tang("http://t1", "y"), tang("http://t2", "z")], "tpm2": true},
    }]);
    assert_eq!(
        both_in("storage", "luks", parent, child),
        json!([{
            "name": "r", "device": "/dev/b", "options": ["o1", "o1"], "openOptions": ["p1", "p2"],
            "clevis": {"tang": [tang("http://t1", "y"), tang("http://t2", "z")], "threshold": 1, "tpm2": true},
        }])
    );
}

#[test]
fn row_42_raid_devices_are_united_and_options_are_concatenated() {
    let raid =
        |level: &str, devices: [&str; 2]| json!([{"name": "m", "level": level, "devices": devices, "options": ["o"]}]);
    assert_eq!(
        both_in("storage", "raid", raid("raid1", ["/a", "/b"]), raid("raid5", ["/b", "/c"])),
        json!([{"name": "m", "level": "raid5", "devices": ["/a", "/b", "/c"], "options": ["o", "o"]}])
    );
}

#[test]
fn row_43_options_of_filesystems_are_concatenated() {
    let parent = json!([{"device": "/dev/x", "format": "xfs", "path": "/p", "options": ["a"], "mountOptions": ["m"]}]);
    let child = json!([{"device": "/dev/x", "format": "ext4", "options": ["a"], "mountOptions": ["n"]}]);
    assert_eq!(
        both_in("storage", "filesystems", parent, child),
        json!([{
            "device": "/dev/x", "format": "ext4", "path": "/p", "options": ["a", "a"], "mountOptions": ["m", "n"],
        }])
    );
}

#[test]
fn row_44_filesystems_are_merged_by_device_and_not_by_path() {
    let filesystem = |device: &str, path: &str| json!({"device": device, "format": "xfs", "path": path});
    let child = json!([filesystem("/dev/a", "/q"), filesystem("/dev/b", "/p")]);
    assert_eq!(both_in("storage", "filesystems", json!([filesystem("/dev/a", "/p")]), child.clone()), child);
}

#[test]
fn row_45_partitions_are_merged_by_number_or_label() {
    let parent = json!([{"device": "/d", "partitions": [{"number": 1, "label": "l1"}, {"label": "l2"}]}]);
    let child = json!([{
        "device": "/d", "wipeTable": true,
        "partitions": [{"number": 1, "sizeMiB": 5}, {"label": "l2", "startMiB": 3}],
    }]);
    assert_eq!(
        both_in("storage", "disks", parent, child),
        json!([{
            "device": "/d", "wipeTable": true,
            "partitions": [{"number": 1, "label": "l1", "sizeMiB": 5}, {"label": "l2", "startMiB": 3}],
        }])
    );
}

#[test]
fn row_46_one_label_for_two_partitions_is_an_error_that_names_both_inputs() {
    let disk = |partition: Value| json!({"storage": {"disks": [{"device": "/d", "partitions": [partition]}]}});
    let text = clash(
        disk(json!({"label": "x"})),
        disk(json!({"number": 1, "label": "x"})),
        ["00 spec.config.storage.disks[0].partitions[0]", "01 spec.config.storage.disks[0].partitions[0]"],
    );
    assert!(text.contains("same partition label twice: \"x\""), "{text}");
}

#[test]
fn row_73_a_file_below_the_link_of_another_input_is_an_error_that_names_both() {
    let text = clash(
        json!({"storage": {"links": [{"path": "/l", "target": "/t"}]}}),
        files(json!([file("/l/f", "data:,")])),
        ["00 spec.config.storage.links[0]", "01 spec.config.storage.files[0]"],
    );
    assert!(text.contains("lies below the link \"/l\""), "{text}");
}

#[test]
fn row_73_a_unit_and_a_file_of_its_path_are_an_error_that_names_both() {
    let text = clash(
        units(json!([{"name": "a.service", "contents": "[Unit]\nA=1\n"}])),
        files(json!([file("/etc/systemd/system/a.service", "data:,")])),
        ["00 spec.config.systemd.units[0]", "01 spec.config.storage.files[0]"],
    );
    assert!(text.contains("conflicts with a systemd unit"), "{text}");
    clash(
        units(json!([{"name": "a.service", "dropins": [dropin("x.conf", "y")]}])),
        json!({"storage": {"links": [{"path": "/etc/systemd/system/a.service.d/x.conf", "target": "/t"}]}}),
        ["00 spec.config.systemd.units[0].dropins[0]", "01 spec.config.storage.links[0]"],
    );
}

#[test]
fn row_73_inside_one_input_it_is_refused_too() {
    let sections = json!({"storage": {"links": [{"path": "/l", "target": "/t"}], "files": [file("/l/f", "data:,")]}});
    let findings = refused(&worker(), &[ign("00", sections)]);
    assert_eq!(places(one(&findings)), ["00 spec.config.storage.files[0]"]);
}

#[test]
fn an_owner_with_a_name_and_a_number_is_an_error_that_names_both_inputs() {
    let with = |user: Value| files(json!([{"path": "/a", "contents": {"source": "data:,"}, "user": user}]));
    let text = clash(
        with(json!({"id": 5})),
        with(json!({"name": "u"})),
        ["00 spec.config.storage.files[0].user", "01 spec.config.storage.files[0].user.name"],
    );
    assert!(text.contains("file /a"), "{text}");
}

#[test]
fn row_74_fragments_of_two_inputs_are_both_appended() {
    let appending = files(json!([{"path": "/a", "append": [{"source": "data:,x"}], "overwrite": false}]));
    let config = both(appending.clone(), appending);
    assert_eq!(
        config["storage"]["files"],
        json!([{"path": "/a", "append": [{"source": "data:,x"}, {"source": "data:,x"}], "overwrite": false}])
    );
}

#[test]
fn row_74_a_file_that_is_only_appended_to_does_not_become_one_that_replaces() {
    let appending = |body: &str| files(json!([{"path": "/a", "append": [{"source": body}]}]));
    let config = both(appending("data:,x"), appending("data:,y"));
    let fragments = json!([{"source": "data:,x"}, {"source": "data:,y"}]);
    assert_eq!(config["storage"]["files"], json!([{"path": "/a", "append": fragments}]));
    // With a body of its own it replaces, as every other file.
    let whole = files(json!([{"path": "/a", "contents": {"source": "data:,w"}}]));
    let config = both(appending("data:,x"), whole);
    assert_eq!(config["storage"]["files"][0]["overwrite"], true);
}

#[test]
fn row_75_an_empty_compression_stays_alone_and_goes_in_company() {
    let input = ign("00", files(json!([{"path": "/a", "contents": {"source": "data:,x", "compression": ""}}])));
    let contents = |inputs: &[Value]| rendered(&worker(), inputs).files()[0]["contents"].clone();
    assert_eq!(contents(std::slice::from_ref(&input)), json!({"source": "data:,x", "compression": ""}));
    // An input without a config changes nothing.
    assert_eq!(contents(&[input.clone(), mc("01", json!({}))]), json!({"source": "data:,x", "compression": ""}));
    assert_eq!(contents(&[input.clone(), ign("01", json!({}))]), json!({"source": "data:,x"}));
    assert_eq!(contents(&[mc("0", json!({})), input]), json!({"source": "data:,x"}));
}

#[test]
fn nothing_is_cleared_by_null() {
    let parent = json!({"contents": {"source": "data:,a"}, "mode": 1, "user": {"name": "u"}});
    let child = json!({"contents": null, "mode": null, "user": {"name": null}});
    let file = both_files(parent, child);
    assert_eq!(file["mode"], 1);
    assert_eq!(file["user"]["name"], "u");
    assert_eq!(file["contents"]["source"], "data:,a");
}

#[test]
fn warnings_of_an_input_do_not_keep_it_from_being_rendered() {
    let outcome = rendered(&worker(), &[ign("00", json!({"storage": {"note": "x"}}))]);
    assert_eq!(*outcome.config(), json!({"ignition": {"version": "3.5.0"}}));
    assert_eq!(outcome.only("unknown-key").severity, Severity::Warning);
}

/// Takes minutes as soon as the place of every value of the disk is looked up for every problem.
#[test]
fn many_inputs_of_one_broken_entry_are_named_once_each() {
    let partition = |at: usize, number: bool| {
        let label = format!("l{at}");
        if number { json!({"label": label, "number": at + 1}) } else { json!({"label": label}) }
    };
    let disk = |number: bool| {
        let partitions: Vec<_> = (0..20_000).map(|at| partition(at, number)).collect();
        json!({"storage": {"disks": [{"device": "/dev/sda", "partitions": partitions}]}})
    };
    let findings = refused(&worker(), &[ign("00", disk(false)), ign("01", disk(true))]);
    let of_labels: Vec<_> = findings.iter().filter(|finding| finding.code == "partition-label-twice").collect();
    assert!(of_labels.len() >= 100, "{}", of_labels.len());
    assert_eq!(
        places(of_labels[0]),
        ["01 spec.config.storage.disks[0].partitions[0]", "00 spec.config.storage.disks[0].partitions[0]"]
    );
}
