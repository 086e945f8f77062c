//! Fetch policy: which addresses content may come from.

use serde_json::json;

use crate::program::Program;
use crate::remote::loopback::{Server, ok, redirect};
use crate::remote::{files, motd, render_with};

#[test]
fn loopback_is_refused_until_it_is_allowed() {
    let server = Server::start(|_, _| ok("here\n"));
    let text = motd(json!({"source": server.url("/motd")}));
    let program = Program::new();
    let address = server.address.to_string();
    let outcome = render_with(&program, &text, &[]).expect(1);
    outcome.says(&["MachineConfig 50-worker", &server.url("/motd"), "is refused", &format!("--allow-host {address}")]);
    assert_eq!(server.seen().len(), 0);
    // The message says what to add, and that is enough.
    let outcome = render_with(&program, &text, &["--allow-host", &address]).expect(0);
    assert_eq!(files(&outcome)[0].1, "here\n");
}

#[test]
fn a_host_that_is_allowed_allows_no_other_port() {
    let (server, other) = (Server::start(|_, _| ok("")), Server::start(|_, _| ok("")));
    let text = motd(json!({"source": other.url("/")}));
    render_with(&Program::new(), &text, &["--allow-host", &server.address.to_string()]).expect(1).says(&["is refused"]);
    assert_eq!(other.seen().len(), 0);
}

#[test]
fn the_addresses_of_clouds_are_refused_whatever_they_are_called() {
    for url in [
        "http://169.254.169.254/latest/meta-data/",
        "http://[fd00:ec2::254]/latest/",
        "http://localhost:1/",
        "http://2130706433:1/",
        "http://0x7f.1:1/",
        "http://[::ffff:127.0.0.1]:1/",
        "http://[::1]:1/",
        "http://0.0.0.0:1/",
        "http://metadata.google.internal/",
    ] {
        let outcome = render_with(&Program::new(), &motd(json!({"source": url})), &[]).expect(1);
        outcome.says(&["MachineConfig 50-worker", "is refused", "--allow-host"]);
    }
}

#[test]
fn redirects_are_followed_where_they_are_allowed() {
    let target = Server::start(|_, _| ok("moved\n"));
    let to = target.url("/new");
    let server = Server::start(move |_, _| redirect(&to));
    let outcome =
        render_with(&Program::new(), &motd(json!({"source": server.url("/old")})), &["--allow-host", "127.0.0.1"]);
    assert_eq!(files(&outcome.expect(0))[0].1, "moved\n");
}

#[test]
fn redirects_to_refused_addresses_are_refused() {
    let target = Server::start(|_, _| ok("moved\n"));
    for to in [target.url("/"), "http://169.254.169.254/latest/".to_owned()] {
        let shown = to.clone();
        let server = Server::start(move |_, _| redirect(&to));
        let text = motd(json!({"source": server.url("/old")}));
        let outcome = render_with(&Program::new(), &text, &["--allow-host", &server.address.to_string()]).expect(1);
        outcome.says(&[&server.url("/old"), &format!("redirected to {shown}"), "is refused"]);
    }
    assert_eq!(target.seen().len(), 0);
}

#[test]
fn redirects_without_end_are_given_up() {
    let server = Server::start(|seen, _| redirect(&format!("{}x", seen.target)));
    let text = motd(json!({"source": server.url("/")}));
    render_with(&Program::new(), &text, &["--allow-host", "127.0.0.1"]).expect(1).says(&["redirect"]);
    assert!(server.seen().len() < 20);
}

#[test]
fn a_host_that_is_none_is_refused_before_anything_is_read() {
    let program = Program::new();
    let outcome = render_with(&program, "not even JSON", &["--allow-host", "http://mirror/"]).expect(2);
    outcome.says(&["\"http://mirror/\" is not a host to allow", "it is a URL"]);
}
