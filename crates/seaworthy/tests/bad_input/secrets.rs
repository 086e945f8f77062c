//! Secrets in files: what is planned, compared and explained is pasted into tickets, and what programs print is logged.

use serde_json::{Value, json};

use crate::program::{Program, machine_config};

const POOL: &str = r#"{"apiVersion":"machineconfiguration.openshift.io/v1","kind":"MachineConfigPool","metadata":{"name":"worker"},"spec":{"machineConfigSelector":{"matchLabels":{"machineconfiguration.openshift.io/role":"worker"}},"nodeSelector":{"matchLabels":{"node-role.kubernetes.io/worker":""}}}}"#;

fn config(files: &Value) -> String {
    let spec = json!({"config": {"ignition": {"version": "3.5.0"}, "storage": {"files": files}}});
    POOL.to_owned() + &machine_config(&spec.to_string())
}

fn file(path: &str, mode: u32, source: &str) -> Value {
    json!({"path": path, "mode": mode, "overwrite": true, "contents": {"source": source}})
}

/// Files with a secret each, and what must not be seen of it; the last has no secret.
fn secrets(word: &str) -> Value {
    json!([
        file("/etc/ssl/tls.key", 0o600, &format!("data:,-----BEGIN%20PRIVATE%20KEY-----%0A{word}%0A")),
        file("/etc/ssl/both.pem", 0o644, &format!("data:,cert%0A-----BEGIN%20EC%20PRIVATE%20KEY-----%0A{word}%0A")),
        file("/var/lib/kubelet/config.json", 0o644, &format!("data:,{word}")),
        file("/etc/token", 0o400, &format!("data:,{word}")),
        file("/etc/motd", 0o644, "data:,welcome%0A"),
    ])
}

/// The program with two versions of the manifests.
fn prepared() -> Program {
    let program = Program::new();
    program.file("old.json", config(&secrets("hunter2")));
    program.file("new.json", config(&secrets("open-sesame")));
    program
}

#[track_caller]
fn keeps_quiet(program: &Program, words: &[&str], code: i32) -> String {
    let outcome = program.run(words).expect(code);
    for secret in ["hunter2", "open-sesame", "PRIVATE", "aHVudGVyMg"] {
        assert!(!outcome.stdout.contains(secret), "{secret} in {}", outcome.stdout);
        assert!(!outcome.stderr.contains(secret), "{secret} in {}", outcome.stderr);
    }
    outcome.stdout
}

#[test]
fn contents_of_files_with_secrets_are_in_no_plan_difference_or_explanation() {
    let program = prepared();
    let diff = keeps_quiet(&program, &["diff", "-f", "old.json", "-f", "new.json"], 1);
    assert!(diff.contains("~ file /etc/token\n    contents: 7 bytes → 11 bytes, hidden\n"), "{diff}");
    let diff = keeps_quiet(&program, &["diff", "-f", "old.json", "-f", "new.json", "-o", "json"], 1);
    assert!(diff.contains("\"oldBytes\": 7") && diff.contains("\"old\": \"(hidden)\""), "{diff}");
    for more in [&[][..], &["--summary"], &["-o", "json"]] {
        let words = [&["plan", "--server-less", "-f", "new.json"], more].concat();
        let plan = keeps_quiet(&program, &words, 1);
        assert!(plan.contains("file /etc/token"), "{plan}");
    }
    for what in [&[][..], &["/etc/token"], &["/etc/ssl/both.pem"], &["50-worker"], &["files"]] {
        let words = [&["explain", "-f", "new.json"], what].concat();
        keeps_quiet(&program, &words, 0);
        keeps_quiet(&program, &[&words[..], &["-o", "json"]].concat(), 0);
    }
    let explained = keeps_quiet(&program, &["explain", "-f", "new.json", "/etc/token"], 0);
    assert!(explained.contains("  contents.source: 11 bytes, hidden\n"), "{explained}");
}

#[test]
fn secret_of_one_side_hides_both() {
    let program = Program::new();
    program.file("private.json", config(&json!([file("/etc/token", 0o600, "data:,hunter2")])));
    program.file("public.json", config(&json!([file("/etc/token", 0o644, "data:,open-sesame")])));
    program.file("link.json", {
        let links = json!([{"path": "/etc/token", "target": "/etc/motd"}]);
        let spec = json!({"config": {"ignition": {"version": "3.5.0"}, "storage": {"links": links}}});
        POOL.to_owned() + &machine_config(&spec.to_string())
    });
    for (old, new) in [("private", "public"), ("public", "private"), ("private", "link"), ("link", "private")] {
        let (old, new) = (format!("{old}.json"), format!("{new}.json"));
        keeps_quiet(&program, &["diff", "-f", &old, "-f", &new], 1);
        keeps_quiet(&program, &["diff", "-f", &old, "-f", &new, "-o", "json"], 1);
    }
    let later = machine_config(
        &json!({"config": {"ignition": {"version": "3.5.0"}, "storage": {"files": [
            file("/etc/token", 0o644, "data:,open-sesame"),
        ]}}})
        .to_string(),
    );
    let first = config(&json!([file("/etc/token", 0o600, "data:,hunter2")]));
    program.file("both.json", first + &later.replace("50-worker", "60-worker"));
    let explained = keeps_quiet(&program, &["explain", "-f", "both.json", "/etc/token"], 0);
    assert!(explained.contains("      7 bytes → 11 bytes, hidden\n"), "{explained}");
    keeps_quiet(&program, &["explain", "-f", "both.json", "-o", "json"], 0);
}

#[test]
fn render_and_world_readable_files_show_contents() {
    let program = prepared();
    assert!(program.run(["render", "-f", "old.json"]).expect(0).stdout.contains("hunter2"));
    program.file("later.json", config(&secrets("hunter2")).replace("welcome", "goodbye"));
    let diff = program.run(["diff", "-f", "old.json", "-f", "later.json"]).expect(1).stdout;
    assert!(diff.contains("-welcome\n") && diff.contains("+goodbye\n"), "{diff}");
}
