//! Ignition configs, by number of the upstream behaviour (`row_`), as far as this crate can show it alone; what needs
//! MachineConfigs or pools is tested in `crates/config/render`. docs/reference/upstream-behaviour.md says what the numbers mean.

mod merging;
mod reading;
mod spec_2;

use seaworthy_ignition::{Node, Problem, Severity, check, merge, parse};
use serde_json::{Value, json};

/// A config of 3.5.0 with these sections.
fn v3(sections: Value) -> Value {
    with_version("3.5.0", sections)
}

/// A config of 2.2.0 with these sections.
fn v2(sections: Value) -> Value {
    with_version("2.2.0", sections)
}

fn with_version(version: &str, mut sections: Value) -> Value {
    sections["ignition"]["version"] = version.into();
    sections
}

fn files(files: Value) -> Value {
    json!({"storage": {"files": files}})
}

fn try_read(config: &Value) -> Result<Value, Vec<Problem>> {
    let mut node = Node::from_json(config);
    node.number(0);
    parse(&node).map(|parsed| parsed.config.to_json())
}

/// What reading a config gives, in spec 3.5.
fn read(config: &Value) -> Value {
    try_read(config).unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// The warnings of a config, as `path: message`.
fn warnings(config: &Value) -> Vec<String> {
    let mut node = Node::from_json(config);
    node.number(0);
    shown(&parse(&node).unwrap_or_else(|problems| panic!("{problems:?}")).warnings)
}

/// The errors of a config that is refused, as `path: message`.
fn refused(config: &Value) -> Vec<String> {
    let problems = try_read(config).expect_err("the config is accepted");
    shown(&problems.into_iter().filter(|problem| problem.severity == Severity::Error).collect::<Vec<_>>())
}

fn shown(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(|problem| format!("{}: {}", problem.path, problem.message)).collect()
}

/// What configs of any version merge to, earliest first.
fn merged(configs: &[Value]) -> Value {
    let configs: Vec<Value> = configs.iter().map(read).collect();
    let nodes: Vec<Node<'_>> = configs.iter().map(Node::from_json).collect();
    merge(&nodes).config.to_json()
}

/// The same, with the errors of the result.
fn merged_and_checked(configs: &[Value]) -> Vec<String> {
    let merged = merged(configs);
    let problems = check(&Node::from_json(&merged));
    shown(&problems.into_iter().filter(|problem| problem.severity == Severity::Error).collect::<Vec<_>>())
}

/// One 3.5 file merged over another of the same path.
fn merged_file(parent: Value, child: Value) -> Value {
    let with_path = |mut file: Value| {
        file["path"] = "/a".into();
        v3(files(json!([file])))
    };
    let mut file = merged(&[with_path(parent), with_path(child)])["storage"]["files"][0].clone();
    file.as_object_mut().unwrap().remove("path");
    file
}

fn storage(list: &str, entry: Value) -> Value {
    v3(json!({"storage": {list: [entry]}}))
}
