//! YAML options: the dialect that kubectl reads, limits, and error messages.

use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{DefaultMessageFormatter, Error, MessageFormatter as _};

/// Lists and objects may not be nested deeper than this; the same bound as for JSON.
const MAX_DEPTH: usize = 128;

/// YAML as kubectl reads it: 1.1, with `yes` for true and `0644` for an octal number; two equal keys are an error.
///
/// Values that are written out are bounded by the text's size, so the budget grows with it; the fixed part is what aliases
/// may add to a short text.
pub fn options(size: usize) -> serde_saphyr::Options {
    serde_saphyr::options! {
        legacy_octal_numbers: true,
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::Error,
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            max_documents: 1_000 + size / 4,
            max_nodes: 250_000 + size / 4,
            max_events: 1_000_000 + size / 2,
            max_total_scalar_bytes: (64 << 20) + size,
            // How often an alias is used does not matter; the values that it expands to are counted above.
            enforce_alias_anchor_ratio: false,
        },
    }
}

/// What is wrong, for people who write manifests rather than parsers; where it is the form of the text, what the parser
/// says of it.
pub fn message(error: &Error) -> String {
    match error {
        Error::AliasError { error, .. } => message(error),
        Error::DuplicateMappingKey { key: Some(key), .. } if matches!(key.as_str(), "apiVersion" | "kind") => {
            format!("duplicate key {key:?}; is a line --- missing before the second one?")
        }
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("duplicate key {key:?}; keep one of them")
        }
        Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => too_deep(),
        Error::Budget { breach, .. } => match breach {
            BudgetBreach::Documents { .. } => "too many documents; split the file".to_owned(),
            _ => "the text is too large after expanding its aliases (*name); write it out, or split it".to_owned(),
        },
        Error::AliasReplayLimitExceeded { .. } | Error::AliasReplayStackDepthExceeded { .. } => {
            "too many nested aliases (*name); write out their values".to_owned()
        }
        Error::RecursiveReferencesRequireWeakTypes { .. } => {
            "the alias refers to a value that contains it; write out the value".to_owned()
        }
        Error::UnknownAnchor { .. } => {
            "unknown alias: no anchor (&name) of that name above it; a string that starts with * needs quotes"
                .to_owned()
        }
        Error::NonFiniteFloat { .. } => "not a JSON number; quote it if it is a string".to_owned(),
        Error::Unexpected { expected: "string scalar", .. } => {
            "found a list or an object, expected a key or a string; quote strings that start with a bracket".to_owned()
        }
        other => match DefaultMessageFormatter.format_message(other).as_ref() {
            "recursion limit exceeded" => too_deep(),
            message => message.to_owned(),
        },
    }
}

fn too_deep() -> String {
    format!("nested deeper than {MAX_DEPTH} levels; no manifest is nested that deep")
}
