//! Every finding: what it is about, how bad it is, and where both sides stand.

#![allow(clippy::unwrap_used)] // A test that finds nothing to unwrap has failed.

mod support;

use seaworthy_ignition::Severity;
use seaworthy_render::{Finding, keys};
use serde_json::{Value, json};

use support::*;

/// What a test looks at.
fn gist(finding: &Finding) -> (Severity, &str, Vec<String>) {
    (finding.severity, finding.subject.as_str(), places(finding))
}

fn assert_gist(finding: &Finding, severity: Severity, subject: &str, expected: &[&str]) {
    let expected: Vec<String> = expected.iter().map(|place| (*place).to_owned()).collect();
    assert_eq!(gist(finding), (severity, subject, expected), "{finding}");
}

/// An input that the platform made for everyone.
fn platform(machine_config: Value) -> Value {
    owned_by("ControllerConfig", generated_by("b", machine_config))
}

// === Inputs that meet each other ===

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
fn a_wish_that_another_input_cannot_take_back_is_a_conflict() {
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
    // Where nobody wishes for anything nobody is overruled.
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
fn an_override_of_a_part_says_what_stays() {
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
    assert!(finding.message.contains("stays from 00"), "{finding}");
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

// === Units and files ===

#[test]
fn a_file_at_the_path_of_a_unit_without_contents_is_worth_knowing() {
    let outcome = rendered(
        &worker(),
        &[
            ign("00", units(json!([{"name": "a.service", "enabled": true}]))),
            ign("01", files(json!([file("/etc/systemd/system/a.service", "data:,")]))),
        ],
    );
    assert_gist(
        outcome.only("unit-and-file"),
        Severity::Info,
        "file /etc/systemd/system/a.service",
        &["01 spec.config.storage.files[0]", "00 spec.config.systemd.units[0]"],
    );
}

#[test]
fn a_file_at_the_path_of_a_masked_unit_is_a_warning() {
    let outcome = rendered(
        &worker(),
        &[
            ign("00", units(json!([{"name": "a.service", "mask": true}]))),
            ign("01", files(json!([file("/etc/systemd/system/a.service", "data:,")]))),
        ],
    );
    let finding = outcome.only("unit-and-file");
    assert_eq!(finding.severity, Severity::Warning);
    assert!(finding.message.contains("/dev/null"), "{finding}");
}

#[test]
fn a_unit_and_a_file_that_both_write_a_path_are_refused() {
    let inputs = [
        ign("00", units(json!([{"name": "a.service", "contents": "[Unit]\nA=1\n"}]))),
        ign("01", files(json!([file("/etc/systemd/system/a.service", "data:,")]))),
    ];
    let findings = refused(&worker(), &inputs);
    let mut named: Vec<&str> = one(&findings).places.iter().map(|place| place.name.as_str()).collect();
    named.sort_unstable();
    assert_eq!(named, ["00", "01"]);
}

#[test]
fn files_beside_units_are_nothing_to_speak_of() {
    let outcome = rendered(
        &worker(),
        &[ign(
            "00",
            json!({
                "systemd": {"units": [{"name": "a.service", "enabled": true}]},
                "storage": {"files": [file("/etc/systemd/system/b.service", "data:,"), file("/a.service", "data:,")]},
            }),
        )],
    );
    assert_eq!(outcome.coded("unit-and-file").len(), 0);
}

// === Kernel arguments ===

#[test]
fn nosmt_for_a_whole_pool_is_a_warning() {
    for argument in ["nosmt", "quiet nosmt=force"] {
        let outcome = rendered(&worker(), &[mc("00", json!({"kernelArguments": ["a", argument]}))]);
        let finding = outcome.only("nosmt");
        assert_gist(finding, Severity::Warning, "kernel argument nosmt", &["00 spec.kernelArguments[1]"]);
        assert!(
            finding.message.contains("physical cores") && finding.to_string().starts_with("pool worker"),
            "{finding}"
        );
    }
    let other = rendered(&worker(), &[mc("00", json!({"kernelArguments": ["nosmtx", "x=nosmt"]}))]);
    assert_eq!(other.coded("nosmt").len(), 0);
}

#[test]
fn nosmt_is_found_in_both_lists_of_arguments_and_named_wherever_it_stands() {
    let outcome = rendered(
        &worker(),
        &[
            mc("00", json!({"kernelArguments": ["nosmt"]})),
            ign("01", json!({"kernelArguments": {"shouldExist": ["quiet", "nosmt"]}})),
        ],
    );
    assert_eq!(
        places(outcome.only("nosmt")),
        ["00 spec.kernelArguments[0]", "01 spec.config.kernelArguments.shouldExist[1]"]
    );
    let unwanted = ign("01", json!({"kernelArguments": {"shouldNotExist": ["nosmt"]}}));
    assert_eq!(rendered(&worker(), &[unwanted]).coded("nosmt").len(), 0);
}

#[test]
fn an_argument_given_twice_is_worth_knowing() {
    let inputs = [mc("00", json!({"kernelArguments": ["a=1"]})), mc("01", json!({"kernelArguments": ["b a=1"]}))];
    let outcome = rendered(&worker(), &inputs);
    assert_gist(
        outcome.only("repeated-argument"),
        Severity::Info,
        "kernel argument a",
        &["01 spec.kernelArguments[0]", "00 spec.kernelArguments[0]"],
    );
    assert_eq!(outcome.spec["kernelArguments"], json!(["a=1", "b a=1"]));
}

#[test]
fn an_argument_with_two_values_of_two_inputs_is_a_conflict() {
    let inputs =
        [mc("00", json!({"kernelArguments": ["loglevel=3"]})), mc("01", json!({"kernelArguments": ["loglevel=7"]}))];
    let outcome = rendered(&worker(), &inputs);
    let finding = outcome.only("conflict");
    assert_gist(
        finding,
        Severity::Warning,
        "kernel argument loglevel",
        &["01 spec.kernelArguments[0]", "00 spec.kernelArguments[0]"],
    );
    assert!(finding.message.contains("\"3\" and \"7\""), "{finding}");
    assert_eq!(outcome.spec["kernelArguments"], json!(["loglevel=3", "loglevel=7"]));
}

#[test]
fn arguments_that_may_stand_several_times_are_no_conflict() {
    let inputs = [
        mc("00", json!({"kernelArguments": ["console=tty0", "rd.luks.uuid=1"]})),
        mc("01", json!({"kernelArguments": ["console=ttyS0", "rd.luks.uuid=2"]})),
        mc("02", json!({"kernelArguments": ["x=1", "x=2"]})),
    ];
    assert_eq!(rendered(&worker(), &inputs).findings, []);
}

// === Sources ===

#[test]
fn a_plain_http_source_without_a_hash_is_a_warning() {
    let hash = "sha256-2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881";
    let sections = json!({
        "ignition": {"security": {"tls": {"certificateAuthorities": [{"source": "http://h/ca"}]}}},
        "storage": {
            "files": [
                file("/a", "http://me:secret@h/a"),
                {"path": "/b", "contents": {"source": "http://h/b", "verification": {"hash": hash}}},
                file("/c", "https://h/c"),
                {"path": "/d", "append": [{"source": "http://h/d"}], "overwrite": false},
            ],
            "luks": [{"name": "l", "device": "/d", "keyFile": {"source": "http://h/key"}}],
        },
    });
    let context = seaworthy_render::Context { keeps_references: true, ..context() };
    let outcome = rendered_in(&worker(), &[ign("00", sections)], &context);
    let found = outcome.coded("plain-http-without-hash");
    assert!(found.iter().all(|finding| finding.severity == Severity::Warning));
    let mut at: Vec<String> = found.iter().flat_map(|finding| places(finding)).collect();
    at.sort();
    assert_eq!(
        at,
        [
            "00 spec.config.ignition.security.tls.certificateAuthorities[0].source",
            "00 spec.config.storage.files[0].contents.source",
            "00 spec.config.storage.files[3].append[0].source",
            "00 spec.config.storage.luks[0].keyFile.source",
        ]
    );
    assert!(!shown(&outcome.findings).contains("secret"));
}

#[test]
fn a_hash_that_is_not_that_of_its_body_is_a_warning() {
    let hash = format!("sha256-{}", "ab".repeat(32));
    let body = json!({"source": "data:,x", "verification": {"hash": hash}});
    let outcome = rendered(&worker(), &[ign("00", files(json!([{"path": "/a", "contents": body}])))]);
    let finding = outcome.only("hash-mismatch");
    let path = "00 spec.config.storage.files[0].contents.verification.hash";
    assert_gist(finding, Severity::Warning, "", &[path]);
    assert!(finding.message.contains("sha256-2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"));
}

// === OS images, builds, size ===

#[test]
fn an_os_image_of_the_users_own_is_worth_knowing() {
    let outcome = rendered(&worker(), &[mc("00", json!({"osImageURL": "img@sha256:bb"}))]);
    assert_gist(outcome.only("os-image-overridden"), Severity::Info, "osImageURL", &["00 spec.osImageURL"]);
}

#[test]
fn an_os_image_without_a_digest_is_a_warning() {
    let outcome = rendered(&worker(), &[mc("00", json!({"osImageURL": "img:latest"}))]);
    assert_gist(outcome.only("os-image-without-digest"), Severity::Warning, "osImageURL", &["00 spec.osImageURL"]);
    assert_eq!(outcome.coded("os-image-overridden").len(), 0);
    // The cluster's own image is nobody's choice.
    assert_eq!(rendered(&worker(), &[mc("00", json!({}))]).findings, []);
}

#[test]
fn inputs_of_different_builds_are_a_warning() {
    let inputs =
        [generated_by("v2", mc("01", json!({}))), generated_by("v1", mc("00", json!({}))), mc("02", json!({}))];
    let outcome = rendered(&worker(), &inputs);
    let path = format!("metadata.annotations[{:?}]", keys::GENERATED_BY);
    let finding = outcome.only("version-skew");
    assert_eq!(gist(finding), (Severity::Warning, "inputs", vec![format!("00 {path}"), format!("01 {path}")]));
    assert!(finding.message.contains("v1, v2"), "{finding}");
    let same = [generated_by("v1", mc("01", json!({}))), generated_by("v1", mc("00", json!({})))];
    assert_eq!(rendered(&worker(), &same).findings, []);
}

#[test]
fn what_no_cluster_stores_is_a_warning() {
    let body = format!("data:,{}", "x".repeat(1_600_000));
    let outcome = rendered(&worker(), &[ign("00", files(json!([file("/a", &body)])))]);
    assert_gist(outcome.only("too-large"), Severity::Warning, "size", &[]);
}

// === Of one input alone ===

#[test]
fn unknown_keys_are_a_warning_in_the_spec_and_in_the_config() {
    let spec = json!({
        "kernelargs": ["x"],
        "config": with_version("3.2.0", json!({"kernelArguments": {}, "storage": {"file": []}})),
    });
    let outcome = rendered(&worker(), &[mc("00", spec)]);
    let found = outcome.coded("unknown-key");
    assert!(found.iter().all(|finding| finding.severity == Severity::Warning));
    let mut at: Vec<String> = found.iter().flat_map(|finding| places(finding)).collect();
    at.sort();
    assert_eq!(at, ["00 spec.config.kernelArguments", "00 spec.config.storage.file", "00 spec.kernelargs"]);
}

#[test]
fn a_key_in_another_case_is_taken_with_a_warning() {
    let outcome = rendered(&worker(), &[ign("00", json!({"storage": {"Files": [file("/a", "data:,x")]}}))]);
    let finding = outcome.only("key-case");
    assert_gist(finding, Severity::Warning, "", &["00 spec.config.storage.Files"]);
    assert_eq!(outcome.files()[0]["path"], "/a");
    let line = outcome.line("file /a", "contents.source");
    assert_eq!(place(line.set_by.as_ref().unwrap()), "00 spec.config.storage.Files[0].contents.source");
}

#[test]
fn what_the_way_from_spec_2_drops_is_a_warning() {
    let file = |source: &str| json!({"filesystem": "root", "path": "/a", "contents": {"source": source}});
    let sections = json!({
        "passwd": {"users": [{"name": "core", "create": {}}]},
        "storage": {
            "files": [file("data:,1"), file("data:,2")],
            "filesystems": [{"name": "root", "mount": {"device": "/dev/a", "format": "ext4"}}],
        },
        "systemd": {"units": [{"name": "a.service", "enabled": true}, {"name": "a.service"}]},
    });
    let outcome = rendered(&worker(), &[ign2("00", sections)]);
    let found = outcome.coded("v2-dropped");
    assert!(found.iter().all(|finding| finding.severity == Severity::Warning));
    let mut at: Vec<String> = found.iter().flat_map(|finding| places(finding)).collect();
    at.sort();
    assert_eq!(
        at,
        [
            "00 spec.config.passwd.users[0].create",
            "00 spec.config.storage.files[0]",
            "00 spec.config.storage.filesystems[0]",
            "00 spec.config.systemd.units[0]",
        ]
    );
}

// === Who forms the base ===

#[test]
fn a_user_wins_over_the_platform_whatever_the_names() {
    let user = ign("0-x", files(json!([file("/a", "data:,user")])));
    let template = ign("00-worker", files(json!([file("/a", "data:,platform")])));
    // By name alone the user would come first, and lose.
    let outcome = rendered(&worker(), &[user.clone(), template.clone()]);
    assert_eq!(outcome.inputs, ["0-x", "00-worker"]);
    assert_eq!(outcome.files()[0]["contents"]["source"], "data:,platform");

    for platform_made in [platform(template.clone()), generated_by("b", template)] {
        let outcome = rendered(&worker(), &[user.clone(), platform_made]);
        assert_eq!(outcome.inputs, ["00-worker", "0-x"]);
        assert_eq!(outcome.files()[0]["contents"]["source"], "data:,user");
        assert_gist(
            outcome.only("conflict"),
            Severity::Info,
            "file /a",
            &[
                "0-x spec.config.storage.files[0].contents.source",
                "00-worker spec.config.storage.files[0].contents.source",
            ],
        );
    }
}

#[test]
fn what_is_made_of_a_users_own_wish_keeps_its_place_among_the_users() {
    let kubelet = generated_by("b", mc("99-worker-generated-kubelet", json!({})));
    for kubelet in [kubelet.clone(), owned_by("KubeletConfig", kubelet)] {
        let inputs = [
            platform(mc("00-worker", json!({}))),
            mc("50-user", json!({})),
            kubelet,
            mc("99-worker-ssh", json!({})),
            mc("0-x", json!({})),
        ];
        let outcome = rendered(&worker(), &inputs);
        assert_eq!(outcome.inputs, ["00-worker", "0-x", "50-user", "99-worker-generated-kubelet", "99-worker-ssh"]);
    }
}

#[test]
fn the_platforms_base_of_a_custom_pool_lies_below_the_workers_own_configs() {
    let inputs = [
        mc("50-user", json!({})),
        platform(mc_of("infra", "00-infra", json!({}))),
        platform(mc("01-worker-kubelet", json!({}))),
        mc_of("infra", "10-infra-user", json!({})),
    ];
    let outcome = rendered(&infra(), &inputs);
    assert_eq!(outcome.inputs, ["01-worker-kubelet", "00-infra", "50-user", "10-infra-user"]);
}

// === Findings as such ===

#[test]
fn the_worst_comes_first() {
    let inputs = [
        mc("00", json!({"osImageURL": "a@sha256:aa", "kernelArguments": ["nosmt"]})),
        mc("01", json!({"osImageURL": "b@sha256:bb"})),
    ];
    let outcome = rendered(&worker(), &inputs);
    let severities: Vec<Severity> = outcome.findings.iter().map(|finding| finding.severity).collect();
    assert_eq!(severities, [Severity::Warning, Severity::Warning, Severity::Info]);
}

#[test]
fn a_finding_is_a_line_for_people_and_json_for_programs() {
    let inputs = [mc("00", json!({"kernelType": "realtime"})), mc("01", json!({"kernelType": "64k-pages"}))];
    let outcome = rendered(&worker(), &inputs);
    let finding = outcome.only("conflict");
    assert_eq!(
        finding.to_string(),
        "pool worker: MachineConfig 01, spec.kernelType and MachineConfig 00, spec.kernelType: kernelType: 01 overrides a \
         different value of 00"
    );
    assert_eq!(
        finding.to_json(),
        json!({
            "severity": "warning",
            "code": "conflict",
            "pool": "worker",
            "subject": "kernelType",
            "places": [
                {"kind": "MachineConfig", "name": "01", "path": "spec.kernelType"},
                {"kind": "MachineConfig", "name": "00", "path": "spec.kernelType"},
            ],
            "message": "kernelType: 01 overrides a different value of 00",
        })
    );
}
