//! Compares reading, validating and merging with the answers of the real libraries, recorded in `tests/oracle` (its
//! README says which).

use std::collections::{BTreeMap, BTreeSet};

use seaworthy_ignition::{Node, Problem, Severity, merge, parse};
use serde_json::Value;

use crate::recorded::{
    EMPTY_PIN, HASH_SOURCE, HEX, LOOKALIKES, MINUS_ZERO, NAMELESS_PIN, NUL, Reason, SOURCE, TARGET, compare, parsed,
    refused_for, rows, same_result, under, version,
};

use crate::recorded;

/// Whether a config is accepted.
const VERDICTS: &[Reason] = &[
    Reason {
        why: "the recorded reader reads one version only; ours reads all",
        covers: |row, ours| {
            row["version"] != version(row) && row["error"] == "unsupported config version" && ours.is_ok()
        },
    },
    Reason {
        why: "\"3.05.0\" and \"3.5.0-\" are not versions that anyone writes",
        covers: |row, ours| {
            ["3.05.0", "3.5.0-"].contains(&version(row))
                && refused_for(ours, &["version-unknown"], &["ignition.version"])
        },
    },
    Reason {
        why: "a number beyond the range of a double is still JSON",
        covers: |row, ours| ours.is_ok() && under(&row["in"], "advertisement").contains(&&Value::from("1e999")),
    },
    HEX,
    TARGET,
    SOURCE,
    HASH_SOURCE,
    MINUS_ZERO,
    LOOKALIKES,
    EMPTY_PIN,
    NAMELESS_PIN,
    NUL,
];

#[test]
fn configs_are_accepted_and_refused_as_ignition_does() {
    compare(&rows("oracle/validate.jsonl"), VERDICTS, |row| parsed(&row["in"]), |row, ours| row["ok"] == ours.is_ok());
}

#[test]
fn errors_are_located_where_ignition_locates_them() {
    let mut wrong = Vec::new();
    for row in rows("oracle/validate.jsonl") {
        let mut node = Node::from_json(&row["in"]);
        node.number(0);
        let Err(problems) = parse(&node) else {
            continue;
        };
        // Of two partitions that clash they name either.
        let places = |problem: &Problem| {
            let others = problem.related.iter().filter(|_| problem.code.starts_with("partition-"));
            let others = others.filter_map(|other| node.path_of(*other));
            others.chain([problem.path.clone()]).collect::<Vec<_>>()
        };
        let ours: BTreeSet<String> = problems
            .iter()
            .filter(|problem| problem.severity == Severity::Error)
            .flat_map(places)
            .map(|path| format!("$.{}", path.to_string().replace('[', ".").replace(']', "")))
            .collect();
        let entries = row["report"].as_array().unwrap();
        let theirs: BTreeSet<&str> = entries
            .iter()
            .filter(|entry| entry["kind"] == "error")
            .map(|entry| entry["path"].as_str().unwrap())
            .filter(|path| *path != "$")
            .collect();
        // One of their places is enough, or one right above or below it: they name some mistakes twice, and take others
        // for granted after the first.
        let near = |theirs: &&str| ours.iter().any(|ours| is_at_or_below(theirs, ours) || is_at_or_below(ours, theirs));
        if !theirs.is_empty() && !theirs.iter().any(near) {
            wrong.push(format!("ours {ours:?}, theirs {theirs:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}

/// Whether a place is another one or lies below it: `files.10` does not lie below `files.1`.
fn is_at_or_below(place: &str, other: &str) -> bool {
    place.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Differs: see `merge`. What described the old source goes with it.
const NEW_BODY: Reason = Reason {
    why: "a new source does not inherit the hash, the compression and the headers of the old one",
    covers: |row, ours| {
        let children: Vec<&Value> = match row.get("child") {
            Some(child) => vec![child],
            None => row["in"].as_array().unwrap().iter().skip(1).collect(),
        };
        ours.as_ref().is_ok_and(|ours| differs_in_new_bodies(ours, &row["out"], &children))
    },
};

/// Whether two configs differ only in bodies for which one of the children gives a source, and only by what ours lacks.
fn differs_in_new_bodies(ours: &Value, theirs: &Value, children: &[&Value]) -> bool {
    let (mut ours, mut theirs) = (ours.clone(), theirs.clone());
    let (our_bodies, their_bodies) = (take_bodies(&mut ours), take_bodies(&mut theirs));
    let names: BTreeSet<&String> = our_bodies.keys().chain(their_bodies.keys()).collect();
    let new: Vec<_> = children.iter().map(|child| take_bodies(&mut (*child).clone())).collect();
    ours == theirs
        && names.into_iter().all(|name| match (our_bodies.get(name), their_bodies.get(name)) {
            (Some(Value::Object(ours)), Some(Value::Object(theirs))) if ours != theirs => {
                let has_source =
                    new.iter().any(|bodies| bodies.get(name).is_some_and(|body| body["source"].is_string()));
                let is_part = |(key, value): (&String, &Value)| match value {
                    Value::Array(headers) => headers.iter().all(|header| {
                        theirs.get(key).and_then(Value::as_array).is_some_and(|theirs| theirs.contains(header))
                    }),
                    value => theirs.get(key) == Some(value),
                };
                has_source && ours.iter().all(is_part)
            }
            (ours, theirs) => ours == theirs,
        })
}

/// Takes the bodies out of a config, each under a name of its own.
fn take_bodies(config: &mut Value) -> BTreeMap<String, Value> {
    let mut bodies = BTreeMap::new();
    if let Some(Value::Object(references)) = config.pointer_mut("/ignition/config") {
        bodies.extend(references.remove("replace").map(|body| ("replace".to_owned(), body)));
    }
    for (list, name, body) in [("files", "path", "contents"), ("luks", "name", "keyFile")] {
        let entries = config.pointer_mut(&format!("/storage/{list}")).and_then(Value::as_array_mut);
        for entry in entries.into_iter().flatten().filter_map(Value::as_object_mut) {
            let name = format!("{list} {}", entry.get(name).unwrap_or(&Value::Null));
            bodies.extend(entry.remove(body).map(|body| (name, body)));
        }
    }
    bodies
}

#[test]
fn configs_are_merged_as_ignition_does() {
    compare(
        &rows("oracle/merge.jsonl"),
        &[NEW_BODY],
        |row| {
            let (parent, child) = (without_nulls(&row["parent"]), without_nulls(&row["child"]));
            let (parent, child) = (Node::from_json(&parent), Node::from_json(&child));
            Ok(merge([&parent, &child]).config.to_json())
        },
        |row, ours| ours.as_ref() == Ok(&row["out"]),
    );
}

/// `null` is taken out when a config is read, before anything is merged.
fn without_nulls(json: &Value) -> Value {
    recorded::without(json, &|_, value| value.is_null())
}

#[test]
fn chains_of_configs_are_read_and_merged_as_upstream_does() {
    let reasons = [
        NEW_BODY,
        Reason {
            why: "a later entry that sets the mode alone leaves the compression; upstream takes it away",
            covers: |row, ours| ours.as_ref().is_ok_and(|ours| differs_in_kept_compressions(ours, row)),
        },
        Reason {
            why: "the advertisement of a tang server of a 3.4 config is kept; upstream loses it",
            covers: |row, ours| {
                let is_lost = |key: &str, _: &Value| key == "advertisement";
                let inputs = row["in"].as_array().unwrap();
                let written: BTreeMap<_, _> = inputs.iter().flat_map(advertisements).collect();
                ours.as_ref().is_ok_and(|ours| {
                    advertisements(ours) == written
                        && advertisements(&row["out"]).len() < written.len()
                        && recorded::without(ours, &is_lost) == recorded::without(&row["out"], &is_lost)
                })
            },
        },
        Reason {
            why: "several config.append entries are converted; upstream refuses them",
            covers: |row, ours| {
                ours.is_ok() && row["error"].as_str().is_some_and(|error| error.contains("merge.1: duplicate entry"))
            },
        },
    ];
    compare(
        &rows("oracle/merge-chain.jsonl"),
        &reasons,
        |row| {
            let inputs: Vec<&Value> = row["in"].as_array().unwrap().iter().filter(|config| !config.is_null()).collect();
            let configs = inputs.iter().map(|config| parsed(config)).collect::<Result<Vec<_>, _>>()?;
            let nodes: Vec<Node<'_>> = configs.iter().map(Node::from_json).collect();
            let mut merged = merge(&nodes).config.to_json();
            // What the operator does around the merge is not this crate's; it is repeated here to compare the rest.
            if let Some(Value::Array(files)) = merged.pointer_mut("/storage/files") {
                for file in files.iter_mut().filter_map(Value::as_object_mut) {
                    file.entry("overwrite").or_insert(Value::Bool(true));
                }
            }
            if row["in"].as_array().unwrap().iter().skip(1).any(|config| !config.is_null()) {
                let files = merged.pointer_mut("/storage/files").and_then(Value::as_array_mut).into_iter().flatten();
                for contents in files.filter_map(|file| file.get_mut("contents")?.as_object_mut()) {
                    contents.retain(|key, value| key != "compression" || value != "");
                }
            }
            Ok(recorded::without(&merged, &|_, value| value == &serde_json::json!({})))
        },
        same_result,
    );
}

/// Whether ours differs only in files whose compression came with their source, in an earlier entry than the last, and
/// which upstream has lost.
fn differs_in_kept_compressions(ours: &Value, row: &Value) -> bool {
    let files =
        |config: &Value| config.pointer("/storage/files").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut ours = ours.clone();
    let theirs = files(&row["out"]);
    let mut kept = 0;
    for file in ours.pointer_mut("/storage/files").and_then(Value::as_array_mut).into_iter().flatten() {
        let path = file["path"].clone();
        let is_lost = theirs.iter().any(|theirs| theirs["path"] == path && theirs["contents"]["compression"].is_null());
        if !is_lost || file["contents"]["compression"].is_null() {
            continue;
        }
        let inputs = row["in"].as_array().unwrap();
        let entries: Vec<Value> = inputs.iter().flat_map(files).filter(|entry| entry["path"] == path).collect();
        let Some(source) = entries.iter().rposition(|entry| entry["contents"]["source"].is_string()) else {
            return false;
        };
        if source + 1 == entries.len() || entries[source]["contents"]["compression"] != file["contents"]["compression"]
        {
            return false;
        }
        file["contents"].as_object_mut().unwrap().remove("compression");
        kept += 1;
    }
    kept > 0 && ours == row["out"]
}

/// What a config says of the advertisements of tang servers, by device and server.
fn advertisements(config: &Value) -> BTreeMap<(String, String), String> {
    let devices = config.pointer("/storage/luks").and_then(Value::as_array).into_iter().flatten();
    let servers = devices.flat_map(|device| {
        let servers = device.pointer("/clevis/tang").and_then(Value::as_array).into_iter().flatten();
        servers.map(|server| (device["name"].to_string(), server))
    });
    servers
        .filter_map(|(device, server)| {
            Some(((device, server["url"].to_string()), server["advertisement"].as_str()?.to_owned()))
        })
        .collect()
}

#[test]
fn every_recorded_config_is_read_the_same_from_its_text() {
    for row in rows("oracle/validate.jsonl") {
        let text = row["in"].to_string();
        let mut from_text: Node<'_> = serde_json::from_str(&text).unwrap();
        from_text.number(0);
        let ours = parse(&from_text).map(|parsed| parsed.config.to_json());
        assert_eq!(ours, parsed(&row["in"]), "{text}");
    }
}
