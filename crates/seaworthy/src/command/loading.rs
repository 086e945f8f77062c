//! Loading of MachineConfigs, shared by commands: read texts, prepare configs, resolve remote content.

use std::io::Write as _;

use seaworthy_manifest::{EntryPart, ManifestText, parallel};
use seaworthy_render::remote::Resolution;
use seaworthy_render::{Context, Finding, Pool, Prepared, prepare};

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
    let selected = prepared.iter_mut().filter(|input| feeds(input, pools));
    remote::resolve_all(&mut Resolution::new(selected, set.documents), options)?;
    Ok(prepared)
}

/// Whether one of the pools selects a MachineConfig.
pub fn feeds(input: &Prepared<'_>, pools: &[Pool]) -> bool {
    pools.iter().any(|pool| pool.selects(input.source))
}

/// MachineConfigs that no pool selects: mostly a label that is missing or misspelt.
pub fn unselected(set: &ManifestSet<'_>, prepared: &[Prepared<'_>], pools: &[Pool]) -> Vec<Finding> {
    seaworthy_render::unselected(prepared.iter().map(|input| input.source), pools, &set.broken_pools(&[]))
}

/// What rendering needs to know beside the MachineConfigs.
pub fn context(set: &ManifestSet<'_>, keeps_references: bool) -> Context {
    let build = concat!("seaworthy-", env!("CARGO_PKG_VERSION"));
    Context {
        streams: set.streams.clone(),
        keeps_references,
        refuses_large: false,
        ..Context::new(build, set.controller_config.clone(), set.worker_stream())
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
