//! Options of create, update and patch.

use http::HeaderMap;
use http::header::USER_AGENT;
use seaworthy_schema::Cause;
use serde_json::Value;

use crate::request::media::PatchKind;
use crate::response::status::Failure;

use super::{Query, invalid};

/// `fieldValidation`: handling of unknown fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldValidation {
    /// Drop them.
    Ignore,
    /// Drop them with a warning.
    Warn,
    /// Refuse the request.
    Strict,
}

/// The kind of the options, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteKind {
    /// `CreateOptions`.
    Create,
    /// `UpdateOptions`.
    Update,
    /// `PatchOptions`.
    Patch(PatchKind),
}

/// Options of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteOptions {
    pub is_dry_run: bool,
    /// The field manager.
    pub manager: String,
    pub validation: FieldValidation,
    /// Whether an apply takes fields from other managers.
    pub force: bool,
}

const MAX_MANAGER_LENGTH: usize = 128;

impl WriteOptions {
    /// Parses and validates the options of a write.
    pub fn read(query: &Query, headers: &HeaderMap, kind: WriteKind) -> Result<WriteOptions, Failure> {
        let mut causes = Vec::new();
        let is_dry_run = dry_run(query.all("dryRun"), &mut causes);
        let is_apply = kind == WriteKind::Patch(PatchKind::Apply);
        let force = query.flag("force");
        if let (false, Some(_), WriteKind::Patch(_)) = (is_apply, force, kind) {
            causes.push(Cause::forbidden("force", "may not be specified for non-apply patch"));
        }
        let manager = query.get("fieldManager").unwrap_or_default();
        if is_apply && manager.is_empty() {
            causes.push(Cause::required("fieldManager", "is required for apply patch"));
        }
        causes.extend(validate_manager(manager));
        let word = query.get("fieldValidation").unwrap_or_default();
        let validation = match word {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                causes.push(Cause::not_supported("fieldValidation", other, &["", "Ignore", "Strict", "Warn"]));
                FieldValidation::Warn
            }
        };
        if !causes.is_empty() {
            return Err(invalid(kind.options(), causes));
        }
        let manager = if manager.is_empty() { manager_of_agent(headers) } else { manager.to_owned() };
        Ok(WriteOptions { is_dry_run, manager, validation, force: force.unwrap_or(false) })
    }
}

impl WriteKind {
    fn options(self) -> &'static str {
        match self {
            WriteKind::Create => "CreateOptions",
            WriteKind::Update => "UpdateOptions",
            WriteKind::Patch(_) => "PatchOptions",
        }
    }
}

/// Whether this is a dry run. Every value must be `All`.
pub(super) fn dry_run<'q>(words: impl Iterator<Item = &'q str>, causes: &mut Vec<Cause>) -> bool {
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    if words.iter().any(|word| *word != "All") {
        causes.push(Cause::not_supported("dryRun", &Value::from(words.clone()), &["All"]));
    }
    !words.is_empty()
}

fn validate_manager(manager: &str) -> Option<Cause> {
    if manager.len() > MAX_MANAGER_LENGTH {
        return Some(Cause::too_long("fieldManager", MAX_MANAGER_LENGTH as i64));
    }
    let (at, bad) = manager.chars().enumerate().find(|(_, letter)| letter.is_control())?;
    let why = format!("invalid character U+{:04X} (at position {at})", u32::from(bad));
    Some(Cause::invalid("fieldManager", manager, &why))
}

/// The default field manager: the user agent up to the first slash.
fn manager_of_agent(headers: &HeaderMap) -> String {
    let agent = headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let name = agent.split('/').next().unwrap_or_default();
    let printable: String = name.chars().filter(|letter| !letter.is_control()).take(MAX_MANAGER_LENGTH).collect();
    if printable.is_empty() { "unknown".to_owned() } else { printable }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str, kind: WriteKind) -> Result<WriteOptions, Failure> {
        let headers = [(USER_AGENT, "kubectl/v1.37 (linux)".parse().unwrap())].into_iter().collect();
        WriteOptions::read(&Query::parse(Some(query)), &headers, kind)
    }

    #[test]
    fn manager_is_the_program_unless_it_is_named() {
        assert_eq!(read("", WriteKind::Create).unwrap().manager, "kubectl");
        assert_eq!(read("fieldManager=me", WriteKind::Create).unwrap().manager, "me");
    }

    #[test]
    fn apply_without_a_manager_is_refused() {
        let failure = read("", WriteKind::Patch(PatchKind::Apply)).unwrap_err();
        assert_eq!(failure.details.unwrap().causes[0].field, "fieldManager");
    }

    #[test]
    fn force_belongs_to_apply_alone() {
        assert!(read("fieldManager=a&force=true", WriteKind::Patch(PatchKind::Apply)).unwrap().force);
        assert_eq!(read("force=true", WriteKind::Patch(PatchKind::Merge)).unwrap_err().code, 422);
    }

    #[test]
    fn dry_run_knows_one_word() {
        assert!(read("dryRun=All", WriteKind::Update).unwrap().is_dry_run);
        let message = read("dryRun=Some", WriteKind::Create).unwrap_err().message;
        assert_eq!(
            message,
            "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Some\"]: supported values: \"All\""
        );
    }
}
