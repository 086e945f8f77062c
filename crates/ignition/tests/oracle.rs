//! Compares this crate with the answers of the real libraries, recorded in `tests/oracle` (its README says which).

use std::collections::BTreeMap;

use seaworthy_ignition::{Node, Severity, merge, parse};
use serde_json::Value;

fn rows(name: &str) -> Vec<Value> {
    let path = format!("{}/tests/oracle/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn configs_are_accepted_and_refused_as_ignition_does() {
    let mut wrong: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in rows("validate.jsonl") {
        let mut node = Node::from_json(&row["in"]);
        node.number(0);
        let ours = parse(&node);
        let theirs = row["ok"].as_bool().unwrap();
        if ours.is_ok() == theirs {
            continue;
        }
        let why = match &ours {
            Err(problems) => problems
                .iter()
                .filter(|problem| problem.severity == Severity::Error)
                .map(|problem| format!("ours refuses: {} ({})", problem.code, problem.path))
                .collect::<Vec<_>>()
                .join("; "),
            Ok(_) => format!(
                "ours accepts: {}",
                row["report"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter(|entry| entry["kind"] == "error")
                    .map(|entry| format!("{} {}", entry["path"], entry["text"]))
                    .collect::<Vec<_>>()
                    .join("; ")
            ),
        };
        wrong.entry(why).or_default().push(row.to_string());
    }
    for (why, rows) in &wrong {
        eprintln!("{} × {why}\n    {}", rows.len(), &rows[0].chars().take(400).collect::<String>());
    }
    assert!(wrong.is_empty());
}
