//! Compares the ways up from older versions, up from spec 2.x and down to older versions with the answers of the real
//! libraries, recorded in `tests/oracle` (its README says which).

use seaworthy_ignition::{Node, Problem, Severity, Version, translate_down};
use serde_json::Value;

use crate::recorded::{
    HEX, Reason, SOURCE, TARGET, compare, parsed, refused_for, rows, same_result, under, version, without,
};

use crate::recorded;

/// Whether the configs are the same when some parts are taken out of both.
fn same_without(row: &Value, ours: &recorded::Answer, goes: impl Fn(&str, &Value) -> bool) -> bool {
    match (ours, row.get("out")) {
        (Ok(ours), Some(theirs)) => without(ours, &goes) == without(theirs, &goes),
        _ => false,
    }
}

const UP: &[Reason] = &[
    Reason {
        why: "the recorded function does not read 2.x; v2.jsonl has the answers for it",
        covers: |row, ours| version(row).starts_with("2.") && ours.is_ok(),
    },
    Reason {
        why: "\"3.05.0\" is not a version that anyone writes",
        covers: |row, ours| version(row) == "3.05.0" && refused_for(ours, &["version-unknown"], &["ignition.version"]),
    },
    SOURCE,
    TARGET,
    Reason {
        why: "an empty pin of the user's own says nothing, also in 3.2",
        covers: |row, ours| {
            version(row) == "3.2.0"
                && same_without(row, ours, |key, value| {
                    let is_empty = value == &serde_json::json!({"config": "", "pin": ""});
                    (key == "custom" && is_empty) || (key == "clevis" && value == &serde_json::json!({}))
                })
        },
    },
    Reason {
        why: "the advertisement of a tang server is kept; upstream loses it",
        covers: |row, ours| {
            let is_kept =
                ours.as_ref().is_ok_and(|ours| under(ours, "advertisement") == under(&row["in"], "advertisement"));
            is_kept && same_without(row, ours, |key, _| key == "advertisement")
        },
    },
];

#[test]
fn older_versions_are_brought_up_as_ignition_does() {
    compare(&rows("oracle/up.jsonl"), UP, |row| parsed(&row["in"]), same_result);
}

const UP_FROM_2: &[Reason] = &[
    Reason {
        why: "\"2.02.0\" is not a version that anyone writes",
        covers: |row, ours| version(row) == "2.02.0" && refused_for(ours, &["version-unknown"], &["ignition.version"]),
    },
    HEX,
    SOURCE,
    TARGET,
    Reason {
        why: "several config.append entries are converted; upstream makes all of them the last one and refuses them",
        covers: |row, ours| {
            let appended = row["in"]["ignition"]["config"]["append"].as_array().map_or(0, Vec::len);
            let merged = |ours: &Value| ours["ignition"]["config"]["merge"].as_array().map_or(0, Vec::len);
            appended > 1
                && ours.as_ref().is_ok_and(|ours| merged(ours) == appended)
                && row["error"].as_str().is_some_and(|error| error.contains("merge.1: duplicate entry"))
        },
    },
];

#[test]
fn spec_2_is_converted_as_upstream_does() {
    compare(&rows("oracle/v2.jsonl"), UP_FROM_2, |row| parsed(&row["in"]), same_result);
}

const DOWN: &[Reason] = &[
    Reason {
        why: "cex is refused, not lost: the disk would not be encrypted",
        covers: |row, ours| row.get("out").is_some() && refused_for(ours, &["not-in-version"], &[".cex"]),
    },
    Reason {
        why: "the advertisement of a tang server is kept in 3.4; upstream loses it",
        covers: |row, ours| {
            let is_kept =
                ours.as_ref().is_ok_and(|ours| under(ours, "advertisement") == under(&row["in"], "advertisement"));
            row["to"] == "3.4.0" && is_kept && same_without(row, ours, |key, _| key == "advertisement")
        },
    },
    Reason {
        why: "the advertisement of a tang server is refused before 3.4, not lost",
        covers: |row, ours| {
            row["to"] != "3.4.0"
                && row.get("out").is_some()
                && refused_for(ours, &["not-in-version"], &[".advertisement"])
        },
    },
    Reason {
        why: "a clevis pin of which nothing is set is left out; upstream panics",
        covers: |row, ours| {
            row["error"].as_str().is_some_and(|error| error.starts_with("panic:"))
                && ours.as_ref().is_ok_and(|ours| under(ours, "custom").is_empty())
        },
    },
    Reason {
        why: "shouldExist: false of a partition is refused in 2.2; upstream would make the partition",
        covers: |row, ours| {
            row["to"] == "2.2.0"
                && row.get("out").is_some()
                && refused_for(ours, &["not-in-version"], &["].shouldExist"])
        },
    },
    Reason {
        why: "wipePartitionEntry is refused in 2.2, not lost",
        covers: |row, ours| {
            row["to"] == "2.2.0"
                && row.get("out").is_some()
                && refused_for(ours, &["not-in-version"], &["].wipePartitionEntry"])
        },
    },
    Reason {
        why: "an owner of which nothing is set is left out of 2.2",
        covers: |row, ours| {
            row["to"] == "2.2.0"
                && same_without(row, ours, |key, value| {
                    ["user", "group"].contains(&key) && value == &serde_json::json!({})
                })
        },
    },
    Reason {
        why: "a file without contents appends nothing in 2.2; upstream drops it",
        covers: |row, ours| {
            let (Ok(ours), Some(theirs)) = (ours, row.get("out")) else { return false };
            let bodiless = |file: &Value| file["append"] == true && file.get("contents").is_none();
            let mut ours = ours.clone();
            if let Some(storage) = ours["storage"].as_object_mut() {
                let files = storage.get_mut("files").and_then(Value::as_array_mut).unwrap();
                let all = files.len();
                files.retain(|file| !bodiless(file));
                if files.len() == all {
                    return false;
                }
                storage.retain(|_, list| list != &serde_json::json!([]));
            }
            let is_empty = |_: &str, value: &Value| value == &serde_json::json!({});
            row["to"] == "2.2.0" && without(&ours, &is_empty) == without(theirs, &is_empty)
        },
    },
    Reason {
        why: "a path lies on a filesystem by its parts, not by its letters, and a directory may be the mount point",
        covers: |row, ours| {
            let message = "path not absolute";
            row["to"] == "2.2.0" && ours.is_ok() && row["error"].as_str().is_some_and(|error| error.contains(message))
        },
    },
    Reason {
        why: "the empty source of a replacement is written out in 2.2, which reads the same",
        covers: |row, ours| {
            row["in"]["ignition"]["config"]["replace"]["source"] == ""
                && same_without(row, ours, |key, value| key == "source" && value == "")
        },
    },
];

#[test]
fn configs_are_brought_down_as_upstream_does() {
    compare(
        &rows("oracle/down.jsonl"),
        DOWN,
        |row| {
            let config = parsed(&row["in"])?;
            let node = Node::from_json(&config);
            let to = Version::parse(row["to"].as_str().unwrap()).map_err(|error| {
                vec![Problem {
                    severity: Severity::Error,
                    code: "version",
                    path: Default::default(),
                    origin: seaworthy_ignition::Origin::NONE,
                    related: Vec::new(),
                    message: error.to_string(),
                }]
            })?;
            translate_down(&node, to).map(|node| node.to_json())
        },
        same_result,
    );
}
