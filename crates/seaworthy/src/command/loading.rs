//! Loading of MachineConfigs, shared by commands: read texts, prepare configs, resolve remote content.

use std::io::Write as _;

use seaworthy_manifest::{EntryPart, ManifestText, parallel};
use seaworthy_render::remote::Resolver;
use seaworthy_render::selector::Selector;
use seaworthy_render::{Context, Finding, Pool, Prepared, not_selected, prepare};

use crate::cli::{Input, Remote};
use crate::failure::Failure;
use crate::manifest::{Inputs, ManifestSet, load};
use crate::{remote, terminal};

/// Reads the texts of an input.
pub fn texts(input: &Input) -> Result<Vec<ManifestText>, Failure> {
    load(&Inputs { files: &input.files, recursive: input.recursive, max_mib: input.max_input })
}

/// Prepares all MachineConfigs, without their remote content.
pub fn prepared<'t>(set: &'t ManifestSet<'t>) -> Vec<Prepared<'t>> {
    parallel::map(set.machine_configs.iter(), parallel::BATCH, prepare)
}

/// Prepares all MachineConfigs, with the remote content of those that one of the pools selects. Nothing is fetched for
/// the others: a cluster's dump has rendered objects of years, with references to servers that are long gone.
pub fn resolved<'t>(set: &'t ManifestSet<'t>, pools: &[Pool], options: &Remote) -> Result<Vec<Prepared<'t>>, Failure> {
    let mut prepared = prepared(set);
    let mut resolver = Resolver::new(set.documents);
    let mut inputs: Vec<_> = prepared.iter_mut().filter(|input| feeds(input, pools)).collect();
    remote::resolve_all(&mut resolver, &mut inputs, options)?;
    Ok(prepared)
}

/// Whether one of the pools selects a MachineConfig.
pub fn feeds(input: &Prepared<'_>, pools: &[Pool]) -> bool {
    let selects = |pool: &Pool| {
        pool.selector.as_ref().is_some_and(|selector| !selector.is_empty() && selector.matches(input.source))
    };
    !input.source.is_rendered() && pools.iter().any(selects)
}

/// MachineConfigs that no pool selects: mostly a label that is missing or misspelt.
pub fn unselected(set: &ManifestSet<'_>, prepared: &[Prepared<'_>], pools: &[Pool]) -> Vec<Finding> {
    // A pool with an unusable selector is reported as such; what it should have selected is unknown.
    let is_unusable = |pool: &Pool| pool.selector.as_ref().is_none_or(Selector::is_empty);
    if !set.broken_pools(&[]).is_empty() || pools.iter().any(is_unusable) {
        return Vec::new();
    }
    let is_left_out = |input: &&Prepared<'_>| !input.source.is_rendered() && !feeds(input, pools);
    prepared.iter().filter(is_left_out).map(|input| not_selected(input.source, pools)).collect()
}

/// What rendering needs to know beside the MachineConfigs.
pub fn context(set: &ManifestSet<'_>, keeps_references: bool) -> Context {
    Context {
        build: format!("seaworthy-{}", env!("CARGO_PKG_VERSION")),
        controller_config: set.controller_config.clone(),
        streams: set.streams.clone(),
        worker_stream: set.worker_stream(),
        keeps_references,
        refuses_large: false,
    }
}

/// Reports findings on standard error, each with the file it is about.
pub fn report(findings: &[Finding], set: &ManifestSet<'_>) {
    let mut errors = anstream::stderr().lock();
    for finding in findings {
        let style = terminal::style(finding.severity);
        let file = finding.places.first().and_then(|place| set.file_of(place, EntryPart::of_finding(finding.code)));
        let file = file.map(|file| format!("{file}: ")).unwrap_or_default();
        // If standard error is closed, there is nowhere to report to.
        let _ = writeln!(
            errors,
            "{style}{}[{}]{style:#}: {}",
            finding.severity,
            finding.code,
            terminal::sanitized(format!("{file}{finding}"))
        );
    }
}
