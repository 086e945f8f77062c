//! JSON patch (RFC 6902) with the real server's habits.
//!
//! - `replace` of a key that is not there adds it, `copy` of one copies null, `test` of one finds null.
//! - Positions may be negative and then count from the end.
//! - The number of operations, what is copied, and the depth of the result are limited.

use serde_json::Value;

use crate::depth::{MAX_DEPTH, is_too_deep};
use crate::patch::PatchError;

/// How many operations one patch may have.
const MAX_OPERATIONS: usize = 10_000;

/// How many bytes all copies of one patch may have together.
const MAX_COPIED: usize = 3 * 1024 * 1024;

/// Applies a JSON patch. If it fails, nothing of it counts.
pub fn json_patch(mut document: Value, patch: &Value) -> Result<Value, PatchError> {
    let operations = match patch {
        Value::Array(operations) => operations.as_slice(),
        Value::Null => &[],
        other => return Err(not_decoded(other, "value of type []handlers.jsonPatchOp")),
    };
    for operation in operations {
        check_form(operation)?;
    }
    if operations.len() > MAX_OPERATIONS {
        return Err(PatchError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            operations.len()
        )));
    }
    if is_too_deep(&document, 0) {
        return Err(PatchError::too_deep());
    }
    let mut copied = 0;
    for operation in operations {
        apply(&mut document, operation, &mut copied).map_err(PatchError::Unprocessable)?;
    }
    Ok(document)
}

fn check_form(operation: &Value) -> Result<(), PatchError> {
    let fields = match operation {
        Value::Object(fields) => fields,
        Value::Null => return Ok(()),
        other => return Err(not_decoded(other, "value of type handlers.jsonPatchOp")),
    };
    for key in ["op", "path", "from"] {
        if let Some(value) = fields.get(key).filter(|value| !value.is_string() && !value.is_null()) {
            return Err(not_decoded(value, &format!("struct field jsonPatchOp.{key} of type string")));
        }
    }
    Ok(())
}

fn not_decoded(found: &Value, wanted: &str) -> PatchError {
    let found = json_kind(found);
    PatchError::BadRequest(format!("error decoding patch: json: cannot unmarshal {found} into Go {wanted}"))
}

/// A JSON value's type as decoding errors name it.
pub(crate) fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn apply(document: &mut Value, operation: &Value, copied: &mut usize) -> Result<(), String> {
    let text = |key: &str| operation.get(key).and_then(Value::as_str);
    let kind = text("op").unwrap_or("unknown");
    let path = |kind: &str| {
        text("path").ok_or_else(|| match kind {
            "add" | "remove" | "copy" => format!("{kind} operation failed to decode path: {MISSING}"),
            _ => format!("{kind} operation failed to decode path: operation missing path field: {MISSING}"),
        })
    };
    let from = |kind: &str| {
        let error = || format!("{kind} operation failed to decode from: operation, missing from field: {MISSING}");
        text("from").ok_or_else(error)
    };
    let value = operation.get("value");
    match kind {
        "add" => add(document, path(kind)?, value.cloned().unwrap_or_default()),
        "remove" => remove(document, path(kind)?).map(|_| ()),
        "replace" => replace(document, path(kind)?, value.cloned().unwrap_or_default()),
        "test" => test(document, path(kind)?, value.unwrap_or(&Value::Null)),
        "move" => {
            let from = from(kind)?;
            let (parent, key) = parent_of(document, from)
                .ok_or_else(|| format!("move operation does not apply: doc is missing from path: {from}: {MISSING}"))?;
            let moved = take(parent, &key).map_err(|error| format!("error in move for path: '{key}': {error}"))?;
            let path = path(kind)?;
            let (parent, key) = parent_of(document, path).ok_or_else(|| {
                format!("move operation does not apply: doc is missing destination path: {path}: {MISSING}")
            })?;
            insert(parent, &key, moved, path).map_err(|error| format!("error in move for path: '{path}': {error}"))
        }
        "copy" => copy(document, from(kind)?, || path(kind), copied),
        other => Err(format!("Unexpected kind: {other}")),
    }
}

const MISSING: &str = "missing value";

fn add(document: &mut Value, path: &str, value: Value) -> Result<(), String> {
    let (parent, key) = parent_of(document, path)
        .ok_or_else(|| format!("add operation does not apply: doc is missing path: \"{path}\": {MISSING}"))?;
    insert(parent, &key, value, path).map_err(|error| format!("error in add for path: '{path}': {error}"))
}

fn remove(document: &mut Value, path: &str) -> Result<Value, String> {
    let (parent, key) = parent_of(document, path)
        .ok_or_else(|| format!("remove operation does not apply: doc is missing path: \"{path}\": {MISSING}"))?;
    take(parent, &key).map_err(|error| format!("error in remove for path: '{path}': {error}"))
}

fn replace(document: &mut Value, path: &str, value: Value) -> Result<(), String> {
    if path.is_empty() {
        if !value.is_object() && !value.is_array() {
            return Err("replace operation value must be object or array".to_owned());
        }
        check_depth("", &value)?;
        *document = value;
        return Ok(());
    }
    let (parent, key) = parent_of(document, path)
        .ok_or_else(|| format!("replace operation does not apply: doc is missing path: {path}: {MISSING}"))?;
    check_depth(path, &value)?;
    match parent {
        Value::Object(fields) => {
            fields.insert(key, value);
        }
        parent => {
            let place = slot(parent, &key)
                .map_err(|_| format!("replace operation does not apply: doc is missing key: {path}: {MISSING}"))?;
            *place = value;
        }
    }
    Ok(())
}

fn test(document: &mut Value, path: &str, wanted: &Value) -> Result<(), String> {
    const NOTHING: &Value = &Value::Null;
    let failed = || format!("testing value {path} failed: test failed");
    if path.is_empty() {
        return if document == wanted { Ok(()) } else { Err(failed()) };
    }
    let (parent, key) = parent_of(document, path)
        .ok_or_else(|| format!("test operation does not apply: is missing path: {path}: {MISSING}"))?;
    let found = match parent {
        Value::Object(fields) => fields.get(&key).unwrap_or(NOTHING),
        parent => &*slot(parent, &key).map_err(|error| format!("error in test for path: '{path}': {error}"))?,
    };
    if found == wanted { Ok(()) } else { Err(failed()) }
}

fn copy<'p>(
    document: &mut Value,
    from: &str,
    path: impl FnOnce() -> Result<&'p str, String>,
    copied: &mut usize,
) -> Result<(), String> {
    let (parent, key) = parent_of(document, from)
        .ok_or_else(|| format!("copy operation does not apply: doc is missing from path: {from}: {MISSING}"))?;
    let found = match parent {
        Value::Object(fields) => fields.get(&key).cloned().unwrap_or_default(),
        parent => slot(parent, &key).map_err(|error| format!("error in copy for from: '{from}': {error}"))?.clone(),
    };
    let path = path()?;
    let (parent, key) = parent_of(document, path)
        .ok_or_else(|| format!("copy operation does not apply: doc is missing destination path: {path}: {MISSING}"))?;
    *copied += text_length(&found);
    if *copied > MAX_COPIED {
        return Err(format!(
            "Unable to complete the copy, the accumulated size increase of copy is {copied}, exceeding the limit \
             {MAX_COPIED}"
        ));
    }
    insert(parent, &key, found, path).map_err(|error| format!("error while adding value during copy: {error}"))
}

/// How long a value is as JSON, without writing it.
fn text_length(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(true) => 4,
        Value::Bool(false) => 5,
        Value::Number(number) => number.to_string().len(),
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| text_length(item) + 1).sum::<usize>(),
        Value::Object(fields) => {
            2 + fields.iter().map(|(key, value)| key.len() + 4 + text_length(value)).sum::<usize>()
        }
    }
}

/// The object or list that a path's last step leads into, and that step; none if there is none.
fn parent_of<'v>(document: &'v mut Value, path: &str) -> Option<(&'v mut Value, String)> {
    let mut steps = path.split('/');
    // What comes before the first slash is not looked at.
    steps.next();
    let mut steps: Vec<&str> = steps.collect();
    let last = unescaped(steps.pop()?);
    let mut value = document;
    for step in steps {
        let step = unescaped(step);
        value = match value {
            Value::Object(fields) => fields.get_mut(&step)?,
            parent => slot(parent, &step).ok()?,
        };
    }
    (value.is_object() || value.is_array()).then_some((value, last))
}

fn unescaped(step: &str) -> String {
    // One pass: `~01` is `~1` and not a slash.
    let mut out = String::with_capacity(step.len());
    let mut rest = step;
    while let Some(at) = rest.find('~') {
        out.push_str(&rest[..at]);
        let (text, length) = match rest.as_bytes().get(at + 1) {
            Some(b'1') => ("/", 2),
            Some(b'0') => ("~", 2),
            _ => ("~", 1),
        };
        out.push_str(text);
        rest = &rest[at + length..];
    }
    out + rest
}

fn take(parent: &mut Value, key: &str) -> Result<Value, String> {
    match parent {
        Value::Object(fields) => {
            fields.remove(key).ok_or_else(|| format!("Unable to remove nonexistent key: {key}: {MISSING}"))
        }
        Value::Array(items) => {
            let index = position(key, items.len())?;
            Ok(items.remove(index))
        }
        _ => Err(MISSING.to_owned()),
    }
}

fn insert(parent: &mut Value, key: &str, value: Value, path: &str) -> Result<(), String> {
    check_depth(path, &value)?;
    match parent {
        Value::Object(fields) => {
            fields.insert(key.to_owned(), value);
        }
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            // One more place than there are elements: behind the last one.
            let index = position(key, items.len() + 1).map_err(|error| match key.parse::<i64>() {
                Ok(_) => error,
                Err(_) => format!("value was not a proper array index: '{key}': {error}"),
            })?;
            items.insert(index, value);
        }
        _ => return Err(MISSING.to_owned()),
    }
    Ok(())
}

fn check_depth(path: &str, value: &Value) -> Result<(), String> {
    if is_too_deep(value, path.matches('/').count()) {
        return Err(format!("the result is nested more than {MAX_DEPTH} levels deep"));
    }
    Ok(())
}

fn slot<'v>(parent: &'v mut Value, key: &str) -> Result<&'v mut Value, String> {
    let Value::Array(items) = parent else { return Err(MISSING.to_owned()) };
    let index = position(key, items.len())?;
    Ok(&mut items[index])
}

/// A position among this many; a negative one counts from the end.
fn position(key: &str, count: usize) -> Result<usize, String> {
    let index: i64 =
        key.parse().map_err(|_| format!("strconv.Atoi: parsing {}: invalid syntax", seaworthy_schema::quoted(key)))?;
    let found = if index < 0 {
        count.checked_sub(usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX))
    } else {
        usize::try_from(index).ok().filter(|index| *index < count)
    };
    found.ok_or_else(|| format!("Unable to access invalid index: {index}: invalid index referenced"))
}
