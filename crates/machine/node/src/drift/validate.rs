//! Whether a machine is what its configuration says (server-and-daemon.md, B19).

use std::fmt;

use seaworthy_host::{Host, HostError, UnitState};
use seaworthy_ignition::unit_path;

use crate::decide::observed::{Found, Observed, observe};
use crate::decide::target::{Target, Wanted};
use crate::decide::{extensions, kernel_arguments};
use crate::paths;

/// A respect in which a machine is not what its configuration says. What is in a file is never part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it is about: a path, a unit, `kernel arguments`.
    pub subject: String,
    /// In which respect.
    pub aspect: Aspect,
    /// The sentence.
    pub message: String,
}

/// A respect in which something can differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aspect {
    /// It is not there.
    Missing,
    /// It is something else: a link, a directory.
    Kind,
    /// Its content.
    Content,
    /// Its permissions.
    Mode,
    /// Its owner or group.
    Owner,
    /// Whether a unit is started at boot.
    Enablement,
    /// What is booted.
    Boot,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Compares a machine with its configuration.
pub fn validate(host: &dyn Host, target: &Target) -> Result<Vec<Finding>, HostError> {
    Ok(compare(target, &observe(host, target, target)?))
}

/// All findings in one sentence.
pub fn message(target: &Target, findings: &[Finding]) -> String {
    let all: Vec<String> = findings.iter().map(ToString::to_string).collect();
    format!("unexpected on-disk state validating against {}: {}", target.name, all.join("; "))
}

/// Compares what was seen with a configuration.
///
/// Differs: owners are looked at too, because a file that somebody else may write is not what the configuration says.
pub fn compare(target: &Target, observed: &Observed) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |subject: &str, aspect, message: String| {
        findings.push(Finding { subject: subject.to_owned(), aspect, message });
    };
    for (path, wanted) in target.paths.iter().filter(|(path, _)| !paths::is_unchecked(path)) {
        let found = observed.paths.get(path).unwrap_or(&Found::Nothing);
        match (wanted, found) {
            (Wanted::Nothing, Found::Nothing) => {}
            (Wanted::Nothing, _) => {
                find(path, Aspect::Kind, format!("{path:?} is there, and the configuration wants nothing there"));
            }
            (_, Found::Nothing) => {
                find(path, Aspect::Missing, format!("could not stat file {path:?}: no such file or directory"));
            }
            (Wanted::Link(target), Found::Link(to)) if target == to => {}
            (Wanted::Link(target), _) => {
                find(path, Aspect::Kind, format!("{path:?} is not a link to {target:?}"));
            }
            (Wanted::File { .. }, Found::Link(_) | Found::Other) => {
                find(path, Aspect::Kind, format!("mode mismatch for file: {path:?}; it is not a regular file"));
            }
            (Wanted::File { bytes, mode, user, group }, Found::File { size, is_as_wanted, mode: m, uid, gid }) => {
                if mode != m {
                    let message = format!("mode mismatch for file: {path:?}; expected: {mode:o}; received: {m:o}");
                    find(path, Aspect::Mode, message);
                }
                if !is_as_wanted {
                    let sizes = format!("expected {} bytes, found {size}", bytes.len());
                    find(path, Aspect::Content, format!("content mismatch for file {path:?} ({sizes})"));
                }
                match (observed.user_id(user), observed.group_id(group)) {
                    (Ok(u), Ok(g)) if (u, g) == (*uid, *gid) => {}
                    (Ok(u), Ok(g)) => {
                        let message =
                            format!("owner mismatch for file: {path:?}; expected: {u}:{g}; received: {uid}:{gid}");
                        find(path, Aspect::Owner, message);
                    }
                    (Err(why), _) | (_, Err(why)) => find(path, Aspect::Owner, format!("file {path:?}: {why}")),
                }
            }
        }
    }
    for (name, unit) in &target.units {
        let is_looked_at = unit.has_contents && !unit.is_masked && target.paths.contains_key(&unit_path(name));
        let state = observed.units.get(name).unwrap_or(&UnitState::NotFound);
        let is_wrong = match unit.is_enabled {
            Some(true) => {
                use UnitState::{Disabled, Masked, MaskedRuntime, NotFound};
                matches!(state, Disabled | Masked | MaskedRuntime | NotFound)
            }
            Some(false) => matches!(state, UnitState::Enabled | UnitState::EnabledRuntime),
            None => false,
        };
        if is_looked_at && is_wrong {
            let wanted = if unit.is_enabled == Some(true) { "enabled" } else { "disabled" };
            let message = format!("unit {name:?}: expected: {wanted}; received: {}", state.as_str());
            find(name, Aspect::Enablement, message);
        }
    }
    let boot = &observed.boot;
    if let Some(image) = &boot.image
        && !target.image().is_empty()
        && image != target.image()
    {
        let message = format!("expected target osImageURL {:?}, have {image:?}", target.image());
        find("osImageURL", Aspect::Boot, message);
    }
    let missing = kernel_arguments::missing(&target.arguments, &boot.arguments);
    if !missing.is_empty() {
        find("kernel arguments", Aspect::Boot, format!("missing expected kernel arguments: {}", missing.join(" ")));
    }
    let missing = extensions::missing(&target.extensions, &boot.packages);
    if !missing.is_empty() {
        find("extensions", Aspect::Boot, format!("missing packages of extensions: {}", missing.join(" ")));
    }
    findings
}
