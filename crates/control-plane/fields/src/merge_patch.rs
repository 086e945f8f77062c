//! JSON merge patch (RFC 7396): objects are merged, null takes away, everything else replaces.

use serde_json::{Map, Value};

use crate::depth::is_too_deep;
use crate::json_patch::json_kind;
use crate::patch::PatchError;

/// Applies a merge patch to an object.
pub fn merge_patch(mut document: Value, patch: Value) -> Result<Value, PatchError> {
    if is_too_deep(&document, 0) || is_too_deep(&patch, 0) {
        return Err(PatchError::too_deep());
    }
    match (&mut document, patch) {
        (Value::Object(fields), Value::Object(patch)) => merge(fields, patch),
        (_, Value::Object(_)) => return Err(PatchError::BadRequest("Invalid JSON Document".to_owned())),
        (_, Value::Null) => return Err(PatchError::BadRequest("Invalid JSON Patch".to_owned())),
        (_, other) => {
            return Err(PatchError::BadRequest(format!(
                "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                json_kind(&other)
            )));
        }
    }
    Ok(document)
}

fn merge(fields: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (key, value) in patch {
        match (fields.get_mut(&key), value) {
            (_, Value::Null) => {
                fields.remove(&key);
            }
            (Some(Value::Object(fields)), Value::Object(patch)) => merge(fields, patch),
            // An object that becomes something else: the real server leaves nulls within lists alone only here.
            (Some(place @ Value::Object(_)), value) => *place = value,
            (_, mut value) => {
                drop_nulls(&mut value);
                fields.insert(key, value);
            }
        }
    }
}

/// Takes keys with null away, also within lists, whose own nulls stay.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}
