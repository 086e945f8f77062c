//! Correlation of new values with the old values that they replace.
//!
//! Old and new values belong together by field name, by map key and by the keys of a keyed list; elements of other
//! lists have no past. What did not change is not checked again, so that a schema can become stricter without making
//! every object that is already there impossible to edit.

use std::collections::HashMap;

use serde_json::Value;

use crate::document::Schema;
use crate::node::ListKind;
use crate::wording;

/// The old value of an object's field.
pub(crate) fn old_field<'v>(schema: Schema<'_>, key: &str, old: Option<&'v Value>) -> Option<&'v Value> {
    schema.field(key)?;
    old?.as_object()?.get(key)
}

/// The old elements of a keyed list, found by key.
pub(crate) struct OldElements<'v> {
    keys: &'v [Box<str>],
    by_key: HashMap<ElementKey<'v>, &'v Value>,
}

/// The key that identifies an element.
#[derive(PartialEq, Eq, Hash)]
enum ElementKey<'v> {
    /// The one key of most lists, a text.
    Text(&'v str),
    /// Everything else, written out.
    Written(String),
}

impl<'v> OldElements<'v> {
    pub(crate) fn of(schema: Schema<'v>, old: Option<&'v Value>) -> Option<OldElements<'v>> {
        let ListKind::Map(keys) = &schema.node().list else { return None };
        let old = old?.as_array()?;
        let mut by_key = HashMap::with_capacity(old.len());
        for element in old {
            if let Some(key) = element_key(keys, element) {
                // The first of several wins.
                by_key.entry(key).or_insert(element);
            }
        }
        Some(OldElements { keys, by_key })
    }

    /// The old element with the same keys.
    pub(crate) fn get(&self, element: &Value) -> Option<&'v Value> {
        self.by_key.get(&element_key(self.keys, element)?).copied()
    }
}

/// All keys of an element; none when one is missing or no scalar.
fn element_key<'v>(keys: &[Box<str>], element: &'v Value) -> Option<ElementKey<'v>> {
    let element = element.as_object()?;
    if let [key] = keys
        && let Some(Value::String(text)) = element.get(&**key)
    {
        return Some(ElementKey::Text(text));
    }
    let mut text = String::new();
    for key in keys {
        let value = element.get(&**key).filter(|value| is_scalar(value))?;
        if value.as_number().is_some_and(|number| number.as_i64().is_none()) {
            text.push('f');
        }
        text.push_str(&wording::json(value));
        text.push('\0');
    }
    (!keys.is_empty()).then_some(ElementKey::Written(text))
}

fn is_scalar(value: &Value) -> bool {
    matches!(value, Value::Bool(_) | Value::Number(_) | Value::String(_))
}

/// Whether two values are the same; `1` and `1.0` are not.
pub(crate) fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => match (one.as_i64(), other.as_i64()) {
            (Some(one), Some(other)) => one == other,
            (None, None) => one.as_f64() == other.as_f64(),
            _ => false,
        },
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, one)| other.get(key).is_some_and(|other| is_same(one, other)))
        }
        _ => one == other,
    }
}

/// Whether a value did not change, in the eyes of its schema: the order of a keyed list does not matter, and what the
/// schema does not describe cannot be known to be unchanged.
pub(crate) fn is_unchanged<'v>(schema: Schema<'v>, new: &Value, old: &'v Value) -> bool {
    match (new, old) {
        (Value::Array(new), Value::Array(before)) => {
            if new.len() != before.len() {
                return false;
            }
            let Some(elements) = OldElements::of(schema, Some(old)) else {
                return new.iter().zip(before).all(|(new, old)| is_same(new, old));
            };
            let Some(each) = schema.items() else { return false };
            new.iter().all(|new| elements.get(new).is_some_and(|old| is_unchanged(each, new, old)))
        }
        (Value::Object(new), Value::Object(old)) => {
            new.len() == old.len()
                && new.iter().all(|(key, new)| match (schema.field(key), old.get(key)) {
                    (Some(field), Some(old)) => is_unchanged(field, new, old),
                    _ => false,
                })
        }
        _ => is_same(new, old),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::document::Document;

    #[test]
    fn keyed_list_is_unchanged_in_another_order_and_plain_list_is_not() {
        let (document, root) = Document::of_custom_resource(&json!({"type": "object", "properties": {
            "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"],
                "items": {"type": "object", "properties": {"n": {"type": "string"}, "v": {"type": "integer"}}}},
            "plain": {"type": "array", "items": {"type": "string"}}
        }}));
        let schema = document.at(root);
        let keyed = |list: Value| json!({ "keyed": list });
        let old = keyed(json!([{"n": "a", "v": 1}, {"n": "b", "v": 2}]));
        assert!(is_unchanged(schema, &keyed(json!([{"n": "b", "v": 2}, {"n": "a", "v": 1}])), &old));
        assert!(!is_unchanged(schema, &keyed(json!([{"n": "b", "v": 2}, {"n": "a", "v": 2}])), &old));
        assert!(!is_unchanged(schema, &json!({"plain": ["b", "a"]}), &json!({"plain": ["a", "b"]})));
    }

    #[test]
    fn field_that_the_schema_does_not_describe_counts_as_changed() {
        let (document, root) =
            Document::of_custom_resource(&json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
        assert!(!is_unchanged(document.at(root), &json!({"x": 1}), &json!({"x": 1})));
    }
}
