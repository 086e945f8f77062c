//! Configs that refer to configs.

use serde_json::{Value, json};

use crate::program::Program;
use crate::remote::loopback::{Server, ok, response};
use crate::remote::{files, hash, manifest, render, rendered};

/// A config with one file of its own, and references.
fn config(path: &str, body: &str, references: Value) -> String {
    json!({
        "ignition": {"version": "3.2.0", "config": references},
        "storage": {"files": [{"path": path, "contents": {"source": format!("data:,{body}")}}]},
    })
    .to_string()
}

#[test]
fn merged_configs_win_over_the_one_that_refers_to_them_down_the_chain() {
    let server = Server::start(|seen, _| match seen.target.as_str() {
        "/a.ign" => ok(config(
            "/etc/shared",
            "a",
            json!({"merge": [{"source": format!("http://{}/b.ign", seen.header("host").unwrap())}]}),
        )),
        "/b.ign" => ok(config("/etc/shared", "b", json!({}))),
        _ => response(404, &[], ""),
    });
    let text = manifest(
        json!({"config": {"merge": [{"source": server.url("/a.ign")}]}}),
        json!([{"path": "/etc/shared", "contents": {"source": "data:,own"}}, {"path": "/etc/own", "contents": {"source": "data:,own"}}]),
    );
    let outcome = render(&Program::new(), &text).expect(0);
    assert_eq!(files(&outcome), [("/etc/shared".into(), "b".into()), ("/etc/own".into(), "own".into())]);
    assert!(rendered(&outcome)["spec"]["config"]["ignition"].get("config").is_none());
    // Ignition asks for configs by their media type.
    assert!(server.seen()[0].header("accept").unwrap().contains("application/vnd.coreos.ignition+json"));
}

#[test]
fn a_replacement_leaves_nothing_of_the_config_that_refers_to_it() {
    let server = Server::start(|_, _| ok(config("/etc/new", "new", json!({}))));
    let text = manifest(
        json!({"config": {"replace": {"source": server.url("/"), "verification": {"hash": hash(config("/etc/new", "new", json!({})).as_bytes())}}}}),
        json!([{"path": "/etc/own", "contents": {"source": "data:,own"}}]),
    )
    .replace(r#""spec":{"#, r#""spec":{"kernelArguments":["quiet"],"#);
    let outcome = render(&Program::new(), &text).expect(0);
    assert_eq!(files(&outcome), [("/etc/new".into(), "new".into())]);
    assert_eq!(rendered(&outcome)["spec"]["kernelArguments"], json!(["quiet"]));
}

#[test]
fn what_a_fetched_config_refers_to_is_fetched_as_well() {
    let server = Server::start(|seen, _| match seen.target.as_str() {
        "/a.ign" => {
            let body = format!("http://{}/body", seen.header("host").unwrap());
            ok(json!({"ignition": {"version": "3.4.0"}, "storage": {"files": [{"path": "/etc/b", "contents": {"source": body}}]}}).to_string())
        }
        _ => ok("the body\n"),
    });
    let text = manifest(json!({"config": {"merge": [{"source": server.url("/a.ign")}]}}), json!([]));
    assert_eq!(files(&render(&Program::new(), &text).expect(0)), [("/etc/b".into(), "the body\n".into())]);
}

#[test]
fn old_configs_are_translated_on_the_way() {
    let old = json!({"ignition": {"version": "2.2.0"}, "storage": {"files": [{"filesystem": "root", "path": "/etc/old", "contents": {"source": "data:,old"}}]}});
    let server = Server::start(move |_, _| ok(old.to_string()));
    let text = manifest(json!({"config": {"merge": [{"source": server.url("/")}]}}), json!([]));
    assert_eq!(files(&render(&Program::new(), &text).expect(0)), [("/etc/old".into(), "old".into())]);
}

#[test]
fn configs_that_reference_each_other_are_refused_with_the_cycle() {
    let server = Server::start(|seen, _| {
        let other = if seen.target == "/a.ign" { "/b.ign" } else { "/a.ign" };
        let url = format!("http://{}{other}", seen.header("host").unwrap());
        ok(config("/etc/x", "x", json!({"merge": [{"source": url}]})))
    });
    let text = manifest(json!({"config": {"merge": [{"source": server.url("/a.ign")}]}}), json!([]));
    let outcome = render(&Program::new(), &text).expect(1);
    let cycle = format!("{0}/a.ign → {0}/b.ign → {0}/a.ign", server.url(""));
    outcome.says(&["MachineConfig 50-worker", "in a cycle", &cycle]);
    assert_eq!(server.seen().len(), 2);
}

#[test]
fn a_chain_without_end_is_cut_off() {
    // Never the same URL, so that no circle shows.
    let server = Server::start(|seen, before| {
        let url = format!("http://{}/{}", seen.header("host").unwrap(), before + 1);
        ok(config("/etc/x", "x", json!({"merge": [{"source": url}]})))
    });
    let text = manifest(json!({"config": {"merge": [{"source": server.url("/0")}]}}), json!([]));
    render(&Program::new(), &text).expect(1).says(&["MachineConfig 50-worker", "at depth 9; at most 8 are followed"]);
    assert_eq!(server.seen().len(), 8);
}

#[test]
fn a_fetched_config_that_is_wrong_is_named_with_the_place_in_it() {
    let server = Server::start(|_, _| ok(config("relative", "x", json!({}))));
    let text = manifest(json!({"config": {"merge": [{"source": server.url("/a.ign")}]}}), json!([]));
    let outcome = render(&Program::new(), &text).expect(1);
    outcome.says(&[
        "MachineConfig 50-worker, spec.config.ignition.config.merge[0].source",
        &server.url("/a.ign"),
        "storage.files[0].path",
        "path not absolute",
    ]);
}

#[test]
fn a_page_instead_of_a_config_is_reported_as_unreadable() {
    let server = Server::start(|_, _| ok("<html>please log in</html>"));
    let text = manifest(json!({"config": {"merge": [{"source": server.url("/a.ign")}]}}), json!([]));
    let outcome = render(&Program::new(), &text).expect(1);
    outcome.says(&["MachineConfig 50-worker", &server.url("/a.ign"), "cannot be read"]);
}
