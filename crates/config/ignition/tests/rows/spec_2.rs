//! Configs of spec 2.x.

use serde_json::{Value, json};

use crate::rows::{files, read, refused, v2, warnings, with_version};

#[test]
fn row_33_the_last_of_two_files_of_spec_2_stays() {
    let file = |path: &str, body: &str| json!({"filesystem": "root", "path": path, "contents": {"source": body}});
    let config = v2(files(json!([file("/a", "data:,x"), file("/b", "data:,b"), file("/a", "data:,y")])));
    let file = |path: &str, body: &str| json!({"path": path, "contents": {"source": body}, "overwrite": true});
    assert_eq!(read(&config)["storage"]["files"], json!([file("/a", "data:,y"), file("/b", "data:,b")]));
    assert_eq!(warnings(&config), ["storage.files[0]: file \"/a\" is defined again below; this one is dropped"]);
}

#[test]
fn row_55_partitions_of_spec_2_are_refused() {
    for partition in [json!({}), json!({"number": 1}), json!({"size": 4096, "start": 2048})] {
        let errors = refused(&v2(json!({"storage": {"disks": [{"device": "/dev/a", "partitions": [partition]}]}})));
        let expected = "storage.disks[0].partitions: partitions of a 2.x config count in sectors";
        assert!(errors[0].starts_with(expected), "{errors:?}");
    }
}

#[test]
fn row_56_networkd_units_of_spec_2_are_refused() {
    let errors = refused(&v2(json!({"networkd": {"units": [{"name": "a.network"}]}})));
    assert!(errors[0].starts_with("networkd.units: networkd units cannot be converted"), "{errors:?}");
}

#[test]
fn row_57_filesystems_of_spec_2_are_refused_and_root_is_dropped() {
    let filesystem = |name: &str| {
        let mount = json!({"device": "/dev/a", "format": "ext4"});
        v2(json!({"storage": {"filesystems": [{"name": name, "mount": mount}]}}))
    };
    let errors = refused(&filesystem("data"));
    assert!(errors[0].starts_with("storage.filesystems[0]: filesystem \"data\" cannot be converted"), "{errors:?}");
    assert_eq!(read(&filesystem("root")), json!({"ignition": {"version": "3.5.0"}}));
}

#[test]
fn row_58_a_file_on_an_undeclared_filesystem_becomes_one_of_root() {
    let config = v2(files(json!([{"filesystem": "oem", "path": "/a"}])));
    assert_eq!(read(&config)["storage"]["files"][0]["path"], "/a");
    assert_eq!(
        warnings(&config),
        [
            "storage.files[0].filesystem: filesystem \"oem\" is not declared; the path is taken as one of the root filesystem"
        ]
    );
}

#[test]
fn row_59_oem_sources_are_refused() {
    let file = json!({"filesystem": "root", "path": "/a", "contents": {"source": "oem:///x"}});
    let errors = refused(&v2(files(json!([file]))));
    assert_eq!(errors.len(), 1, "{errors:?}");
    let expected = "storage.files[0].contents.source: invalid url scheme \"oem\" in \"oem:///x\"";
    assert!(errors[0].starts_with(expected), "{errors:?}");
}

#[test]
fn row_60_an_appending_file_of_spec_2_becomes_a_fragment() {
    let config =
        v2(files(json!([{"filesystem": "root", "path": "/a", "append": true, "contents": {"source": "data:,x"}}])));
    assert_eq!(
        read(&config)["storage"]["files"],
        json!([{"path": "/a", "append": [{"source": "data:,x"}], "overwrite": false}])
    );
}

#[test]
fn row_61_a_file_of_spec_2_without_a_source_gets_the_empty_one() {
    let config = v2(files(json!([{"filesystem": "root", "path": "/a"}])));
    assert_eq!(
        read(&config)["storage"]["files"],
        json!([{"path": "/a", "contents": {"source": ""}, "overwrite": true}])
    );
}

fn users(users: Value) -> Value {
    v2(json!({"passwd": {"users": users}}))
}

#[test]
fn row_62_keys_of_spec_2_are_given_once_and_create_is_dropped() {
    let config = users(json!([{"name": "core", "create": {"uid": 5}, "sshAuthorizedKeys": ["a", "a"]}]));
    assert_eq!(read(&config)["passwd"]["users"], json!([{"name": "core", "sshAuthorizedKeys": ["a"]}]));
    assert_eq!(warnings(&config), ["passwd.users[0].create: create is dropped: version 3 has no such field"]);
}

#[test]
fn row_63_only_core_is_a_user_of_spec_2_and_the_last_one_stays() {
    let errors = refused(&users(json!([{"name": "bob"}])));
    assert_eq!(
        errors,
        ["passwd.users[0].name: unexpected user \"bob\": only the core user is supported in a 2.x config"]
    );
    let config = users(json!([
        {"name": "core", "sshAuthorizedKeys": ["a", "b"], "passwordHash": "h"},
        {"name": "core", "sshAuthorizedKeys": ["c", "a"]},
    ]));
    assert_eq!(read(&config)["passwd"]["users"], json!([{"name": "core", "sshAuthorizedKeys": ["c", "a", "b"]}]));
    assert_eq!(
        warnings(&config),
        ["passwd.users[0]: core is defined several times: passwordHash of this one is dropped, its SSH keys are kept"]
    );
}

#[test]
fn row_64_enabled_beats_enable_and_units_are_turned_around() {
    let config = v2(json!({"systemd": {"units": [
        {"name": "a.service", "enable": true},
        {"name": "b.service", "enable": true, "enabled": false},
        {"name": "c.service"},
    ]}}));
    assert_eq!(
        read(&config)["systemd"]["units"],
        json!([{"name": "c.service"}, {"name": "b.service", "enabled": false}, {"name": "a.service", "enabled": true}])
    );
}

#[test]
fn row_65_a_unit_of_spec_2_given_three_times_keeps_the_newest_of_each_part() {
    let dropin = |name: &str, text: &str| json!({"name": name, "contents": format!("[Unit]\nA={text}\n")});
    let config = v2(json!({"systemd": {"units": [
        {"name": "a.service", "contents": "[Unit]\nA=old\n", "dropins": [dropin("d1.conf", "old")]},
        {"name": "a.service", "dropins": [dropin("d1.conf", "new")]},
        {"name": "a.service", "contents": "[Unit]\nA=new\n", "dropins": [dropin("d2.conf", "x")]},
    ]}}));
    assert_eq!(
        read(&config)["systemd"]["units"],
        json!([{
            "name": "a.service", "contents": "[Unit]\nA=new\n",
            "dropins": [dropin("d2.conf", "x"), dropin("d1.conf", "new")],
        }])
    );
}

#[test]
fn row_66_what_2_0_and_2_1_leave_out_is_filled_in() {
    let config = |version: &str| with_version(version, files(json!([{"filesystem": "root", "path": "/a"}])));
    let file = |version: &str| read(&config(version))["storage"]["files"][0].clone();
    let filled = json!({
        "path": "/a", "contents": {"source": ""}, "overwrite": true,
        "mode": 0, "user": {"id": 0}, "group": {"id": 0},
    });
    assert_eq!(file("2.0.0"), filled);
    // Also in 2.1.0: the libraries add the mode.
    assert_eq!(file("2.1.0"), json!({"path": "/a", "contents": {"source": ""}, "overwrite": true, "mode": 0}));
    assert_eq!(file("2.2.0"), json!({"path": "/a", "contents": {"source": ""}, "overwrite": true}));
}

#[test]
fn row_67_a_path_of_spec_2_that_begins_like_a_link_is_refused() {
    let config = v2(json!({"storage": {
        "links": [{"filesystem": "root", "path": "/a", "target": "/t"}],
        "files": [{"filesystem": "root", "path": "/ab/c"}],
    }}));
    assert_eq!(
        refused(&config),
        ["storage.files[0]: \"/ab/c\" begins with the path of the link \"/a\", which a 2.x config may not; write a \
             version 3 config"]
    );
}

#[test]
fn row_68_the_example_of_the_source_document_is_converted() {
    let file = json!({"filesystem": "root", "path": "/root/myfile", "mode": 384, "contents": {"source": "data:,%20"}});
    assert_eq!(
        read(&v2(files(json!([file]))))["storage"]["files"],
        json!([{"path": "/root/myfile", "mode": 384, "contents": {"source": "data:,%20"}, "overwrite": true}])
    );
}
