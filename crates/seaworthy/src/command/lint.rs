//! `seaworthy lint`.

use std::collections::HashMap;
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
    if set.machine_configs.is_empty() {
        paint::note("there is no MachineConfig in the input; nothing was checked");
    }
    let prepared = workspace::prepared(&set);
    let context = workspace::context(&set, true);

    // A MachineConfig's own findings once, whichever pools select it; then those of the pools.
    let mut findings: Vec<Finding> = prepared
        .iter()
        .filter(|input| !input.source.is_rendered() && (options.pool.is_empty() || workspace::feeds(input, &pools)))
        .flat_map(|input| input.findings.iter().cloned())
        .collect();
    findings.extend(set.broken_pools(&options.pool));
    if options.pool.is_empty() {
        findings.extend(workspace::unselected(&prepared, &pools));
    }
    // One finding of several pools is said once.
    let mut places: HashMap<String, usize> =
        findings.iter().enumerate().map(|(at, finding)| (finding.to_string(), at)).collect();
    let of_pools = parallel::map(pools.iter(), 1, |pool| match render(pool, &prepared, &context) {
        Ok(rendered) => rendered.findings(),
        Err(findings) => findings,
    });
    let mut reports: Vec<Report> = findings.into_iter().map(|finding| Report { finding, pools: Vec::new() }).collect();
    for mut finding in of_pools.into_iter().flatten() {
        let pool = finding.pool.take();
        match places.get(&finding.to_string()) {
            Some(at) => reports[*at].pools.extend(pool),
            None => {
                places.insert(finding.to_string(), reports.len());
                reports.push(Report { finding, pools: pool.into_iter().collect() });
            }
        }
    }
    for code in &options.allow {
        if !reports.iter().any(|report| report.finding.code == code) {
            paint::note(&format!("--allow {code}: no finding has this code"));
        }
    }
    // An error keeps a pool from being rendered, whatever anyone allows.
    reports.retain(|report| report.finding.is_error() || !options.allow.iter().any(|code| code == report.finding.code));
    reports.sort_by(|a, b| {
        let key =
            |report: &Report| (std::cmp::Reverse(report.finding.severity), report.finding.places.first().cloned());
        key(a).cmp(&key(b))
    });

    match options.output {
        ReportFormat::Json => print_json(&reports, &set)?,
        ReportFormat::Text => print_text(&reports, &set)?,
    }
    let is_bad = |report: &Report| options.strict || report.finding.is_error();
    Ok(if reports.iter().any(is_bad) { WRONG } else { OK })
}

/// A finding, and the pools that have it.
struct Report {
    finding: Finding,
    pools: Vec<String>,
}

fn print_json(reports: &[Report], set: &Set<'_>) -> Result<(), Failure> {
    let list: Vec<serde_json::Value> = reports
        .iter()
        .map(|report| {
            let mut json = report.finding.to_json();
            if !report.pools.is_empty() {
                json["pools"] = report.pools.clone().into();
            }
            for (place, json) in report.finding.places.iter().zip(json["places"].as_array_mut().into_iter().flatten()) {
                if let Some(found) = set.file_of(place, &parse_path(&place.path)) {
                    json["file"] = found.file.into();
                    if let Some((line, column)) = found.position {
                        json["line"] = line.into();
                        json["column"] = column.into();
                    }
                }
            }
            json
        })
        .collect();
    let summary = serde_json::json!({
        "errors": count(reports, Severity::Error),
        "warnings": count(reports, Severity::Warning),
        "infos": count(reports, Severity::Info),
    });
    let json = serde_json::json!({"findings": list, "summary": summary});
    let json = serde_json::to_string_pretty(&json).map_err(Failure::unreadable)?;
    writeln!(std::io::stdout().lock(), "{json}")?;
    Ok(())
}

fn print_text(reports: &[Report], set: &Set<'_>) -> Result<(), Failure> {
    let mut out = anstream::stdout().lock();
    for Report { finding, pools } in reports {
        let style = paint::style(finding.severity);
        let subject = match finding.subject.as_str() {
            subject if !subject.is_empty() && !finding.message.contains(subject) => format!("{subject}: "),
            _ => String::new(),
        };
        let message = paint::plain(format!("{subject}{}", finding.message));
        writeln!(out, "{style}{}[{}]{style:#}: {message}", finding.severity, finding.code)?;
        for place in &finding.places {
            match set.file_of(place, &parse_path(&place.path)) {
                Some(file) => writeln!(out, "  {}: {}", paint::plain(file), paint::plain(place))?,
                None => writeln!(out, "  {}", paint::plain(place))?,
            }
        }
        match pools.as_slice() {
            [] => {}
            [pool] => writeln!(out, "  in pool {}", paint::plain(pool))?,
            pools => writeln!(out, "  in pools {}", paint::plain(pools.join(", ")))?,
        }
    }
    writeln!(
        out,
        "{}, {}, {} worth knowing",
        counted(count(reports, Severity::Error), "error"),
        counted(count(reports, Severity::Warning), "warning"),
        count(reports, Severity::Info)
    )?;
    Ok(())
}

fn count(reports: &[Report], severity: Severity) -> usize {
    reports.iter().filter(|report| report.finding.severity == severity).count()
}

fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
