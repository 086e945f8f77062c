//! Compares this crate with the answers of the real libraries, recorded in `tests/oracle` (its README says which).

use std::collections::{BTreeMap, BTreeSet};

use seaworthy_ignition::{Node, Severity, Version, merge, parse, translate_down};
use serde_json::Value;

fn rows(name: &str) -> Vec<Value> {
    let path = format!("{}/tests/oracle/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Where we answer differently on purpose: what the answer is about, and why.
const DIFFERENT: [(&str, &str); 11] = [
    ("accepted: version", "the recorded reader reads one version only"),
    ("hash", "a hash sum must be hexadecimal; Ignition counts its characters only"),
    (
        "link-target",
        "a link without a target is refused in every version; before 3.3 the machine fails at boot instead",
    ),
    ("source-required", "a reference without a source is refused in every version; before 3.1 it did nothing"),
    ("version-unknown", "\"3.05.0\" is not a version that anyone writes"),
    ("wrong-type", "-0 is read as a number with a fraction by our JSON reader"),
    ("unused key", "keys that differ by letters that only look alike are not taken for the same"),
    ("S3 ARN", "a slash in front of the first colon is not looked for"),
    ("custom clevis config", "3.2 takes an empty custom pin for a set one"),
    ("clevis-pin", "3.2 takes a custom pin without a name"),
    ("advertisement", "a number beyond the range of a double is still JSON"),
];

#[test]
fn configs_are_accepted_and_refused_as_ignition_does() {
    let mut wrong: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut explained = BTreeSet::new();
    let all = rows("validate.jsonl");
    for row in &all {
        let mut node = Node::from_json(&row["in"]);
        node.number(0);
        let ours = parse(&node);
        if ours.is_ok() == row["ok"].as_bool().unwrap() {
            continue;
        }
        let why = match &ours {
            Err(problems) => problems
                .iter()
                .filter(|problem| problem.severity == Severity::Error)
                .map(|problem| format!("refused: {} at {}", problem.code, problem.path))
                .collect::<Vec<_>>()
                .join("; "),
            Ok(parsed) if parsed.version.as_str() != row["version"] => {
                format!("accepted: version {}", parsed.version)
            }
            Ok(_) => format!("accepted: {}", row["report"]),
        };
        match DIFFERENT.iter().find(|(what, _)| why.contains(what)) {
            Some((what, _)) => drop(explained.insert(*what)),
            None => wrong.entry(why).or_default().push(row.to_string()),
        }
    }
    for (why, rows) in &wrong {
        eprintln!("{} × {why}\n    {}", rows.len(), &rows[0].chars().take(400).collect::<String>());
    }
    assert!(wrong.is_empty());
    let unused: Vec<_> = DIFFERENT.iter().filter(|(what, _)| !explained.contains(what)).collect();
    assert!(unused.is_empty(), "explanations that explain nothing: {unused:?}");
    assert!(all.len() > 5000);
}

#[test]
fn errors_stand_at_the_place_that_ignition_names() {
    let mut wrong = Vec::new();
    for row in rows("validate.jsonl") {
        let mut node = Node::from_json(&row["in"]);
        node.number(0);
        let Err(problems) = parse(&node) else {
            continue;
        };
        let ours: BTreeSet<String> = problems
            .iter()
            .filter(|problem| problem.severity == Severity::Error)
            .map(|problem| format!("$.{}", problem.path.to_string().replace('[', ".").replace(']', "")))
            .collect();
        let entries = row["report"].as_array().unwrap();
        let theirs: BTreeSet<&str> = entries
            .iter()
            .filter(|entry| entry["kind"] == "error")
            .map(|entry| entry["path"].as_str().unwrap())
            .filter(|path| *path != "$")
            .collect();
        // One of their places is enough, or one right above or below it: they name some mistakes twice, and take others
        // for granted after the first. Of two partitions that clash they name either.
        let near = |path: &&str| ours.iter().any(|ours| path.starts_with(ours.as_str()) || ours.starts_with(*path));
        let is_pair = theirs.iter().any(|path| path.contains(".partitions."));
        if !theirs.is_empty() && !is_pair && !theirs.iter().any(near) {
            wrong.push(format!("ours {ours:?}, theirs {theirs:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn configs_are_merged_as_ignition_does() {
    let all = rows("merge.jsonl");
    let mut wrong = Vec::new();
    let mut bodies = 0;
    for row in &all {
        let (parent, child) = (without_nulls(&row["parent"]), without_nulls(&row["child"]));
        let (parent, child) = (Node::from_json(&parent), Node::from_json(&child));
        let mut merged = merge([&parent, &child]).config.to_json();
        let mut theirs = row["out"].clone();
        if merged != theirs {
            // Differs: a source, its hash, its compression and its headers are taken together (see `merge`).
            without_body_fields(&mut merged);
            without_body_fields(&mut theirs);
            bodies += 1;
        }
        if merged != theirs {
            wrong.push(format!(
                "parent {}\nchild  {}\nours   {merged}\ntheirs {}",
                row["parent"], row["child"], row["out"]
            ));
        }
    }
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), all.len(), wrong[..wrong.len().min(8)].join("\n\n"));
    assert!(bodies < all.len() / 10, "{bodies} rows differ in bodies");
}

/// `null` is taken out when a config is read, before anything is merged.
fn without_nulls(json: &Value) -> Value {
    match json {
        Value::Object(map) => {
            let kept = map.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (key.clone(), without_nulls(value))).collect())
        }
        Value::Array(list) => list.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

fn without_body_fields(json: &mut Value) {
    match json {
        Value::Object(map) => {
            for key in ["contents", "replace", "keyFile"] {
                if let Some(Value::Object(body)) = map.get_mut(key) {
                    body.retain(|key, _| key == "source");
                }
            }
            map.values_mut().for_each(without_body_fields);
        }
        Value::Array(list) => list.iter_mut().for_each(without_body_fields),
        _ => {}
    }
}

/// Compares a way from one version to another with the recorded one; `explained` names what differs on purpose.
fn compare_ways(
    name: &str,
    way: impl Fn(&Value) -> Result<Value, String>,
    explained: impl Fn(&Value, &Result<Value, String>) -> Option<&'static str>,
) {
    let all = rows(name);
    let mut wrong = Vec::new();
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for row in &all {
        let ours = way(row);
        let agrees = match (&ours, row.get("out")) {
            (Ok(ours), Some(theirs)) => ours == theirs,
            (Err(_), None) => true,
            _ => false,
        };
        if agrees {
            continue;
        }
        match explained(row, &ours) {
            Some(reason) => *reasons.entry(reason).or_default() += 1,
            None => {
                let ours = match &ours {
                    Ok(ours) => ours.to_string(),
                    Err(error) => format!("refused: {error}"),
                };
                let theirs = row.get("out").unwrap_or(&row["error"]);
                wrong.push(format!("in     {} {}\nours   {ours}\ntheirs {theirs}", row["in"], row["to"]));
            }
        }
    }
    eprintln!("{name}: explained {reasons:?}");
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), all.len(), wrong[..wrong.len().min(1000)].join("\n\n"));
}

fn parsed(json: &Value) -> Result<Value, String> {
    let mut node = Node::from_json(json);
    node.number(0);
    match parse(&node) {
        Ok(parsed) => Ok(parsed.config.to_json()),
        Err(problems) => Err(problems
            .iter()
            .filter(|problem| problem.severity == Severity::Error)
            .map(|problem| format!("{} at {}: {}", problem.code, problem.path, problem.message))
            .collect::<Vec<_>>()
            .join("; ")),
    }
}

#[test]
fn older_versions_are_brought_up_as_ignition_does() {
    compare_ways("up.jsonl", |row| parsed(&row["in"]), |_, _| None);
}

#[test]
fn spec_2_is_converted_as_upstream_does() {
    compare_ways("v2.jsonl", |row| parsed(&row["in"]), |_, _| None);
}

#[test]
fn configs_are_brought_down_as_upstream_does() {
    compare_ways(
        "down.jsonl",
        |row| {
            let config = parsed(&row["in"])?;
            let node = Node::from_json(&config);
            let to = Version::parse(row["to"].as_str().unwrap()).map_err(|error| error.to_string())?;
            translate_down(&node, to)
                .map(|node| node.to_json())
                .map_err(|problems| format!("{} at {}: {}", problems[0].code, problems[0].path, problems[0].message))
        },
        |_, _| None,
    );
}
