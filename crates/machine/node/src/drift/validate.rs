//! Validation: comparison of a machine with its configuration. The messages are those of machine-config-operator,
//! `pkg/daemon/on_disk_validation.go`.

use std::fmt;

use seaworthy_host::{Host, HostError, UnitState};
use seaworthy_ignition::unit_path;

use crate::decide::observed::{Observed, ObservedEntry, observe};
use crate::decide::target::{TargetEntry, TargetState};
use crate::decide::{extensions, kernel_arguments};
use crate::paths;

/// A mismatch between a machine and its configuration. It never has the contents of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// A path, a unit, `kernel arguments`.
    pub subject: String,
    pub aspect: Aspect,
    pub message: String,
}

/// The aspect of a subject that differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aspect {
    /// It does not exist.
    Missing,
    /// It is something else, such as a link or a directory.
    Kind,
    Content,
    Mode,
    /// The owner or the group.
    Owner,
    /// Whether a unit is enabled.
    Enablement,
    Boot,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Compares a machine with its configuration.
pub fn validate(host: &dyn Host, target: &TargetState) -> Result<Vec<Mismatch>, HostError> {
    Ok(compare(target, &observe(host, target, target)?))
}

/// All mismatches in one sentence.
pub fn message(target: &TargetState, mismatches: &[Mismatch]) -> String {
    let all: Vec<String> = mismatches.iter().map(ToString::to_string).collect();
    format!("unexpected on-disk state validating against {}: {}", target.name, all.join("; "))
}

/// Compares the observed state with a configuration.
///
/// Differs: owners are compared too, because a file that another user may write does not match the configuration.
pub fn compare(target: &TargetState, observed: &Observed) -> Vec<Mismatch> {
    let mut mismatches = Vec::new();
    let mut find = |subject: &str, aspect, message: String| {
        mismatches.push(Mismatch { subject: subject.to_owned(), aspect, message });
    };
    for (path, wanted) in target.paths.iter().filter(|(path, _)| !paths::is_unchecked(path)) {
        let found = observed.paths.get(path).unwrap_or(&ObservedEntry::Absent);
        match (wanted, found) {
            (TargetEntry::Absent, ObservedEntry::Absent) => {}
            (TargetEntry::Absent, _) => {
                find(path, Aspect::Kind, format!("{path:?} exists, and the configuration has no file there"));
            }
            (_, ObservedEntry::Absent) => {
                find(path, Aspect::Missing, format!("could not stat file {path:?}: no such file or directory"));
            }
            (TargetEntry::Link(target), ObservedEntry::Link(to)) if target == to => {}
            (TargetEntry::Link(target), _) => {
                find(path, Aspect::Kind, format!("{path:?} is not a link to {target:?}"));
            }
            (TargetEntry::File { .. }, ObservedEntry::Link(_) | ObservedEntry::Other) => {
                find(path, Aspect::Kind, format!("mode mismatch for file: {path:?}; it is not a regular file"));
            }
            (
                TargetEntry::File { bytes, mode, user, group },
                ObservedEntry::File { size, has_target_content, mode: m, uid, gid },
            ) => {
                if mode != m {
                    let message = format!("mode mismatch for file: {path:?}; expected: {mode:o}; received: {m:o}");
                    find(path, Aspect::Mode, message);
                }
                if !has_target_content {
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
        let is_compared = unit.has_contents && !unit.is_masked && target.paths.contains_key(&unit_path(name));
        let state = observed.units.get(name).unwrap_or(&UnitState::NotFound);
        let is_wrong = match unit.is_enabled {
            Some(true) => {
                use UnitState::{Disabled, Masked, MaskedRuntime, NotFound};
                matches!(state, Disabled | Masked | MaskedRuntime | NotFound)
            }
            Some(false) => matches!(state, UnitState::Enabled | UnitState::EnabledRuntime),
            None => false,
        };
        if is_compared && is_wrong {
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
    mismatches
}
