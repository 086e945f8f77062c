//! Ignition configs of spec 2.x.

use serde_json::{Value, json};

use crate::support::*;

fn rendered_v2(sections: Value) -> Outcome {
    rendered(&worker(), &[ign2("00", sections)])
}

fn refused_v2(sections: Value, path: &str) -> String {
    let findings = refused(&worker(), &[ign2("00", sections)]);
    let finding = one(&findings);
    assert_eq!(places(finding), [format!("00 spec.config.{path}")]);
    finding.message.clone()
}

fn root_file(path: &str, source: &str) -> Value {
    json!({"filesystem": "root", "path": path, "contents": {"source": source}})
}

#[test]
fn row_33_the_last_of_two_files_stays() {
    let outcome =
        rendered_v2(files(json!([root_file("/a", "data:,x"), root_file("/b", "data:,b"), root_file("/a", "data:,y")])));
    let expected = |path: &str, source: &str| json!({"path": path, "contents": {"source": source}, "overwrite": true});
    assert_eq!(*outcome.files(), json!([expected("/a", "data:,y"), expected("/b", "data:,b")]));
}

#[test]
fn row_55_partitions_are_refused() {
    let disks = json!({"storage": {"disks": [{"device": "/dev/a", "partitions": [{"number": 1, "size": 4096}]}]}});
    let message = refused_v2(disks, "storage.disks[0].partitions");
    assert!(message.contains("startMiB"), "{message}");
}

#[test]
fn row_56_networkd_units_are_refused() {
    refused_v2(json!({"networkd": {"units": [{"name": "a.network"}]}}), "networkd.units");
}

#[test]
fn row_57_a_filesystem_is_refused_unless_it_is_root() {
    let filesystem = |name: &str| {
        let mount = json!({"device": "/dev/a", "format": "ext4"});
        json!({"storage": {"filesystems": [{"name": name, "mount": mount}]}})
    };
    refused_v2(filesystem("data"), "storage.filesystems[0]");
    assert_eq!(*rendered_v2(filesystem("root")).config(), json!({"ignition": {"version": "3.5.0"}}));
}

#[test]
fn row_58_a_file_on_an_undeclared_filesystem_becomes_one_of_root() {
    let outcome = rendered_v2(files(json!([{"filesystem": "oem", "path": "/a", "contents": {"source": "data:,x"}}])));
    assert_eq!(outcome.files()[0]["path"], "/a");
    assert_eq!(places(outcome.only("v2-filesystem-unknown")), ["00 spec.config.storage.files[0].filesystem"]);
}

#[test]
fn row_59_oem_sources_are_refused() {
    let message = refused_v2(files(json!([root_file("/a", "oem:///x")])), "storage.files[0].contents.source");
    assert!(message.contains("invalid url scheme"), "{message}");
}

#[test]
fn row_60_an_appending_file_becomes_a_fragment() {
    let mut appending = root_file("/a", "data:,x");
    appending["append"] = true.into();
    assert_eq!(
        *rendered_v2(files(json!([appending]))).files(),
        json!([{"path": "/a", "append": [{"source": "data:,x"}], "overwrite": false}])
    );
}

#[test]
fn row_61_a_file_without_a_source_gets_the_empty_one() {
    assert_eq!(
        *rendered_v2(files(json!([{"filesystem": "root", "path": "/a"}]))).files(),
        json!([{"path": "/a", "contents": {"source": ""}, "overwrite": true}])
    );
}

fn users(users: Value) -> Value {
    json!({"passwd": {"users": users}})
}

#[test]
fn row_62_keys_are_given_once_and_create_is_lost() {
    let outcome = rendered_v2(users(json!([{"name": "core", "create": {"uid": 5}, "sshAuthorizedKeys": ["a", "a"]}])));
    assert_eq!(outcome.config()["passwd"]["users"], json!([{"name": "core", "sshAuthorizedKeys": ["a"]}]));
    assert_eq!(places(outcome.only("v2-dropped")), ["00 spec.config.passwd.users[0].create"]);
}

#[test]
fn row_63_only_core_is_a_user_and_the_last_one_stays() {
    refused_v2(users(json!([{"name": "bob"}])), "passwd.users[0].name");
    let outcome = rendered_v2(users(json!([
        {"name": "core", "sshAuthorizedKeys": ["a", "b"], "passwordHash": "h"},
        {"name": "core", "sshAuthorizedKeys": ["c", "a"]},
    ])));
    assert_eq!(outcome.config()["passwd"]["users"], json!([{"name": "core", "sshAuthorizedKeys": ["c", "a", "b"]}]));
    let finding = outcome.only("v2-dropped");
    assert_eq!(places(finding), ["00 spec.config.passwd.users[0]"]);
    assert!(finding.message.contains("passwordHash"), "{finding}");
}

#[test]
fn row_64_enabled_beats_enable_and_units_are_turned_around() {
    let outcome = rendered_v2(units(json!([
        {"name": "a.service", "enable": true},
        {"name": "b.service", "enable": true, "enabled": false},
        {"name": "c.service"},
    ])));
    assert_eq!(
        *outcome.units(),
        json!([{"name": "c.service"}, {"name": "b.service", "enabled": false}, {"name": "a.service", "enabled": true}])
    );
}

#[test]
fn row_65_a_unit_given_three_times_keeps_the_newest_of_each_part() {
    let dropin = |name: &str, text: &str| json!({"name": name, "contents": format!("[Unit]\nA={text}\n")});
    let outcome = rendered_v2(units(json!([
        {"name": "a.service", "contents": "[Unit]\nA=old\n", "dropins": [dropin("d1.conf", "old")]},
        {"name": "a.service", "dropins": [dropin("d1.conf", "new")]},
        {"name": "a.service", "contents": "[Unit]\nA=new\n", "dropins": [dropin("d2.conf", "x")]},
    ])));
    assert_eq!(
        *outcome.units(),
        json!([{
            "name": "a.service", "contents": "[Unit]\nA=new\n",
            "dropins": [dropin("d2.conf", "x"), dropin("d1.conf", "new")],
        }])
    );
}

#[test]
fn row_66_a_file_of_2_0_belongs_to_root_and_one_of_2_1_has_no_owner() {
    let file = |version: &str| {
        let config = with_version(version, files(json!([root_file("/a", "data:,x")])));
        rendered(&worker(), &[mc("00", json!({"config": config}))]).files()[0].clone()
    };
    let plain = json!({"path": "/a", "contents": {"source": "data:,x"}, "overwrite": true});
    let mut of_root = plain.clone();
    of_root["mode"] = 0.into();
    // Also in 2.1.0: upstream's libraries add the mode, and the name depends on it.
    assert_eq!(file("2.1.0"), of_root);
    of_root["user"] = json!({"id": 0});
    of_root["group"] = json!({"id": 0});
    assert_eq!(file("2.0.0"), of_root);
    assert_eq!(file("2.2.0"), plain);
}

#[test]
fn row_67_a_path_that_begins_like_a_link_is_refused() {
    let sections = json!({"storage": {
        "links": [{"filesystem": "root", "path": "/a", "target": "/t"}],
        "files": [root_file("/ab/c", "data:,x")],
    }});
    let message = refused_v2(sections, "storage.files[0]");
    assert!(message.contains("write a version 3 config"), "{message}");
}

#[test]
fn configs_of_both_specs_are_merged_with_each_other() {
    let inputs = [
        ign2("00", files(json!([root_file("/a", "data:,old"), root_file("/b", "data:,b")]))),
        ign("01", files(json!([{"path": "/a", "mode": 384}]))),
    ];
    assert_eq!(
        *rendered(&worker(), &inputs).files(),
        json!([
            {"path": "/b", "contents": {"source": "data:,b"}, "overwrite": true},
            {"path": "/a", "contents": {"source": "data:,old"}, "mode": 384, "overwrite": true},
        ])
    );
}
