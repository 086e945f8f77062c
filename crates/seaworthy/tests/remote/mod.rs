//! Remote content from end to end: the program against servers on this machine.

mod authority;
mod configs;
mod contents;
mod explain;
mod failures;
mod loopback;
mod objects;
mod policy;
mod progress;
mod secrets;
mod snapshots;
mod transport;

use crate::program::{Outcome, Program, machine_config};
use serde_json::{Value, json};

/// A MachineConfig `50-worker` with these files and this `ignition` section beside its version.
fn manifest(ignition: Value, files: Value) -> String {
    let mut section = json!({"version": "3.5.0"});
    section.as_object_mut().unwrap().extend(ignition.as_object().unwrap().clone());
    machine_config(&json!({"config": {"ignition": section, "storage": {"files": files}}}).to_string())
}

/// A MachineConfig with the one file `/etc/motd`, its contents being these.
fn motd(contents: Value) -> String {
    manifest(json!({}), json!([{"path": "/etc/motd", "mode": 420, "contents": contents}]))
}

/// Attempts go on until a time is over; tests that fail on purpose make it short. A second and a half of it are pauses,
/// the rest is for a machine with much to do.
fn impatient() -> Value {
    json!({"timeouts": {"httpTotal": 3}})
}

/// Renders a manifest that may fetch from all of loopback.
fn render(program: &Program, manifest: &str) -> Outcome {
    render_with(program, manifest, &["--allow-host", "127.0.0.0/8"])
}

/// Renders a manifest with these options.
fn render_with(program: &Program, manifest: &str, options: &[&str]) -> Outcome {
    program.file("manifest.json", manifest);
    program.run([&["render", "-f", "manifest.json", "-o", "json"], options].concat())
}

/// The only rendered MachineConfig.
#[track_caller]
fn rendered(outcome: &Outcome) -> Value {
    let list = outcome.json();
    assert_eq!(list["items"].as_array().unwrap().len(), 1, "{list}");
    list["items"][0].clone()
}

/// The files of the only rendered MachineConfig: path and decoded contents.
#[track_caller]
fn files(outcome: &Outcome) -> Vec<(String, String)> {
    let object = rendered(outcome);
    let files = object["spec"]["config"]["storage"]["files"].as_array().unwrap();
    files.iter().map(|file| (file["path"].as_str().unwrap().to_owned(), decoded(&file["contents"]["source"]))).collect()
}

/// The text behind a data URL.
#[track_caller]
fn decoded(source: &Value) -> String {
    let bytes = seaworthy_ignition::data_url::decode(source.as_str().unwrap()).unwrap().into_owned();
    String::from_utf8(bytes).unwrap()
}

/// A hash as `verification.hash` has it.
fn hash(bytes: &[u8]) -> String {
    seaworthy_fetch::Digest::sha256(bytes).to_string()
}
