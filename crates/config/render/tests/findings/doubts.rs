//! Warnings about what upstream accepts silently and machines cannot use.

use seaworthy_ignition::Severity;
use serde_json::{Value, json};

use crate::findings::assert_gist;
use crate::support::*;

const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHhcFiKMP64BnbjatY23LJDtkoqCZr5vbbjUO3Qi6ZA3 me@host";

fn users(users: Value) -> Value {
    json!({"passwd": {"users": users}})
}

// === Packed bodies ===

#[test]
fn embedded_content_that_is_called_gzip_and_is_not_is_a_warning() {
    let body = json!([{"path": "/etc/x", "contents": {"source": "data:,plain", "compression": "gzip"}}]);
    let outcome = rendered(&worker(), &[ign("00", files(body))]);
    let finding = outcome.only("not-gzip");
    assert_gist(finding, Severity::Warning, "", &["00 spec.config.storage.files[0].contents.compression"]);
    assert!(finding.message.contains("drop compression if the content is plain"), "{finding}");
}

#[test]
fn embedded_content_that_is_packed_is_no_finding() {
    let packed = "data:;base64,H4sIAAAAAAACAytITM5OTVEoSa0oAQAM9ArSCwAAAA==";
    for source in [packed, "data:,"] {
        let body = json!([{"path": "/etc/x", "contents": {"source": source, "compression": "gzip"}}]);
        let outcome = rendered(&worker(), &[ign("00", files(body))]);
        assert!(outcome.coded("not-gzip").is_empty());
    }
}

// === Paths ===

#[test]
fn what_lies_below_a_file_is_a_warning_that_names_both() {
    let inputs = [
        ign("00", files(json!([file("/etc/y", "data:,"), file("/etc/yz", "data:,")]))),
        ign("01", files(json!([file("/etc/y/a/z", "data:,")]))),
    ];
    let outcome = rendered(&worker(), &inputs);
    assert_gist(
        outcome.only("path-below-file"),
        Severity::Warning,
        "file /etc/y",
        &["00 spec.config.storage.files[0]", "01 spec.config.storage.files[0]"],
    );
}

// === Kernel arguments ===

#[test]
fn an_empty_kernel_argument_and_blanks_at_the_ends_of_one_are_warnings() {
    for (argument, expected) in [("", "is empty"), (" ", "is empty"), ("quiet ", "has leading or trailing spaces")] {
        let outcome = rendered(&worker(), &[mc("00", json!({"kernelArguments": ["a=b c", argument]}))]);
        let finding = outcome.only("blank-argument");
        assert_gist(finding, Severity::Warning, "", &["00 spec.kernelArguments[1]"]);
        assert!(finding.message.contains(expected), "{finding}");
    }
}

// === Users ===

#[test]
fn an_ssh_key_that_is_none_is_a_warning_and_is_not_shown() {
    let private = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk";
    for (key, expected) in
        [("hunter2", "not an SSH public key"), ("", "not an SSH public key"), (private, "replace the key pair")]
    {
        let keys = json!([{"name": "core", "sshAuthorizedKeys": [KEY, key]}]);
        let outcome = rendered(&worker(), &[ign("00", users(keys))]);
        let finding = outcome.only("ssh-key");
        assert_gist(finding, Severity::Warning, "", &["00 spec.config.passwd.users[0].sshAuthorizedKeys[1]"]);
        assert!(finding.message.contains(expected) && !finding.message.contains("b3Blb"), "{finding}");
        assert!(!finding.message.contains("hunter2"), "{finding}");
    }
}

#[test]
fn a_key_with_options_is_a_key() {
    let key = format!("from=\"10.0.0.0/8\",command=\"uptime -p\" {KEY}");
    let keys = json!([{"name": "core", "sshAuthorizedKeys": [key], "passwordHash": "$6$x"}]);
    let outcome = rendered(&worker(), &[ign("00", users(keys))]);
    assert!(outcome.coded("ssh-key").is_empty() && outcome.coded("user-fixed").is_empty());
}

#[test]
fn users_that_running_machines_refuse_are_warnings() {
    for (user, subject) in [
        (json!({"name": "bob", "sshAuthorizedKeys": [KEY]}), "user bob"),
        (json!({"name": "core", "sshAuthorizedKeys": [KEY], "homeDir": "/var/core"}), "user core"),
    ] {
        let outcome = rendered(&worker(), &[ign("00", users(json!([user])))]);
        assert_gist(outcome.only("user-fixed"), Severity::Warning, subject, &["00 spec.config.passwd.users[0]"]);
    }
}

// === Metadata ===

#[test]
fn a_namespace_is_worth_knowing() {
    let mut input = mc("00", json!({"fips": true}));
    input["metadata"]["namespace"] = "default".into();
    assert_gist(rendered(&worker(), &[input]).only("namespace"), Severity::Info, "", &["00 metadata.namespace"]);
}

// === Modes ===

#[test]
fn a_mode_that_is_none_is_one_error() {
    let input = ign("00", files(json!([{"path": "/a", "mode": 99999, "contents": {"source": "data:,"}}])));
    let findings = refused(&worker(), &[input]);
    let finding = one(&findings);
    assert_eq!(finding.code, "file-mode");
    assert!(finding.message.contains("cannot exceed 0777: write an octal number such as 0644 in YAML"), "{finding}");
}

// === Defaults ===

#[test]
fn an_error_about_a_default_names_it_as_one() {
    let findings = refused(&worker(), &[ign("00", files(json!([{"path": "/a", "mode": 420}])))]);
    let finding = one(&findings);
    assert_eq!(finding.code, "overwrite-without-source");
    assert!(finding.message.contains("no MachineConfig sets overwrite"), "{finding}");
    let written = ign("00", files(json!([{"path": "/a", "append": [{"source": "data:,"}], "overwrite": false}])));
    rendered(&worker(), &[written]);
}

#[test]
fn an_unfilled_placeholder_is_distinguished_from_a_wrong_name() {
    let outcome = rendered(&worker(), &[mc("{{ .Release.Name }}", json!({"fips": true}))]);
    let finding = outcome.only("invalid-name");
    assert!(finding.message.contains("looks like a template; render it first"), "{finding}");
}
