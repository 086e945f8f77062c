//! Fetch progress: reported while a fetch takes long, and once.

use std::fs::File;
use std::io::Read as _;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::json;

use crate::program::Program;
use crate::remote::loopback::{Server, closed_address, ok, response};
use crate::remote::{manifest, motd, render, render_with};

/// The lines of standard error that have this.
fn lines<'e>(stderr: &'e str, part: &str) -> Vec<&'e str> {
    stderr.lines().filter(|line| line.contains(part)).collect()
}

#[test]
fn a_server_that_is_not_there_is_named_with_attempts_cause_and_next_step() {
    let address = closed_address();
    let files = json!([
        {"path": "/a", "contents": {"source": format!("http://me:SECRET@{address}/motd?token=SECRET")}},
        {"path": "/b", "contents": {"source": format!("http://me:SECRET@{address}/motd?token=SECRET")}},
    ]);
    let outcome = render(&Program::new(), &manifest(json!({}), files)).expect(1);
    let url = format!("http://{address}/motd?token=…");
    let refused =
        format!("cannot connect to {address}: Connection refused (os error 111); start the server, or correct the URL");
    let errors = lines(&outcome.stderr, "error[RemoteFetchFailed]");
    assert_eq!(errors.len(), 2, "{}", outcome.stderr);
    let place = "MachineConfig 50-worker, spec.config.storage.files[0].contents.source";
    let end = format!("{place}: cannot fetch {url} in 5 attempts: {refused}");
    assert!(errors[0].ends_with(&end), "{}", outcome.stderr);
    // The line names what was waited for, and each is printed once.
    assert_eq!(lines(&outcome.stderr, "fetching "), [format!("note: fetching {url}")]);
    assert_eq!(lines(&outcome.stderr, "retrying "), [format!("note: retrying {url} for at most 10 s: {refused}")]);
    assert!(!outcome.stderr.contains("SECRET") && !outcome.stdout.contains("SECRET"), "{}", outcome.stderr);
}

#[test]
fn a_terminal_sees_at_once_what_is_fetched_and_why_it_is_tried_again() {
    let server = Server::start(|_, before| if before == 0 { response(503, &[], "") } else { ok("here\n") });
    let program = Program::new();
    program.file("manifest.json", motd(json!({"source": server.url("/motd").replace("http://", "http://me:SECRET@")})));
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    let terminal = File::options().read(true).write(true).open(&name).unwrap();
    let mut command = program.command(["render", "-f", "manifest.json", "-o", "name", "--allow-host", "127.0.0.1"]);
    let child = command.env("NO_COLOR", "1").stdout(Stdio::piped()).stderr(terminal).spawn().unwrap();
    drop(command);
    let output = child.wait_with_output().unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().starts_with("rendered-worker-"));
    let mut shown = Vec::new();
    // Reading fails once no process holds the terminal any more.
    let _ = File::from(master).read_to_end(&mut shown);
    let shown = String::from_utf8(shown).unwrap().replace("\r\n", "\n");
    let url = server.url("/motd");
    assert_eq!(lines(&shown, "fetching "), [format!("note: fetching {url}")]);
    let again = format!("note: retrying {url} for at most 60 s: the server answered 503 Service Unavailable");
    assert_eq!(lines(&shown, &again).len(), 1, "{shown}");
    assert!(!shown.contains("SECRET"), "{shown}");
}

#[test]
fn a_snapshot_that_is_used_again_is_named_once_per_url() {
    let server = Server::start(|_, _| ok("here\n"));
    let program = Program::new();
    let source = server.url("/motd").replace("http://", "http://me:SECRET@");
    // The same content, fetched for a key of its own each: one is packed with nothing, the other verified.
    let files = json!([
        {"path": "/a", "contents": {"source": source}},
        {"path": "/b", "contents": {"source": source, "verification": {"hash": crate::remote::hash(b"here\n")}}},
    ]);
    let text = manifest(json!({}), files);
    let first = render(&program, &text).expect(0);
    assert_eq!(lines(&first.stderr, "using the snapshot of"), [""; 0]);
    let digest = crate::remote::hash(b"here\n")["sha256-".len()..].chars().take(12).collect::<String>();
    for options in [&["--allow-host", "127.0.0.1"][..], &["--offline"]] {
        let outcome = render_with(&program, &text, options).expect(0);
        let notes = lines(&outcome.stderr, "using the snapshot of");
        assert_eq!(notes.len(), 1, "{}", outcome.stderr);
        let start = format!("note: using the snapshot of {} from 20", server.url("/motd"));
        assert!(notes[0].starts_with(&start), "{}", notes[0]);
        assert!(notes[0].ends_with(&format!("Z, sha256 {digest}…")), "{}", notes[0]);
    }
    assert_eq!(server.seen().len(), 2);
}

#[test]
fn many_snapshots_are_counted_and_not_all_named() {
    let server = Server::start(|_, _| ok("here\n"));
    let program = Program::new();
    let files: Vec<_> = (0..12)
        .map(|nth| json!({"path": format!("/{nth}"), "contents": {"source": server.url(&format!("/{nth}"))}}))
        .collect();
    let text = manifest(json!({}), json!(files));
    render(&program, &text).expect(0);
    let outcome = render(&program, &text).expect(0);
    assert_eq!(lines(&outcome.stderr, "using the snapshot of").len(), 10, "{}", outcome.stderr);
    outcome.says(&["note: using 2 more snapshots\n"]);
}

#[test]
fn one_host_is_recommended_once_and_in_the_error() {
    let server = Server::start(|_, _| ok(""));
    let files = json!([
        {"path": "/a", "contents": {"source": server.url("/a")}},
        {"path": "/b", "contents": {"source": server.url("/b")}},
    ]);
    let outcome = render_with(&Program::new(), &manifest(json!({}), files), &[]).expect(1);
    let hints = lines(&outcome.stderr, "--allow-host");
    let end = format!(
        "files[0].contents.source: cannot fetch {}: address 127.0.0.1 is refused: loopback; to allow this host, add --allow-host {}",
        server.url("/a"),
        server.address
    );
    assert!(hints.len() == 1 && hints[0].starts_with("error") && hints[0].ends_with(&end), "{}", outcome.stderr);
    assert_eq!(lines(&outcome.stderr, "is refused: loopback").len(), 2, "{}", outcome.stderr);
}
