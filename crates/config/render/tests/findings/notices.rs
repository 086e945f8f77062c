//! Notices about an input or a result, and findings as such.

use seaworthy_ignition::Severity;
use seaworthy_render::keys;
use serde_json::json;

use crate::findings::{assert_gist, gist};
use crate::support::*;

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
fn files_beside_units_are_no_finding() {
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
fn nosmt_is_found_and_named_in_both_lists_of_arguments() {
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
fn arguments_that_may_be_repeated_are_no_conflict() {
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
fn a_path_that_machines_of_an_image_cannot_write_is_a_warning() {
    let sections = json!({"storage": {
        "files": [file("/usr/share/banner", "data:,"), file("/usr/local/bin/a", "data:,"), file("/usrx/a", "data:,")],
        "directories": [{"path": "/proc/a"}, {"path": "/etc/usr/a"}],
        "links": [{"path": "/usr/lib/a", "target": "/etc/a"}, {"path": "/etc/a", "target": "/usr/lib/b"}],
    }});
    let outcome = rendered(&worker(), &[ign("00", sections)]);
    let found = outcome.coded("read-only-path");
    assert!(found.iter().all(|finding| finding.severity == Severity::Warning));
    let mut at: Vec<String> = found.iter().flat_map(|finding| places(finding)).collect();
    at.sort();
    assert_eq!(
        at,
        [
            "00 spec.config.storage.directories[0].path",
            "00 spec.config.storage.files[0].path",
            "00 spec.config.storage.links[0].path",
        ]
    );
    assert!(found[0].message.contains("/usr/local"), "{}", found[0].message);
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
    // The cluster's own image is not chosen by an input.
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
fn of_very_many_findings_the_first_are_listed_and_the_rest_are_counted() {
    let arguments = ["a "; 30_000].concat();
    let outcome = rendered(&worker(), &[mc("00", json!({"kernelArguments": [arguments]}))]);
    let found = outcome.coded("repeated-argument");
    assert_eq!(found.len(), 10_001);
    let counts = found.iter().filter(|finding| finding.message.contains("more findings of this kind"));
    assert_eq!(counts.count(), 1);
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
