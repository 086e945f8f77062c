//! Semantic versions.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use super::{Native, overload_mismatch};
use crate::error::EvalError;
use crate::value::{Opaque, Outcome, Val};

/// A version of the form `1.2.3-rc.1+build`.
#[derive(Debug)]
pub struct Semver {
    numbers: [u64; 3],
    prerelease: Vec<PrereleaseIdentifier>,
    build: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
enum PrereleaseIdentifier {
    Number(u64),
    Text(String),
}

impl Semver {
    /// Reads a version.
    pub fn parse(text: &str) -> Result<Semver, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let parts: Vec<&str> = text.splitn(3, '.').collect();
        let [major, minor, rest] = parts.as_slice() else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (rest, build) = match rest.split_once('+') {
            Some((rest, build)) => (rest, Some(build)),
            None => (*rest, None),
        };
        let (patch, prerelease) = match rest.split_once('-') {
            Some((patch, prerelease)) => (patch, Some(prerelease)),
            None => (rest, None),
        };
        let numbers =
            [number(major, "Major", "major")?, number(minor, "Minor", "minor")?, number(patch, "Patch", "patch")?];
        let mut version = Semver { numbers, prerelease: Vec::new(), build: Vec::new() };
        for part in prerelease.into_iter().flat_map(|text| text.split('.')) {
            version.prerelease.push(prerelease_part(part)?);
        }
        for part in build.into_iter().flat_map(|text| text.split('.')) {
            if part.is_empty() {
                return Err("Build meta data is empty".to_owned());
            }
            if !part.bytes().all(is_plain) {
                return Err(format!("Invalid character(s) found in build meta data {part:?}"));
            }
            version.build.push(part.to_owned());
        }
        Ok(version)
    }

    /// Reads a version that may have a leading `v`, fewer numbers or leading zeros.
    pub fn parse_loosely(text: &str) -> Result<Semver, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(str::to_owned).collect();
        for part in &mut parts {
            if part.len() > 1 {
                let trimmed = part.trim_start_matches('0');
                *part = if trimmed.starts_with(|c: char| c.is_ascii_digit()) {
                    trimmed.to_owned()
                } else {
                    format!("0{trimmed}")
                };
            }
        }
        if parts.len() < 3 {
            if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
                return Err("short version cannot contain PreRelease/Build meta data".to_owned());
            }
            parts.resize(3, "0".to_owned());
        }
        Semver::parse(&parts.join("."))
    }

    /// The order of versions; build data does not count.
    pub fn compare(&self, other: &Semver) -> Ordering {
        let numbers = self.numbers.cmp(&other.numbers);
        if numbers != Ordering::Equal {
            return numbers;
        }
        match (self.prerelease.is_empty(), other.prerelease.is_empty()) {
            (true, true) => return Ordering::Equal,
            (true, false) => return Ordering::Greater,
            (false, true) => return Ordering::Less,
            (false, false) => {}
        }
        for (a, b) in self.prerelease.iter().zip(&other.prerelease) {
            let order = match (a, b) {
                (PrereleaseIdentifier::Number(a), PrereleaseIdentifier::Number(b)) => a.cmp(b),
                (PrereleaseIdentifier::Number(_), PrereleaseIdentifier::Text(_)) => Ordering::Less,
                (PrereleaseIdentifier::Text(_), PrereleaseIdentifier::Number(_)) => Ordering::Greater,
                (PrereleaseIdentifier::Text(a), PrereleaseIdentifier::Text(b)) => a.cmp(b),
            };
            if order != Ordering::Equal {
                return order;
            }
        }
        self.prerelease.len().cmp(&other.prerelease.len())
    }
}

impl fmt::Display for Semver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(f, "{major}.{minor}.{patch}")?;
        for (index, part) in self.prerelease.iter().enumerate() {
            f.write_str(if index == 0 { "-" } else { "." })?;
            match part {
                PrereleaseIdentifier::Number(number) => write!(f, "{number}")?,
                PrereleaseIdentifier::Text(text) => f.write_str(text)?,
            }
        }
        for (index, part) in self.build.iter().enumerate() {
            write!(f, "{}{part}", if index == 0 { '+' } else { '.' })?;
        }
        Ok(())
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

fn number(text: &str, title: &str, name: &str) -> Result<u64, String> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {name} number {text:?}"));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{title} number must not contain leading zeroes {text:?}"));
    }
    parse_u64(text)
}

fn parse_u64(text: &str) -> Result<u64, String> {
    let problem = if text.is_empty() { "invalid syntax" } else { "value out of range" };
    text.parse().map_err(|_| format!("strconv.ParseUint: parsing {text:?}: {problem}"))
}

fn prerelease_part(text: &str) -> Result<PrereleaseIdentifier, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            return Err(format!("Numeric PreRelease version must not contain leading zeroes {text:?}"));
        }
        return parse_u64(text).map(PrereleaseIdentifier::Number);
    }
    if !text.bytes().all(is_plain) {
        return Err(format!("Invalid character(s) found in prerelease {text:?}"));
    }
    Ok(PrereleaseIdentifier::Text(text.to_owned()))
}

pub(super) fn find(function: &str) -> Option<Native> {
    let native: Native = match function {
        "semver" => |args| match parsed(args) {
            Some(Ok(version)) => Ok(Val::Opaque(Opaque::Semver(Arc::new(version)))),
            Some(Err(problem)) => Err(EvalError::new(problem)),
            None => overload_mismatch(),
        },
        "isSemver" => |args| match parsed(args) {
            Some(version) => Ok(Val::Bool(version.is_ok())),
            None => overload_mismatch(),
        },
        "major" => |args| part(args, 0),
        "minor" => |args| part(args, 1),
        "patch" => |args| part(args, 2),
        _ => return None,
    };
    Some(native)
}

fn parsed(args: &[Val<'_>]) -> Option<Result<Semver, String>> {
    match args {
        [Val::String(text)] | [Val::String(text), Val::Bool(false)] => Some(Semver::parse(text)),
        [Val::String(text), Val::Bool(true)] => Some(Semver::parse_loosely(text)),
        _ => None,
    }
}

fn part<'a>(args: &[Val<'a>], index: usize) -> Outcome<'a> {
    match args {
        [Val::Opaque(Opaque::Semver(version))] => Ok(Val::Int(version.numbers[index] as i64)),
        _ => overload_mismatch(),
    }
}

/// The comparisons versions and quantities share.
pub(super) fn compare<'a>(args: &[Val<'a>], result: fn(Ordering) -> Val<'a>) -> Outcome<'a> {
    match args {
        [Val::Opaque(Opaque::Quantity(one)), Val::Opaque(Opaque::Quantity(two))] => Ok(result(one.compare(two))),
        [Val::Opaque(Opaque::Semver(one)), Val::Opaque(Opaque::Semver(two))] => Ok(result(one.compare(two))),
        _ => overload_mismatch(),
    }
}
