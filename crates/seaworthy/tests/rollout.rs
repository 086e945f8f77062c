//! `rollout decide` through the program: all recorded answers of the upstream node controller, and input that cannot be
//! used.

use std::collections::BTreeSet;
use std::path::Path;

use crate::program::Program;
use seaworthy_ignition::Node;
use seaworthy_render::yaml;
use serde_json::{Value, json};

fn lines(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../decide/plan/tests/golden").join(name);
    std::fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A case in one of the forms that people have manifests in.
fn written(case: &Value, nth: usize) -> String {
    let (pool, nodes) = (&case["pool"], case["nodes"].as_array().unwrap());
    match nth % 4 {
        0 => {
            let items: Vec<&Value> = nodes.iter().chain([pool]).collect();
            json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
        }
        1 => format!("{}\n{}", pool, json!({"apiVersion": "v1", "kind": "NodeList", "items": nodes})),
        2 => {
            let objects = [pool].into_iter().chain(nodes.iter().rev());
            objects.map(|object| format!("---\n{}", yaml::to_string(&Node::from_json(object)))).collect()
        }
        _ => [pool].into_iter().chain(nodes).map(|object| format!("{object}\n---\n")).collect(),
    }
}

fn set(value: &Value) -> BTreeSet<&str> {
    value.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect()
}

#[test]
fn every_case_gives_the_recorded_answer() {
    let (cases, expected) = (lines("cases.jsonl"), lines("expected.jsonl"));
    assert_eq!((cases.len(), expected.len()), (200, 200));
    let program = Program::new();
    for (nth, (case, expected)) in cases.iter().zip(&expected).enumerate() {
        let id = case["name"].as_str().unwrap();
        let text = written(case, nth);
        let ours =
            program.run_with_input(["rollout", "decide", "-f", "-", "-o", "json"], text.as_bytes()).expect(0).json();
        assert_eq!(ours["maxUnavailable"], expected["maxUnavailable"], "{id}");
        assert_eq!(ours.get("error").is_some(), expected.get("error").is_some(), "{id}");
        assert_eq!(set(&ours["unavailable"]), set(&expected["unavailable"]), "{id}");
        assert_eq!(set(&ours["candidates"]), set(&expected["candidates"]), "{id}");
        assert_eq!(ours["capacity"], expected["capacity"], "{id}");
        let (candidates, capacity) = (ours["candidates"].as_array().unwrap().len(), &ours["capacity"]);
        if candidates as u64 > capacity.as_u64().unwrap() {
            assert_eq!(ours["chosen"], expected["chosen"], "{id}");
        } else {
            assert_eq!(set(&ours["chosen"]), set(&expected["chosen"]), "{id}");
        }
        let (ours_status, theirs) = (&ours["status"], &expected["status"]);
        for key in ["machineCount", "updatedMachineCount", "readyMachineCount", "unavailableMachineCount"] {
            assert_eq!(ours_status[key], theirs[key], "{id}: {key}");
        }
        assert_eq!(ours_status["degradedMachineCount"], theirs["degradedMachineCount"], "{id}");
        assert_eq!(ours_status["configuration"]["name"], theirs["configuration"]["name"], "{id}");
        let conditions_of = |status: &Value| -> Vec<[Value; 3]> {
            let conditions = status["conditions"].as_array().unwrap();
            conditions.iter().map(|one| ["type", "status", "message"].map(|key| one[key].clone())).collect()
        };
        assert_eq!(conditions_of(ours_status), conditions_of(theirs), "{id}");
        let updated = theirs["updatedMachineCount"].as_u64().unwrap() as usize;
        let (chosen, waiting) = (ours["chosen"].as_array().unwrap(), ours["waiting"].as_array().unwrap());
        assert_eq!(chosen.len() + waiting.len() + updated, case["nodes"].as_array().unwrap().len(), "{id}");
        for waiting in waiting {
            assert!(!waiting["reason"].as_str().unwrap().is_empty(), "{id}: {waiting}");
            assert!(!waiting["message"].as_str().unwrap().is_empty(), "{id}: {waiting}");
        }
    }
}

fn pool(name: &str, spec: Value) -> String {
    let api_version = "machineconfiguration.openshift.io/v1";
    format!(
        "{}\n",
        json!({"apiVersion": api_version, "kind": "MachineConfigPool", "metadata": {"name": name}, "spec": spec})
    )
}

#[test]
fn the_pool_must_be_there_and_be_clear() {
    let program = Program::new();
    let decide = |args: &[&str], text: &str| {
        let args = ["rollout", "decide", "-f", "-"].iter().chain(args);
        program.run_with_input(args, text.as_bytes())
    };
    let node = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"w1"}}"#;
    decide(&[], node).expect(2).says(&["no MachineConfigPool in the input"]);
    let two = pool("worker", json!({})) + &pool("infra", json!({}));
    decide(&[], &two).expect(2).says(&["several pools in the input (infra, worker)", "--pool"]);
    decide(&["--pool", "wroker"], &two).expect(2).says(&["pool \"wroker\" not found", "did you mean \"worker\"?"]);
    decide(&["--pool", "worker"], &two).expect(0);
}

#[test]
fn what_cannot_be_read_is_named_with_its_place() {
    let program = Program::new();
    let decide = |text: &str| program.run_with_input(["rollout", "decide", "-f", "-"], text.as_bytes()).expect(2);
    decide("kind: Node\napiVersion: v1\nmetadata: {name: w1}\nspec: {unschedulable: 3}\n")
        .says(&["standard input:4:", "Node w1: spec.unschedulable"]);
    decide("kind: Node\napiVersion: v2\nmetadata: {name: w1}\n").says(&["unsupported apiVersion \"v2\"; expected v1"]);
    decide("kind: Node\napiVersion: v1\n").says(&["a Node has no metadata.name"]);
    decide("kind: node\napiVersion: v1\nmetadata: {name: w1}\n").says(&["did you mean \"Node\"?"]);
    decide("- 1\n").says(&["a manifest is an object with apiVersion and kind"]);
    decide("kind: List\napiVersion: v1\nitems: 3\n").says(&["items of a List is the number 3"]);
    let selector = json!({"nodeSelector": {"matchExpressions": [{"key": "k", "operator": "Foo"}]}});
    decide(&pool("worker", selector)).says(&["MachineConfigPool worker: spec.nodeSelector", "operator \"Foo\""]);
}

const NOT_IN_POOL: &str = "no pool selects it; add a label that a pool's spec.nodeSelector matches, such as `kubectl label node \
                           NAME node-role.kubernetes.io/worker=`";

#[test]
fn every_node_of_a_pool_without_configuration_has_that_reason() {
    let program = Program::new();
    let spec = json!({"nodeSelector": {"matchLabels": {"role": "w"}}});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "w1", "labels": {"role": "w"}}});
    let stray = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "w2"}});
    let text = format!("{}{node}\n{stray}\n", pool("worker", spec));
    let answer =
        program.run_with_input(["rollout", "decide", "-f", "-", "-o", "json"], text.as_bytes()).expect(0).json();
    assert_eq!(answer["status"], Value::Null);
    assert_eq!(
        answer["waiting"],
        json!([
            {"node": "w1", "reason": "NoConfiguration", "message": "pool worker has no rendered configuration yet"},
            {"node": "w2", "reason": "NotInPool", "message": NOT_IN_POOL},
        ])
    );
}

#[test]
fn a_negative_budget_and_an_unreadable_one_are_answers() {
    let program = Program::new();
    for (value, parts) in [
        (json!("10"), ["maxUnavailable is \"10\"", "expected a whole number"]),
        (json!(-1), ["budget -1", "budget -1 allows no node to move"]),
    ] {
        let spec = json!({
            "maxUnavailable": value, "configuration": {"name": "rendered-worker-b"},
            "nodeSelector": {"matchLabels": {"role": "w"}},
        });
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "w1", "labels": {"role": "w"}}});
        let text = format!("{}{node}\n", pool("worker", spec));
        let outcome = program.run_with_input(["rollout", "decide", "-f", "-"], text.as_bytes()).expect(0);
        for part in parts {
            assert!(outcome.stdout.contains(part), "{part}: {}", outcome.stdout);
        }
    }
}
