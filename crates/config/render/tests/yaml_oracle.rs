//! Compares the YAML writer with the recorded answers of the library that makes upstream's names.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use seaworthy_ignition::Node;
use seaworthy_render::yaml;

/// Keys with digits are written in another order (see `compare_keys`).
fn has_digit_keys(json: &serde_json::Value) -> bool {
    match json {
        serde_json::Value::Object(map) => {
            (map.len() > 1 && map.keys().any(|key| key.chars().any(char::is_numeric)))
                || map.values().any(has_digit_keys)
        }
        serde_json::Value::Array(list) => list.iter().any(has_digit_keys),
        _ => false,
    }
}

fn compare(name: &str) -> (usize, Vec<String>) {
    let path = format!("{}/tests/oracle/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap();
    let mut wrong = Vec::new();
    let mut compared = 0;
    for line in text.lines() {
        // A number that no double holds is no JSON for our reader.
        let Ok(row) = serde_json::from_str::<serde_json::Value>(line) else {
            assert!(line.contains("e400") || line.contains("E400") || line.contains("e999"), "{line}");
            continue;
        };
        // What the library refuses (C1 controls and the like) we write escaped; numbers beyond 64 bits or with a
        // fraction never occur in a valid config, and their spelling is not kept.
        let beyond = ["9223372036854775808", "18446744073709551615"].iter().any(|number| line.contains(number));
        if row.get("error").is_some() || row.get("note").is_some() || beyond || has_digit_keys(&row["in"]) {
            continue;
        }
        compared += 1;
        let ours = yaml::to_string(&Node::from_json(&row["in"]));
        let theirs = row["out"].as_str().unwrap();
        if ours != theirs {
            wrong.push(format!("in     {}\nours   {ours:?}\ntheirs {theirs:?}", row["in"]));
        }
    }
    (compared, wrong)
}

#[test]
fn values_are_written_byte_for_byte_as_go_yaml_writes_them() {
    let (compared, wrong) = compare("yaml-v2.jsonl");
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong[..wrong.len().min(12)].join("\n\n"));
    assert!(compared > 2000, "{compared}");
}

#[test]
fn strings_are_written_byte_for_byte_as_go_yaml_writes_them() {
    let (compared, wrong) = compare("yaml-v2-strings.jsonl");
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong[..wrong.len().min(12)].join("\n\n"));
    assert!(compared > 4000, "{compared}");
}
