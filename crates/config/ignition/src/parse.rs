//! Parsing: a config of any version is validated and converted to spec 3.5.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::node::{Node, Value};
use crate::path::Path;
use crate::problem::{PathRef, Problem, Report, Severity};
use crate::schema::CONFIG;
use crate::validate::{Check, validate};
use crate::version::{Version, VersionError};
use crate::{shape, spelling, v2};

/// A config that was read.
#[derive(Debug)]
pub struct Parsed<'t> {
    /// The config in spec 3.5. Its values keep the origins of the text, whatever its version was.
    pub config: Node<'t>,
    /// The version that the text was written in.
    pub version: Version,
    /// What is worth knowing about it. No errors among them.
    pub warnings: Vec<Problem>,
}

/// Reads a config of any accepted version: checks its shape and its rules, and brings it up to spec 3.5.
///
/// Paths in problems are those of the text, also where a rule was found broken only after the conversion from 2.x.
///
/// Differs: what a 3.4 config says of a tang server's advertisement stays, because nothing may be lost on the way up;
/// upstream's translation forgets it.
pub fn parse<'t>(config: &'t Node<'_>) -> Result<Parsed<'t>, Vec<Problem>> {
    let version = version_of(config).map_err(|problem| vec![problem])?;
    let mut report = Report::default();
    let mut parsed = if version.is_v2() {
        v2::to_v3(config, version, &mut report)
    } else {
        shape::conform(config, &CONFIG, version, &mut report)
    };
    // A converted 2.x config must be a valid 3.0 one: that is what the machine's converter makes of it.
    // Some of its rules held before the conversion too, so a 2.x config has a report of its own for them.
    let before = if version.is_v2() { std::mem::take(&mut report) } else { Report::default() };
    let mut check = Check::with(version.max(Version::V3_0), report);
    validate(&parsed, &mut check);
    check.report.forget_counted_in(&before);
    let mut problems = before.into_problems();
    problems.append(&mut check.report.into_problems());
    if version.is_v2() {
        for problem in &mut problems {
            if let Some(path) = config.path_of(problem.origin) {
                problem.path = text_path(path, &problem.path, config);
            }
        }
        // Some rules hold before and after the conversion.
        let mut seen = HashSet::new();
        problems.retain(|problem| seen.insert((problem.path.clone(), problem.code)));
    }
    if problems.iter().any(|problem| problem.severity == Severity::Error) {
        return Err(problems);
    }
    set_version(&mut parsed, Version::INTERNAL);
    set_names(&mut parsed);
    Ok(Parsed { config: parsed, version, warnings: problems })
}

/// Checks a config of spec 3.5 that was made of valid ones: what they may break together, not what each source is.
pub fn check(config: &Node<'_>) -> Vec<Problem> {
    let mut check = Check { looks_at_sources: false, ..Check::new(Version::INTERNAL) };
    validate(config, &mut check);
    check.report.into_problems()
}

/// Checks a config of any 3.x version that the program has made, by the rules of that version.
pub(crate) fn check_as(config: &Node<'_>, version: Version) -> Report {
    let mut check = Check::new(version);
    validate(config, &mut check);
    check.report
}

/// The version that a config says it is written in.
pub fn version_of(config: &Node<'_>) -> Result<Version, Problem> {
    let ignition = any_case(config, "ignition");
    let version = ignition.and_then(|ignition| any_case(ignition, "version"));
    let (node, error) = match version.map(|version| (version, &version.value)) {
        Some((node, Value::Str(text))) => match Version::parse(text) {
            Ok(version) => return Ok(version),
            Err(error) => (node, error),
        },
        Some((node, _)) if !node.is_null() => (node, VersionError::Invalid { found: node.describe() }),
        _ => (ignition.unwrap_or(config), VersionError::Missing),
    };
    let hint = match (&error, version) {
        (VersionError::Missing, _) => misspelt(ignition, "version").or_else(|| misspelt(Some(config), "ignition")),
        (_, Some(node)) => meant(node),
        _ => None,
    };
    let code = match error {
        VersionError::Invalid { .. } | VersionError::Missing => "version-invalid",
        VersionError::Unknown { .. } => "version-unknown",
    };
    Err(Problem {
        severity: Severity::Error,
        code,
        path: PathRef::ROOT.key("ignition").key("version").path(),
        origin: node.origin,
        related: Vec::new(),
        message: format!("{error}{}", hint.unwrap_or_default()),
    })
}

/// A key of an object that is probably a misspelling of one that is missing.
fn misspelt(object: Option<&Node<'_>>, key: &str) -> Option<String> {
    let keys = object?.as_map()?.iter().map(|(key, _)| key);
    let found = keys
        .filter(|found| !found.eq_ignore_ascii_case(key))
        .find(|found| spelling::nearest(found, [key]).is_some())?;
    Some(format!("; did you mean {key:?} where it says {found:?}?"))
}

/// The version that a number or two were meant for: 3.4 for 3.4.0.
fn meant(node: &Node<'_>) -> Option<String> {
    let text = match &node.value {
        Value::Str(text) => text.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Int(number) => format!("{number}.0"),
        _ => return None,
    };
    let version = Version::parse(&format!("{}.0", text.trim_start_matches('v')))
        .or_else(|_| Version::parse(text.trim_start_matches('v')))
        .ok()?;
    Some(format!("; did you mean {:?}, in quotes?", version.as_str()))
}

/// The value under a key, or under the same key in another case, which Ignition's reader takes as well.
fn any_case<'n, 'a>(node: &'n Node<'a>, key: &str) -> Option<&'n Node<'a>> {
    node.get(key)
        .or_else(|| node.as_map()?.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, child)| child))
}

pub(crate) fn set_version(config: &mut Node<'_>, version: Version) {
    if let Some(node) = config
        .as_map_mut()
        .and_then(|map| map.get_mut("ignition"))
        .and_then(Node::as_map_mut)
        .and_then(|map| map.get_mut("version"))
    {
        node.value = Value::Str(Cow::Borrowed(version.as_str()));
    }
}

/// Writes out the empty name of what may lack one.
///
/// Compat: upstream always writes these names, and the rendered name depends on it.
fn set_names(config: &mut Node<'_>) {
    for (section, list) in [("passwd", "groups"), ("passwd", "users"), ("storage", "luks"), ("storage", "raid")] {
        let entries = config
            .as_map_mut()
            .and_then(|map| map.get_mut(section)?.as_map_mut()?.get_mut(list)?.as_list_mut())
            .into_iter()
            .flatten();
        for entry in entries {
            let origin = entry.origin;
            if let Some(map) = entry.as_map_mut()
                && map.get("name").is_none()
            {
                map.set("name", Node::str_at("", origin));
            }
        }
    }
}

/// The path in the text of something that was found in the converted config: the place of the value, and below it the
/// field that a rule misses there.
fn text_path(found: Path, converted: &Path, config: &Node<'_>) -> Path {
    match converted.last_key() {
        Some(key) if found.last_key() != Some(key) && has_map(config, &found) => found.key(key),
        _ => found,
    }
}

fn has_map(config: &Node<'_>, path: &Path) -> bool {
    let mut node = config;
    for step in &path.0 {
        let next = match step {
            crate::path::Step::Key(key) => node.get(key),
            crate::path::Step::Index(index) => node.as_list().and_then(|list| list.get(*index)),
        };
        match next {
            Some(next) => node = next,
            None => return false,
        }
    }
    node.as_map().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(config: serde_json::Value) -> Vec<String> {
        let mut node = Node::from_json(&config);
        node.number(0);
        let problems = parse(&node).unwrap_err();
        problems.iter().map(|problem| format!("{} {}", problem.path, problem.code)).collect()
    }

    #[test]
    fn a_value_of_the_wrong_type_is_not_reported_as_missing_too() {
        let files = serde_json::json!([{"path": 7}, "x", {"path": "a", "mode": "b"}, {}]);
        assert_eq!(
            errors(serde_json::json!({"ignition": {"version": "3.5.0"}, "storage": {"files": files}})),
            [
                "storage.files[0].path wrong-type",
                "storage.files[1] wrong-type",
                "storage.files[2].mode wrong-type",
                "storage.files[3] duplicate",
                "storage.files[2].path path-not-absolute",
                "storage.files[3].path path-missing",
            ]
        );
    }
}
