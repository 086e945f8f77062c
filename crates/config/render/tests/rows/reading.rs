//! Reading of Ignition configs: which are accepted, and the errors of those that are not.

use serde_json::{Value, json};

use crate::support::*;

fn with_config(config: Value) -> Value {
    mc("00", json!({"config": config}))
}

#[test]
fn row_51_every_version_gives_the_same_result_when_nothing_else_is_set() {
    for version in ["2.0.0", "2.1.0", "2.2.0", "3.0.0", "3.1.0", "3.2.0", "3.3.0", "3.4.0", "3.5.0"] {
        let outcome = rendered(&worker(), &[with_config(with_version(version, json!({})))]);
        assert_eq!(outcome.digest(), "c80a90381278fced175b4d86614b286e", "{version}");
    }
}

#[test]
fn row_52_other_versions_are_unknown() {
    for version in ["2.3.0", "2.4.0", "3.5.1", "3.5.0-experimental", "3.6.0", "4.0.0", "21.0.0"] {
        let findings = refused(&worker(), &[with_config(with_version(version, json!({})))]);
        let finding = one(&findings);
        assert_eq!(finding.code, "version-unknown", "{version}");
        assert_eq!(places(finding), ["00 spec.config.ignition.version"]);
        assert!(finding.message.contains(version) && finding.message.contains("3.5.0"), "{finding}");
    }
}

#[test]
fn row_53_what_is_no_version_is_invalid() {
    let versions = ["", "1", "abc"].map(|version| with_version(version, json!({})));
    for config in versions.into_iter().chain([json!({}), json!({"ignition": {}})]) {
        let findings = refused(&worker(), &[with_config(config.clone())]);
        let finding = one(&findings);
        assert_eq!(finding.code, "version-invalid", "{config}");
        assert_eq!(places(finding), ["00 spec.config.ignition.version"]);
    }
}

#[test]
fn row_69_a_file_has_no_special_mode_bits_and_a_directory_may() {
    let node = json!({"path": "/a", "mode": 0o1777, "contents": {"source": "data:,"}, "filesystem": "root"});
    for (version, dropped) in [("3.5.0", "filesystem"), ("2.2.0", "")] {
        let mut node = node.clone();
        node.as_object_mut().unwrap().remove(dropped);
        let findings = refused(&worker(), &[with_config(with_version(version, files(json!([node]))))]);
        let finding = one(&findings);
        assert_eq!(finding.code, "file-mode");
        assert_eq!(places(finding), ["00 spec.config.storage.files[0].mode"], "{version}");
        assert!(finding.message.contains("invalid mode 01777 for /a, cannot exceed 0777"), "{finding}");
    }
    let directories = json!({"storage": {"directories": [{"path": "/a", "mode": 0o1777}]}});
    let outcome = rendered(&worker(), &[ign("00", directories)]);
    assert_eq!(outcome.config()["storage"]["directories"][0]["mode"], 0o1777);
    assert_eq!(
        rendered(
            &worker(),
            &[ign(
                "00",
                files(json!([{"path": "/a", "mode": 0o777,
        "contents": {"source": "data:,"}}]))
            )]
        )
        .files()[0]["mode"],
        0o777
    );
}

#[test]
fn row_70_each_mistake_is_refused_at_its_path() {
    let body = |body: Value| files(json!([{"path": "/a", "contents": body}]));
    let luks = |clevis: Value| json!({"storage": {"luks": [{"name": "l", "device": "/d", "clevis": clevis}]}});
    let headers = json!({"source": "data:,", "httpHeaders": [{"name": "A", "value": "1"}]});
    let hash = |hash: &str| json!({"source": "data:,", "verification": {"hash": hash}});
    let cases = [
        (files(json!([file("a", "data:,")])), "storage.files[0].path"),
        (files(json!([file("/a/../b", "data:,")])), "storage.files[0].path"),
        (body(json!({"source": "ftp://h/a"})), "storage.files[0].contents.source"),
        (body(json!({"source": "data:,", "compression": "xz"})), "storage.files[0].contents.compression"),
        (body(hash("md5-00")), "storage.files[0].contents.verification.hash"),
        (body(hash("sha512-abc")), "storage.files[0].contents.verification.hash"),
        (body(headers), "storage.files[0].contents.httpHeaders"),
        (units(json!([{"name": "a.foo"}])), "systemd.units[0].name"),
        (units(json!([{"name": "a.service", "dropins": [{"name": "x"}]}])), "systemd.units[0].dropins[0].name"),
        (luks(json!({"tang": [{"url": "http://t"}]})), "storage.luks[0].clevis.tang[0].thumbprint"),
    ];
    for (sections, path) in cases {
        let findings = refused(&worker(), &[ign("zz", sections), ign("00", json!({}))]);
        let finding = one(&findings);
        assert_eq!(places(finding), [format!("zz spec.config.{path}")]);
        assert_eq!(finding.pool.as_deref(), Some("worker"));
    }
}

#[test]
fn row_70_an_error_below_a_key_in_another_case_is_reported_with_its_location() {
    let sections = json!({"Storage": {"FILES": [{"Path": "a", "contents": {"source": "data:,"}}]}});
    let findings = refused(&worker(), &[ign("00", sections)]);
    assert_eq!(places(one(&findings)), ["00 spec.config.Storage.FILES[0].Path"]);
}

#[test]
fn row_72_unknown_keys_are_dropped() {
    let outcome = rendered(
        &worker(),
        &[ign(
            "00",
            files(json!([{"path": "/a", "note": 1,
        "contents": {"source": "data:,", "more": {}}}])),
        )],
    );
    assert_eq!(*outcome.files(), json!([{"path": "/a", "contents": {"source": "data:,"}, "overwrite": true}]));
    let luks = json!({"storage": {"luks": [{"name": "l", "device": "/d", "cex": {"enabled": true}}]}});
    let outcome = rendered(&worker(), &[with_config(with_version("3.4.0", luks))]);
    assert_eq!(outcome.config()["storage"]["luks"], json!([{"name": "l", "device": "/d"}]));
    assert_eq!(places(outcome.only("unknown-key")), ["00 spec.config.storage.luks[0].cex"]);
}
