//! Values of remote configs point to the URL and the path there.

use seaworthy_fetch::Digest;
use seaworthy_ignition::Severity;
use serde_json::json;

use crate::remote::{Web, merging, referring};
use crate::support::*;

#[test]
fn a_value_of_a_remote_config_points_to_its_url_and_path() {
    let web = Web::default()
        .config("https://u:secret@h/r", merging(&["https://h/deep"]))
        .config("https://h/deep", json!({
            "storage": {"files": [file("/x", "data:,x"), {"path": "/a", "contents": {"source": "data:,a"}, "mode": 384}]},
            "systemd": {"units": [{"name": "a.service", "enabled": true}]},
        }));
    let outcome = web.render(&[referring(&["https://u:secret@h/r"], json!({}))]);
    let at = |subject: &str, field: &str| place(outcome.line(subject, field).set_by.as_ref().unwrap());
    assert_eq!(at("file /a", "mode"), "00 storage.files[1].mode (https://h/deep)");
    assert_eq!(at("file /a", "contents.source"), "00 storage.files[1].contents.source (https://h/deep)");
    assert_eq!(at("unit a.service", "enabled"), "00 systemd.units[0].enabled (https://h/deep)");
}

#[test]
fn an_embedded_body_points_to_the_reference() {
    let web = Web::default()
        .config("https://h/r", files(json!([file("/remote", "https://h/1")])))
        .with("https://h/1", "1")
        .with("https://h/2", "2");
    let outcome = web.render(&[referring(&["https://h/r"], json!({"files": [file("/local", "https://h/2")]}))]);
    let at = |subject: &str| place(outcome.line(subject, "contents.source").set_by.as_ref().unwrap());
    assert_eq!(at("file /remote"), "00 storage.files[0].contents.source (https://h/r)");
    assert_eq!(at("file /local"), "00 spec.config.storage.files[0].contents.source");
    assert_eq!(outcome.line("file /remote", "contents.compression").set_by, None);
}

#[test]
fn a_local_value_that_a_remote_one_overrode_is_remembered() {
    let web = Web::default().config("https://h/r", files(json!([{"path": "/a", "mode": 2}])));
    let local = json!({"files": [{"path": "/a", "contents": {"source": "data:,x"}, "mode": 1}]});
    let outcome = web.render(&[referring(&["https://h/r"], local)]);
    let mode = outcome.line("file /a", "mode");
    assert_eq!(place(mode.set_by.as_ref().unwrap()), "00 storage.files[0].mode (https://h/r)");
    let overrode: Vec<_> = mode.overrode.iter().map(|(at, value)| (place(at), value.clone())).collect();
    assert_eq!(overrode, [("00 spec.config.storage.files[0].mode".to_owned(), Some(json!(1)))]);
    // It is one author's own doing and no conflict.
    assert_eq!(outcome.findings, []);
}

#[test]
fn a_conflict_with_a_remote_config_names_its_url() {
    let web = Web::default().config("https://u:secret@h/r", files(json!([file("/a", "data:,remote")])));
    let inputs =
        [referring(&["https://u:secret@h/r"], json!({})), ign("01", files(json!([file("/a", "data:,later")])))];
    let outcome = web.render(&inputs);
    let finding = outcome.only("conflict");
    assert_eq!(finding.severity, Severity::Warning);
    assert_eq!(finding.subject, "file /a");
    assert_eq!(
        places(finding),
        ["01 spec.config.storage.files[0].contents.source", "00 storage.files[0].contents.source (https://h/r)",]
    );
    let text = finding.to_string();
    assert!(text.contains("MachineConfig 00, storage.files[0].contents.source (in https://h/r)"), "{text}");
    assert_eq!(finding.to_json()["places"][1]["remote"], "https://h/r");
}

#[test]
fn a_fetched_value_has_url_digest_and_time() {
    let web = Web::default()
        .config(
            "https://u:secret@h/r?token=secret",
            files(json!([file("/remote", "https://h/1"), {"path": "/mode", "mode": 384, "contents": {"source": "data:,m"}}])),
        )
        .with("https://h/1", "1")
        .with("https://u:secret@h/2", "2");
    let local = json!({"files": [file("/local", "https://u:secret@h/2"), file("/plain", "data:,p")]});
    let outcome = web.render(&[referring(&["https://u:secret@h/r?token=secret"], local)]);
    let fetched = |subject: &str, field: &str| outcome.line(subject, field).fetched.clone();
    let local = fetched("file /local", "contents.source").unwrap();
    assert_eq!(local.url, "https://h/2");
    assert_eq!(local.digest, Digest::sha256(b"2").to_string());
    assert_eq!(local.fetched_at_utc(), "2023-11-14T22:13:20Z");
    // A body that a remote config refers to is the body's, every other value there is the config's.
    assert_eq!(fetched("file /remote", "contents.source").unwrap().url, "https://h/1");
    assert_eq!(fetched("file /mode", "mode").unwrap().url, "https://h/r?token=…");
    assert_eq!(fetched("file /plain", "contents.source"), None);
    assert_eq!(fetched("file /local", "path"), None);
}

#[test]
fn an_overridden_body_names_what_was_fetched_for_it() {
    let web = Web::default().with("https://h/1", "1");
    let manifests =
        [ign("00", files(json!([file("/a", "https://h/1")]))), ign("01", files(json!([file("/a", "data:,later")])))];
    let outcome = web.render(&manifests);
    let line = outcome.line("file /a", "contents.source");
    assert_eq!(line.fetched, None);
    assert_eq!(line.lost[0].as_ref().map(|lost| lost.url.as_str()), Some("https://h/1"));
}
