//! Source files: what a pool's own MachineConfigs put at a path, which generated files are merged with.

use std::sync::Arc;

use seaworthy_api::machineconfiguration::{MachineConfig, MachineConfigPool};
use seaworthy_api::meta::Selection;
use seaworthy_ignition::Node;
use seaworthy_ignition::body::{BodyError, body_of};
use seaworthy_render::{Context, Finding, MachineConfig as Input, Pool, Prepared, merge, prepare};
use seaworthy_values::list;
use serde_json::Value;

/// A packed base larger than this is refused.
const MAX_BODY_BYTES: u64 = 16 * 1024 * 1024;

/// Why the content of a file is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// The pool cannot be rendered without what was generated either.
    #[error("the other MachineConfigs of pool {pool} cannot be merged: {why}")]
    Merge {
        pool: String,
        /// What is wrong, with the MachineConfigs that it is in.
        why: String,
    },
    /// The file is there, but not its bytes.
    #[error("the content of {path} in pool {pool} cannot be read: {why}")]
    Body {
        pool: String,
        path: String,
        /// What is wrong.
        why: String,
    },
}

/// The file that a pool's MachineConfigs give without those that are left out; `None` if they give none.
pub(crate) fn file(
    pool: &MachineConfigPool,
    machine_configs: &[Arc<MachineConfig>],
    is_left_out: impl Fn(&MachineConfig) -> bool,
    path: &str,
) -> Result<Option<Vec<u8>>, SourceError> {
    let name = pool.metadata.name.clone().unwrap_or_default();
    let failed = |why: String| SourceError::Merge { pool: name.clone(), why };
    let Some(selector) = &pool.spec.machine_config_selector else { return Ok(None) };
    let selection = Selection::of(selector).map_err(|error| failed(error.to_string()))?;
    if selection.is_empty() {
        return Ok(None);
    }
    let selected = machine_configs
        .iter()
        .map(Arc::as_ref)
        .filter(|machine_config| selection.matches(machine_config.metadata.labels.as_ref()))
        .filter(|machine_config| !is_left_out(machine_config))
        .map(serde_json::to_value)
        .collect::<Result<Vec<Value>, _>>()
        .map_err(|error| failed(error.to_string()))?;
    let inputs: Vec<Input<'_>> = selected
        .iter()
        .enumerate()
        .map(|(nth, json)| {
            let mut node = Node::from_json(json);
            // Documents are distinguished by number; more than there are numbers for do not exist.
            node.number(u32::try_from(nth).unwrap_or(u32::MAX));
            Input::read(node)
        })
        .filter(|input| !input.is_rendered())
        .collect();
    if inputs.is_empty() {
        return Ok(None);
    }
    let prepared: Vec<Prepared<'_>> = inputs.iter().map(prepare).collect();
    let object = serde_json::to_value(pool).map_err(|error| failed(error.to_string()))?;
    let view = Pool::read(&Node::from_json(&object)).map_err(|findings| failed(reported(&findings)))?;
    // What is remote stays so: it is embedded when the pool is rendered.
    let context = Context { keeps_references: true, ..Context::default() };
    let merged = merge(&view, &prepared, &context).map_err(|findings| failed(reported(&findings)))?;
    let rendered = merged.named(String::new());
    let files = rendered.spec.dig(&["config", "storage", "files"]).and_then(Node::as_list).unwrap_or_default();
    let Some(file) = files.iter().find(|file| file.text_of("path") == path) else { return Ok(None) };
    match body_of(file, MAX_BODY_BYTES) {
        Ok(bytes) => Ok(Some(bytes.into_owned())),
        Err(BodyError::NoSource) => Ok(None),
        Err(error) => Err(SourceError::Body { pool: name, path: path.to_owned(), why: error.to_string() }),
    }
}

/// The first findings as one line.
fn reported(findings: &[Finding]) -> String {
    const MAX_SHOWN: usize = 3;
    let line = |finding: &Finding| {
        let places: Vec<String> = finding.places.iter().map(ToString::to_string).collect();
        if places.is_empty() { finding.message.clone() } else { format!("{}: {}", places.join(", "), finding.message) }
    };
    let errors: Vec<&Finding> = findings.iter().filter(|finding| finding.is_error()).collect();
    list::clauses(errors.into_iter().map(line), MAX_SHOWN)
}
