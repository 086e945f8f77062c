//! `seaworthy ignition convert`, `validate` and `stub`: single Ignition configs.

use std::cell::Cell;
use std::io::Write as _;
use std::path::Path;

use seaworthy_ignition::node::Node;
use seaworthy_ignition::problem::is_about_conversion;
use seaworthy_ignition::{Problem, Severity, Version, parse, translate_down};
use seaworthy_manifest::{EntryPart, ManifestText};
use seaworthy_serve::access::{parse_tokens, read_tokens};
use seaworthy_serve::stub;

use crate::cli::{Ignition, ReportFormat, Stub};
use crate::failure::{EXIT_FAILED, EXIT_OK, Failure};
use crate::manifest::{DEFAULT_MAX_INPUT_MIB, Inputs, MAX_LOCATE_BYTES, load};
use crate::{output, terminal};

pub fn run(command: &Ignition) -> Result<u8, Failure> {
    match command {
        Ignition::Convert { to, file } => convert(to, file),
        Ignition::Stub(options) => stub(options),
        Ignition::Validate { file, output } => validate(file, *output),
    }
}

/// Reads the one config of a file.
fn read(file: &Path) -> Result<ManifestText, Failure> {
    let files = [file.to_owned()];
    if file.is_dir() {
        return Err(Failure::invalid(format!("{} is a folder; expected one Ignition config", file.display())));
    }
    let mut texts = load(&Inputs { files: &files, recursive: false, max_mib: DEFAULT_MAX_INPUT_MIB })?;
    texts.pop().ok_or_else(|| Failure::invalid("no config to read"))
}

fn config(text: &ManifestText) -> Result<Node<'_>, Failure> {
    let mut documents = text.documents().map_err(Failure::invalid)?;
    if documents.len() > 1 {
        return Err(Failure::invalid(format!(
            "{} has {} documents; expected one Ignition config",
            text.name,
            documents.len()
        )));
    }
    let (_, mut config) = documents
        .pop()
        .ok_or_else(|| Failure::invalid(format!("{} is empty; expected one Ignition config", text.name)))?;
    if let (Some(kind), Some(_)) = (config.str_of("kind"), config.get("apiVersion")) {
        return Err(Failure::invalid(format!(
            "{} is a {kind}, not an Ignition config; `seaworthy render` and `seaworthy lint` read manifests",
            text.name
        )));
    }
    if config.get("variant").is_some() && config.get("ignition").is_none() {
        return Err(Failure::invalid(format!(
            "{} is a Butane config; convert it to an Ignition config with `butane` first",
            text.name
        )));
    }
    if config.as_map().is_none() {
        let message = format!("found {}; an Ignition config is an object with the key ignition", config.describe());
        let budget = Cell::new(MAX_LOCATE_BYTES);
        return Err(Failure::invalid(text.error_at(0, &Default::default(), &budget, &message)));
    }
    config.number(0);
    Ok(config)
}

/// A version that a config can be written in.
fn writable(text: &str) -> Option<Version> {
    let full = if text.matches('.').count() == 1 { format!("{text}.0") } else { text.to_owned() };
    Version::parse(&full).ok().filter(|version| Version::WRITABLE.contains(version))
}

/// The certificates in a file. What is printed is no secret, so a file with a key in it is refused as a whole: it is the wrong one.
fn authority(path: &Path, pem: &[u8]) -> Result<Vec<u8>, Failure> {
    let refused = |why: &str| {
        let place = path.display();
        Failure::invalid(format!("--ca {place}: {why}; --ca takes a PEM file with CA certificates"))
    };
    if pem.windows(12).any(|text| text == b"PRIVATE KEY-") {
        return Err(refused("it contains a private key, which must not leave this machine"));
    }
    match seaworthy_listen::tls::count_certificates(pem) {
        Ok(0) => Err(refused("it contains no certificate")),
        Ok(_) => Ok(pem.to_owned()),
        Err(error) => Err(refused(&error)),
    }
}

/// Prints the pointer config.
fn stub(options: &Stub) -> Result<u8, Failure> {
    let accepted = || stub::versions().map(Version::as_str).collect::<Vec<_>>().join(", ");
    let version = writable(&options.ignition_version).ok_or_else(|| {
        let found = &options.ignition_version;
        Failure::invalid(format!(
            "unsupported version {found:?} for a pointer config; supported versions: {}",
            accepted()
        ))
    })?;
    let read = |path: &Path| {
        std::fs::read(path).map_err(|error| Failure::invalid(format!("cannot read {}: {error}", path.display())))
    };
    let authority = match options.ca.as_deref() {
        Some(path) => Some(authority(path, &read(path)?)?),
        None => None,
    };
    let tokens = match options.token_file.as_deref() {
        None => Vec::new(),
        Some(path) if path == Path::new("-") => {
            let text = std::io::read_to_string(std::io::stdin());
            let text = text.map_err(|error| Failure::invalid(format!("cannot read standard input: {error}")))?;
            parse_tokens(&text, "standard input").map_err(Failure::invalid)?
        }
        Some(path) => read_tokens(path).map_err(Failure::invalid)?,
    };
    let stub = stub::Stub {
        server: &options.server,
        pool: &options.pool,
        authority: authority.as_deref(),
        token: tokens.first(),
        version,
    };
    let config = stub.config().map_err(Failure::invalid)?;
    let json = seaworthy_manifest::pretty(&config);
    writeln!(output::plain(), "{json}")?;
    if tokens.is_empty() {
        terminal::note(
            "the pointer config has no token: the endpoint serves such a machine only if it runs with --open",
        );
    }
    Ok(EXIT_OK)
}

fn convert(to: &str, file: &Path) -> Result<u8, Failure> {
    let accepted = Version::WRITABLE.map(|version| version.as_str()).join(", ");
    let target = writable(to).ok_or_else(|| {
        Failure::invalid(format!(
            "unsupported target version {to:?}; supported versions: \
                                                    {accepted}"
        ))
    })?;
    let text = read(file)?;
    let config = config(&text)?;
    let parsed = match parse(&config) {
        Ok(parsed) => parsed,
        Err(problems) => return Ok(print_problems(&problems, &text)),
    };
    let budget = Cell::new(MAX_LOCATE_BYTES);
    for warning in &parsed.warnings {
        terminal::warning(&line(warning, &text, &budget));
    }
    let translated = match translate_down(&parsed.config, target) {
        Ok(translated) => translated,
        Err(problems) => return Ok(print_problems(&problems, &text)),
    };
    let json = seaworthy_manifest::pretty(&translated.to_json());
    writeln!(output::plain(), "{json}")?;
    Ok(EXIT_OK)
}

fn validate(file: &Path, output: ReportFormat) -> Result<u8, Failure> {
    let result = check(file, output);
    // With -o json the output is JSON even if nothing could be read.
    if let (Err(failure), ReportFormat::Json) = (&result, output) {
        let finding =
            |message: &String| serde_json::json!({"severity": "error", "code": "unreadable", "message": message});
        print_json(None, false, failure.messages().iter().map(finding).collect())?;
    }
    result
}

fn print_json(version: Option<Version>, is_valid: bool, findings: Vec<serde_json::Value>) -> Result<(), Failure> {
    let json = serde_json::json!({
        "valid": is_valid,
        "version": version.map(Version::as_str),
        "findings": findings,
    });
    let json = seaworthy_manifest::pretty(&json);
    writeln!(output::plain(), "{json}")?;
    Ok(())
}

fn check(file: &Path, output: ReportFormat) -> Result<u8, Failure> {
    let text = read(file)?;
    let config = config(&text)?;
    let (version, problems) = match parse(&config) {
        Ok(parsed) => (Some(parsed.version), parsed.warnings),
        Err(problems) => (seaworthy_ignition::version_of(&config).ok(), problems),
    };
    // A config is not invalid because a later version cannot express it.
    let demoted = |problem: Problem| match is_about_conversion(problem.code) {
        true => Problem { severity: problem.severity.min(Severity::Warning), ..problem },
        false => problem,
    };
    let problems: Vec<Problem> = problems.into_iter().map(demoted).collect();
    let budget = Cell::new(MAX_LOCATE_BYTES);
    let is_valid = !problems.iter().any(|problem| problem.severity == Severity::Error);
    match output {
        ReportFormat::Json => {
            let findings = problems.iter().map(|problem| problem_json(problem, &text, &budget)).collect();
            print_json(version, is_valid, findings)?;
        }
        ReportFormat::Text => {
            let mut out = output::colored();
            for problem in &problems {
                let style = terminal::style(problem.severity);
                writeln!(
                    out,
                    "{style}{}{style:#}[{}]: {}",
                    problem.severity,
                    problem.code,
                    terminal::sanitized(line(problem, &text, &budget))
                )?;
            }
            if is_valid {
                let version = version.map_or("", Version::as_str);
                writeln!(out, "{}: valid Ignition config of version {version}", terminal::sanitized(&text.name))?;
            }
        }
    }
    Ok(if is_valid { EXIT_OK } else { EXIT_FAILED })
}

fn print_problems(problems: &[Problem], text: &ManifestText) -> u8 {
    let budget = Cell::new(MAX_LOCATE_BYTES);
    for problem in problems {
        match problem.severity {
            Severity::Error => terminal::error(&line(problem, text, &budget)),
            _ => terminal::warning(&line(problem, text, &budget)),
        }
    }
    EXIT_FAILED
}

/// `file:line:column: path: message`.
fn line(problem: &Problem, text: &ManifestText, budget: &Cell<usize>) -> String {
    let place = match text.locate(0, &problem.path, EntryPart::of_finding(problem.code), budget) {
        Some((line, column)) => format!("{}:{line}:{column}", text.name),
        None => text.name.clone(),
    };
    format!("{place}: {}: {}", problem.path, problem.message)
}

fn problem_json(problem: &Problem, text: &ManifestText, budget: &Cell<usize>) -> serde_json::Value {
    let mut json = serde_json::json!({
        "severity": problem.severity.as_str(),
        "code": problem.code,
        "path": problem.path.to_string(),
        "message": problem.message,
    });
    if let Some((line, column)) = text.locate(0, &problem.path, EntryPart::of_finding(problem.code), budget) {
        json["line"] = line.into();
        json["column"] = column.into();
    }
    json
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::authority;

    #[test]
    fn key_beside_the_certificate_is_never_printed() {
        let key = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n";
        let certificate = "-----BEGIN CERTIFICATE-----\nMTIz\n-----END CERTIFICATE-----\n";
        assert_eq!(authority(Path::new("ca.crt"), certificate.as_bytes()).unwrap(), certificate.as_bytes());
        for wrong in [key.to_owned(), format!("{certificate}{}", key.replace("PRIVATE", "EC PRIVATE"))] {
            let error = authority(Path::new("ca.key"), wrong.as_bytes()).unwrap_err().messages().join("\n");
            assert!(error.contains("ca.key") && error.contains("private key"), "{error}");
            assert!(!error.contains("c2VjcmV0"), "{error}");
        }
    }
}
