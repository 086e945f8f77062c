//! Reading and validation of configs.

use seaworthy_ignition::{Node, Version, check};
use serde_json::{Value, json};

use crate::rows::{files, merged_and_checked, read, refused, shown, storage, v3, warnings, with_version};

#[test]
fn row_29_a_file_to_overwrite_without_a_source_is_no_valid_result() {
    let rendered = v3(files(json!([{"path": "/a", "overwrite": true}])));
    let problems = shown(&check(&Node::from_json(&rendered)));
    assert_eq!(problems.len(), 1);
    assert!(problems[0].starts_with("storage.files[0].overwrite: overwrite must be false"), "{problems:?}");
}

#[test]
fn row_30_overwrite_without_a_source_is_refused() {
    let errors = refused(&v3(files(json!([{"path": "/a", "overwrite": true}]))));
    assert_eq!(errors.len(), 1);
    let expected = "storage.files[0].overwrite: overwrite must be false if source is unspecified";
    assert!(errors[0].starts_with(expected), "{errors:?}");
}

#[test]
fn row_32_a_path_given_twice_in_one_config_is_refused() {
    let errors = refused(&v3(files(json!([{"path": "/a"}, {"path": "/a"}]))));
    assert_eq!(
        errors,
        ["storage.files[1]: duplicate entry defined: \"/a\" is given twice; each path may be given once"]
    );
}

#[test]
fn row_51_all_nine_versions_give_the_same_empty_config() {
    for version in Version::ALL {
        let config = with_version(version.as_str(), json!({}));
        assert_eq!(read(&config), json!({"ignition": {"version": "3.5.0"}}), "{version}");
    }
}

#[test]
fn row_52_other_versions_are_unknown() {
    for version in ["2.3.0", "2.4.0", "3.5.1", "3.5.0-experimental", "3.6.0", "4.0.0", "21.0.0"] {
        let errors = refused(&with_version(version, json!({})));
        let expected = format!("ignition.version: unknown version {version:?}; expected one of 2.0.0, 2.1.0,");
        assert!(errors.len() == 1 && errors[0].starts_with(&expected), "{errors:?}");
    }
}

#[test]
fn a_wrong_version_is_refused_with_the_one_that_was_meant() {
    for (config, expected) in [
        (json!({"ignition": {"verison": "3.4.0"}}), "did you mean \"version\" where it says \"verison\"?"),
        (json!({"ignitoin": {"version": "3.4.0"}}), "did you mean \"ignition\" where it says \"ignitoin\"?"),
        (json!({"ignition": {"version": 3.4}}), "did you mean \"3.4.0\", in quotes?"),
        (json!({"ignition": {"version": "3.4"}}), "did you mean \"3.4.0\", in quotes?"),
        (json!({"ignition": {"version": "v3.4.0"}}), "did you mean \"3.4.0\", in quotes?"),
    ] {
        let errors = refused(&config);
        assert!(errors.len() == 1 && errors[0].ends_with(expected), "{config}: {errors:?}");
    }
    assert!(!refused(&json!({"ignition": {"version": "9.9"}}))[0].contains("did you mean"));
}

#[test]
fn row_53_what_is_no_version_is_invalid() {
    let mut configs: Vec<Value> = ["", "1", "abc"].map(|version| with_version(version, json!({}))).to_vec();
    configs.extend([json!({}), json!({"ignition": {}}), json!({"ignition": {"version": 3}})]);
    for config in configs {
        let errors = refused(&config);
        assert!(
            errors.len() == 1 && errors[0].starts_with("ignition.version: invalid version"),
            "{config}: {errors:?}"
        );
    }
}

#[test]
fn row_69_special_mode_bits_are_a_warning_here() {
    // Rendering refuses them for files; directories may have them.
    for list in ["files", "directories"] {
        let config = storage(list, json!({"path": "/a", "mode": 0o1777}));
        let warnings = warnings(&config);
        assert!(warnings[0].starts_with(&format!("storage.{list}[0].mode: the setuid")), "{warnings:?}");
        let errors = refused(&storage(list, json!({"path": "/a", "mode": 0o10000})));
        assert!(errors[0].starts_with(&format!("storage.{list}[0].mode: illegal file mode 4096")), "{errors:?}");
    }
}

#[test]
fn row_70_each_mistake_is_refused_with_its_path() {
    let body = |body: Value| files(json!([{"path": "/a", "contents": body}]));
    let unit = |unit: Value| json!({"systemd": {"units": [unit]}});
    let tang = json!({"url": "http://t"});
    let long = "sha512-abc";
    let cases = [
        (files(json!([{"path": "a"}])), "storage.files[0].path: path not absolute"),
        (files(json!([{"path": "/a/../b"}])), "storage.files[0].path: path is not fully simplified"),
        (body(json!({"source": "ftp://h/a"})), "storage.files[0].contents.source: invalid url scheme"),
        (
            body(json!({"source": "data:,", "compression": "xz"})),
            "storage.files[0].contents.compression: invalid compression",
        ),
        (
            body(json!({"source": "data:,", "verification": {"hash": "md5-00"}})),
            "storage.files[0].contents.verification.hash: \"md5-00\" names an unrecognized hash function",
        ),
        (
            body(json!({"source": "data:,", "verification": {"hash": long}})),
            "storage.files[0].contents.verification.hash: \"sha512-abc\" has the incorrect size",
        ),
        (
            body(json!({"source": "data:,", "httpHeaders": [{"name": "A", "value": "1"}]})),
            "storage.files[0].contents.httpHeaders: headers are only sent to http and https",
        ),
        (unit(json!({"name": "a.foo"})), "systemd.units[0].name: invalid systemd unit extension"),
        (
            unit(json!({"name": "a.service", "dropins": [{"name": "x"}]})),
            "systemd.units[0].dropins[0].name: invalid systemd drop-in extension",
        ),
        (
            json!({"storage": {"luks": [{"name": "l", "device": "/d", "clevis": {"tang": [tang]}}]}}),
            "storage.luks[0].clevis.tang[0].thumbprint: thumbprint is required",
        ),
    ];
    for (config, expected) in cases {
        let errors = refused(&v3(config));
        assert!(errors.len() == 1 && errors[0].starts_with(expected), "{expected}: {errors:?}");
    }
}

#[test]
fn row_71_schemes_are_known_by_version() {
    let file = |source: &str| files(json!([{"path": "/a", "contents": {"source": source}}]));
    for source in ["s3://b/k", "arn:aws:s3:::b/k", "gs://b/k", "tftp://h/a"] {
        read(&v3(file(source)));
    }
    let errors = refused(&with_version("3.3.0", file("arn:aws:s3:::b/k")));
    assert_eq!(
        errors,
        ["storage.files[0].contents.source: invalid url scheme \"arn\" in \"arn:aws:s3:::b/k\"; accepted in version \
             3.3.0 are data, gs, http, https, s3"]
    );
}

#[test]
fn row_72_unknown_keys_are_dropped_and_named() {
    let config = v3(json!({"storage": {"files": [{"path": "/a", "note": "x"}]}}));
    assert_eq!(read(&config)["storage"]["files"], json!([{"path": "/a"}]));
    assert!(warnings(&config)[0].starts_with("storage.files[0].note: unknown key \"note\" is dropped"));
    let luks = json!({"storage": {"luks": [{"name": "l", "device": "/d", "cex": {"enabled": true}}]}});
    let config = with_version("3.4.0", luks);
    assert_eq!(read(&config)["storage"]["luks"], json!([{"name": "l", "device": "/d"}]));
    assert_eq!(
        warnings(&config),
        ["storage.luks[0].cex: cex exists only from version 3.5.0 on and is dropped from this 3.4.0 config"]
    );
}

#[test]
fn row_73_what_lies_below_a_link_or_over_a_unit_is_refused_in_one_config_and_found_in_a_result() {
    let link = json!({"storage": {"links": [{"path": "/l", "target": "/t"}]}});
    let below = files(json!([{"path": "/l/f"}]));
    let expected = "storage.files[0]: \"/l/f\" uses a path that lies below the link \"/l\"";
    let both = json!({"storage": {"links": link["storage"]["links"], "files": below["storage"]["files"]}});
    assert!(refused(&v3(both))[0].starts_with(expected));
    assert!(merged_and_checked(&[v3(link), v3(below)])[0].starts_with(expected));

    let unit = json!({"systemd": {"units": [{"name": "a.service", "contents": "[Unit]\nA=b\n"}]}});
    let file = files(json!([{"path": "/etc/systemd/system/a.service"}]));
    let expected = "storage.files[0].path: path conflicts with a systemd unit or drop-in";
    let both = json!({"systemd": unit["systemd"], "storage": file["storage"]});
    assert!(refused(&v3(both))[0].starts_with(expected));
    assert!(merged_and_checked(&[v3(unit), v3(file)])[0].starts_with(expected));
}
