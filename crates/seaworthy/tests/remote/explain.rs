//! `explain` and `diff` of fetched content.

use serde_json::json;

use crate::program::Program;
use crate::remote::loopback::{Server, ok};
use crate::remote::{hash, manifest, motd};

const ALLOW: [&str; 2] = ["--allow-host", "127.0.0.1"];

/// A URL with a password and a token in it.
fn secret_url(server: &Server, path: &str) -> String {
    server.url(path).replace("http://", "http://me:hunter2@") + "?token=hunter2"
}

#[test]
fn explain_says_where_content_was_fetched_from_and_when() {
    let server = Server::start(|_, _| ok("fetched\n"));
    let program = Program::new();
    program.file("m.json", motd(json!({"source": secret_url(&server, "/motd")})));
    let outcome = program.run([&["explain", "-f", "m.json", "/etc/motd"][..], &ALLOW].concat()).expect(0);
    let line = outcome.stdout.lines().find(|line| line.contains("fetched from")).unwrap();
    let (before, after) = line.split_once(" at 2").unwrap();
    assert_eq!(before, format!("    fetched from {}?token=…", server.url("/motd")));
    assert!(after.ends_with(&format!("Z, {}", hash(b"fetched\n"))), "{line}");
    assert!(outcome.stdout.contains("      |fetched\n"), "{}", outcome.stdout);
    assert!(!outcome.stdout.contains("hunter2"), "{}", outcome.stdout);

    let outcome = program.run([&["explain", "-f", "m.json", "/etc/motd", "-o", "json"][..], &ALLOW].concat()).expect(0);
    let json = outcome.json();
    let entries = json["entries"].as_array().unwrap();
    let source = entries.iter().find(|entry| entry["field"] == "contents.source").unwrap();
    assert_eq!(source["fetched"]["url"], format!("{}?token=…", server.url("/motd")));
    assert_eq!(source["fetched"]["digest"], hash(b"fetched\n"));
    assert!(source["fetched"]["fetchedAt"].as_str().unwrap().ends_with('Z'), "{source}");
    assert_eq!(source["default"], false);
    let compression = entries.iter().find(|entry| entry["field"] == "contents.compression").unwrap();
    assert_eq!((&compression["default"], &compression["setBy"]), (&json!(true), &json!(null)));
    assert!(!outcome.stdout.contains("hunter2"), "{}", outcome.stdout);
}

#[test]
fn explain_says_what_was_fetched_for_whom_it_overrides_without_the_password() {
    let server = Server::start(|_, _| ok("fetched\n"));
    let program = Program::new();
    let own = motd(json!({"source": "data:,own%0A"})).replace("50-worker", "60-worker");
    program.file("m.json", motd(json!({"source": secret_url(&server, "/motd")})) + &own);
    for format in ["text", "json"] {
        let args = [&["explain", "-f", "m.json", "/etc/motd", "-o", format][..], &ALLOW].concat();
        let outcome = program.run(args).expect(0);
        assert!(outcome.stdout.contains(&server.url("/motd?token=…")), "{}", outcome.stdout);
        assert!(outcome.stdout.contains(&hash(b"fetched\n")), "{}", outcome.stdout);
        assert!(!outcome.stdout.contains("hunter2"), "{}", outcome.stdout);
    }
}

#[test]
fn remote_config_is_printed_once_for_each_entry_it_sets() {
    let config = json!({
        "ignition": {"version": "3.5.0"},
        "storage": {"files": [{"path": "/a", "mode": 384, "contents": {"source": "data:,a"}}]},
    });
    let text = config.to_string();
    let server = Server::start(move |_, _| ok(&text));
    let program = Program::new();
    program.file("m.json", manifest(json!({"config": {"merge": [{"source": server.url("/c")}]}}), json!([])));
    let outcome = program.run([&["explain", "-f", "m.json", "/a"][..], &ALLOW].concat()).expect(0);
    assert_eq!(outcome.stdout.matches("fetched from").count(), 1, "{}", outcome.stdout);
    // Path, mode, contents, and the entry that says nothing about overwriting.
    assert_eq!(outcome.stdout.matches(&format!("(in {})", server.url("/c"))).count(), 4, "{}", outcome.stdout);
}

#[test]
fn references_that_are_compared_as_they_are_show_no_passwords() {
    let program = Program::new();
    let headers = |value: &str| json!([{"name": "Authorization", "value": value}]);
    let source = |password: &str| format!("https://me:{password}@files.example.org/motd?token={password}");
    // As the operator of old renders them: with references.
    let rendered = |password: &str| {
        motd(json!({"source": source(password), "httpHeaders": headers(password)}))
            .replace("50-worker", "rendered-worker-0123")
    };
    program.file("old.json", rendered("hunter2"));
    program.file("new.json", rendered("hunter3"));
    let outcome = program.run(["diff", "-f", "old.json", "-f", "new.json"]).expect(1);
    assert!(outcome.stdout.contains("https://files.example.org/motd?token=…"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("with a difference in the part not shown"), "{}", outcome.stdout);
    assert!(!outcome.stdout.contains("hunter"), "{}", outcome.stdout);
}
