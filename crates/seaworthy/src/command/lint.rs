//! `seaworthy lint`: findings about manifests.

use std::collections::HashMap;
use std::io::Write as _;

use seaworthy_ignition::{Severity, spelling};
use seaworthy_manifest::{EntryPart, parallel};
use seaworthy_render::{Finding, Pool, Prepared, remote, render};
use seaworthy_values::text::counted;

use super::loading;
use crate::cli::{Lint, ReportFormat};
use crate::failure::{EXIT_FAILED, EXIT_OK, Failure};
use crate::manifest::ManifestSet;
use crate::{output, terminal};

/// The codes of all findings that are no errors, and may be allowed.
const CODES: [&str; 36] = [
    "blank-argument",
    "conflict",
    "extension",
    "filesystem-wiped",
    "hard-link-owner",
    "hash-mismatch",
    "insecure-proxy",
    "invalid-crio-drop-in",
    "invalid-name",
    "key-case",
    "misspelt-role",
    "mode-decimal",
    "mode-special-bits",
    "namespace",
    "no-install-section",
    "nosmt",
    "not-gzip",
    "not-selected",
    "os-image-overridden",
    "os-image-without-digest",
    "partial-override",
    "partitions-overwritten",
    "path-below-file",
    "plain-http-without-hash",
    "read-only-path",
    "repeated-argument",
    "replaced-body",
    "replaced-entry",
    "ssh-key",
    "too-large",
    "unit-and-file",
    "unknown-key",
    "user-fixed",
    "v2-dropped",
    "v2-filesystem-unknown",
    "version-skew",
];

pub fn run(options: &Lint) -> Result<u8, Failure> {
    let result = check(options);
    // With -o json the output is JSON even if nothing could be read.
    if let (Err(failure), ReportFormat::Json) = (&result, options.output) {
        print_json(&unreadable_json(failure), &Scope::default())?;
    }
    result
}

fn check(options: &Lint) -> Result<u8, Failure> {
    let texts = loading::texts(&options.input)?;
    let set = ManifestSet::read(&texts)?;
    let pools = set.pools(&options.pool)?;
    let prepared = loading::prepared(&set);
    let context = loading::context(&set, true);
    let is_checked = |input: &&Prepared<'_>| {
        !input.source.is_rendered() && (options.pool.is_empty() || loading::feeds(input, &pools))
    };
    let checked: Vec<&Prepared<'_>> = prepared.iter().filter(is_checked).collect();

    // A MachineConfig's own findings once, whichever pools select it; then those of the pools.
    let mut reports: Vec<PoolFinding> = Vec::new();
    for input in &checked {
        let of_pools: Vec<String> = pools_of(input, &pools).map(|pool| pool.name.clone()).collect();
        let report = |finding: &Finding| PoolFinding { finding: finding.clone(), pools: of_pools.clone() };
        reports.extend(input.findings.iter().map(report));
    }
    reports.extend(set.broken_pools(&options.pool).into_iter().map(|finding| {
        let pools = finding.places.first().map(|place| place.name.clone()).into_iter().collect();
        PoolFinding { finding, pools }
    }));
    for pool in &pools {
        let report = |finding: &Finding| PoolFinding { finding: finding.clone(), pools: vec![pool.name.clone()] };
        reports.extend(pool.findings.iter().map(report));
    }
    if options.pool.is_empty() {
        let unselected = loading::unselected(&set, &prepared, &pools);
        reports.extend(unselected.into_iter().map(|finding| PoolFinding { finding, pools: Vec::new() }));
    }
    // A finding that several pools share is reported once.
    let mut places: HashMap<String, usize> =
        reports.iter().enumerate().map(|(at, report)| (report.finding.to_string(), at)).collect();
    let of_pools = parallel::map(pools.iter(), 1, |pool| match render(pool, &prepared, &context) {
        Ok(rendered) => rendered.findings(),
        Err(findings) => findings,
    });
    for mut finding in of_pools.into_iter().flatten() {
        let pool = finding.pool.take();
        match places.get(&finding.to_string()) {
            Some(at) => {
                // Pools come by name.
                let known = &mut reports[*at].pools;
                if let Some(pool) = pool
                    && let Err(place) = known.binary_search(&pool)
                {
                    known.insert(place, pool);
                }
            }
            None => {
                places.insert(finding.to_string(), reports.len());
                reports.push(PoolFinding { finding, pools: pool.into_iter().collect() });
            }
        }
    }
    for code in &options.allow {
        let is_known = CODES.contains(&code.as_str()) || reports.iter().any(|report| report.finding.code == code);
        if !is_known {
            let hint = match spelling::nearest(code, CODES) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("known codes: {}", CODES.join(", ")),
            };
            return Err(Failure::invalid(format!("--allow {code}: unknown finding code; {hint}")));
        }
    }
    // An error keeps a pool from being rendered, so --allow does not apply to it.
    reports.retain(|report| report.finding.is_error() || !options.allow.iter().any(|code| code == report.finding.code));
    reports.sort_by(|a, b| {
        let key =
            |report: &PoolFinding| (std::cmp::Reverse(report.finding.severity), report.finding.places.first().cloned());
        key(a).cmp(&key(b))
    });

    let scope = Scope {
        machine_configs: checked.len(),
        pools: pools.len(),
        not_fetched: checked.iter().filter_map(|input| input.config.as_ref()).map(remote::count).sum(),
        nothing_checked: (checked.is_empty() && reports.is_empty()).then(|| why_nothing(&set)),
    };
    match options.output {
        ReportFormat::Json => {
            let findings: Vec<_> = reports.iter().map(|report| report.to_json(&set)).collect();
            print_json(&findings, &scope)?;
        }
        ReportFormat::Text => print_text(&reports, &scope, &set)?,
    }
    let is_bad = |report: &PoolFinding| options.strict || report.finding.is_error();
    // --strict confirms that manifests were checked, so an empty input fails.
    let is_empty = options.strict && scope.nothing_checked.is_some();
    Ok(if is_empty || reports.iter().any(is_bad) { EXIT_FAILED } else { EXIT_OK })
}

/// Why there is nothing to check.
fn why_nothing(set: &ManifestSet<'_>) -> String {
    let rendered = set.machine_configs.iter().filter(|machine_config| machine_config.is_rendered()).count();
    match (set.machine_configs.len(), rendered) {
        (0, _) => "no MachineConfig in the input".to_owned(),
        (1, 1) => "the only MachineConfig in the input is rendered, which is an output and not an input".to_owned(),
        (all, rendered) if all == rendered => {
            format!("all {rendered} MachineConfigs in the input are rendered, which are outputs and not inputs")
        }
        _ => "no MachineConfig in the input belongs to a requested pool".to_owned(),
    }
}

/// What was checked, so that "0 errors" is not taken for more than it means.
#[derive(Default)]
struct Scope {
    machine_configs: usize,
    pools: usize,
    /// Number of references to remote content, which lint does not fetch.
    not_fetched: usize,
    /// Why nothing was checked, if so.
    nothing_checked: Option<String>,
}

/// The pools that a MachineConfig feeds.
fn pools_of<'p>(input: &Prepared<'_>, pools: &'p [Pool]) -> impl Iterator<Item = &'p Pool> {
    pools.iter().filter(move |pool| loading::feeds(input, std::slice::from_ref(*pool)))
}

/// A finding, and the pools that have it.
struct PoolFinding {
    finding: Finding,
    pools: Vec<String>,
}

impl PoolFinding {
    fn to_json(&self, set: &ManifestSet<'_>) -> serde_json::Value {
        let mut json = self.finding.to_json();
        json["pools"] = self.pools.clone().into();
        for (place, json) in self.finding.places.iter().zip(json["places"].as_array_mut().into_iter().flatten()) {
            if let Some(found) = set.file_of(place, EntryPart::of_finding(self.finding.code)) {
                json["file"] = found.file.into();
                if let Some((line, column)) = found.position {
                    json["line"] = line.into();
                    json["column"] = column.into();
                }
            }
        }
        json
    }
}

/// Input errors in the form of findings.
fn unreadable_json(failure: &Failure) -> Vec<serde_json::Value> {
    let finding = |message: &String| serde_json::json!({"severity": "error", "code": "unreadable", "message": message, "places": [], "pools": []});
    failure.messages().iter().map(finding).collect()
}

fn print_json(findings: &[serde_json::Value], scope: &Scope) -> Result<(), Failure> {
    let count = |severity: Severity| findings.iter().filter(|finding| finding["severity"] == severity.as_str()).count();
    let mut summary = serde_json::json!({
        "errors": count(Severity::Error),
        "warnings": count(Severity::Warning),
        "infos": count(Severity::Info),
        "machineConfigs": scope.machine_configs,
        "pools": scope.pools,
        "notFetched": scope.not_fetched,
    });
    if let Some(why) = &scope.nothing_checked {
        summary["nothingChecked"] = why.as_str().into();
    }
    let json = serde_json::json!({"findings": findings, "summary": summary});
    let json = seaworthy_manifest::pretty(&json);
    writeln!(output::plain(), "{json}")?;
    Ok(())
}

fn print_text(reports: &[PoolFinding], scope: &Scope, set: &ManifestSet<'_>) -> Result<(), Failure> {
    let mut out = output::colored();
    for PoolFinding { finding, pools } in reports {
        let style = terminal::style(finding.severity);
        let subject = match finding.subject.as_str() {
            subject if !subject.is_empty() && !finding.message.contains(subject) => format!("{subject}: "),
            _ => String::new(),
        };
        let message = terminal::sanitized(format!("{subject}{}", finding.message));
        writeln!(out, "{style}{}[{}]{style:#}: {message}", finding.severity, finding.code)?;
        for place in &finding.places {
            match set.file_of(place, EntryPart::of_finding(finding.code)) {
                Some(file) => writeln!(out, "  {}: {}", terminal::sanitized(file), terminal::sanitized(place))?,
                None => writeln!(out, "  {}", terminal::sanitized(place))?,
            }
        }
        match pools.as_slice() {
            [] => {}
            [pool] => writeln!(out, "  in pool {}", terminal::sanitized(pool))?,
            pools => writeln!(out, "  in pools {}", terminal::sanitized(pools.join(", ")))?,
        }
    }
    if scope.not_fetched > 0 {
        terminal::note(&format!(
            "{} not fetched, so the content was not checked; `seaworthy render` fetches and checks it",
            if scope.not_fetched == 1 {
                "1 reference to remote content was".to_owned()
            } else {
                format!("{} references to remote content were", scope.not_fetched)
            }
        ));
    }
    let count = |severity: Severity| reports.iter().filter(|report| report.finding.severity == severity).count();
    if let Some(why) = &scope.nothing_checked {
        writeln!(out, "nothing was checked: {why}")?;
        return Ok(());
    }
    writeln!(
        out,
        "{}, {}: {}, {}, {} informational",
        counted(scope.machine_configs, "MachineConfig"),
        counted(scope.pools, "pool"),
        counted(count(Severity::Error), "error"),
        counted(count(Severity::Warning), "warning"),
        count(Severity::Info)
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::CODES;

    /// `crates/api/tests/pages.rs` compares them with the page.
    #[test]
    fn codes_are_sorted() {
        assert!(CODES.is_sorted());
    }
}
