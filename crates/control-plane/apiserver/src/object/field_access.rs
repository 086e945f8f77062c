//! Access to the fields of an object by path: `spec.template.metadata.labels`.

use serde_json::Value;

use crate::object::Object;

/// A JSON value or object.
pub trait FieldAccess {
    /// The value at a path of keys, with dots between them.
    fn at(&self, path: &str) -> Option<&Value>;

    /// The text at a path, empty if there is none.
    fn text(&self, path: &str) -> &str {
        self.at(path).and_then(Value::as_str).unwrap_or_default()
    }

    /// The number at a path.
    fn number(&self, path: &str) -> Option<i64> {
        self.at(path).and_then(Value::as_i64)
    }

    /// Whether the value is `true`.
    fn flag(&self, path: &str) -> bool {
        self.at(path).and_then(Value::as_bool).unwrap_or(false)
    }

    /// The list at a path, empty if there is none.
    fn list(&self, path: &str) -> &[Value] {
        self.at(path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    /// The map at a path.
    fn map(&self, path: &str) -> Option<&Object> {
        self.at(path).and_then(Value::as_object)
    }
}

impl FieldAccess for Object {
    fn at(&self, path: &str) -> Option<&Value> {
        let (first, rest) = split(path);
        let value = self.get(first)?;
        if rest.is_empty() { Some(value) } else { value.at(rest) }
    }
}

impl FieldAccess for Value {
    fn at(&self, path: &str) -> Option<&Value> {
        path.split('.').try_fold(self, |value, key| value.get(key))
    }
}

/// The map at a path of keys that are there; none if one is missing or something else.
pub fn map_mut<'o>(object: &'o mut Object, path: &str) -> Option<&'o mut Object> {
    let (first, rest) = split(path);
    let map = object.get_mut(first)?.as_object_mut()?;
    if rest.is_empty() { Some(map) } else { map_mut(map, rest) }
}

/// The maps in the list at a key.
pub fn each_mut<'o>(object: &'o mut Object, key: &str) -> impl Iterator<Item = &'o mut Object> {
    let list = object.get_mut(key).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Sets a key that is missing.
pub fn fill(object: &mut Object, key: &str, value: impl Into<Value>) {
    if object.get(key).is_none_or(Value::is_null) {
        object.insert(key.to_owned(), value.into());
    }
}

fn split(path: &str) -> (&str, &str) {
    path.split_once('.').unwrap_or((path, ""))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn path_leads_to_the_value_or_to_nothing() {
        let object = json!({"a": {"b": {"c": 1}, "t": "x"}}).as_object().unwrap().clone();
        assert_eq!(object.number("a.b.c"), Some(1));
        assert_eq!(object.text("a.t"), "x");
        assert_eq!(object.text("a.t.u"), "");
        assert!(object.list("a.b").is_empty());
        assert!(object.at("x.y").is_none());
    }
}
