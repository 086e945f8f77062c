//! JSON that a command prints.

use serde_json::Value;

/// A value as indented JSON.
///
/// Not generic, so that it is compiled here, where speed counts, and not in the command line, where size does.
pub fn pretty(value: &Value) -> String {
    // A value always has a JSON form.
    serde_json::to_string_pretty(value).unwrap_or_default()
}
