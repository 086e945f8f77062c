//! Encryption and proxies.

use serde_json::json;

use crate::program::Program;
use crate::remote::authority::Authority;
use crate::remote::loopback::{Server, ok};
use crate::remote::{files, impatient, manifest, render};

fn motd_from(url: &str, ignition: serde_json::Value) -> String {
    manifest(ignition, json!([{"path": "/etc/motd", "contents": {"source": url}}]))
}

fn data_url(text: &str) -> String {
    seaworthy_ignition::data_url::encode(text.as_bytes())
}

#[test]
fn a_private_authority_is_trusted_where_the_config_names_it() {
    let authority = Authority::new();
    let server = Server::start_tls(authority.server(), |_, _| ok("sealed\n"));
    let url = format!("https://{}/motd", server.address);
    let ignition = json!({"security": {"tls": {"certificateAuthorities": [{"source": data_url(&authority.pem())}]}}});
    let outcome = render(&Program::new(), &motd_from(&url, ignition)).expect(0);
    assert_eq!(files(&outcome)[0].1, "sealed\n");
}

#[test]
fn an_authority_may_itself_be_fetched() {
    let authority = Authority::new();
    let server = Server::start_tls(authority.server(), |_, _| ok("sealed\n"));
    let pem = authority.pem();
    let desk = Server::start(move |_, _| ok(&pem));
    let url = format!("https://{}/motd", server.address);
    let ignition = json!({"security": {"tls": {"certificateAuthorities": [{"source": desk.url("/ca.pem")}]}}});
    let outcome = render(&Program::new(), &motd_from(&url, ignition)).expect(0);
    assert_eq!(files(&outcome)[0].1, "sealed\n");
    // It goes to the machines as content, not as a reference.
    let authorities =
        &crate::remote::rendered(&outcome)["spec"]["config"]["ignition"]["security"]["tls"]["certificateAuthorities"];
    assert_eq!(crate::remote::decoded(&authorities[0]["source"]), authority.pem());
}

#[test]
fn unnamed_authority_is_not_trusted() {
    let server = Server::start_tls(Authority::new().server(), |_, _| ok("sealed\n"));
    let url = format!("https://{}/motd", server.address);
    for ignition in [
        json!({}),
        json!({"security": {"tls": {"certificateAuthorities": [{"source": data_url(&Authority::new().pem())}]}}}),
    ] {
        let outcome = render(&Program::new(), &motd_from(&url, ignition)).expect(1);
        outcome.says(&[
            "MachineConfig 50-worker",
            &url,
            "is not trusted",
            "ignition.security.tls.certificateAuthorities",
        ]);
    }
    assert_eq!(server.seen().len(), 0);
}

#[test]
fn a_proxy_is_asked_for_what_is_behind_it() {
    let proxy = Server::start(|seen, _| ok(format!("{} {}\n", seen.method, seen.target)));
    let ignition = json!({"proxy": {"httpProxy": format!("http://{}", proxy.address)}});
    let outcome = render(&Program::new(), &motd_from("http://mirror.example/motd", ignition)).expect(0);
    assert_eq!(files(&outcome)[0].1, "GET http://mirror.example/motd\n");
}

#[test]
fn no_proxy_setting_is_respected() {
    let (proxy, server) = (Server::start(|_, _| ok("proxy\n")), Server::start(|_, _| ok("direct\n")));
    let ignition = json!({"proxy": {"httpProxy": format!("http://{}", proxy.address), "noProxy": ["127.0.0.1"]}});
    let outcome = render(&Program::new(), &motd_from(&server.url("/motd"), ignition)).expect(0);
    assert_eq!(files(&outcome)[0].1, "direct\n");
    assert_eq!(proxy.seen().len(), 0);
}

#[test]
fn the_callers_own_proxy_has_no_say() {
    let (proxy, server) = (Server::start(|_, _| ok("proxy\n")), Server::start(|_, _| ok("direct\n")));
    let program = Program::new();
    program.file("manifest.json", motd_from(&server.url("/motd"), impatient()));
    let mut command = program.command(["render", "-f", "manifest.json", "-o", "json", "--allow-host", "127.0.0.1"]);
    for name in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
        command.env(name, format!("http://{}", proxy.address));
    }
    let outcome = crate::program::Outcome::of(command.output().unwrap()).expect(0);
    assert_eq!(files(&outcome)[0].1, "direct\n");
}
