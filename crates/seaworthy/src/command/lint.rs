//! `seaworthy lint`.

use std::collections::HashSet;
use std::io::Write as _;

use seaworthy_ignition::Severity;
use seaworthy_render::{Finding, render};

use super::workspace::{self, parse_path};
use crate::cli::{Lint, ReportFormat};
use crate::failure::{Failure, OK, WRONG};
use crate::manifest::Set;
use crate::{paint, parallel};

pub fn run(options: &Lint) -> Result<u8, Failure> {
    let texts = workspace::texts(&options.input)?;
    let set = Set::read(&texts)?;
    let pools = set.pools(&options.pool)?;
    let prepared = workspace::prepared(&set, None)?;
    let context = workspace::context(&set, true);

    // A MachineConfig's own findings once, whichever pools select it; then those of the pools.
    let mut findings: Vec<Finding> = prepared
        .iter()
        .filter(|input| !input.source.is_rendered())
        .flat_map(|input| input.findings.iter().cloned())
        .collect();
    findings.extend(set.broken_pools.iter().cloned());
    let of_pools = parallel::map_few(&pools, |pool| match render(pool, &prepared, &context) {
        Ok(rendered) => rendered.findings(),
        Err(findings) => findings,
    });
    let known: HashSet<String> = findings.iter().map(|finding| finding.to_string()).collect();
    for mut finding in of_pools.into_iter().flatten() {
        let pool = finding.pool.take();
        if !known.contains(&finding.to_string()) {
            finding.pool = pool;
            findings.push(finding);
        }
    }
    findings.retain(|finding| !options.allow.iter().any(|code| code == finding.code));
    findings.sort_by(|a, b| {
        let key = |finding: &Finding| (std::cmp::Reverse(finding.severity), finding.places.first().cloned());
        key(a).cmp(&key(b))
    });

    match options.output {
        ReportFormat::Json => print_json(&findings, &set)?,
        ReportFormat::Text => print_text(&findings, &set)?,
    }
    let is_bad = |finding: &Finding| options.strict || finding.is_error();
    Ok(if findings.iter().any(is_bad) { WRONG } else { OK })
}

fn print_json(findings: &[Finding], set: &Set<'_>) -> Result<(), Failure> {
    let list: Vec<serde_json::Value> = findings
        .iter()
        .map(|finding| {
            let mut json = finding.to_json();
            let file = finding.places.first().and_then(|place| set.file_of(place, &parse_path(&place.path)));
            if let Some(file) = file {
                json["file"] = file.into();
            }
            json
        })
        .collect();
    let json = serde_json::json!({"findings": list, "summary": summary_json(findings)});
    let mut out = std::io::stdout().lock();
    // A value always has a JSON form.
    writeln!(out, "{}", serde_json::to_string_pretty(&json).unwrap_or_default())?;
    Ok(())
}

fn summary_json(findings: &[Finding]) -> serde_json::Value {
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    serde_json::json!({
        "errors": count(Severity::Error),
        "warnings": count(Severity::Warning),
        "infos": count(Severity::Info),
    })
}

fn print_text(findings: &[Finding], set: &Set<'_>) -> Result<(), Failure> {
    let mut out = anstream::stdout().lock();
    for finding in findings {
        let style = paint::style(finding.severity);
        let file = finding.places.first().and_then(|place| set.file_of(place, &parse_path(&place.path)));
        let file = file.map(|file| format!("{file}: ")).unwrap_or_default();
        writeln!(out, "{style}{}{style:#}[{}]: {file}{finding}", finding.severity, finding.code)?;
    }
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let (errors, warnings, infos) = (count(Severity::Error), count(Severity::Warning), count(Severity::Info));
    writeln!(out, "{}, {}, {infos} worth knowing", counted(errors, "error"), counted(warnings, "warning"))?;
    Ok(())
}

fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
