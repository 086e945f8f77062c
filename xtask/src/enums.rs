//! `cargo xtask enums`: fetches the enum values of built-in kinds' fields from the real API server.
//!
//! The published documents, from which `cargo xtask openapi` makes the schemas, lack them; a running server's have
//! them. The result lies beside the schemas, one definition per line, and holds only what these lack.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::{Map, Value, json};

use crate::kube::binaries::{Binaries, Policy};
use crate::kube::control_plane::ControlPlane;
use crate::openapi::{DATA, SERVED, compact, document_name, read};
use crate::workspace::Workspace;

/// The name of the file below the folder of the data.
pub const FILE: &str = "enums.json";
/// How the server begins its description of the words of a field.
const INTRODUCTION: &str = "Possible enum values";

/// Rewrites the file.
pub fn run(workspace: &Workspace) -> Result<bool> {
    let binaries = match Binaries::provide(workspace, Policy::Build)? {
        Ok(binaries) => binaries,
        Err(reason) => bail!("no kube-apiserver to ask: {reason}"),
    };
    let data = workspace.root.join(DATA);
    let running = ControlPlane::start(&binaries, None)?;
    let mut definitions = BTreeMap::new();
    for (group, version, _) in SERVED {
        let path = if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
        let real = ask(&binaries.kubectl, &running.kubeconfig, &format!("/openapi/v3/{path}"))?;
        let ours = read(&data.join(document_name(group, version)))?;
        definitions.extend(missing_words(&ours, &real["components"]["schemas"]));
    }
    running.stop()?;
    let lines = definitions.iter().map(|(name, fields)| Ok(format!("{}:{}", json!(name), compact(fields)?)));
    let lines: Vec<String> = lines.collect::<Result<_>>()?;
    let file = data.join(FILE);
    fs::write(&file, format!("{{\n{}\n}}\n", lines.join(",\n")))
        .with_context(|| format!("cannot write {}", file.display()))?;
    println!("{} definitions in {}", definitions.len(), file.display());
    Ok(true)
}

fn ask(kubectl: &Path, kubeconfig: &Path, path: &str) -> Result<Value> {
    let mut command = Command::new(kubectl);
    command.arg("--kubeconfig").arg(kubeconfig).args(["get", "--raw", path]);
    let answer = command.output().with_context(|| format!("cannot start {}", kubectl.display()))?;
    if !answer.status.success() {
        bail!("{path}: {}", String::from_utf8_lossy(&answer.stderr).trim_end());
    }
    serde_json::from_slice(&answer.stdout).with_context(|| format!("{path} is not JSON"))
}

/// The words that the real definitions have and ours lack, by definition and the path of the field in it.
fn missing_words(ours: &Value, real: &Value) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for (name, definition) in ours.as_object().into_iter().flatten() {
        let mut fields = Map::new();
        collect(definition, &real[name], "", &mut fields);
        if !fields.is_empty() {
            found.insert(name.clone(), Value::Object(fields));
        }
    }
    found
}

fn collect(ours: &Value, real: &Value, path: &str, fields: &mut Map<String, Value>) {
    let Value::Object(own) = ours else { return };
    if let (None, Some(words)) = (own.get("enum").and_then(Value::as_array), real["enum"].as_array()) {
        let mut word = json!({"enum": words});
        let (before, after) = (ours["description"].as_str(), real["description"].as_str());
        if let Some(added) = after.and_then(|after| added_text(before.unwrap_or_default(), after)) {
            word["description"] = added.into();
        }
        fields.insert(path.to_owned(), word);
    }
    for (key, below) in own {
        let path = if path.is_empty() { key.clone() } else { format!("{path}/{key}") };
        collect(below, &real[key], &path, fields);
    }
}

/// What a description has more than another; if they differ otherwise too, its part about words.
fn added_text<'t>(before: &str, after: &'t str) -> Option<&'t str> {
    match after.strip_prefix(before) {
        Some(rest) => (!rest.is_empty()).then_some(rest),
        None => after.find(INTRODUCTION).map(|at| &after[after[..at].trim_end().len()..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_below_their_path_with_their_description() {
        let ours = json!({"K": {"properties": {"mode": {"type": "string", "description": "How."}, "size": {}}}});
        let real = json!({"K": {"properties": {
            "mode": {"type": "string", "description": "How.\n\nPossible enum values: a, b", "enum": ["a", "b"]},
            "size": {"description": "Big."},
        }}});
        let words = json!({"enum": ["a", "b"], "description": "\n\nPossible enum values: a, b"});
        assert_eq!(missing_words(&ours, &real), BTreeMap::from([("K".to_owned(), json!({"properties/mode": words}))]));
    }

    #[test]
    fn reworded_description_gives_only_the_part_about_words() {
        assert_eq!(added_text("Old.", "New.\n\nPossible enum values: a"), Some("\n\nPossible enum values: a"));
        assert_eq!(added_text("Old.", "Old."), None);
        assert_eq!(added_text("Old.", "New."), None);
    }
}
