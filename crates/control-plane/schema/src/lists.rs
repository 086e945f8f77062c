//! Duplicates in sets and keyed lists.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::cause::Cause;
use crate::correlation::is_same;
use crate::document::Schema;
use crate::node::ListKind;
use crate::path::Path;
use crate::wording;

/// Up to here comparing all with all is faster than anything clever.
const MAX_PAIRWISE: usize = 40;

/// Finds what is there twice in sets and keyed lists, anywhere in a value.
pub fn duplicates(schema: Schema<'_>, value: &Value) -> Vec<Cause> {
    let mut found = Vec::new();
    // The object itself is no list, whatever its schema says.
    if value.is_object() {
        walk(schema, value, &Path::ROOT, &mut found);
    }
    found
}

fn walk(schema: Schema<'_>, value: &Value, path: &Path<'_>, found: &mut Vec<Cause>) {
    if !schema.has_keyed {
        return;
    }
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if let Some(each) = schema.additional() {
                    walk(each, value, &path.key(key), found);
                }
                if let Some(property) = schema.property(key) {
                    walk(property, value, &path.name(key), found);
                }
            }
        }
        Value::Array(items) => {
            match &schema.list {
                ListKind::Atomic => {}
                ListKind::Set => {
                    for index in repeated(items.iter()) {
                        found.push(Cause::duplicate(path.index(index), &items[index]));
                    }
                }
                ListKind::Map(keys) => keyed(keys, items, path, found),
            }
            if let Some(each) = schema.items() {
                for (index, item) in items.iter().enumerate() {
                    walk(each, item, &path.index(index), found);
                }
            }
        }
        _ => {}
    }
}

fn keyed(keys: &[Box<str>], items: &[Value], path: &Path<'_>, found: &mut Vec<Cause>) {
    if let Some(index) = items.iter().position(|item| !item.is_null() && !item.is_object()) {
        let detail = "must be an object for an array of list-type map";
        found.push(Cause::invalid(path.index(index), &items[index], detail));
        return;
    }
    if items.len() < 2 || are_different(keys, items) {
        return;
    }
    let keys_of = |item: &Value| {
        let pairs = keys.iter().filter_map(|key| Some((key.to_string(), item.get(&**key)?.clone())));
        Value::Object(pairs.collect::<Map<String, Value>>())
    };
    let heads: Vec<Value> = items.iter().map(keys_of).collect();
    for index in repeated(heads.iter()) {
        found.push(Cause::duplicate(path.index(index), &heads[index]));
    }
}

/// Whether the elements of a short list surely have different keys, found out without copying anything.
fn are_different(keys: &[Box<str>], items: &[Value]) -> bool {
    let is_same_element = |one: &Value, other: &Value| {
        keys.iter().all(|key| match (one.get(&**key), other.get(&**key)) {
            (Some(one), Some(other)) => one == other,
            (one, other) => one.is_none() && other.is_none(),
        })
    };
    let simple = |value: &Value| value.is_string() || value.is_i64();
    items.len() <= MAX_PAIRWISE
        && items.iter().all(|item| keys.iter().all(|key| item.get(&**key).is_none_or(simple)))
        && (1..items.len()).all(|index| !items[..index].iter().any(|other| is_same_element(other, &items[index])))
}

/// The places where a value occurs for the second time. The third and later ones are not mentioned.
fn repeated<'v>(items: impl ExactSizeIterator<Item = &'v Value>) -> Vec<usize> {
    if items.len() < 2 {
        return Vec::new();
    }
    let mut seen: HashMap<String, Vec<(&Value, usize)>> = HashMap::new();
    let mut found = Vec::new();
    for (index, item) in items.enumerate() {
        let alike = seen.entry(wording::json(item)).or_default();
        let is_compound = item.is_object() || item.is_array();
        // Compounds are distinguished by their text, scalars by their value as well: `1` and `1.0` look the same.
        match alike.iter_mut().find(|(other, _)| is_compound || is_same(other, item)) {
            Some((_, count)) => {
                *count += 1;
                if *count == 2 {
                    found.push(index);
                }
            }
            None => alike.push((item, 1)),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::document::Document;

    fn found(schema: Value, value: Value) -> Vec<String> {
        let schema = json!({"type": "object", "properties": {"l": schema}});
        let (document, root) = Document::of_custom_resource(&schema);
        duplicates(document.at(root), &json!({ "l": value })).iter().map(Cause::to_string).collect()
    }

    #[test]
    fn set_reports_the_second_of_three() {
        let schema = json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
        assert_eq!(found(schema, json!(["a", "b", "a", "a"])), ["l[2]: Duplicate value: \"a\""]);
    }

    #[test]
    fn keyed_list_shows_the_keys_that_clash() {
        let schema = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"],
            "items": {"type": "object", "properties": {"a": {}, "b": {}}}});
        let value = json!([{"a": "x", "b": 1, "c": 1}, {"a": "x", "b": 1}, {"a": "x"}]);
        assert_eq!(found(schema.clone(), value), ["l[1]: Duplicate value: {\"a\":\"x\",\"b\":1}"]);
        assert_eq!(
            found(schema, json!([{}, 5])),
            ["l[1]: Invalid value: 5: must be an object for an array of list-type map"]
        );
    }
}
