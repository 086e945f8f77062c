//! Contents that are fetched, verified and embedded.

use std::io::Write as _;

use serde_json::json;

use crate::program::{Program, machine_config};
use crate::remote::loopback::{Server, ok, response};
use crate::remote::{decoded, files, hash, manifest, motd, render, rendered};

#[test]
fn content_is_embedded_and_nothing_of_the_reference_is_left() {
    let server = Server::start(|_, _| ok("Welcome\n"));
    let program = Program::new();
    let contents = json!({
        "source": server.url("/motd"),
        "verification": {"hash": hash(b"Welcome\n")},
        "httpHeaders": [{"name": "X-Team", "value": "fleet"}],
    });
    let outcome = render(&program, &motd(contents)).expect(0);
    let object = rendered(&outcome);
    let file = &object["spec"]["config"]["storage"]["files"][0];
    assert_eq!(decoded(&file["contents"]["source"]), "Welcome\n");
    // Its compression is explicit, so that nothing can be inherited; hash and headers have done their work.
    assert_eq!(file["contents"].as_object().unwrap().keys().collect::<Vec<_>>(), ["compression", "source"]);
    assert_eq!(file["contents"]["compression"], "");
    assert_eq!(file["mode"], 420);
    let text = outcome.stdout.replace(&format!("\"url\\\":\\\"{}", server.url("/motd")), "");
    assert!(!text.contains("X-Team") && !text.contains("httpHeaders"), "{text}");
    assert_eq!(server.seen().len(), 1);
}

#[test]
fn rendered_object_records_where_content_came_from() {
    let server = Server::start(|_, _| ok("Welcome\n"));
    let program = Program::new();
    let outcome = render(&program, &motd(json!({"source": server.url("/motd?x=1")}))).expect(0);
    let object = rendered(&outcome);
    let record = object["metadata"]["annotations"]["seaworthy.dev/remote-content"].as_str().unwrap();
    assert!(record.contains(&server.url("/motd")), "{record}");
    assert!(record.contains(&hash(b"Welcome\n")), "{record}");
    assert!(record.contains("50-worker"), "{record}");
}

#[test]
fn headers_are_sent_as_given() {
    let server = Server::start(|seen, _| match seen.header("authorization") {
        Some("Bearer open-sesame") => ok("inside\n"),
        _ => response(401, &[], ""),
    });
    let program = Program::new();
    let contents = json!({
        "source": server.url("/"),
        "httpHeaders": [{"name": "Authorization", "value": "Bearer open-sesame"}],
    });
    let outcome = render(&program, &motd(contents)).expect(0);
    assert_eq!(files(&outcome)[0].1, "inside\n");
    assert_eq!(server.seen()[0].method, "GET");
}

#[test]
fn a_packed_content_is_unpacked_before_it_is_verified() {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packer.write_all(b"packed\n").unwrap();
    let packed = packer.finish().unwrap();
    let server = Server::start(move |_, _| ok(&packed));
    let program = Program::new();
    let contents =
        json!({"source": server.url("/"), "compression": "gzip", "verification": {"hash": hash(b"packed\n")}});
    let outcome = render(&program, &motd(contents)).expect(0);
    assert_eq!(files(&outcome)[0].1, "packed\n");
    assert_eq!(rendered(&outcome)["spec"]["config"]["storage"]["files"][0]["contents"]["compression"], "");
}

#[test]
fn contents_appends_and_key_files_are_all_embedded() {
    let server = Server::start(|seen, _| ok(&seen.target));
    let program = Program::new();
    let url = |path: &str| server.url(path);
    let mut object: serde_json::Value = serde_json::from_str(&manifest(
        json!({}),
        json!([{
            "path": "/etc/a",
            "overwrite": false,
            "contents": {"source": url("/contents")},
            "append": [{"source": url("/first")}, {"source": "data:,local"}, {"source": url("/second")}],
        }]),
    ))
    .unwrap();
    object["spec"]["config"]["storage"]["luks"] =
        json!([{"name": "data", "device": "/dev/sdb", "keyFile": {"source": url("/key")}}]);
    let outcome = render(&program, &object.to_string()).expect(0);
    let storage = rendered(&outcome)["spec"]["config"]["storage"].clone();
    assert_eq!(decoded(&storage["files"][0]["contents"]["source"]), "/contents");
    let append: Vec<_> =
        storage["files"][0]["append"].as_array().unwrap().iter().map(|a| decoded(&a["source"])).collect();
    assert_eq!(append, ["/first", "local", "/second"]);
    assert_eq!(decoded(&storage["luks"][0]["keyFile"]["source"]), "/key");
}

#[test]
fn an_empty_answer_is_an_empty_file() {
    let server = Server::start(|_, _| response(204, &[], ""));
    let outcome = render(&Program::new(), &motd(json!({"source": server.url("/")}))).expect(0);
    assert_eq!(files(&outcome)[0].1, "");
}

#[test]
fn a_server_that_stumbles_is_asked_again() {
    let server = Server::start(|_, before| if before == 0 { response(503, &[], "") } else { ok("up again\n") });
    let outcome = render(&Program::new(), &motd(json!({"source": server.url("/")}))).expect(0);
    assert_eq!(files(&outcome)[0].1, "up again\n");
    assert_eq!(server.seen().len(), 2);
}

#[test]
fn what_two_files_refer_to_is_fetched_once() {
    let server = Server::start(|_, _| ok("shared\n"));
    let source = json!({"source": server.url("/shared")});
    let text = manifest(json!({}), json!([{"path": "/a", "contents": source}, {"path": "/b", "contents": source}]));
    let outcome = render(&Program::new(), &text).expect(0);
    assert_eq!(files(&outcome), [("/a".into(), "shared\n".into()), ("/b".into(), "shared\n".into())]);
    assert_eq!(server.seen().len(), 1);
}

#[test]
fn explain_and_diff_see_the_fetched_content_too() {
    let server = Server::start(|seen, _| ok(if seen.target == "/old" { "old\n" } else { "new\n" }));
    let program = Program::new();
    // With another MachineConfig beside it: a single object is compared as it is.
    let beside = machine_config("{}").replace("50-worker", "00-worker");
    program.file("old.json", motd(json!({"source": server.url("/old")})) + &beside);
    program.file("new.json", motd(json!({"source": server.url("/new")})) + &beside);
    let allow = ["--allow-host", "127.0.0.1"];
    let outcome = program.run([&["explain", "-f", "old.json", "/etc/motd"][..], &allow].concat()).expect(0);
    assert!(outcome.stdout.contains("4 bytes"), "{}", outcome.stdout);
    let outcome = program.run([&["diff", "-f", "old.json", "-f", "new.json"][..], &allow].concat()).expect(1);
    assert!(outcome.stdout.contains("-old\n") && outcome.stdout.contains("+new\n"), "{}", outcome.stdout);
}

#[test]
fn lint_fetches_nothing() {
    let server = Server::start(|_, _| ok(""));
    let program = Program::new();
    program.file("manifest.json", motd(json!({"source": server.url("/")})));
    let outcome = program.run(["lint", "-f", "manifest.json"]).expect(0);
    assert!(outcome.stdout.contains("warning["), "plain http without a hash is worth a warning: {}", outcome.stdout);
    assert_eq!(server.seen().len(), 0);
}
