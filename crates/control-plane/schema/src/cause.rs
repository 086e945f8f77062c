//! Causes: one mistake in an object, with its field, reason and message.
//!
//! The texts are those of the real API server's `Status`, so that clients and their tests see the same words.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde_json::{Value, json};

use crate::wording;

/// What kind of mistake it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The value is wrong.
    Invalid,
    /// The value is missing.
    Required,
    /// The value is not one of a closed set.
    NotSupported,
    /// The value is there twice.
    Duplicate,
    /// The value may not be set.
    Forbidden,
    /// The text is too long.
    TooLong,
    /// The list or map is too long.
    TooMany,
    /// The value has the wrong type.
    TypeInvalid,
    /// What the value refers to does not exist.
    NotFound,
    /// The fault is the server's.
    Internal,
}

impl Reason {
    /// The word in a `Status`.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Invalid => "FieldValueInvalid",
            Reason::Required => "FieldValueRequired",
            Reason::NotSupported => "FieldValueNotSupported",
            Reason::Duplicate => "FieldValueDuplicate",
            Reason::Forbidden => "FieldValueForbidden",
            Reason::TooLong => "FieldValueTooLong",
            Reason::TooMany => "FieldValueTooMany",
            Reason::TypeInvalid => "FieldValueTypeInvalid",
            Reason::NotFound => "FieldValueNotFound",
            Reason::Internal => "InternalError",
        }
    }

    fn opening(self) -> &'static str {
        match self {
            Reason::Invalid | Reason::TypeInvalid => "Invalid value",
            Reason::Required => "Required value",
            Reason::NotSupported => "Unsupported value",
            Reason::Duplicate => "Duplicate value",
            Reason::Forbidden => "Forbidden",
            Reason::TooLong => "Too long",
            Reason::TooMany => "Too many",
            Reason::NotFound => "Not found",
            Reason::Internal => "Internal error",
        }
    }
}

/// A wrong value as a message shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownValue(Option<Cow<'static, str>>);

impl ShownValue {
    /// Large values are not repeated to who sent them.
    pub const OMITTED: ShownValue = ShownValue(None);

    /// Text that is already in the form of a message.
    pub(crate) fn raw(text: String) -> ShownValue {
        ShownValue(Some(text.into()))
    }
}

impl From<&str> for ShownValue {
    fn from(text: &str) -> ShownValue {
        ShownValue::raw(wording::quoted(text))
    }
}

impl From<&String> for ShownValue {
    fn from(text: &String) -> ShownValue {
        text.as_str().into()
    }
}

impl From<i64> for ShownValue {
    fn from(number: i64) -> ShownValue {
        ShownValue::raw(number.to_string())
    }
}

impl From<bool> for ShownValue {
    fn from(flag: bool) -> ShownValue {
        ShownValue(Some(if flag { "true" } else { "false" }.into()))
    }
}

impl From<&Value> for ShownValue {
    fn from(value: &Value) -> ShownValue {
        match value {
            Value::String(text) => text.into(),
            Value::Number(number) => ShownValue::raw(wording::number(number)),
            other => ShownValue::raw(wording::json(other)),
        }
    }
}

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// The field, `spec.names[1]`; `<nil>` when it is the object as a whole.
    pub field: String,
    /// The kind of mistake.
    pub reason: Reason,
    /// The sentence, without the field.
    pub message: String,
}

impl Cause {
    fn new(field: impl fmt::Display, reason: Reason, shown: ShownValue, detail: &str) -> Cause {
        let mut message = reason.opening().to_owned();
        for part in [shown.0.as_deref().unwrap_or_default(), detail] {
            if !part.is_empty() {
                message.push_str(": ");
                message.push_str(part);
            }
        }
        Cause { field: field.to_string(), reason, message }
    }

    /// The value is wrong.
    pub fn invalid(field: impl fmt::Display, value: impl Into<ShownValue>, detail: &str) -> Cause {
        Cause::new(field, Reason::Invalid, value.into(), detail)
    }

    /// The value has the wrong type.
    pub fn type_invalid(field: impl fmt::Display, value: impl Into<ShownValue>, detail: &str) -> Cause {
        Cause::new(field, Reason::TypeInvalid, value.into(), detail)
    }

    /// The value is missing; the detail may be empty.
    pub fn required(field: impl fmt::Display, detail: &str) -> Cause {
        Cause::new(field, Reason::Required, ShownValue::OMITTED, detail)
    }

    /// The value may not be set.
    pub fn forbidden(field: impl fmt::Display, detail: &str) -> Cause {
        Cause::new(field, Reason::Forbidden, ShownValue::OMITTED, detail)
    }

    /// The value is there twice.
    pub fn duplicate(field: impl fmt::Display, value: impl Into<ShownValue>) -> Cause {
        Cause::new(field, Reason::Duplicate, value.into(), "")
    }

    /// What the value refers to does not exist.
    pub fn not_found(field: impl fmt::Display, value: impl Into<ShownValue>) -> Cause {
        Cause::new(field, Reason::NotFound, value.into(), "")
    }

    /// The value is not one of these.
    pub fn not_supported<S: AsRef<str>>(
        field: impl fmt::Display,
        value: impl Into<ShownValue>,
        supported: &[S],
    ) -> Cause {
        let listed: Vec<String> = supported.iter().map(|word| wording::quoted(word.as_ref())).collect();
        let detail = if listed.is_empty() { String::new() } else { format!("supported values: {}", listed.join(", ")) };
        Cause::new(field, Reason::NotSupported, value.into(), &detail)
    }

    /// The text has more bytes than allowed.
    pub fn too_long(field: impl fmt::Display, limit: i64) -> Cause {
        let detail = match limit {
            1 => "may not be more than 1 byte".to_owned(),
            i64::MIN..=-1 => "value is too long".to_owned(),
            _ => format!("may not be more than {limit} bytes"),
        };
        Cause::new(field, Reason::TooLong, ShownValue::OMITTED, &detail)
    }

    /// The list or map has more entries than allowed.
    pub fn too_many(field: impl fmt::Display, actual: i64, limit: i64) -> Cause {
        let detail = match limit {
            1 => "must have at most 1 item".to_owned(),
            i64::MIN..=-1 => "has too many items".to_owned(),
            _ => format!("must have at most {limit} items"),
        };
        let shown = if actual < 0 { ShownValue::OMITTED } else { actual.into() };
        Cause::new(field, Reason::TooMany, shown, &detail)
    }

    /// The fault is the server's.
    pub fn internal(field: impl fmt::Display, detail: &str) -> Cause {
        Cause::new(field, Reason::Internal, ShownValue::OMITTED, detail)
    }

    /// The entry of `details.causes` in a `Status`.
    pub fn to_json(&self) -> Value {
        json!({"reason": self.reason.as_str(), "message": self.message, "field": self.field})
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// All mistakes in one sentence: one without brackets, several in brackets, none twice.
pub fn summary(causes: &[Cause]) -> String {
    let mut seen = HashSet::new();
    let texts: Vec<String> = causes.iter().map(Cause::to_string).filter(|text| seen.insert(text.clone())).collect();
    match texts.as_slice() {
        [only] => only.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(Cause::invalid("spec.size", 0, "too small"), "spec.size: Invalid value: 0: too small")]
    #[case(Cause::invalid("spec", ShownValue::OMITTED, "no"), "spec: Invalid value: no")]
    #[case(Cause::required("spec", ""), "spec: Required value")]
    #[case(Cause::not_supported("kind", "x", &["a", "b"]), "kind: Unsupported value: \"x\": supported values: \"a\", \"b\"")]
    #[case(Cause::too_many("l", 4, 3), "l: Too many: 4: must have at most 3 items")]
    #[case(Cause::too_long("s", 1), "s: Too long: may not be more than 1 byte")]
    #[case(Cause::duplicate("l[1]", &json!({"a": 1})), "l[1]: Duplicate value: {\"a\":1}")]
    #[case(Cause::invalid("x", &Value::Null, "no"), "x: Invalid value: null: no")]
    #[case(Cause::internal("x", "broken"), "x: Internal error: broken")]
    fn sentences(#[case] cause: Cause, #[case] text: &str) {
        assert_eq!(cause.to_string(), text);
    }

    #[test]
    fn several_are_in_brackets_and_none_twice() {
        let one = Cause::required("a", "");
        assert_eq!(summary(std::slice::from_ref(&one)), "a: Required value");
        assert_eq!(summary(&[one.clone(), one.clone()]), "a: Required value");
        assert_eq!(summary(&[one, Cause::required("b", "x")]), "[a: Required value, b: Required value: x]");
    }
}
