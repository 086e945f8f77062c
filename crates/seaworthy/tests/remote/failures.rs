//! Failed fetches: unavailable content, and content that does not match its hash.

use serde_json::json;

use crate::program::Program;
use crate::remote::loopback::{Reply, Server, closed_address, ok, response};
use crate::remote::{hash, impatient, manifest, motd, render};

const PLACE: &str = "MachineConfig 50-worker, spec.config.storage.files[0].contents.source: ";

/// A MachineConfig with one file from here, soon given up.
fn impatient_motd(url: &str) -> String {
    manifest(impatient(), json!([{"path": "/etc/motd", "contents": {"source": url}}]))
}

#[test]
fn a_wrong_hash_names_both_hashes() {
    let server = Server::start(|_, _| ok("tampered\n"));
    let contents = json!({"source": server.url("/motd"), "verification": {"hash": hash(b"Welcome\n")}});
    let program = Program::new();
    let outcome = render(&program, &motd(contents)).expect(1);
    assert_eq!(outcome.json()["items"], json!([]));
    let (found, expected) = (hash(b"tampered\n"), hash(b"Welcome\n"));
    outcome.says(&["manifest.json:1:", PLACE, &server.url("/motd"), &found, &expected]);
    // It is not transient: there is no retry, and nothing is kept.
    assert_eq!(server.seen().len(), 1);
    assert_eq!(std::fs::read_dir(program.snapshots()).unwrap().count(), 0);
}

#[test]
fn reason_of_a_failure_is_in_json() {
    let server = Server::start(|_, _| ok("tampered\n"));
    let contents = json!({"source": server.url("/motd"), "verification": {"hash": hash(b"Welcome\n")}});
    let outcome = render(&Program::new(), &motd(contents)).expect(1);
    outcome.says(&["RemoteVerificationFailed"]);
    let outcome = render(&Program::new(), &impatient_motd(&format!("http://{}/motd", closed_address()))).expect(1);
    outcome.says(&["RemoteFetchFailed"]);
}

#[test]
fn a_missing_content_is_not_asked_for_again() {
    let server = Server::start(|_, _| response(404, &[], "no"));
    let outcome = render(&Program::new(), &motd(json!({"source": server.url("/motd")}))).expect(1);
    outcome.says(&[PLACE, &server.url("/motd"), "not found (404)"]);
    assert_eq!(server.seen().len(), 1);
}

#[test]
fn a_server_that_stays_broken_is_given_up() {
    let server = Server::start(|_, _| response(503, &[], ""));
    let outcome = render(&Program::new(), &impatient_motd(&server.url("/motd"))).expect(1);
    outcome.says(&[PLACE, "503 Service Unavailable"]);
    assert!(server.seen().len() > 1);
}

#[test]
fn a_body_that_breaks_off_is_not_taken_for_whole() {
    let server = Server::start(|_, _| Reply::Send(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf".to_vec()));
    let outcome = render(&Program::new(), &impatient_motd(&server.url("/motd"))).expect(1);
    outcome.says(&[PLACE, &server.url("/motd")]);
}

#[test]
fn an_endless_body_ends_at_the_limit() {
    let server = Server::start(|_, _| Reply::Endless(b"HTTP/1.1 200 OK\r\n\r\n".to_vec()));
    let outcome = render(&Program::new(), &motd(json!({"source": server.url("/motd")}))).expect(1);
    outcome.says(&[PLACE, "larger than the limit of 16777216 bytes"]);
}

#[test]
fn a_body_that_unpacks_without_end_ends_at_the_limit() {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::copy(&mut std::io::Read::take(std::io::repeat(0), 40 << 20), &mut packer).unwrap();
    let packed = packer.finish().unwrap();
    let server = Server::start(move |_, _| ok(&packed));
    let contents = json!({"source": server.url("/motd"), "compression": "gzip"});
    render(&Program::new(), &motd(contents)).expect(1).says(&[PLACE, "larger than the limit", "when decompressed"]);
}

#[test]
fn a_plain_body_that_is_declared_as_compressed_is_refused() {
    let server = Server::start(|_, _| ok("plain"));
    let contents = json!({"source": server.url("/motd"), "compression": "gzip"});
    render(&Program::new(), &motd(contents)).expect(1).says(&[PLACE, "compression gzip is declared"]);
}

#[test]
fn a_server_that_says_nothing_is_given_up_after_the_configured_time() {
    for stalled in [&b""[..], b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"] {
        let server = Server::start(|_, _| Reply::Stall(stalled.to_vec()));
        let text = impatient_motd(&server.url("/motd")).replace(r#""httpTotal":3"#, r#""httpTotal":1"#);
        render(&Program::new(), &text).expect(1).says(&[PLACE, "not complete within 1 s"]);
    }
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let address = closed_address();
    let outcome = render(&Program::new(), &impatient_motd(&format!("http://{address}/motd"))).expect(1);
    outcome.says(&[PLACE, &address.to_string()]);
}

#[test]
fn tftp_is_refused_with_what_to_use_instead() {
    let outcome = render(&Program::new(), &motd(json!({"source": "tftp://127.0.0.1/motd"}))).expect(1);
    let outcome = outcome.says(&[PLACE, "tftp://127.0.0.1/motd cannot be fetched", "over https"]);
    // One thing is wrong with it, and that is reported once.
    assert_eq!(outcome.stderr.matches("tftp://").count(), 1, "{}", outcome.stderr);
    let outcome = render(&Program::new(), &motd(json!({"source": "ftp://127.0.0.1/motd"}))).expect(1);
    outcome.says(&["accepted in version 3.5.0 are arn, data, gs, http, https, s3\n"]);
}

#[test]
fn every_failure_is_reported_and_other_pools_are_rendered() {
    let server = Server::start(|_, _| response(404, &[], ""));
    let files = json!([
        {"path": "/a", "contents": {"source": server.url("/a")}},
        {"path": "/b", "contents": {"source": server.url("/b")}},
    ]);
    let broken = manifest(json!({}), files).replace("\"worker\"", "\"infra\"").replace("50-worker", "50-infra");
    let sound = motd(json!({"source": "data:,sound"}));
    let outcome = render(&Program::new(), &format!("{broken}{sound}")).expect(1);
    assert_eq!(outcome.json()["items"].as_array().unwrap().len(), 1);
    outcome.says(&["MachineConfig 50-infra", &server.url("/a"), &server.url("/b")]);
}

#[test]
fn the_content_that_is_one_too_many_does_not_depend_on_the_order_of_the_manifests() {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::copy(&mut std::io::Read::take(std::io::repeat(0), 16 << 20), &mut packer).unwrap();
    let packed = packer.finish().unwrap();
    let server = Server::start(move |_, _| ok(&packed));
    let body = |nth: usize| json!({"source": server.url(&format!("/{nth}")), "compression": "gzip"});
    let files =
        |count: usize| (0..count).map(|nth| json!({"path": format!("/{nth}"), "contents": body(nth)})).collect();
    let first = manifest(json!({}), files(3)).replace("50-worker", "50-a");
    let second = manifest(json!({}), files(2)).replace("50-worker", "50-b");
    // Four times 16 MiB is the limit; the fifth is the second of the MachineConfig that comes later by its name.
    let outcome = render(&Program::new(), &format!("{second}{first}")).expect(1);
    let errors: Vec<_> = outcome.stderr.lines().filter(|line| line.starts_with("error")).collect();
    let [error] = errors.as_slice() else { panic!("{}", outcome.stderr) };
    let place = "MachineConfig 50-b, spec.config.storage.files[1].contents.source: ";
    assert!(error.contains(place) && error.contains("larger than the limit of 67108864 bytes"), "{error}");
}
