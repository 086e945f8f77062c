//! Random sequences of applies and updates by several managers, recorded from the real implementation (apimachinery
//! 0.37.2 with structured-merge-diff 6.4.2), must end in the same objects with the same owners.

#![allow(clippy::unwrap_used)]

use seaworthy_fields::{ApplyError, Managers, ObjectType, Operation, Set, Writer};
use seaworthy_schema::Document;
use serde_json::{Value, json};

const VERSION: &str = "example.com/v1";

fn typed(object: &Value) -> Value {
    let mut object = object.clone();
    object["apiVersion"] = json!(VERSION);
    object["kind"] = json!("Thing");
    object
}

/// The owners as the recording has them: name, operation, subresource, second, fields.
fn owners(object: &Value) -> Value {
    let managers = Managers::of_object(object).unwrap();
    let rows = managers.0.iter().map(|manager| {
        let operation = if manager.operation == Operation::Apply { "A" } else { "U" };
        let second = manager.time.as_deref().map_or("", |time| &time[17..19]);
        json!([manager.name, operation, manager.subresource, second, manager.fields.encode()])
    });
    Value::Array(rows.collect())
}

/// Several errors come in random order in the real implementation; the recording has them sorted.
fn sorted(message: &str) -> String {
    let Some((head, lines)) = message.split_once("errors:\n") else { return message.to_owned() };
    let mut lines: Vec<&str> = lines.lines().collect();
    lines.sort_unstable();
    format!("{head}errors:\n{}", lines.join("\n"))
}

#[test]
fn owners_are_those_of_the_real_server() {
    let types: Value = serde_json::from_str(include_str!("recorded/types.json")).unwrap();
    let document = Document::of_definitions(types.as_object().unwrap());
    let kind = ObjectType::custom(document.named("Thing").unwrap(), document.named("ObjectMeta").unwrap());
    let ignored = Set::of_fields([["status"].as_slice()]);
    let ignored_by_status = Set::of_fields([["spec"].as_slice(), ["metadata"].as_slice()]);
    let main = Writer { kind, api_version: VERSION, subresource: "", ignored: Some(&ignored), versions: None };
    let status = Writer { subresource: "status", ignored: Some(&ignored_by_status), ..main };

    let mut steps = 0;
    for (number, line) in include_str!("recorded/owners.jsonl").lines().enumerate() {
        let case: Vec<Value> = serde_json::from_str(line).unwrap();
        let mut live: Option<Value> = None;
        for (position, step) in case.iter().enumerate() {
            let at = format!("case {number}, step {position}: {step}\nlive: {}", live.clone().unwrap_or_default());
            let writer = if step.get("sub").is_some() { &status } else { &main };
            let by = step["by"].as_str().unwrap();
            let time = format!("2001-01-01T00:00:{:02}Z", position + 1);
            let result = if let Some(config) = step.get("apply") {
                let force = step.get("force").is_some();
                let applied = writer.apply(live.as_ref(), &typed(config), by, force, &time);
                applied.map_err(|error| (matches!(error, ApplyError::Conflicts(_)), error.to_string()))
            } else {
                let mut new = typed(&step["update"]);
                let updated = writer.update(live.as_ref(), &mut new, by, &time);
                updated.map(|()| new).map_err(|error| (false, error.to_string()))
            };
            steps += 1;
            match (result, step.get("error").and_then(Value::as_str)) {
                (Ok(mut object), None) => {
                    assert_eq!(owners(&object), step["owners"], "{at}");
                    if let Some(wanted) = step.get("result") {
                        let mut shown = object.clone();
                        shown["metadata"].as_object_mut().unwrap().remove("managedFields");
                        let mut wanted = typed(wanted);
                        if live.is_none() {
                            wanted["metadata"].as_object_mut().unwrap().remove("uid");
                        }
                        assert_eq!(shown, wanted, "{at}");
                    }
                    if live.is_none() {
                        object["metadata"]["uid"] = json!("u");
                    }
                    live = Some(object);
                }
                (Err((is_conflict, message)), Some(wanted)) => {
                    assert_eq!(is_conflict, step.get("conflict").is_some(), "{at}: {message}");
                    let message = sorted(&message);
                    assert!(wanted == message || wanted.ends_with(&format!(": {message}")), "{at}\n{message}");
                }
                (result, _) => panic!("{at}\n{result:?}"),
            }
        }
    }
    assert!(steps > 1000, "{steps}");
}
