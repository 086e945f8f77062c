//! Secrets that must never be printed.

use serde_json::{Value, json};

use crate::program::{Outcome, Program};
use crate::remote::loopback::{Server, closed_address, ok, redirect, response};
use crate::remote::{hash, impatient, manifest, render};

const SECRETS: [&str; 4] = ["hunter2", "open-sesame", "c2lnbmVk", "dG9rZW4"];

/// A URL with a password and a signature in it.
fn secret_url(server: &str) -> String {
    let rest = server.strip_prefix("http://").unwrap();
    format!("http://admin:hunter2@{rest}?X-Amz-Signature=c2lnbmVk&token=dG9rZW4#c2lnbmVk")
}

fn contents(url: &str, more: Value) -> String {
    let mut contents = json!({
        "source": url,
        "httpHeaders": [{"name": "Authorization", "value": "Bearer open-sesame"}],
    });
    contents.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    manifest(impatient(), json!([{"path": "/etc/motd", "contents": contents}]))
}

#[track_caller]
fn keeps_quiet(outcome: &Outcome) {
    for secret in SECRETS {
        assert!(!outcome.stdout.contains(secret), "{secret} in {}", outcome.stdout);
        assert!(!outcome.stderr.contains(secret), "{secret} in {}", outcome.stderr);
    }
}

#[test]
fn failures_show_no_secrets() {
    let missing = Server::start(|_, _| response(404, &[], "hunter2"));
    let denied = Server::start(|_, _| response(403, &[("www-authenticate", "open-sesame")], "hunter2"));
    let broken = Server::start(|_, _| response(500, &[], "hunter2"));
    let other = Server::start(|_, _| ok("other"));
    let elsewhere = Server::start(|_, _| redirect("http://root:hunter2@169.254.169.254/?token=dG9rZW4"));
    let gone = format!("http://{}/motd", closed_address());
    for (url, more) in [
        (missing.url("/motd"), json!({})),
        (denied.url("/motd"), json!({})),
        (broken.url("/motd"), json!({})),
        (other.url("/motd"), json!({"verification": {"hash": hash(b"x")}})),
        (other.url("/motd"), json!({"compression": "gzip"})),
        (elsewhere.url("/motd"), json!({})),
        (gone, json!({})),
        ("http://169.254.169.254/motd".to_owned(), json!({})),
    ] {
        let outcome = render(&Program::new(), &contents(&secret_url(&url), more)).expect(1);
        keeps_quiet(&outcome);
        outcome.says(&["MachineConfig 50-worker, spec.config.storage.files[0].contents.source", "/motd"]);
    }
}

#[test]
fn offline_and_unsupported_schemes_show_no_secrets() {
    let program = Program::new();
    program.file("manifest.json", contents("https://admin:hunter2@mirror.example/motd?token=dG9rZW4", json!({})));
    let outcome = program.run(["render", "-f", "manifest.json", "--offline"]).expect(1);
    keeps_quiet(&outcome);
    outcome.says(&["https://", "mirror.example/motd"]);
    let tftp = manifest(
        json!({}),
        json!([{"path": "/a", "contents": {"source": "tftp://admin:hunter2@mirror.example/motd"}}]),
    );
    keeps_quiet(&render(&Program::new(), &tftp).expect(1));
}

#[test]
fn success_prints_no_secrets() {
    let server = Server::start(|_, _| ok("fine\n"));
    let program = Program::new();
    let outcome = render(&program, &contents(&secret_url(&server.url("/motd")), json!({}))).expect(0);
    keeps_quiet(&outcome);
    // What is sent is another matter.
    assert_eq!(server.seen()[0].header("authorization"), Some("Bearer open-sesame"));
    assert!(server.seen()[0].target.contains("X-Amz-Signature=c2lnbmVk"));
    for entry in std::fs::read_dir(program.snapshots()).unwrap() {
        let kept = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(SECRETS.iter().all(|secret| !kept.contains(secret)), "{kept}");
    }
}

#[test]
fn differences_show_no_secrets() {
    let program = Program::new();
    // As the operator of old renders it: with references.
    let text =
        contents(&secret_url("http://mirror.example/motd"), json!({})).replace("50-worker", "rendered-worker-0123");
    let text = text.replace(r#""timeouts":"#, r#""proxy":{"httpProxy":"http://me:hunter2@proxy:3128"},"timeouts":"#);
    program.file("old.json", &text);
    program.file(
        "new.json",
        text.replace("example/motd", "example/issue")
            .replace("open-sesame", "open-sesame-again")
            .replace("3128", "3129"),
    );
    let outcome = program.run(["diff", "-f", "old.json", "-f", "new.json"]).expect(1);
    keeps_quiet(&outcome);
    assert!(
        outcome.stdout.contains("contents.httpHeaders.Authorization.value: (hidden) → (hidden)"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn findings_show_no_secrets() {
    let program = Program::new();
    program.file("manifest.json", contents(&secret_url("http://mirror.example/motd"), json!({})));
    keeps_quiet(&program.run(["lint", "-f", "manifest.json"]).expect(0));
    keeps_quiet(&program.run(["lint", "-f", "manifest.json", "-o", "json"]).expect(0));
}
