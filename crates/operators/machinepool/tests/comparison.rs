//! Comparison: what of an object counts, and how two recordings differ.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use crate::paths::{Path, at, filtered, paths};

static TIME: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z").unwrap());
static UUID: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").unwrap());

/// Metadata that differs from run to run.
const DROPPED: [&str; 6] = ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink"];

/// What is compared of a value: no times, no identities, nothing empty.
pub fn plain(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut out: Map<String, Value> = fields.iter().map(|(key, value)| (key.clone(), plain(value))).collect();
            if let Some(Value::Object(metadata)) = out.get_mut("metadata") {
                let generated = metadata.get("generateName").and_then(Value::as_str).map(str::to_owned);
                let name = metadata.get("name").and_then(Value::as_str).unwrap_or_default();
                if let Some(prefix) = generated.filter(|prefix| !prefix.is_empty() && name.starts_with(prefix.as_str()))
                {
                    metadata.insert("name".to_owned(), format!("{prefix}*").into());
                }
                metadata.retain(|key, _| !DROPPED.contains(&key.as_str()));
                for owner in metadata.get_mut("ownerReferences").and_then(Value::as_array_mut).into_iter().flatten() {
                    owner.as_object_mut().unwrap().remove("uid");
                }
            }
            out.retain(|_, value| !is_nothing(value));
            Value::Object(out)
        }
        Value::Array(items) => Value::Array(items.iter().map(plain).collect()),
        Value::String(text) => UUID.replace_all(&TIME.replace_all(text, "<time>"), "<uid>").into_owned().into(),
        other => other.clone(),
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// What a step compares of an object.
pub fn shaped(step: &Value, object: Value) -> Value {
    let patterns =
        |key: &str| -> Vec<&str> { step[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect() };
    let mut value = object;
    if step.get("only").is_some() {
        let wanted = paths(&value, patterns("only").into_iter().chain(["kind", "metadata/name"]));
        value = filtered(&value, &|at: &Path| {
            wanted.iter().any(|path| {
                let shared = path.len().min(at.len());
                at[..shared] == path[..shared]
            })
        });
    }
    if step.get("ignore").is_some() {
        let unwanted = paths(&value, patterns("ignore"));
        value = filtered(&value, &|at: &Path| !unwanted.contains(at));
    }
    if step.get("zeros").is_some() {
        let zeros = paths(&value, patterns("zeros"));
        let whole = value.clone();
        value = filtered(&value, &|path: &Path| !zeros.contains(path) || at(&whole, path) != Some(&Value::from(0)));
    }
    plain(&value)
}

/// How a value differs from the expected one, line by line.
pub fn differences(wanted: &Value, found: &Value, at: &str, lines: &mut Vec<String>) {
    match (wanted, found) {
        (Value::Array(wanted), Value::Array(found)) => {
            for nth in 0..wanted.len().max(found.len()) {
                difference(wanted.get(nth), found.get(nth), &format!("{at}/{nth}"), lines);
            }
        }
        (Value::Object(wanted), Value::Object(found)) => {
            let added = found.keys().filter(|key| !wanted.contains_key(*key));
            for key in wanted.keys().chain(added) {
                difference(wanted.get(key), found.get(key), &format!("{at}/{key}"), lines);
            }
        }
        (wanted, found) if wanted != found => lines.push(format!("{at}: expected {wanted}, found {found}")),
        _ => {}
    }
}

fn difference(wanted: Option<&Value>, found: Option<&Value>, at: &str, lines: &mut Vec<String>) {
    match (wanted, found) {
        (Some(wanted), Some(found)) => differences(wanted, found, at, lines),
        (Some(wanted), None) => lines.push(format!("{at}: missing, expected {wanted}")),
        (None, Some(found)) => lines.push(format!("{at}: unexpected {found}")),
        (None, None) => {}
    }
}

mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_a_step_names_is_compared() {
        let step = json!({"only": ["status/conditions/[type=Ready]/status", "status/deprecated"], "zeros": ["status/deprecated/*"]});
        let object = json!({
            "kind": "K", "metadata": {"name": "a", "uid": "u", "labels": {"b": "c"}},
            "status": {
                "conditions": [{"type": "Paused", "status": "False"}, {"type": "Ready", "status": "True", "reason": "R"}],
                "deprecated": {"ready": 0, "available": 1},
            },
        });
        let expected = json!({
            "kind": "K", "metadata": {"name": "a"},
            "status": {"conditions": [{"status": "True"}], "deprecated": {"available": 1}},
        });
        assert_eq!(shaped(&step, object), expected);
    }

    #[test]
    fn every_difference_is_a_line() {
        let mut lines = Vec::new();
        differences(&json!({"a": [1, 2], "b": true}), &json!({"a": [1], "b": 1, "c": 2}), "", &mut lines);
        assert_eq!(lines.len(), 3, "{lines:?}");
    }
}
