//! Random sequences of applies and updates by several managers, recorded from the real implementation (apimachinery
//! 0.37.2 with structured-merge-diff 6.4.2), must end in the same objects with the same owners.
//!
//! Not recorded because the real implementation fails: elements with the same key in an object whose managers wrote in
//! several versions. Here such an object is tracked like any other.

use seaworthy_fields::{ApplyError, Managers, ObjectType, Operation, Set, TypeErrors, Versions, Writer};
use seaworthy_schema::Document;
use serde_json::{Value, json};

/// A step's object or its error, and whether that is about conflicts.
type Outcome = Result<Value, (bool, String)>;

fn applied(result: Result<Value, ApplyError>) -> Outcome {
    result.map_err(|error| (matches!(error, ApplyError::Conflicts(_)), error.to_string()))
}

fn updated(result: Result<(), TypeErrors>, object: Value) -> Outcome {
    result.map(|()| object).map_err(|error| (false, error.to_string()))
}

fn types() -> Document {
    let types: Value = serde_json::from_str(include_str!("recorded/types.json")).unwrap();
    Document::of_definitions(types.as_object().unwrap())
}

fn typed(object: &Value, api_version: &str) -> Value {
    let mut object = object.clone();
    object["apiVersion"] = json!(api_version);
    object["kind"] = json!("Thing");
    object
}

/// The owners as the recording has them: name, operation, subresource or version, second, fields.
fn owners(object: &Value, by_version: bool) -> Value {
    let managers = Managers::of_object(object).unwrap();
    let rows = managers.0.iter().map(|manager| {
        let operation = if manager.operation == Operation::Apply { "A" } else { "U" };
        let second = manager.time.as_deref().map_or("", |time| &time[17..19]);
        let version = manager.api_version.rsplit('/').next().unwrap();
        let third = if by_version { version } else { &manager.subresource };
        json!([manager.name, operation, third, second, manager.fields.encode()])
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

/// Plays all cases of a recording. `play` makes a step's object in version 1 from the live one, the step and the time.
fn play_all(recorded: &str, by_version: bool, play: impl Fn(Option<&Value>, &Value, &str) -> Outcome) -> usize {
    let mut steps = 0;
    for (number, line) in recorded.lines().enumerate() {
        let case: Vec<Value> = serde_json::from_str(line).unwrap();
        let mut live: Option<Value> = None;
        for (position, step) in case.iter().enumerate() {
            let at = format!("case {number}, step {position}: {step}\nlive: {}", live.clone().unwrap_or_default());
            let time = format!("2001-01-01T00:00:{:02}Z", position + 1);
            steps += 1;
            match (play(live.as_ref(), step, &time), step.get("error").and_then(Value::as_str)) {
                (Ok(mut object), None) => {
                    assert_eq!(owners(&object, by_version), step["owners"], "{at}");
                    if let Some(wanted) = step.get("result") {
                        let mut shown = object.clone();
                        shown["metadata"].as_object_mut().unwrap().remove("managedFields");
                        let mut wanted = typed(wanted, "example.com/v1");
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
    steps
}

#[test]
fn owners_are_those_of_the_real_server() {
    let document = types();
    let kind = ObjectType::custom(document.named("Thing").unwrap(), document.named("ObjectMeta").unwrap());
    let ignored = Set::of_fields([["status"].as_slice()]);
    let ignored_by_status = Set::of_fields([["spec"].as_slice(), ["metadata"].as_slice()]);
    let api_version = "example.com/v1";
    let main = Writer { kind, api_version, subresource: "", ignored: Some(&ignored), versions: None };
    let status = Writer { subresource: "status", ignored: Some(&ignored_by_status), ..main };
    let steps = play_all(include_str!("recorded/owners.jsonl"), false, |live, step, time| {
        let writer = if step.get("sub").is_some() { &status } else { &main };
        let by = step["by"].as_str().unwrap();
        match step.get("apply") {
            Some(config) => {
                applied(writer.apply(live, &typed(config, api_version), by, step.get("force").is_some(), time))
            }
            None => {
                let mut new = typed(&step["update"], api_version);
                updated(writer.update(live, &mut new, by, time), new)
            }
        }
    });
    assert_eq!(steps, 840);
}

/// Version 2 calls `spec.s` of version 1 `spec.t`. There is no other version.
struct Renamed<'a> {
    first: ObjectType<'a>,
    second: ObjectType<'a>,
    ignored: &'a Set,
}

impl Versions for Renamed<'_> {
    fn kind(&self, api_version: &str) -> Option<(ObjectType<'_>, Option<&Set>)> {
        match api_version {
            "example.com/v1" => Some((self.first, Some(self.ignored))),
            "example.com/v2" => Some((self.second, Some(self.ignored))),
            _ => None,
        }
    }

    fn convert(&self, object: &Value, api_version: &str) -> Option<Value> {
        let mut object = typed(object, api_version);
        let (from, to) = if api_version.ends_with("v2") { ("s", "t") } else { ("t", "s") };
        if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
            && let Some(value) = spec.remove(from)
        {
            spec.insert(to.to_owned(), value);
        }
        Some(object)
    }
}

#[test]
fn owners_in_several_versions_are_those_of_the_real_server() {
    let document = types();
    let kind = |name| ObjectType::custom(document.named(name).unwrap(), document.named("ObjectMeta").unwrap());
    let ignored = Set::of_fields([["status"].as_slice()]);
    let versions = Renamed { first: kind("Thing"), second: kind("ThingInV2"), ignored: &ignored };
    let steps = play_all(include_str!("recorded/versions.jsonl"), true, |live, step, time| {
        let api_version = format!("example.com/{}", step["version"].as_str().unwrap());
        let (kind, ignored) = versions.kind(&api_version).unwrap();
        let writer = Writer { kind, api_version: &api_version, subresource: "", ignored, versions: Some(&versions) };
        let live = live.map(|live| versions.convert(live, &api_version).unwrap());
        let by = step["by"].as_str().unwrap();
        let outcome = match step.get("apply") {
            Some(config) => {
                let config = typed(config, &api_version);
                applied(writer.apply(live.as_ref(), &config, by, step.get("force").is_some(), time))
            }
            None => {
                let mut new = typed(&step["update"], &api_version);
                if step.get("old").is_some() {
                    let entries = live.as_ref().and_then(|live| live["metadata"].get("managedFields")).cloned();
                    new["metadata"]["managedFields"] = entries.unwrap_or_else(|| json!([]));
                    new["metadata"]["managedFields"].as_array_mut().unwrap().push(json!({
                        "manager": "old", "operation": "Apply", "apiVersion": "example.com/v0",
                        "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:s": {}}}
                    }));
                }
                updated(writer.update(live.as_ref(), &mut new, by, time), new)
            }
        };
        outcome.map(|object| versions.convert(&object, "example.com/v1").unwrap())
    });
    assert_eq!(steps, 144);
}

#[test]
fn what_does_not_fit_is_named_as_by_the_real_server() {
    let document = types();
    let kind = ObjectType::custom(document.named("Thing").unwrap(), document.named("ObjectMeta").unwrap());
    let writer = Writer { kind, api_version: "example.com/v1", subresource: "", ignored: None, versions: None };
    for line in include_str!("recorded/messages.jsonl").lines() {
        let (spec, wanted): (Value, String) = serde_json::from_str(line).unwrap();
        let config = json!({"apiVersion": "example.com/v1", "kind": "Thing", "spec": spec});
        let message = match writer.apply(None, &config, "m", false, "2001-01-01T00:00:00Z") {
            Ok(_) => "<nil>".to_owned(),
            Err(ApplyError::Config(_, errors)) => errors.to_string(),
            Err(other) => panic!("{line}: {other}"),
        };
        assert_eq!(message, wanted, "{line}");
    }
}

#[test]
fn sets_are_stored_and_shown_as_by_the_real_server() {
    let mut count = 0;
    for line in include_str!("recorded/codec.jsonl").lines() {
        let (text, paths): (String, Vec<String>) = serde_json::from_str(line).unwrap();
        let set = Set::decode(&serde_json::from_str(&text).unwrap()).unwrap();
        assert_eq!(set.to_text(), text);
        let shown: Vec<String> =
            set.paths().iter().map(|path| path.iter().map(ToString::to_string).collect()).collect();
        assert_eq!(shown, paths, "{text}");
        count += 1;
    }
    assert_eq!(count, 150);
}
