//! Recorded answers: how they are read, and how each difference from them is explained.

use std::collections::BTreeMap;

use seaworthy_ignition::{Node, Problem, Severity, parse};
use serde_json::Value;

/// The rows of a file below `tests`.
pub fn rows(name: &str) -> Vec<Value> {
    let path = format!("{}/tests/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What this crate makes of a row.
pub type Answer = Result<Value, Vec<Problem>>;

/// Why an answer differs from the recorded one, and which answers the reason covers.
pub struct Reason {
    pub why: &'static str,
    pub covers: fn(&Value, &Answer) -> bool,
}

/// Compares answers with the recorded ones. Every difference needs a reason, and every reason a difference.
pub fn compare(
    name: &str,
    reasons: &[Reason],
    answer: impl Fn(&Value) -> Answer,
    agrees: impl Fn(&Value, &Answer) -> bool,
) {
    let all = rows(name);
    let mut explained: BTreeMap<&str, usize> = reasons.iter().map(|reason| (reason.why, 0)).collect();
    let mut wrong = Vec::new();
    for row in &all {
        let ours = answer(row);
        if agrees(row, &ours) {
            continue;
        }
        match reasons.iter().find(|reason| (reason.covers)(row, &ours)) {
            Some(reason) => *explained.entry(reason.why).or_default() += 1,
            None => wrong.push(format!("row  {row}\nours {}", describe(&ours))),
        }
    }
    eprintln!("{name}: {} rows", all.len());
    for (why, rows) in &explained {
        eprintln!("{rows:5} differ: {why}");
    }
    let shown = wrong.iter().take(10).map(String::as_str).collect::<Vec<_>>().join("\n\n");
    assert!(wrong.is_empty(), "{} of {} rows have no reason to differ:\n{shown}", wrong.len(), all.len());
    let idle: Vec<_> = explained.iter().filter(|(_, rows)| **rows == 0).collect();
    assert!(idle.is_empty(), "reasons that explain nothing: {idle:?}");
}

fn describe(answer: &Answer) -> String {
    match answer {
        Ok(config) => config.to_string(),
        Err(problems) => problems
            .iter()
            .map(|problem| format!("{} {} at {}: {}", problem.severity, problem.code, problem.path, problem.message))
            .collect::<Vec<_>>()
            .join("\n     "),
    }
}

/// Whether a translation gives the recorded config, or fails where the recorded one fails.
pub fn same_result(row: &Value, ours: &Answer) -> bool {
    match (ours, row.get("out")) {
        (Ok(ours), Some(theirs)) => ours == theirs,
        (Err(_), None) => true,
        _ => false,
    }
}

/// A config read by this crate, as JSON in spec 3.5.
pub fn parsed(json: &Value) -> Answer {
    let mut node = Node::from_json(json);
    node.number(0);
    parse(&node).map(|parsed| parsed.config.to_json())
}

/// Whether this crate refuses a row for these rules alone, and only at paths that end in one of `places`.
pub fn refused_for(ours: &Answer, codes: &[&str], places: &[&str]) -> bool {
    let Err(problems) = ours else { return false };
    let mut errors = problems.iter().filter(|problem| problem.severity == Severity::Error).peekable();
    errors.peek().is_some()
        && errors.all(|error| {
            let path = error.path.to_string();
            codes.contains(&error.code) && places.iter().any(|place| path.ends_with(place))
        })
}

/// The version that a row's config is written in.
pub fn version(row: &Value) -> &str {
    row["in"]["ignition"]["version"].as_str().unwrap_or_default()
}

/// Every value under that key, however deep.
pub fn under<'v>(json: &'v Value, key: &str) -> Vec<&'v Value> {
    match json {
        Value::Object(map) => map
            .iter()
            .flat_map(|(name, value)| {
                let mut found = under(value, key);
                if name == key {
                    found.push(value);
                }
                found
            })
            .collect(),
        Value::Array(list) => list.iter().flat_map(|value| under(value, key)).collect(),
        _ => Vec::new(),
    }
}

/// The same value without some of its parts.
pub fn without(json: &Value, goes: &impl Fn(&str, &Value) -> bool) -> Value {
    match json {
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(key, value)| (key.clone(), without(value, goes)))
                .filter(|(key, value)| !goes(key, value))
                .collect(),
        ),
        Value::Array(list) => list.iter().map(|value| without(value, goes)).collect(),
        other => other.clone(),
    }
}
