//! All recorded answers of the upstream renderer (`tests/golden`): equal specs, equal names, failures that name the
//! culprit.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use seaworthy_ignition::Node;
use seaworthy_render::{Context, ControllerConfig, MachineConfig, Pool, prepare, render};
use serde_json::Value;

fn lines(name: &str) -> Vec<Value> {
    let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_case_gives_the_recorded_answer() {
    let (cases, expected) = (lines("cases.jsonl"), lines("expected.jsonl"));
    assert_eq!(cases.len(), 150);
    let mut wrong = Vec::new();
    let (mut names, mut failures) = (0, 0);
    for (case, expected) in cases.iter().zip(&expected) {
        let id = case["name"].as_str().unwrap();
        let sources: Vec<MachineConfig<'_>> = case["machineConfigs"]
            .as_array()
            .unwrap()
            .iter()
            .enumerate()
            .map(|(doc, json)| {
                let mut node = Node::from_json(json);
                node.number(doc as u32);
                MachineConfig::read(node)
            })
            .collect();
        let prepared: Vec<_> = sources.iter().map(prepare).collect();
        let context = Context {
            controller_config: ControllerConfig::read(&Node::from_json(&case["controllerConfig"])).unwrap(),
            ..Context::default()
        };
        let pools: Vec<Pool> =
            case["pools"].as_array().unwrap().iter().map(|json| Pool::read(&Node::from_json(json)).unwrap()).collect();
        let results: Vec<_> = pools.iter().map(|pool| render(pool, &prepared, &context)).collect();

        if expected.get("error").is_some() {
            failures += 1;
            let findings: Vec<_> = results.iter().filter_map(|result| result.as_ref().err()).flatten().collect();
            assert!(!findings.is_empty(), "{id} should fail: {}", expected["error"]);
            for finding in findings {
                let text = finding.to_string();
                assert!(
                    finding.places.iter().any(|place| place.kind == "MachineConfig"
                        && !place.path.is_empty()
                        && sources.iter().any(|source| source.name() == place.name && text.contains(&place.name))),
                    "{id}: {text}"
                );
            }
            continue;
        }
        for (result, expected) in results.iter().zip(expected["rendered"].as_array().unwrap()) {
            let rendered = match result {
                Ok(rendered) => rendered,
                Err(findings) => {
                    wrong.push(format!("{id} fails: {}", findings[0]));
                    continue;
                }
            };
            names += 1;
            if rendered.spec.to_json() != expected["spec"] {
                wrong.push(format!("{id} spec:\nours   {}\ntheirs {}", rendered.spec.to_json(), expected["spec"]));
            } else if rendered.name != expected["metadata"]["name"].as_str().unwrap() {
                wrong.push(format!("{id} name: ours {} theirs {}", rendered.name, expected["metadata"]["name"]));
            }
            let keys: Vec<_> = rendered.annotations.iter().map(|(key, _)| *key).collect();
            let expected_keys: Vec<_> =
                expected["metadata"]["annotations"].as_object().unwrap().keys().cloned().collect();
            assert_eq!(
                {
                    let mut keys = keys.clone();
                    keys.sort_unstable();
                    keys
                },
                expected_keys,
                "{id}"
            );
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong[..wrong.len().min(4)].join("\n\n"));
    assert_eq!((names, failures), (186, 26));
}
