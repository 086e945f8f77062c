//! What all commands that look at MachineConfigs begin with: read, prepare, resolve.

use std::io::Write as _;

use seaworthy_ignition::Severity;
use seaworthy_ignition::path::{Path, Step};
use seaworthy_render::{Context, Controller, Finding, Place, Pool, Prepared, keys, prepare};

use crate::cli::{Input, Remote};
use crate::failure::Failure;
use crate::manifest::{Inputs, Set, Text, load};
use crate::{paint, parallel, remote};

/// Reads the texts of an input.
pub fn texts(input: &Input) -> Result<Vec<Text>, Failure> {
    load(&Inputs { files: &input.files, recursive: input.recursive, max_mib: input.max_input })
}

/// Makes all MachineConfigs ready, without their remote content.
pub fn prepared<'t>(set: &'t Set<'t>) -> Vec<Prepared<'t>> {
    parallel::map(set.machine_configs.iter(), parallel::MANY, prepare)
}

/// Makes all MachineConfigs ready, with the remote content of those that feed one of the pools. Nothing is fetched for
/// anyone else: a cluster's dump has rendered objects of years, with references to servers that are long gone.
pub fn resolved<'t>(set: &'t Set<'t>, pools: &[Pool], options: &Remote) -> Result<Vec<Prepared<'t>>, Failure> {
    let mut prepared = prepared(set);
    remote::resolve_all(&mut prepared, set.documents, options, |input| feeds(input, pools))?;
    Ok(prepared)
}

/// Whether a MachineConfig feeds one of the pools.
pub fn feeds(input: &Prepared<'_>, pools: &[Pool]) -> bool {
    let selects = |pool: &Pool| pool.selector.as_ref().is_some_and(|selector| selector.matches(input.source));
    !input.source.is_rendered() && pools.iter().any(selects)
}

/// MachineConfigs that no pool selects: mostly a label that is missing or misspelt.
pub fn unselected(prepared: &[Prepared<'_>], pools: &[Pool]) -> Vec<Finding> {
    let is_left_out = |input: &&Prepared<'_>| !input.source.is_rendered() && !feeds(input, pools);
    let report = |input: &Prepared<'_>| {
        let role = match input.source.role() {
            Some(role) => format!("its role is {role:?}"),
            None => format!("it has no label {}", keys::ROLE),
        };
        let names: Vec<&str> = pools.iter().map(|pool| pool.name.as_str()).collect();
        Finding {
            severity: Severity::Warning,
            code: "not-selected",
            pool: None,
            subject: String::new(),
            places: vec![Place::machine_config(input.source.name(), &Path::of(&["metadata", "labels"]))],
            message: format!("no pool selects it, so it does nothing: {role}; the pools are: {}", names.join(", ")),
        }
    };
    prepared.iter().filter(is_left_out).map(report).collect()
}

/// What rendering needs to know beside the MachineConfigs.
pub fn context(set: &Set<'_>, keeps_references: bool) -> Context {
    Context {
        controller: Controller { build: format!("seaworthy-{}", env!("CARGO_PKG_VERSION")), ..Controller::default() },
        controller_config: set.controller_config.clone(),
        streams: set.streams.clone(),
        worker_stream: set.worker_stream(),
        keeps_references,
        refuses_large: false,
    }
}

/// Reports findings on standard error, each with the file it is about.
pub fn report(findings: &[Finding], set: &Set<'_>) {
    let mut errors = anstream::stderr().lock();
    for finding in findings {
        let style = paint::style(finding.severity);
        let file = finding.places.first().and_then(|place| set.file_of(place, &parse_path(&place.path)));
        let file = file.map(|file| format!("{file}: ")).unwrap_or_default();
        // Where standard error is gone there is nobody to tell.
        let _ = writeln!(
            errors,
            "{style}{}[{}]{style:#}: {}",
            finding.severity,
            finding.code,
            paint::plain(format!("{file}{finding}"))
        );
    }
}

/// The path that a text such as `spec.config.storage.files[3].mode` stands for.
pub fn parse_path(text: &str) -> Path {
    let mut path = Path::default();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let Some(end) = closing(after) else { break };
            let inside = &after[..end];
            rest = &after[end + 1..];
            path = match inside.parse::<usize>() {
                Ok(index) => path.index(index),
                Err(_) => path.key(serde_json::from_str::<String>(inside).unwrap_or_else(|_| inside.to_owned())),
            };
        } else {
            rest = rest.strip_prefix('.').unwrap_or(rest);
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            if end > 0 && &rest[..end] != "$" {
                path.0.push(Step::Key(rest[..end].to_owned()));
            }
            if end == 0 && !rest.starts_with('[') {
                break;
            }
            rest = &rest[end..];
        }
    }
    path
}

/// The place of the bracket that closes: brackets inside quotes do not count.
fn closing(text: &str) -> Option<usize> {
    let mut in_quotes = false;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if in_quotes => escaped = true,
            '"' => in_quotes = !in_quotes,
            ']' if !in_quotes => return Some(at),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::parse_path;

    #[test]
    fn paths_are_read_as_they_are_written() {
        for text in ["spec.config.storage.files[3].mode", "metadata.labels[\"a.b/c\"]", "items[0]", "[0].x", "a"] {
            assert_eq!(parse_path(text).to_string(), text);
        }
        assert!(parse_path("$").is_root());
        assert!(parse_path("").is_root());
    }
}
