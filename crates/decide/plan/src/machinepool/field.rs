//! Fields of providers' objects, whose kinds are not known at compile time: read strictly, named exactly.
//!
//! Absent and null are the same. A value of another type is an error, never a default: taken for one, it would overwrite
//! what is known.

use seaworthy_values::text::abbreviate;
use serde::{Serialize, Serializer};
use serde_json::Value;

/// How much of a wrong value is repeated in a message.
const MAX_SHOWN_CHARS: usize = 60;

/// A field of a provider's object that has another type than its contract says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{object}: {path} is {found}; expected {accepted}; its provider has to correct it")]
pub struct FieldError {
    /// The object, by kind and name.
    pub object: String,
    /// The path of the field.
    pub path: String,
    pub found: String,
    pub accepted: &'static str,
}

impl Serialize for FieldError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A provider's object with its name for messages.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a, 'n> {
    value: &'a Value,
    name: &'n str,
}

impl<'a, 'n> Fields<'a, 'n> {
    /// The fields of this object, which messages call by this name.
    pub fn new(value: &'a Value, name: &'n str) -> Fields<'a, 'n> {
        Fields { value, name }
    }

    /// The value at a JSON pointer, unless it is absent or null.
    pub fn get(&self, pointer: &str) -> Option<&'a Value> {
        self.value.pointer(pointer).filter(|value| !value.is_null())
    }

    /// A text.
    ///
    /// # Errors
    ///
    /// If it is anything else.
    pub fn text(&self, pointer: &str) -> Result<Option<&'a str>, FieldError> {
        self.typed(pointer, Value::as_str, "a string")
    }

    /// A truth value.
    ///
    /// # Errors
    ///
    /// If it is anything else, such as the text `true`.
    pub fn boolean(&self, pointer: &str) -> Result<Option<bool>, FieldError> {
        self.typed(pointer, Value::as_bool, "true or false")
    }

    /// A number of machines.
    ///
    /// # Errors
    ///
    /// If it is anything else, such as a text, a fraction or a negative number.
    pub fn count(&self, pointer: &str) -> Result<Option<i32>, FieldError> {
        let read =
            |value: &Value| value.as_i64().filter(|number| *number >= 0).and_then(|number| number.try_into().ok());
        self.typed(pointer, read, "a whole number from 0 to 2147483647")
    }

    /// A list of texts; an absent one is empty.
    ///
    /// # Errors
    ///
    /// If it is no list, or an item is no text.
    pub fn texts(&self, pointer: &str) -> Result<Vec<&'a str>, FieldError> {
        let Some(list) = self.typed(pointer, Value::as_array, "a list of strings")? else { return Ok(Vec::new()) };
        let item = |(nth, item): (usize, &'a Value)| {
            item.as_str().ok_or_else(|| self.error(&format!("{pointer}/{nth}"), item, "a string"))
        };
        list.iter().enumerate().map(item).collect()
    }

    /// The error that a field has this value.
    pub fn error(&self, pointer: &str, found: &Value, accepted: &'static str) -> FieldError {
        let path = pointer.trim_start_matches('/').replace('/', ".");
        FieldError { object: self.name.to_owned(), path, found: described(found), accepted }
    }

    fn typed<T>(
        &self,
        pointer: &str,
        read: impl Fn(&'a Value) -> Option<T>,
        accepted: &'static str,
    ) -> Result<Option<T>, FieldError> {
        let Some(value) = self.get(pointer) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| self.error(pointer, value, accepted))
    }
}

fn described(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => format!("the boolean {value}"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the string {:?}", abbreviate(text, MAX_SHOWN_CHARS)),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::text(json!({"a": 1}), |fields: Fields<'_, '_>| fields.text("/a").map(drop), "a is the number 1; expected a string")]
    #[case::boolean(
        json!({"a": {"b": "true"}}),
        |fields: Fields<'_, '_>| fields.boolean("/a/b").map(drop),
        "a.b is the string \"true\"; expected true or false"
    )]
    #[case::negative(
        json!({"a": -1}),
        |fields: Fields<'_, '_>| fields.count("/a").map(drop),
        "a is the number -1; expected a whole number from 0 to 2147483647"
    )]
    #[case::item(
        json!({"a": ["x", {}]}),
        |fields: Fields<'_, '_>| fields.texts("/a").map(drop),
        "a.1 is an object; expected a string"
    )]
    fn error_names_object_path_and_what_is_accepted(
        #[case] object: Value,
        #[case] read: fn(Fields<'_, '_>) -> Result<(), FieldError>,
        #[case] message: &str,
    ) {
        let error = read(Fields::new(&object, "DevPool ns/p")).unwrap_err();
        assert_eq!(error.to_string(), format!("DevPool ns/p: {message}; its provider has to correct it"));
    }

    #[test]
    fn absent_and_null_are_the_same() {
        let object = json!({"null": null});
        let fields = Fields::new(&object, "");
        for pointer in ["/null", "/absent", "/null/below"] {
            assert_eq!(fields.text(pointer), Ok(None));
            assert_eq!(fields.texts(pointer), Ok(Vec::new()));
        }
    }
}
