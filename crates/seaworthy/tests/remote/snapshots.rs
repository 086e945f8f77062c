//! Snapshots: the same manifests always give the same result.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use crate::program::Program;
use crate::remote::loopback::{Server, ok};
use crate::remote::{files, motd, render, render_with, rendered};

/// A server whose content changes with the number.
fn changing() -> (Server, Arc<AtomicUsize>) {
    let version = Arc::new(AtomicUsize::new(1));
    let served = version.clone();
    (Server::start(move |_, _| ok(format!("version {}\n", served.load(Ordering::SeqCst)))), version)
}

fn name(outcome: &crate::program::Outcome) -> String {
    rendered(outcome)["metadata"]["name"].as_str().unwrap().to_owned()
}

#[test]
fn content_that_changes_on_the_server_changes_no_name() {
    let (server, version) = changing();
    let program = Program::new();
    let text = motd(json!({"source": server.url("/motd")}));
    let first = render(&program, &text).expect(0);
    version.store(2, Ordering::SeqCst);
    let second = render(&program, &text).expect(0);
    assert_eq!(second.stdout, first.stdout);
    assert_eq!(server.seen().len(), 1);
    // A user without the snapshot gets the new content, and so another name.
    let other = render(&Program::new(), &text).expect(0);
    assert_eq!(files(&other)[0].1, "version 2\n");
    assert_ne!(name(&other), name(&first));
}

#[test]
fn another_spec_or_another_refresh_annotation_fetches_again() {
    let (server, version) = changing();
    let program = Program::new();
    let text = motd(json!({"source": server.url("/motd")}));
    let refreshed = text.replace(r#""metadata":{"#, r#""metadata":{"annotations":{"seaworthy.dev/refresh":"monday"},"#);
    let again = refreshed.replace("monday", "tuesday");
    let edited = text.replace(r#""spec":{"#, r#""spec":{"kernelArguments":["quiet"],"#);
    for (nth, text) in [&text, &refreshed, &again, &edited].into_iter().enumerate() {
        version.store(nth + 1, Ordering::SeqCst);
        assert_eq!(files(&render(&program, text).expect(0))[0].1, format!("version {}\n", nth + 1));
    }
    assert_eq!(server.seen().len(), 4);
    // Each of them is remembered on its own.
    assert_eq!(files(&render(&program, &text).expect(0))[0].1, "version 1\n");
    assert_eq!(server.seen().len(), 4);
}

#[test]
fn another_label_or_annotation_fetches_nothing() {
    let (server, _) = changing();
    let program = Program::new();
    let text = motd(json!({"source": server.url("/motd")}));
    render(&program, &text).expect(0);
    let labelled = text.replace(r#""labels":{"#, r#""annotations":{"note":"x"},"labels":{"tier":"web","#);
    render(&program, &labelled).expect(0);
    assert_eq!(server.seen().len(), 1);
}

#[test]
fn without_snapshots_everything_is_fetched_and_nothing_kept() {
    let (server, version) = changing();
    let program = Program::new();
    let text = motd(json!({"source": server.url("/motd")}));
    for nth in 1..=2 {
        version.store(nth, Ordering::SeqCst);
        let outcome = render_with(&program, &text, &["--allow-host", "127.0.0.1", "--no-snapshots"]).expect(0);
        assert_eq!(files(&outcome)[0].1, format!("version {nth}\n"));
    }
    assert!(!program.snapshots().exists());
}

#[test]
fn offline_needs_a_snapshot_and_then_gives_the_same() {
    let (server, version) = changing();
    let program = Program::new();
    let text = motd(json!({"source": server.url("/motd")}));
    let outcome = render_with(&program, &text, &["--offline"]).expect(1);
    outcome.says(&["MachineConfig 50-worker", &server.url("/motd"), "no snapshot found", "run once without --offline"]);
    assert_eq!(server.seen().len(), 0);
    let online = render(&program, &text).expect(0);
    version.store(2, Ordering::SeqCst);
    let offline = render_with(&program, &text, &["--offline"]).expect(0);
    assert_eq!(offline.stdout, online.stdout);
    assert_eq!(server.seen().len(), 1);
}

#[test]
fn a_chain_of_configs_is_resolved_offline_too() {
    let server = Server::start(|seen, _| match seen.target.as_str() {
        "/a.ign" => {
            let body = format!("http://{}/body", seen.header("host").unwrap());
            ok(json!({"ignition": {"version": "3.4.0"}, "storage": {"files": [{"path": "/etc/b", "contents": {"source": body}}]}}).to_string())
        }
        _ => ok("the body\n"),
    });
    let program = Program::new();
    let text = crate::remote::manifest(json!({"config": {"merge": [{"source": server.url("/a.ign")}]}}), json!([]));
    let online = render(&program, &text).expect(0);
    let offline = render_with(&program, &text, &["--offline"]).expect(0);
    assert_eq!(offline.stdout, online.stdout);
    assert_eq!(server.seen().len(), 2);
}

#[test]
fn only_their_owner_reads_snapshots() {
    let (server, _) = changing();
    let program = Program::new();
    render(&program, &motd(json!({"source": server.url("/motd")}))).expect(0);
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&program.snapshots()), 0o700);
    let entries: Vec<_> = std::fs::read_dir(program.snapshots()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(entries.len(), 1);
    assert_eq!(mode(&entries[0]), 0o600);
}

#[test]
fn a_folder_that_others_can_read_is_refused_when_it_was_asked_for() {
    let (server, _) = changing();
    let program = Program::new();
    std::fs::create_dir(program.path("open")).unwrap();
    std::fs::set_permissions(program.path("open"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let text = motd(json!({"source": server.url("/motd")}));
    let outcome = render_with(&program, &text, &["--allow-host", "127.0.0.1", "--snapshots", "open"]).expect(2);
    outcome.says(&["open", "0755"]);
    assert_eq!(server.seen().len(), 0);
}

#[test]
fn a_cache_that_cannot_be_used_does_not_stop_the_work() {
    let (server, _) = changing();
    let program = Program::new();
    program.file(".cache", "not a folder");
    let outcome = render(&program, &motd(json!({"source": server.url("/motd")}))).expect(0);
    assert_eq!(files(&outcome)[0].1, "version 1\n");
    outcome.says(&["warning: ", ".cache/seaworthy/snapshots", "--snapshots"]);
}

#[test]
fn the_cache_folder_is_where_the_environment_says() {
    let (server, _) = changing();
    let program = Program::new();
    program.file("manifest.json", motd(json!({"source": server.url("/motd")})));
    let mut command = program.command(["render", "-f", "manifest.json", "--allow-host", "127.0.0.1"]);
    let status = command.env("XDG_CACHE_HOME", program.path("xdg")).output().unwrap().status;
    assert!(status.success());
    assert_eq!(std::fs::read_dir(program.path("xdg/seaworthy/snapshots")).unwrap().count(), 1);
    assert!(!program.snapshots().exists());
}

#[test]
fn a_damaged_snapshot_is_fetched_again_with_a_warning() {
    let (server, version) = changing();
    let program = Program::new();
    let text = motd(json!({"source": server.url("/motd")}));
    render(&program, &text).expect(0);
    let entry = std::fs::read_dir(program.snapshots()).unwrap().next().unwrap().unwrap().path();
    let kept = std::fs::read_to_string(&entry).unwrap();
    std::fs::write(&entry, kept.replace("version 1", "version 9")).unwrap();
    version.store(2, Ordering::SeqCst);
    let offline = render_with(&program, &text, &["--offline"]).expect(1);
    offline.says(&["warning: ", "MachineConfig 50-worker"]);
    let outcome = render(&program, &text).expect(0);
    assert_eq!(files(&outcome)[0].1, "version 2\n");
    outcome.says(&["warning: "]);
}
