//! Filters: the parts of an answer that are compared.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::path::{Key, ValuePath, find, matching_paths};

/// What a step says about the part of an answer to compare; paths have their variables filled in.
#[derive(Debug, Default, Clone)]
pub struct Filters {
    /// The one value to look at.
    pub pick: Option<String>,
    /// What to keep.
    pub only: Option<Vec<String>>,
    /// What to drop.
    pub ignore: Option<Vec<String>>,
    /// Types instead of values.
    pub shape: bool,
}

/// Of an error, these count whatever a step keeps.
const OF_AN_ERROR: [&str; 5] = ["kind", "status", "code", "reason", "message"];

impl Filters {
    /// The part of an answer that counts.
    pub fn apply(&self, answer: Value) -> Value {
        let mut value = match &self.pick {
            Some(path) => find(&answer, path).cloned().unwrap_or(Value::Null),
            None => answer,
        };
        if let Some(only) = &self.only {
            let always: &[&str] = if is_error(&value) { &OF_AN_ERROR } else { &[] };
            let wanted = all_matching_paths(&value, only.iter().map(String::as_str).chain(always.iter().copied()));
            let is_kept =
                |at: &ValuePath| wanted.iter().any(|matched| at.iter().zip(matched).all(|(one, other)| one == other));
            value = if value.is_object() || value.is_array() { kept(&value, &is_kept) } else { Value::Null };
        }
        if let Some(ignore) = &self.ignore {
            let unwanted = all_matching_paths(&value, ignore.iter().map(String::as_str));
            value = kept(&value, &|at: &ValuePath| !unwanted.contains(at));
        }
        if self.shape { shape(&value) } else { value }
    }
}

/// Whether a document is a `Status` that reports a failure.
pub fn is_error(value: &Value) -> bool {
    value.get("kind").is_some_and(|kind| kind == "Status") && value.get("status").is_some_and(|s| s == "Failure")
}

fn all_matching_paths<'a>(value: &Value, paths: impl Iterator<Item = &'a str>) -> BTreeSet<ValuePath> {
    paths.flat_map(|path| matching_paths(value, path)).collect()
}

fn kept(value: &Value, is_kept: &dyn Fn(&ValuePath) -> bool) -> Value {
    fn walk(value: &Value, is_kept: &dyn Fn(&ValuePath) -> bool, at: &mut ValuePath) -> Value {
        let mut enter = |key: Key, child: &Value| {
            at.push(key);
            let result = is_kept(at).then(|| walk(child, is_kept, at));
            at.pop();
            result
        };
        match value {
            Value::Object(map) => Value::Object(
                map.iter()
                    .filter_map(|(name, child)| Some((name.clone(), enter(Key::Name(name.clone()), child)?)))
                    .collect(),
            ),
            Value::Array(list) => Value::Array(
                list.iter().enumerate().filter_map(|(index, child)| enter(Key::Index(index), child)).collect(),
            ),
            other => other.clone(),
        }
    }
    walk(value, is_kept, &mut Vec::new())
}

/// Types as the recordings name them. A list is not looked into.
fn shape(value: &Value) -> Value {
    let name = match value {
        Value::Object(map) => {
            return Value::Object(map.iter().map(|(key, child)| (key.clone(), shape(child))).collect::<Map<_, _>>());
        }
        Value::Array(_) => "<list>",
        Value::String(_) => "<str>",
        Value::Bool(_) => "<bool>",
        Value::Number(number) if number.is_f64() => "<float>",
        Value::Number(_) => "<int>",
        Value::Null => "<NoneType>",
    };
    Value::from(name)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Filters;

    fn keep(paths: &[&str], value: Value) -> Value {
        let only = Some(paths.iter().map(|path| (*path).to_owned()).collect());
        Filters { only, ..Filters::default() }.apply(value)
    }

    #[test]
    fn only_keeps_the_ways_to_what_it_names_and_everything_below() {
        let value = json!({"a": {"b": {"c": 1}, "d": 2}, "e": [{"f": 1}, {"g": 2}]});
        assert_eq!(keep(&["a/b"], value.clone()), json!({"a": {"b": {"c": 1}}}));
        assert_eq!(keep(&["e/*/g"], value.clone()), json!({"e": [{"g": 2}]}));
        assert_eq!(keep(&["nothing"], value), json!({}));
        assert_eq!(keep(&["a"], json!("text")), Value::Null);
    }

    #[test]
    fn error_keeps_its_code_and_reason_whatever_a_step_names() {
        let error = json!({"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "details": {}});
        let kept = json!({"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound"});
        assert_eq!(keep(&["spec"], error), kept);
    }

    #[test]
    fn ignore_drops_exactly_what_it_names() {
        let ignore = Some(vec!["**/uid".to_owned(), "items/0".to_owned()]);
        let filters = Filters { ignore, ..Filters::default() };
        let value = json!({"uid": 1, "items": [{"n": 1}, {"uid": 2, "n": 2}]});
        assert_eq!(filters.apply(value), json!({"items": [{"n": 2}]}));
    }

    #[test]
    fn pick_and_shape_reduce_a_value_to_its_types() {
        let filters = Filters { pick: Some("a".to_owned()), shape: true, ..Filters::default() };
        let value = json!({"a": {"s": "", "i": 1, "f": 1.5, "b": true, "l": [1], "n": null}});
        let types =
            json!({"s": "<str>", "i": "<int>", "f": "<float>", "b": "<bool>", "l": "<list>", "n": "<NoneType>"});
        assert_eq!(filters.apply(value), types);
    }
}
