//! Nesting limit: deeper values are refused, so that no walk runs out of stack.

use serde_json::Value;

/// As many levels as the JSON reader takes: nothing deeper can come in, and nothing deeper could be read back.
///
/// Differs: the real server takes ten thousand, because its stack grows as needed and ours does not.
pub(crate) const MAX_DEPTH: usize = 128;

/// Whether a value exceeds the limit when it is nested `above` levels deep itself.
pub(crate) fn is_too_deep(value: &Value, above: usize) -> bool {
    match value {
        Value::Array(items) => above >= MAX_DEPTH || items.iter().any(|item| is_too_deep(item, above + 1)),
        Value::Object(fields) => above >= MAX_DEPTH || fields.values().any(|value| is_too_deep(value, above + 1)),
        _ => false,
    }
}
