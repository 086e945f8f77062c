//! All recorded answers of the upstreams, through the program: equal specs, equal names, equal translations, and failures
//! that name the culprit.

use std::path::Path;

use crate::program::Program;
use seaworthy_ignition::Node;
use seaworthy_render::yaml;
use serde_json::{Value, json};

/// The lines of a recorded file of another crate.
fn lines(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// All objects of a case, in the order of the record.
fn objects(case: &Value) -> Vec<Value> {
    let list = |key: &str| case[key].as_array().unwrap().iter().cloned();
    list("pools").chain([case["controllerConfig"].clone()]).chain(list("machineConfigs")).collect()
}

/// The same items in another order, always the same one for a seed.
fn shuffled<T>(mut items: Vec<T>, seed: usize) -> Vec<T> {
    let mut state = seed as u64 + 1;
    for at in (1..items.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        items.swap(at, (state >> 33) as usize % (at + 1));
    }
    items
}

/// Checks that a case rendered from a file gives the recorded answer.
fn check(program: &Program, id: &str, file: &Path, case: &Value, expected: &Value) {
    let args = ["render".as_ref(), "-f".as_ref(), file.as_os_str(), "-o".as_ref(), "json".as_ref()];
    let outcome = program.run(args);
    if let Some(error) = expected.get("error") {
        assert_eq!(outcome.code, 1, "{id} should fail: {error}\n{}", outcome.stderr);
        let errors: Vec<&str> = outcome.stderr.lines().filter(|line| line.starts_with("error[")).collect();
        assert!(!errors.is_empty(), "{id}: {}", outcome.stderr);
        let names: Vec<&str> = case["machineConfigs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|object| object["metadata"]["name"].as_str().unwrap())
            .collect();
        for line in errors {
            let culprit = names.iter().find(|name| line.contains(&format!("MachineConfig {name}, ")));
            assert!(culprit.is_some(), "{id} does not name the culprit: {line}");
            assert!(line.contains(&file.display().to_string()), "{id} does not name the file: {line}");
        }
        return;
    }
    let outcome = outcome.expect(0);
    let list = outcome.json();
    assert_eq!((&list["apiVersion"], &list["kind"]), (&json!("v1"), &json!("List")), "{id}");
    let mut expected: Vec<&Value> = expected["rendered"].as_array().unwrap().iter().collect();
    // Pools are printed by name, whatever the order they were given in.
    expected.sort_by_key(|rendered| rendered["metadata"]["ownerReferences"][0]["name"].as_str());
    let items = list["items"].as_array().unwrap();
    assert_eq!(items.len(), expected.len(), "{id}");
    for (ours, theirs) in items.iter().zip(expected) {
        assert_eq!(ours["spec"], theirs["spec"], "{id}");
        assert_eq!(ours["metadata"]["name"], theirs["metadata"]["name"], "{id}");
        assert_eq!(ours["metadata"]["ownerReferences"], theirs["metadata"]["ownerReferences"], "{id}");
    }
}

#[test]
fn every_case_as_one_json_list_gives_the_recorded_answer() {
    let (cases, expected) =
        (lines("config/render/tests/golden/cases.jsonl"), lines("config/render/tests/golden/expected.jsonl"));
    assert_eq!((cases.len(), expected.len()), (150, 150));
    let program = Program::new();
    for (case, expected) in cases.iter().zip(&expected) {
        let id = case["name"].as_str().unwrap();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects(case)});
        let file = program.file(&format!("{id}.json"), list.to_string());
        check(&program, id, &file, case, expected);
    }
}

#[test]
fn every_case_as_a_shuffled_yaml_stream_gives_the_recorded_answer() {
    let (cases, expected) =
        (lines("config/render/tests/golden/cases.jsonl"), lines("config/render/tests/golden/expected.jsonl"));
    let program = Program::new();
    for (seed, (case, expected)) in cases.iter().zip(&expected).enumerate() {
        let id = case["name"].as_str().unwrap();
        let documents =
            shuffled(objects(case), seed).iter().map(|o| yaml::to_string(&Node::from_json(o))).collect::<Vec<_>>();
        let file = program.file(&format!("{id}.yaml"), documents.join("---\n"));
        check(&program, id, &file, case, expected);
    }
}

#[test]
fn every_served_config_is_converted_as_upstream_does() {
    let rows = lines("config/ignition/tests/golden/translations.jsonl");
    assert_eq!(rows.len(), 60);
    let program = Program::new();
    let mut compared = 0;
    for (line, row) in rows.iter().enumerate() {
        let input = row["config"].to_string();
        for (version, answer) in row["answers"].as_object().unwrap() {
            let outcome = program.run_with_input(["ignition", "convert", "--to", version], input.as_bytes()).expect(0);
            assert_eq!(outcome.json(), answer["config"], "line {line} to {version}");
            compared += 1;
        }
    }
    assert_eq!(compared, 360);
}
