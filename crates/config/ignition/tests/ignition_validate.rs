//! Compares with the real validator of Debian's package `ignition`: it accepts what we bring down, and judges as we
//! do.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::{Config, TestRunner};
use seaworthy_ignition::{Node, Version, translate_down};
use serde_json::Value;

use crate::configs::{Variety, config};
use crate::recorded::{
    Answer, EMPTY_PIN, HASH_SOURCE, HEX, LOOKALIKES, NAMELESS_PIN, NUL, Reason, SOURCE, TARGET, compare, parsed,
    refused_for, rows, version,
};

/// The newest version that Debian's package knows.
const NEWEST: Version = Version::V3_3;

/// The validator; `None` when there is none, which is then on record.
fn validator() -> Option<PathBuf> {
    seaworthy_trial::program("SEAWORTHY_IGNITION_VALIDATE", "ignition-validate", &["/usr/bin"], "ignition")
}

/// What the validator says about a config; `Err` with its words when it refuses it.
fn validate(program: &PathBuf, config: &Value) -> Result<(), String> {
    let mut child = Command::new(program)
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    child.stdin.take().unwrap().write_all(config.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let words = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    if output.status.success() { Ok(()) } else { Err(words) }
}

/// A 3.5 config brought down to the newest version that the validator knows.
fn lowered(config: &Value) -> Answer {
    translate_down(&Node::from_json(config), NEWEST).map(|config| config.to_json())
}

#[test]
fn golden_configs_brought_down_are_accepted() {
    let Some(program) = validator() else { return };
    let mut accepted = 0;
    let mut refused = Vec::new();
    for case in rows("../../render/tests/golden/expected.jsonl") {
        for rendered in case["rendered"].as_array().into_iter().flatten() {
            let config = &rendered["spec"]["config"];
            let lowered = lowered(config).unwrap_or_else(|problems| panic!("{}: {problems:?}", case["name"]));
            match validate(&program, &lowered) {
                Ok(()) => accepted += 1,
                Err(words) => refused.push(format!("{}: {words}", case["name"])),
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    assert!(accepted >= 150, "only {accepted} configs were looked at");
}

#[test]
fn random_configs_brought_down_are_accepted() {
    let Some(program) = validator() else { return };
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    let mut accepted = 0;
    for _ in 0..1000 {
        let config = config(Version::V3_5, Variety::ALL).new_tree(&mut runner).unwrap().current();
        let Ok(lowered) = lowered(&config) else { continue };
        if let Err(words) = validate(&program, &lowered) {
            panic!("{words}\n{lowered}");
        }
        accepted += 1;
        if accepted == 300 {
            return;
        }
    }
    panic!("only {accepted} of the configs could be brought down");
}

/// The validator is older than the library that the recorded answers are from.
const YOUNGER: Reason = Reason {
    why: "a file where a unit is written is refused; the package does not look for it yet",
    covers: |_, ours| refused_for(ours, &["path-of-unit"], &[".path"]),
};

#[test]
fn the_validator_judges_recorded_configs_as_we_do() {
    let Some(program) = validator() else { return };
    let is_known =
        |row: &Value| Version::parse(version(row)).is_ok_and(|version| !version.is_v2() && version <= NEWEST);
    let known: Vec<Value> = rows("oracle/validate.jsonl").into_iter().filter(is_known).collect();
    compare(
        &known,
        &[YOUNGER, HEX, TARGET, SOURCE, HASH_SOURCE, EMPTY_PIN, NAMELESS_PIN, NUL],
        |row| parsed(&row["in"]),
        |row, ours| validate(&program, &row["in"]).is_ok() == ours.is_ok(),
    );
}

#[test]
fn the_validator_judges_newer_configs_under_an_older_version_as_we_do() {
    let Some(program) = validator() else { return };
    let mut newer = rows("oracle/validate.jsonl");
    newer.retain(|row| version(row) == "3.5.0");
    newer.iter_mut().for_each(|row| row["in"]["ignition"]["version"] = NEWEST.as_str().into());
    compare(
        &newer,
        &[YOUNGER, HEX, LOOKALIKES, NUL],
        |row| parsed(&row["in"]),
        |row, ours| validate(&program, &row["in"]).is_ok() == ours.is_ok(),
    );
}
