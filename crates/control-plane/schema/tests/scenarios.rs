//! The conversations with the real API server that are about custom resources, as far as this crate has a part in
//! them: what is stored, what is refused and with which words, what a table shows.
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rstest::rstest;
use seaworthy_schema::{
    Cause, Column, CustomResource, Document, Pruning, Scale, apply_defaults, default_definition, definition_mistakes,
    remember_stored_version,
};
use serde_json::{Map, Value, json};

const GROUP: &str = "harbour.example.com";

/// The recordings: the API server's own.
fn recordings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../apiserver/tests/golden")
}

fn read(root: &Path, folder: &str, name: &str) -> Value {
    let text = fs::read_to_string(root.join(folder).join(format!("{name}.json"))).unwrap();
    let text = text.replace("${group}", GROUP).replace("${ns}", "ns").replace(&format!("{name}-ID.example.com"), GROUP);
    serde_json::from_str(&text).unwrap()
}

/// As much of a server as the scenarios need.
#[derive(Default)]
struct Server {
    definition: Value,
    objects: BTreeMap<String, Value>,
}

enum Answer {
    Object(Value),
    Refused(Vec<Cause>),
    Other,
}

impl Server {
    fn version(&self, path: &str) -> Option<&Value> {
        let name = path.split('/').nth(3)?;
        self.definition["spec"]["versions"].as_array()?.iter().find(|version| version["name"] == name)
    }

    fn write_definition(&mut self, mut definition: Value, old: Option<&Value>) -> Answer {
        default_definition(&mut definition);
        if old.is_some() {
            definition["status"] = self.definition["status"].clone();
        }
        remember_stored_version(&mut definition);
        let causes = definition_mistakes(&definition, old);
        if !causes.is_empty() {
            return Answer::Refused(causes);
        }
        definition["status"]["conditions"] = json!([{"type": "Established", "status": "True"}]);
        self.definition = definition.clone();
        Answer::Object(definition)
    }

    fn write(&mut self, path: &str, mut object: Value, old: Option<Value>, is_dry: bool) -> Answer {
        let Some(version) = self.version(path) else { return Answer::Other };
        let (document, root) = Document::of_custom_resource(&version["schema"]["openAPIV3Schema"]);
        let schema = document.at(root);
        let scale = version.pointer("/subresources/scale").and_then(Scale::of);
        let is_status = path.ends_with("/status");
        let text = json!({"type": "string"});
        let texts = json!({"type": "object", "additionalProperties": text});
        let metadata = json!({"type": "object", "properties": {"name": text, "labels": texts, "annotations": texts}});
        let (metadata, metadata_root) = Document::of_custom_resource(&metadata);
        Pruning { metadata: Some(metadata.at(metadata_root)) }.object(schema, &mut object);
        apply_defaults(schema, &mut object);
        let judge = CustomResource { schema, scale: scale.as_ref() };
        let causes = match (&old, is_status) {
            (Some(old), true) => judge.status_mistakes(&object, old, Vec::new()).mistakes,
            (old, _) => judge.mistakes(&object, old.as_ref(), Vec::new()).mistakes,
        };
        if !causes.is_empty() {
            return Answer::Refused(causes);
        }
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        if !is_dry {
            self.objects.insert(name, object.clone());
        }
        Answer::Object(object)
    }

    fn run(&mut self, step: &Value) -> Answer {
        let Some((verb, path)) = step["do"].as_str().and_then(|words| words.split_once(' ')) else {
            return Answer::Other;
        };
        let body = &step["body"];
        let is_dry = step["query"]["dryRun"] == "All";
        let is_definition = path.contains("customresourcedefinitions");
        let patched = |old: &Value| match step["type"].as_str() {
            Some("merge") => Some(merged(old, body)),
            Some("json-patch") => body.as_array().unwrap().iter().try_fold(old.clone(), edited),
            _ => None,
        };
        match verb {
            "POST" if is_definition => self.write_definition(body.clone(), None),
            "PATCH" if is_definition => {
                let old = self.definition.clone();
                patched(&old).map_or(Answer::Other, |new| self.write_definition(new, Some(&old)))
            }
            "POST" if body.is_object() => self.write(path, body.clone(), None, is_dry),
            "PATCH" => {
                let name = path.trim_end_matches("/status").rsplit('/').next().unwrap();
                let Some(old) = self.objects.get(name).cloned() else { return Answer::Other };
                patched(&old).map_or(Answer::Other, |new| self.write(path, new, Some(old), is_dry))
            }
            _ => Answer::Other,
        }
    }
}

fn merged(old: &Value, patch: &Value) -> Value {
    let Some(patch) = patch.as_object() else { return patch.clone() };
    let mut new: Map<String, Value> = old.as_object().cloned().unwrap_or_default();
    for (key, value) in patch {
        if value.is_null() {
            new.remove(key);
        } else {
            let old = new.get(key).cloned().unwrap_or(Value::Null);
            new.insert(key.clone(), merged(&old, value));
        }
    }
    Value::Object(new)
}

/// One operation of a JSON patch; only what the scenarios use.
fn edited(mut object: Value, operation: &Value) -> Option<Value> {
    let (parent, key) = operation["path"].as_str()?.rsplit_once('/')?;
    let value = operation["value"].clone();
    match object.pointer_mut(parent)? {
        Value::Object(map) if operation["op"] == "remove" => {
            map.remove(key);
        }
        Value::Object(map) => {
            map.insert(key.to_owned(), value);
        }
        Value::Array(items) if key == "-" => items.push(value),
        _ => return None,
    }
    Some(object)
}

/// Causes by field and reason, as the comparison has them.
fn sorted(causes: impl IntoIterator<Item = (String, String, String)>) -> Vec<(String, String, String)> {
    let mut all: Vec<_> = causes.into_iter().collect();
    all.sort();
    all
}

#[rstest]
#[case("crd-validation", 9)]
#[case("crd-cel", 8)]
#[case("crd-cel-transition", 5)]
#[case("crd-defaulting", 0)]
#[case("crd-pruning", 1)]
#[case("crd-nullable", 1)]
#[case("crd-list-types", 6)]
#[case("crd-int-or-string", 3)]
#[case("crd-embedded", 2)]
#[case("crd-scale", 0)]
#[case("crd-invalid", 13)]
#[case("crd-update-rules", 6)]
#[case("crd-names", 0)]
#[case("crd-versions", 0)]
#[case("crd-selectable-fields", 0)]
fn answers_are_those_of_the_real_server(#[case] name: &str, #[case] refusals: usize) {
    let root = recordings();
    let (scenario, expected) = (read(&root, "scenarios", name), read(&root, "expected", name));
    let mut server = Server::default();
    if let Some(definition) = scenario.get("crds").and_then(|crds| crds.get(0)) {
        assert!(matches!(server.write_definition(definition.clone(), None), Answer::Object(_)));
    }
    let mut refused = 0;
    let steps = scenario["steps"].as_array().unwrap().iter();
    for step in steps {
        let answers = expected["steps"].as_array().unwrap();
        let Some(want) = answers.iter().find(|answer| answer["step"] == step["name"]) else { continue };
        let at = format!("{name}: {}", step["name"]);
        match server.run(step) {
            Answer::Other => {}
            Answer::Object(object) => {
                // What is refused while it is decoded is not refused here.
                assert!(matches!(want["code"].as_u64(), Some(200 | 201 | 400)), "{at}: {want}");
                for part in ["spec", "status"] {
                    let is_whole = step.get("only").is_none_or(|only| only.as_array().unwrap().contains(&part.into()));
                    if want["code"] != 400 && is_whole && want["body"].get(part).is_some() && object["kind"] == "Widget"
                    {
                        assert_eq!(object.get(part), want["body"].get(part), "{at}");
                    }
                }
            }
            Answer::Refused(causes) => {
                assert_eq!(want["code"], 422, "{at}: {causes:?}");
                refused += 1;
                let Some(wanted) = want["body"]["details"]["causes"].as_array() else { continue };
                let text = |cause: &Value, key: &str| cause[key].as_str().unwrap().to_owned();
                let wanted = sorted(
                    wanted.iter().map(|cause| (text(cause, "field"), text(cause, "reason"), text(cause, "message"))),
                );
                let ours = sorted(
                    causes
                        .iter()
                        .map(|cause| (cause.field.clone(), cause.reason.as_str().to_owned(), cause.message.clone())),
                );
                let without_patch = |all: Vec<(String, String, String)>| -> Vec<_> {
                    all.into_iter().filter(|(field, _, _)| field != "patch").collect()
                };
                assert_eq!(without_patch(ours), without_patch(wanted), "{at}");
            }
        }
    }
    assert!(refused >= refusals, "{name}: only {refused} refusals were compared");
}

#[test]
fn cells_are_those_of_the_real_server() {
    let root = recordings();
    let name = "crd-printer-columns";
    let (scenario, expected) = (read(&root, "scenarios", name), read(&root, "expected", name));
    let columns = scenario["crds"][0]["spec"]["versions"][0]["additionalPrinterColumns"].as_array().unwrap();
    let columns: Vec<Column> = columns.iter().map(|column| Column::of(column).unwrap()).collect();
    let steps = scenario["steps"].as_array().unwrap();
    let mut object = merged(&steps[0]["body"], &steps[1]["body"]);
    object["metadata"]["creationTimestamp"] = json!("2026-11-15T12:00:00Z");
    let list = expected["steps"].as_array().unwrap().iter().find(|answer| answer["step"] == "list").unwrap();
    let wanted = list["body"]["rows"][0]["cells"].as_array().unwrap();
    assert_eq!(wanted.len(), columns.len() + 1);
    for (column, wanted) in columns.iter().zip(&wanted[1..]) {
        let cell = column.cell(&object, 1_794_744_030);
        if wanted == "<age>" {
            assert!(["6y320d", "30s"].contains(&cell.as_str().unwrap()), "{}: {cell}", column.name);
        } else {
            assert_eq!(&cell, wanted, "{}", column.name);
        }
    }
}
