//! Variables in a scenario's texts.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use crate::run::Problem;
use crate::text::plain;

static VARIABLE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\$\{(\w+)\}").unwrap());

/// What has been captured so far.
#[derive(Debug, Default)]
pub struct Variables(BTreeMap<String, Value>);

impl Variables {
    /// Sets a variable; null unsets it.
    pub fn set(&mut self, name: &str, value: Value) {
        self.0.insert(name.to_owned(), value);
    }

    fn get(&self, name: &str) -> Result<&Value, Problem> {
        let value = self.0.get(name).filter(|value| !value.is_null());
        value.ok_or_else(|| Problem(format!("variable {name} is not set")))
    }

    /// A text with its variables replaced.
    pub fn text(&self, text: &str) -> Result<String, Problem> {
        let mut out = String::new();
        let mut rest = 0;
        for found in VARIABLE.captures_iter(text) {
            let Some(whole) = found.get(0) else { continue };
            out.push_str(&text[rest..whole.start()]);
            out.push_str(&plain(self.get(&found[1])?));
            rest = whole.end();
        }
        out.push_str(&text[rest..]);
        Ok(out)
    }

    /// A document with its variables replaced; a text that is exactly one variable becomes its value, of any type.
    pub fn value(&self, value: &Value) -> Result<Value, Problem> {
        match value {
            Value::String(text) => match VARIABLE.captures(text) {
                Some(found) if found[0].len() == text.len() => self.get(&found[1]).cloned(),
                _ => self.text(text).map(Value::from),
            },
            Value::Array(list) => list.iter().map(|child| self.value(child)).collect(),
            Value::Object(map) => self.object(map),
            other => Ok(other.clone()),
        }
    }

    fn object(&self, map: &Map<String, Value>) -> Result<Value, Problem> {
        if let Some(Value::String(name)) = map.get("$from") {
            let patch = map.get("$patch").map(|patch| self.value(patch)).transpose()?;
            return Ok(merged(self.get(name)?, &patch.unwrap_or_else(|| Value::Object(Map::new()))));
        }
        if let Some(Value::Array(parts)) = map.get("$repeat")
            && let [Value::String(text), times] = &parts[..]
            && let Some(times) = times.as_u64().and_then(|times| usize::try_from(times).ok())
        {
            return Ok(text.repeat(times).into());
        }
        map.iter().map(|(key, child)| Ok((self.text(key)?, self.value(child)?))).collect()
    }
}

/// A document changed by a merge patch.
fn merged(document: &Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut out = document.as_object().cloned().unwrap_or_default();
    for (key, change) in patch {
        if change.is_null() {
            out.remove(key);
        } else {
            let changed = merged(out.get(key).unwrap_or(&Value::Null), change);
            out.insert(key.clone(), changed);
        }
    }
    Value::Object(out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Variables;

    #[test]
    fn variables_keep_their_type_when_they_are_the_whole_value() {
        let mut variables = Variables::default();
        variables.set("n", json!(3));
        variables.set("ns", json!("a"));
        variables.set("gone", json!(null));
        assert_eq!(variables.value(&json!({"${ns}": ["${n}", "x${n}-${ns}"]})).unwrap(), json!({"a": [3, "x3-a"]}));
        assert!(variables.value(&json!("${gone}")).is_err());
        assert!(variables.text("/${absent}").is_err());
    }

    #[test]
    fn captured_document_is_changed_by_a_patch() {
        let mut variables = Variables::default();
        variables.set("doc", json!({"a": 1, "b": {"c": 1, "d": 2}}));
        let value = json!({"$from": "doc", "$patch": {"a": null, "b": {"c": 5}, "e": {"f": null, "g": 1}}});
        assert_eq!(variables.value(&value).unwrap(), json!({"b": {"c": 5, "d": 2}, "e": {"g": 1}}));
        assert_eq!(variables.value(&json!({"$repeat": ["ab", 3]})).unwrap(), json!("ababab"));
    }
}
