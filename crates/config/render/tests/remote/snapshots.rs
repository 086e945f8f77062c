//! The key under which content is kept: the same inputs always give the same result.

use seaworthy_fetch::{FailureKind, Snapshot, SnapshotKey};
use seaworthy_render::remote::{Resolution, Resolver};
use seaworthy_render::{keys, prepare, render};
use serde_json::{Value, json};

use crate::remote::{Web, failure};
use crate::support::*;

/// The key of the only thing that an input refers to.
fn key(machine_config: Value) -> SnapshotKey {
    let (outcome, rounds) = Web::default().with("https://h/a", "a").try_render(&[machine_config]);
    outcome.unwrap();
    assert_eq!((rounds.len(), rounds[0].len()), (1, 1));
    rounds[0][0].key
}

fn input() -> Value {
    ign("00", files(json!([file("/a", "https://h/a")])))
}

#[test]
fn the_same_input_has_the_same_key() {
    assert_eq!(key(input()), key(input()));
    // Keys in another order are the same spec, and metadata is none of it.
    let text = r#"{"spec":{"config":{"storage":{"files":[{"contents":{"source":"https://h/a"},"path":"/a"}]},
        "ignition":{"version":"3.5.0"}}},"metadata":{"labels":{"machineconfiguration.openshift.io/role":"worker","x":"y"},
        "name":"00","annotations":{"note":"x"}}}"#;
    assert_eq!(key(input()), key(serde_json::from_str(text).unwrap()));
}

#[test]
fn another_spec_has_another_key() {
    let mut changed = input();
    changed["spec"]["kernelArguments"] = json!(["x"]);
    assert_ne!(key(input()), key(changed));
    let mut changed = input();
    changed["spec"]["config"]["storage"]["files"][0]["mode"] = 384.into();
    assert_ne!(key(input()), key(changed));
}

#[test]
fn another_name_has_another_key() {
    let mut other = input();
    other["metadata"]["name"] = "01".into();
    assert_ne!(key(input()), key(other));
}

#[test]
fn a_refresh_asks_for_another_key() {
    let refreshed = |mark: &str| {
        let mut refreshed = input();
        refreshed["metadata"]["annotations"] = json!({keys::REFRESH: mark});
        key(refreshed)
    };
    assert_ne!(key(input()), refreshed("1"));
    assert_ne!(refreshed("1"), refreshed("2"));
    assert_eq!(refreshed("1"), refreshed("1"));
}

#[test]
fn a_config_and_a_file_at_one_url_have_different_keys() {
    let mut both = input();
    both["spec"]["config"]["ignition"]["config"] = json!({"merge": [{"source": "https://h/a"}]});
    let body = with_version("3.5.0", json!({})).to_string();
    let (outcome, rounds) = Web::default().with("https://h/a", body).try_render(&[both]);
    outcome.unwrap();
    let wanted: Vec<_> = rounds.iter().flatten().collect();
    assert_eq!(wanted.len(), 2);
    assert_ne!(wanted[0].key, wanted[1].key);
}

#[test]
fn the_content_kept_decides_and_not_what_the_server_has_now() {
    let manifests = [input()];
    let sources = read(&manifests);
    let (pool, context) = (worker(), context());
    let kept = |text: &str, seconds: u64| {
        let mut resolver = Resolver::new(1);
        let mut prepared = [prepare(&sources[0])];
        let wanted = resolver.resolve(&mut prepared[0]);
        assert_eq!(wanted.len(), 1);
        let time = fetch_time() + std::time::Duration::from_secs(seconds);
        resolver.answer(wanted[0].key, Ok(Snapshot::new(text.as_bytes(), "https://h/a", time)));
        assert!(resolver.resolve(&mut prepared[0]).is_empty());
        render(&pool, &prepared, &context).unwrap().name
    };
    assert_eq!(kept("old", 0), kept("old", 86_400));
    assert_ne!(kept("old", 0), kept("new", 0));
}

#[test]
fn a_round_has_the_requests_of_all_inputs_and_a_failure_is_its_input_s() {
    let named = |name: &str, url: &str| ign(name, files(json!([file("/a", url)])));
    let manifests = [named("02", "https://h/b"), named("01", "https://h/a"), ign("00", json!({}))];
    let sources = read(&manifests);
    let mut prepared: Vec<_> = sources.iter().map(prepare).collect();
    let mut resolution = Resolution::new(&mut prepared, 3);
    let needed = resolution.needed();
    let urls: Vec<&str> = needed.iter().map(|needed| needed.request.url.as_str()).collect();
    assert_eq!(urls, ["https://h/a", "https://h/b"], "by name of the MachineConfig");
    let content = Snapshot::new("a".as_bytes(), "https://h/a", fetch_time());
    resolution.answer(needed[0].key, Ok(content), |_| panic!("nothing has failed"));
    let lost = failure("https://h/b", FailureKind::NotFound);
    resolution.answer(needed[1].key, Err(lost), |_| Some("; look for it".to_owned()));
    assert!(resolution.needed().is_empty());
    let failed: Vec<(&str, usize, bool)> = resolution
        .references()
        .iter()
        .map(|(name, references)| (name.as_str(), references.keys.len(), references.has_failed))
        .collect();
    assert_eq!(failed, [("00", 0, false), ("01", 1, false), ("02", 1, true)]);
    let findings: Vec<_> =
        prepared.iter().flat_map(|input| &input.findings).filter(|finding| finding.is_error()).collect();
    assert!(findings.len() == 1 && findings[0].message.ends_with("; look for it"), "{findings:?}");
}

#[test]
fn what_was_fetched_and_what_was_written_out_have_the_same_digest_but_for_the_compression() {
    let fetched = Web::default().with("https://h/a", "a").render(&[input()]);
    let written = [ign("00", files(json!([{"path": "/a", "contents": {"source": "data:,a", "compression": ""}}])))];
    assert_eq!(fetched.name, rendered(&worker(), &written).name);
}
