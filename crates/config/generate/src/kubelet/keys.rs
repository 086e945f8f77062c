//! The keys of the kubelet's configuration file, as data, and the check of a document against them.
//!
//! A key that is not in the list is reported and passed on: a newer kubelet may know it. A value of the wrong type is
//! refused: no kubelet starts with it.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use seaworthy_ignition::Path;
use seaworthy_ignition::node::quote;
use seaworthy_ignition::spelling;
use seaworthy_values::duration;
use serde_json::Value;

/// The type of the value of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueType {
    Bool,
    Int,
    Number,
    Text,
    Duration,
    Texts,
    Bools,
    Amounts,
    Any,
}

/// A level of the document.
#[derive(Debug, Default)]
struct Level {
    leaves: BTreeMap<&'static str, ValueType>,
    objects: BTreeMap<&'static str, Level>,
    lists: BTreeMap<&'static str, Level>,
}

/// What a document has that the list has not, or has otherwise.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Checked {
    /// Keys that are not in the list, each with its path and the key that was perhaps meant.
    pub(crate) unknown: Vec<String>,
    /// Values of the wrong type, each with its path, what was found and what is accepted.
    pub(crate) wrong: Vec<String>,
}

static KEYS: LazyLock<Level> = LazyLock::new(|| {
    let mut root = Level::default();
    for line in include_str!("keys.txt").lines() {
        let Some((path, value_type)) = line.split_once(' ').filter(|_| !line.starts_with('#')) else { continue };
        let mut level = &mut root;
        let mut parts = path.split('.').peekable();
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                level.leaves.insert(part, value_type_of(value_type));
                break;
            }
            level = match part.strip_suffix("[]") {
                Some(list) => level.lists.entry(list).or_default(),
                None => level.objects.entry(part).or_default(),
            };
        }
    }
    root
});

fn value_type_of(word: &str) -> ValueType {
    match word {
        "bool" => ValueType::Bool,
        "int" => ValueType::Int,
        "number" => ValueType::Number,
        "text" => ValueType::Text,
        "duration" => ValueType::Duration,
        "texts" => ValueType::Texts,
        "bools" => ValueType::Bools,
        "amounts" => ValueType::Amounts,
        _ => ValueType::Any,
    }
}

/// Checks a document against the list.
pub(crate) fn check(document: &Value) -> Checked {
    let mut checked = Checked::default();
    check_level(&KEYS, document, &Path::default(), &mut checked);
    checked
}

fn check_level(level: &Level, value: &Value, path: &Path, checked: &mut Checked) {
    let Some(map) = value.as_object() else {
        // A null takes the whole away, which is allowed.
        if !value.is_null() {
            checked.wrong.push(wrong(path, value, "an object"));
        }
        return;
    };
    for (key, value) in map {
        let path = path.clone().key(key);
        if let Some(value_type) = level.leaves.get(key.as_str()) {
            if let Some(accepted) = value_type.refuses(value) {
                checked.wrong.push(wrong(&path, value, accepted));
            }
        } else if let Some(below) = level.objects.get(key.as_str()) {
            check_level(below, value, &path, checked);
        } else if let Some(below) = level.lists.get(key.as_str()) {
            match value {
                Value::Array(entries) => {
                    for (index, entry) in entries.iter().enumerate() {
                        check_level(below, entry, &path.clone().index(index), checked);
                    }
                }
                Value::Null => {}
                _ => checked.wrong.push(wrong(&path, value, "a list")),
            }
        } else {
            let known = level.leaves.keys().chain(level.objects.keys()).chain(level.lists.keys()).copied();
            let near = spelling::nearest(key, known).map(|near| format!(" (did you mean {near}?)"));
            checked.unknown.push(format!("{path}{}", near.unwrap_or_default()));
        }
    }
}

impl ValueType {
    /// What is accepted, if a value is not.
    fn refuses(self, value: &Value) -> Option<&'static str> {
        let are = |is: fn(&Value) -> bool| value.as_array().is_some_and(|list| list.iter().all(is));
        let hold = |is: fn(&Value) -> bool| {
            value.as_object().is_some_and(|map| map.values().all(|value| is(value) || value.is_null()))
        };
        let (is_accepted, accepted) = match self {
            ValueType::Bool => (value.is_boolean(), "true or false, without quotes"),
            ValueType::Int => (value.is_i64(), "a whole number, without quotes"),
            ValueType::Number => (value.is_number(), "a number, without quotes"),
            ValueType::Text => (value.is_string(), "a text; quote it"),
            ValueType::Duration => (
                value.as_str().is_some_and(|text| duration::parse(text).is_some()),
                "a time such as \"10s\", \"5m\" or \"1h30m\"",
            ),
            ValueType::Texts => (are(Value::is_string), "a list of texts"),
            ValueType::Bools => (hold(Value::is_boolean), "an object whose values are true or false"),
            ValueType::Amounts => (hold(Value::is_string), "an object whose values are texts; quote them"),
            ValueType::Any => (true, ""),
        };
        (!is_accepted && !value.is_null()).then_some(accepted)
    }
}

fn wrong(path: &Path, value: &Value, accepted: &str) -> String {
    let found = match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => quote(text),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    };
    format!("{path}: found {found}; expected {accepted}")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_list_is_sorted_and_its_words_are_known() {
        let lines: Vec<&str> = include_str!("keys.txt").lines().filter(|line| !line.starts_with('#')).collect();
        assert!(lines.is_sorted(), "keep the list sorted");
        assert!(lines.len() > 120);
        for line in lines {
            let (_, word) = line.split_once(' ').unwrap();
            assert!(word == "any" || value_type_of(word) != ValueType::Any, "{line}");
        }
    }

    #[test]
    fn unknown_key_is_named_with_the_closest_known_one() {
        let checked = check(&json!({"maxPod": 5, "authentication": {"anonymus": {"enabled": false}}, "zzz": 1}));
        assert_eq!(
            checked.unknown,
            ["authentication.anonymus (did you mean anonymous?)", "maxPod (did you mean maxPods?)", "zzz"]
        );
        assert!(checked.wrong.is_empty());
    }

    #[rstest]
    #[case(json!({"maxPods": "100"}), "maxPods: found \"100\"; expected a whole number, without quotes")]
    #[case(json!({"syncFrequency": "1 minute"}), "syncFrequency: found \"1 minute\"; expected a time such as \"10s\", \"5m\" or \"1h30m\"")]
    #[case(json!({"systemReserved": {"cpu": 1}}), "systemReserved: found an object; expected an object whose values are texts; quote them")]
    #[case(json!({"authentication": 1}), "authentication: found 1; expected an object")]
    #[case(json!({"reservedMemory": [{"numaNode": "0"}]}), "reservedMemory[0].numaNode: found \"0\"; expected a whole number, without quotes")]
    fn a_value_of_the_wrong_type_is_refused(#[case] document: Value, #[case] expected: &str) {
        assert_eq!(check(&document).wrong, [expected]);
    }

    #[test]
    fn a_null_is_always_allowed() {
        let document =
            json!({"maxPods": null, "authentication": null, "systemReserved": {"cpu": null}, "evictionHard": null});
        assert_eq!(check(&document), Checked::default());
    }
}
