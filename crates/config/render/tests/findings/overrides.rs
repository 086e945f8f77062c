//! Findings about inputs that override each other.

use seaworthy_ignition::Severity;
use serde_json::json;

use crate::findings::{assert_gist, gist, platform};
use crate::support::*;

#[test]
fn users_who_set_one_file_differently_are_a_conflict() {
    let outcome = rendered(
        &worker(),
        &[
            ign("00", files(json!([file("/other", "data:,"), file("/a", "data:,old")]))),
            ign("01", files(json!([file("/a", "data:,new")]))),
        ],
    );
    let finding = outcome.only("conflict");
    assert_gist(
        finding,
        Severity::Warning,
        "file /a",
        &["01 spec.config.storage.files[0].contents.source", "00 spec.config.storage.files[1].contents.source"],
    );
    assert_eq!(finding.pool.as_deref(), Some("worker"));
    assert!(finding.message.contains("(contents.source): 01 overrides a different value of 00"), "{finding}");
    // Findings never change the result.
    assert_eq!(outcome.files()[1]["contents"]["source"], "data:,new");
}

#[test]
fn a_user_who_overrides_the_platform_is_worth_knowing() {
    let inputs = [
        platform(ign("00-worker", files(json!([file("/a", "data:,old")])))),
        ign("50-user", files(json!([file("/a", "data:,new")]))),
    ];
    let outcome = rendered(&worker(), &inputs);
    assert_gist(
        outcome.only("conflict"),
        Severity::Info,
        "file /a",
        &[
            "50-user spec.config.storage.files[0].contents.source",
            "00-worker spec.config.storage.files[0].contents.source",
        ],
    );
}

#[test]
fn every_pair_of_inputs_has_a_finding_of_its_own_with_all_fields() {
    let with = |name: &str, text: &str, mode: i64| {
        let body = json!({"source": format!("data:,{text}")});
        ign(name, files(json!([{"path": "/a", "contents": body, "mode": mode}])))
    };
    let outcome = rendered(&worker(), &[with("00", "a", 1), with("01", "b", 2), with("02", "c", 3)]);
    let conflicts = outcome.coded("conflict");
    let pairs: Vec<Vec<&str>> =
        conflicts.iter().map(|finding| finding.places.iter().map(|place| place.name.as_str()).collect()).collect();
    assert_eq!(pairs, [["01", "00"], ["02", "01"]]);
    for finding in conflicts {
        assert!(finding.message.contains("contents.source") && finding.message.contains("mode"), "{finding}");
    }
}

#[test]
fn equal_values_are_no_conflict() {
    let input = |name: &str| {
        let mut machine_config = ign(name, files(json!([file("/a", "data:,x")])));
        machine_config["spec"]["kernelType"] = "realtime".into();
        machine_config
    };
    let outcome = rendered(&worker(), &[input("00"), input("01")]);
    assert_eq!(outcome.findings, []);
    let also: Vec<String> = outcome.line("kernelType", "").also.iter().map(place).collect();
    assert_eq!(also, ["00 spec.kernelType"]);
}

#[test]
fn fields_that_two_inputs_set_differently_are_a_conflict() {
    let inputs = [
        mc("00", json!({"kernelType": "realtime", "osImageURL": "a@sha256:aa", "baseOSExtensionsContainerImage": "x"})),
        mc(
            "01",
            json!({"kernelType": "64k-pages", "osImageURL": "b@sha256:bb", "baseOSExtensionsContainerImage": "y"}),
        ),
    ];
    let outcome = rendered(&worker(), &inputs);
    let conflicts: Vec<_> = outcome.coded("conflict").into_iter().map(gist).collect();
    let expected = ["baseOSExtensionsContainerImage", "kernelType", "osImageURL"]
        .map(|field| (Severity::Warning, field, vec![format!("01 spec.{field}"), format!("00 spec.{field}")]));
    assert_eq!(conflicts, expected);
}

#[test]
fn a_setting_that_another_input_cannot_revoke_is_a_conflict() {
    let inputs = [
        mc("00", json!({"fips": true, "kernelType": "realtime"})),
        mc("01", json!({"fips": false, "kernelType": "default"})),
        mc("02", json!({"kernelType": ""})),
    ];
    let outcome = rendered(&worker(), &inputs);
    let conflicts: Vec<_> = outcome.coded("conflict").into_iter().map(gist).collect();
    let expected = ["fips", "kernelType"]
        .map(|field| (Severity::Warning, field, vec![format!("00 spec.{field}"), format!("01 spec.{field}")]));
    assert_eq!(conflicts, expected);
    // It is the same the other way around, where the later input wins anyway.
    let inputs = [mc("00", json!({"fips": false})), mc("01", json!({"fips": true}))];
    assert_eq!(places(rendered(&worker(), &inputs).only("conflict")), ["01 spec.fips", "00 spec.fips"]);
    // Where no input sets a value none is overridden.
    let inputs = [mc("00", json!({"fips": false})), mc("01", json!({"kernelType": "default"}))];
    assert_eq!(rendered(&worker(), &inputs).findings, []);
}

#[test]
fn units_dropins_users_and_devices_are_named_as_people_call_them() {
    let sections = |text: &str, uid: i64| {
        json!({
            "systemd": {"units": [{
                "name": "a.service",
                "contents": format!("[Unit]\nA={text}\n"),
                "dropins": [{"name": "x.conf", "contents": format!("[Unit]\nB={text}\n")}],
            }]},
            "passwd": {"users": [{"name": "core", "uid": uid}], "groups": [{"name": "g", "gid": uid}]},
            "storage": {
                "directories": [{"path": "/d", "mode": uid}],
                "links": [{"path": "/l", "target": format!("/{text}")}],
                "filesystems": [{"device": "/dev/x", "format": "xfs", "label": text}],
                "disks": [{"device": "/dev/s", "partitions": [{"number": 1, "label": text}]}],
                "raid": [{"name": "r", "level": if uid == 1 { "raid1" } else { "raid5" }, "devices": ["/dev/a"]}],
                "luks": [{"name": "k", "device": format!("/dev/{text}")}],
            },
            "ignition": {"timeouts": {"httpTotal": uid}},
        })
    };
    let outcome = rendered(&worker(), &[ign("00", sections("old", 1)), ign("01", sections("new", 2))]);
    let conflicts = outcome.coded("conflict");
    let mut subjects: Vec<&str> = conflicts.iter().map(|finding| finding.subject.as_str()).collect();
    subjects.sort_unstable();
    assert_eq!(
        subjects,
        [
            "directory /d",
            "disk /dev/s",
            "drop-in a.service.d/x.conf",
            "filesystem /dev/x",
            "group g",
            "ignition.timeouts.httpTotal",
            "link /l",
            "luks device k",
            "raid r",
            "unit a.service",
            "user core",
        ]
    );
}

#[test]
fn an_override_of_a_part_names_what_stays() {
    let parent = json!([{"path": "/a", "contents": {"source": "data:,x"}, "mode": 1, "user": {"name": "u"}}]);
    let outcome =
        rendered(&worker(), &[ign("00", files(parent)), ign("01", files(json!([{"path": "/a", "mode": 2}])))]);
    let finding = outcome.only("partial-override");
    assert_gist(
        finding,
        Severity::Info,
        "file /a",
        &["01 spec.config.storage.files[0]", "00 spec.config.storage.files[0].contents.source"],
    );
    assert!(finding.message.contains("contents.source, user.name"), "{finding}");
    assert!(finding.message.contains("remains from 00"), "{finding}");
}

#[test]
fn an_entry_of_another_kind_is_a_replaced_entry() {
    let parent = json!({"storage": {"files": [file("/other", "data:,"), file("/a", "data:,x")]}});
    let child = json!({"storage": {"links": [{"path": "/a", "target": "/t"}]}});
    let outcome = rendered(&worker(), &[ign("00", parent), ign("01", child)]);
    let finding = outcome.only("replaced-entry");
    assert_gist(
        finding,
        Severity::Warning,
        "file /a",
        &["01 spec.config.storage.links[0]", "00 spec.config.storage.files[1]"],
    );
    // The one that is there now knows whom it took out.
    let line = outcome.line("link /a", "path");
    let overrode: Vec<String> = line.overrode.iter().map(|(at, _)| place(at)).collect();
    assert_eq!(overrode, ["00 spec.config.storage.files[1]"]);
}

#[test]
fn a_kernel_argument_that_is_no_longer_wanted_is_a_replaced_entry() {
    let outcome = rendered(
        &worker(),
        &[
            ign("00", json!({"kernelArguments": {"shouldExist": ["a"]}})),
            ign("01", json!({"kernelArguments": {"shouldNotExist": ["a"]}})),
        ],
    );
    assert_gist(
        outcome.only("replaced-entry"),
        Severity::Warning,
        "kernelArguments.shouldExist",
        &["01 spec.config.kernelArguments.shouldNotExist[0]", "00 spec.config.kernelArguments.shouldExist[0]"],
    );
}

#[test]
fn a_new_body_takes_the_old_hash_and_compression_with_it() {
    let hash = "sha256-2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"; // of "x"
    let packed = "data:;base64,H4sIAAAAAAACA6sAAIMW3IwBAAAA"; // "x"
    let body = json!({"source": packed, "compression": "gzip", "verification": {"hash": hash}});
    let outcome = rendered(
        &worker(),
        &[
            ign("00", files(json!([{"path": "/a", "contents": body}]))),
            ign("01", files(json!([file("/a", "data:,new")]))),
        ],
    );
    let finding = outcome.only("replaced-body");
    assert_gist(
        finding,
        Severity::Info,
        "file /a",
        &["01 spec.config.storage.files[0].contents.source", "00 spec.config.storage.files[0].contents.compression"],
    );
    assert!(finding.message.contains("contents.compression, contents.verification.hash"), "{finding}");
    assert_eq!(outcome.files()[0]["contents"], json!({"source": "data:,new"}));
}

#[test]
fn every_argument_that_is_taken_out_is_named() {
    let arguments = |list: &str, texts: serde_json::Value| json!({"kernelArguments": {list: texts}});
    let parent = arguments("shouldExist", json!(["a", "stays", "b"]));
    let child = arguments("shouldNotExist", json!(["b", "a"]));
    let outcome = rendered(&worker(), &[ign("00", parent), ign("01", child)]);
    let finding = outcome.only("replaced-entry");
    assert_eq!(finding.subject, "kernelArguments.shouldExist");
    assert!(finding.message.contains("kernelArguments.shouldExist (b, a): 01 sets the opposite"), "{finding}");
    assert!(!finding.message.contains("stays"), "{finding}");
}
