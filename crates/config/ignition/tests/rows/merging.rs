//! Merging of two configs.

use serde_json::{Value, json};

use crate::rows::{files, merged, merged_and_checked, merged_file, read, storage, v3};

const HASH: &str = "sha256-abababababababababababababababababababababababababababababababab";
const PACKED: &str = "data:;base64,H4sIAAAAAAACAytITM5OTVEoSa0oAQAM9ArSCwAAAA==";

fn units(units: Value) -> Value {
    v3(json!({"systemd": {"units": units}}))
}

#[test]
fn row_23_a_packed_file_stays_packed_when_only_its_mode_changes() {
    let parent = json!({"contents": {"source": PACKED, "compression": "gzip"}, "mode": 420});
    assert_eq!(
        merged_file(parent, json!({"mode": 384})),
        json!({"contents": {"source": PACKED, "compression": "gzip"}, "mode": 384})
    );
}

#[test]
fn row_24_a_plain_body_over_a_packed_one_is_plain() {
    let parent = json!({"contents": {"source": PACKED, "compression": "gzip"}});
    let child = json!({"contents": {"source": "data:,plain"}});
    assert_eq!(merged_file(parent, child.clone()), child);
}

#[test]
fn row_25_a_packed_body_over_a_plain_one_is_packed() {
    let child = json!({"contents": {"source": PACKED, "compression": "gzip"}});
    assert_eq!(merged_file(json!({"contents": {"source": "data:,plain"}}), child.clone()), child);
}

#[test]
fn row_26_a_new_source_drops_the_hash_of_the_old_one() {
    let parent = json!({"contents": {"source": "http://h/a", "verification": {"hash": HASH}}});
    let child = json!({"contents": {"source": "http://h/b"}});
    assert_eq!(merged_file(parent, child.clone()), child);
}

#[test]
fn row_27_mode_and_owner_are_inherited_by_a_new_body() {
    let parent = json!({"contents": {"source": "data:,a"}, "mode": 384, "user": {"name": "u"}, "group": {"id": 5}});
    assert_eq!(
        merged_file(parent, json!({"contents": {"source": "data:,b"}})),
        json!({"contents": {"source": "data:,b"}, "mode": 384, "user": {"name": "u"}, "group": {"id": 5}})
    );
}

#[test]
fn row_28_overwrite_false_survives_a_child_that_omits_it() {
    let body = json!({"source": "data:,a"});
    assert_eq!(merged_file(json!({"contents": body, "overwrite": false}), json!({"mode": 1}))["overwrite"], false);
    // Reading and merging add nothing; rendering fills in `true`.
    assert_eq!(merged_file(json!({"contents": body}), json!({"mode": 1})).get("overwrite"), None);
}

#[test]
fn row_31_an_entry_of_another_kind_takes_the_path() {
    let parent = v3(json!({"storage": {"files": [{"path": "/a"}], "directories": [{"path": "/d"}]}}));
    let child = v3(json!({"storage": {"links": [{"path": "/a", "target": "/t"}], "files": [{"path": "/d"}]}}));
    assert_eq!(
        merged(&[parent, child])["storage"],
        json!({"links": [{"path": "/a", "target": "/t"}], "files": [{"path": "/d"}]})
    );
}

#[test]
fn row_34_units_are_merged_by_name_and_their_dropins_too() {
    let dropin = |name: &str, text: &str| json!({"name": name, "contents": format!("[Unit]\n{text}")});
    let parent = units(
        json!([{"name": "a.service", "contents": "[Unit]\n", "enabled": true, "dropins": [dropin("10.conf", "A=1\n")]}]),
    );
    let child = units(json!([
        {"name": "b.service", "mask": true},
        {"name": "a.service", "dropins": [dropin("10.conf", "A=2\n"), dropin("20.conf", "B=1\n")]},
    ]));
    assert_eq!(
        merged(&[parent, child])["systemd"]["units"],
        json!([
            {"name": "a.service", "contents": "[Unit]\n", "enabled": true, "dropins": [dropin("10.conf", "A=2\n"), dropin("20.conf", "B=1\n")]},
            {"name": "b.service", "mask": true},
        ])
    );
}

#[test]
fn row_35_dropins_keep_the_parents_order_and_new_ones_follow() {
    let unit = |names: [(&str, &str); 2]| {
        let dropins = names.map(|(name, text)| json!({"name": name, "contents": text}));
        units(json!([{"name": "a.service", "dropins": dropins}]))
    };
    let (one, two) = ("[Unit]\nA=1\n", "[Unit]\nA=2\n");
    let merged = merged(&[unit([("20.conf", one), ("10.conf", one)]), unit([("15.conf", one), ("10.conf", two)])]);
    assert_eq!(
        merged["systemd"]["units"][0]["dropins"],
        json!([
            {"name": "20.conf", "contents": one},
            {"name": "10.conf", "contents": two},
            {"name": "15.conf", "contents": one},
        ])
    );
}

#[test]
fn row_36_a_mask_survives_new_contents() {
    let parent = units(json!([{"name": "a.service", "mask": true}]));
    let child = units(json!([{"name": "a.service", "contents": "[Unit]\n"}]));
    assert_eq!(
        merged(&[parent, child])["systemd"]["units"],
        json!([{"name": "a.service", "mask": true, "contents": "[Unit]\n"}])
    );
}

#[test]
fn row_37_false_and_the_empty_text_are_values() {
    let parent = units(json!([{"name": "a.service", "enabled": true, "contents": "[Unit]\n"}]));
    let child = units(json!([{"name": "a.service", "enabled": false, "contents": ""}]));
    assert_eq!(
        merged(&[parent, child])["systemd"]["units"],
        json!([{"name": "a.service", "enabled": false, "contents": ""}])
    );
}

#[test]
fn row_38_keys_and_groups_of_users_are_united() {
    let users = |users: Value| v3(json!({"passwd": {"users": users}}));
    let parent = users(json!([{"name": "core", "sshAuthorizedKeys": ["k1", "k2"], "groups": ["a"]}]));
    let child = users(json!([
        {"name": "x"},
        {"name": "core", "sshAuthorizedKeys": ["k2", "k3"], "groups": ["b", "a"], "passwordHash": "h"},
    ]));
    assert_eq!(
        merged(&[parent, child])["passwd"]["users"],
        json!([
            {"name": "core", "sshAuthorizedKeys": ["k1", "k2", "k3"], "groups": ["a", "b"], "passwordHash": "h"},
            {"name": "x"},
        ])
    );
}

#[test]
fn row_39_a_group_given_twice_is_one_with_both_fields() {
    let groups = |group: Value| v3(json!({"passwd": {"groups": [group]}}));
    let merged = merged(&[groups(json!({"name": "g", "gid": 1})), groups(json!({"name": "g", "system": true}))]);
    assert_eq!(merged["passwd"]["groups"], json!([{"name": "g", "gid": 1, "system": true}]));
}

#[test]
fn row_40_a_kernel_argument_is_wanted_or_not_but_never_both() {
    let parent = v3(json!({"kernelArguments": {"shouldExist": ["a", "b"]}}));
    let child = v3(json!({"kernelArguments": {"shouldNotExist": ["a"], "shouldExist": ["c"]}}));
    assert_eq!(
        merged(&[parent, child])["kernelArguments"],
        json!({"shouldExist": ["b", "c"], "shouldNotExist": ["a"]})
    );
}

#[test]
fn row_41_luks_devices_are_merged_by_name() {
    let tang = |url: &str, print: &str| json!({"url": url, "thumbprint": print});
    let parent = json!({
        "name": "r", "device": "/dev/a", "options": ["o1"], "openOptions": ["p1"],
        "clevis": {"tang": [tang("http://t1", "x")], "threshold": 1},
    });
    let child = json!({
        "name": "r", "device": "/dev/b", "options": ["o1"], "openOptions": ["p1", "p2"],
        "clevis": {"tang": [tang("http://t1", "y"), tang("http://t2", "z")], "tpm2": true},
    });
    assert_eq!(
        merged(&[storage("luks", parent), storage("luks", child)])["storage"]["luks"],
        json!([{
            "name": "r", "device": "/dev/b", "options": ["o1", "o1"], "openOptions": ["p1", "p2"],
            "clevis": {"tang": [tang("http://t1", "y"), tang("http://t2", "z")], "threshold": 1, "tpm2": true},
        }])
    );
}

#[test]
fn row_42_raid_devices_are_united_and_options_are_concatenated() {
    let raid = |level: &str, devices: [&str; 2]| {
        storage("raid", json!({"name": "m", "level": level, "devices": devices, "options": ["o"]}))
    };
    assert_eq!(
        merged(&[raid("raid1", ["/a", "/b"]), raid("raid5", ["/b", "/c"])])["storage"]["raid"],
        json!([{"name": "m", "level": "raid5", "devices": ["/a", "/b", "/c"], "options": ["o", "o"]}])
    );
}

#[test]
fn row_43_options_of_filesystems_are_concatenated() {
    let parent = json!({"device": "/dev/x", "format": "xfs", "path": "/p", "options": ["a"], "mountOptions": ["m"]});
    let child = json!({"device": "/dev/x", "format": "ext4", "options": ["a"], "mountOptions": ["n"]});
    assert_eq!(
        merged(&[storage("filesystems", parent), storage("filesystems", child)])["storage"]["filesystems"],
        json!([{"device": "/dev/x", "format": "ext4", "path": "/p", "options": ["a", "a"], "mountOptions": ["m", "n"]}])
    );
}

#[test]
fn row_44_filesystems_are_merged_by_device_and_not_by_path() {
    let filesystem = |device: &str, path: &str| json!({"device": device, "format": "xfs", "path": path});
    let parent = v3(json!({"storage": {"filesystems": [filesystem("/dev/a", "/p")]}}));
    let child = v3(json!({"storage": {"filesystems": [filesystem("/dev/a", "/q"), filesystem("/dev/b", "/p")]}}));
    assert_eq!(
        merged(&[parent, child])["storage"]["filesystems"],
        json!([filesystem("/dev/a", "/q"), filesystem("/dev/b", "/p")])
    );
}

#[test]
fn row_45_partitions_are_merged_by_number_or_label() {
    let parent = json!({"device": "/d", "partitions": [{"number": 1, "label": "l1"}, {"label": "l2"}]});
    let child = json!({
        "device": "/d", "wipeTable": true,
        "partitions": [{"number": 1, "sizeMiB": 5}, {"label": "l2", "startMiB": 3}],
    });
    assert_eq!(
        merged(&[storage("disks", parent), storage("disks", child)])["storage"]["disks"],
        json!([{
            "device": "/d", "wipeTable": true,
            "partitions": [{"number": 1, "label": "l1", "sizeMiB": 5}, {"label": "l2", "startMiB": 3}],
        }])
    );
}

#[test]
fn row_46_a_label_that_two_partitions_get_by_merging_is_found_in_the_result() {
    let disk = |partition: Value| storage("disks", json!({"device": "/d", "partitions": [partition]}));
    let inputs = [disk(json!({"label": "x"})), disk(json!({"number": 1, "label": "x"}))];
    assert_eq!(
        merged(&inputs)["storage"]["disks"][0]["partitions"],
        json!([{"label": "x"}, {"number": 1, "label": "x"}])
    );
    assert_eq!(
        merged_and_checked(&inputs),
        ["storage.disks[0].partitions[1]: cannot use the same partition label twice: \"x\""]
    );
}

#[test]
fn row_47_a_header_without_a_value_takes_the_parents_away() {
    let file = |headers: Value| json!({"contents": {"source": "http://h/a", "httpHeaders": headers}});
    let parent = file(json!([{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]));
    let merged = merged_file(parent, file(json!([{"name": "A"}])));
    assert_eq!(merged["contents"]["httpHeaders"], json!([{"name": "B", "value": "2"}]));
}

#[test]
fn row_48_references_are_merged_by_source() {
    let parent = v3(json!({"ignition": {"config": {"merge": [{"source": "http://u/1"}]}}}));
    let child = v3(json!({"ignition": {"config": {
        "merge": [{"source": "http://u/1", "compression": "gzip"}, {"source": "http://u/2"}],
        "replace": {"source": "http://r"},
    }}}));
    assert_eq!(
        merged(&[parent, child])["ignition"]["config"],
        json!({
            "merge": [{"source": "http://u/1", "compression": "gzip"}, {"source": "http://u/2"}],
            "replace": {"source": "http://r"},
        })
    );
}

#[test]
fn row_49_proxies_timeouts_and_authorities_are_merged() {
    let authorities = |source: &str| json!({"tls": {"certificateAuthorities": [{"source": source}]}});
    let parent = v3(json!({"ignition": {
        "proxy": {"noProxy": ["a"]}, "timeouts": {"httpTotal": 1}, "security": authorities("data:,1"),
    }}));
    let child = v3(json!({"ignition": {
        "proxy": {"noProxy": ["b", "a"]}, "timeouts": {"httpResponseHeaders": 2}, "security": authorities("data:,2"),
    }}));
    assert_eq!(
        merged(&[parent, child])["ignition"],
        json!({
            "version": "3.5.0",
            "proxy": {"noProxy": ["a", "b"]},
            "timeouts": {"httpTotal": 1, "httpResponseHeaders": 2},
            "security": {"tls": {"certificateAuthorities": [{"source": "data:,1"}, {"source": "data:,2"}]}},
        })
    );
}

#[test]
fn row_50_a_remote_body_is_read_as_it_is_written() {
    let config = v3(files(json!([{"path": "/a", "contents": {
        "source": "https://h/a", "verification": {"hash": HASH}, "httpHeaders": [{"name": "A", "value": "1"}],
    }}])));
    assert_eq!(read(&config), config);
}

#[test]
fn row_74_fragments_of_two_configs_are_both_appended() {
    let fragment = json!({"append": [{"source": "data:,x"}]});
    assert_eq!(
        merged_file(fragment.clone(), fragment),
        json!({"append": [{"source": "data:,x"}, {"source": "data:,x"}]})
    );
}

#[test]
fn row_75_an_empty_compression_is_read_as_it_is_written() {
    // Rendering takes it out as soon as there are two inputs.
    let config = v3(files(json!([{"path": "/a", "contents": {"source": "data:,x", "compression": ""}}])));
    assert_eq!(merged(std::slice::from_ref(&config)), config);
}
