//! `FieldsV1`: the encoding of field sets in objects.
//!
//! - `f:` a field, `k:` a list element by its key, `v:` a set's element, `i:` a position, each the key of an object
//!   that holds what is below.
//! - An element with nothing below is itself in the set. One with something below is, if it also holds `.`.

use serde_json::{Map, Value};

use crate::depth::MAX_DEPTH;
use crate::path::{PathElement, number_text};
use crate::set::{Entry, Set};

/// Why stored fields cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldsError {
    /// A key that is no path element.
    #[error("fieldsV1: {0:?} is no path element: {1}")]
    Element(String, &'static str),
    /// Something else than an object where fields were expected.
    #[error("fieldsV1: an object was expected, found {0}")]
    NoObject(&'static str),
    /// More levels than any object has.
    #[error("fieldsV1: nested more than {MAX_DEPTH} levels deep")]
    TooDeep,
}

impl Set {
    /// Reads stored fields. Elements of a type that is not known are skipped: a later version may know them.
    pub fn decode(fields: &Value) -> Result<Set, FieldsError> {
        Ok(decode(fields, 0)?.0)
    }

    /// The stored form as a JSON value.
    pub fn encode(&self) -> Value {
        Value::Object(self.encoded(false))
    }

    fn encoded(&self, with_self: bool) -> Map<String, Value> {
        let itself = (with_self && !self.is_empty()).then(|| (".".to_owned(), Value::Object(Map::new())));
        let below = self
            .entries()
            .iter()
            .map(|entry| (element_text(&entry.element), Value::Object(entry.below.encoded(entry.is_member))));
        itself.into_iter().chain(below).collect()
    }

    /// The stored form as text, byte for byte as the real server writes it.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        self.write_text(false, &mut text);
        text
    }

    fn write_text(&self, with_self: bool, out: &mut String) {
        out.push('{');
        let mut is_first = true;
        if with_self && !self.is_empty() {
            out.push_str("\".\":{}");
            is_first = false;
        }
        for entry in self.entries() {
            if !std::mem::take(&mut is_first) {
                out.push(',');
            }
            write_string(&element_text(&entry.element), false, out);
            out.push(':');
            entry.below.write_text(entry.is_member, out);
        }
        out.push('}');
    }
}

/// What is below, and whether the element itself is in the set.
fn decode(fields: &Value, depth: usize) -> Result<(Set, bool), FieldsError> {
    let fields = match fields {
        Value::Object(fields) => fields,
        Value::Null => return Ok((Set::default(), true)),
        other => return Err(FieldsError::NoObject(kind_of(other))),
    };
    if depth > MAX_DEPTH {
        return Err(FieldsError::TooDeep);
    }
    let mut is_member = false;
    let mut entries = Vec::with_capacity(fields.len());
    for (key, value) in fields {
        if key == "." {
            is_member = true;
        } else if let Some(element) = parse_element(key)? {
            let (below, is_member) = decode(value, depth + 1)?;
            entries.push(Entry { element, is_member, below });
        }
    }
    let set = Set::of_entries(entries);
    is_member |= set.is_empty();
    Ok((set, is_member))
}

/// The path element that a key encodes; none for a type that is not known.
fn parse_element(key: &str) -> Result<Option<PathElement>, FieldsError> {
    let error = |reason| FieldsError::Element(key.to_owned(), reason);
    let Some((tag, content)) = key.split_once(':').filter(|(tag, _)| tag.len() == 1) else {
        return Err(error("it must begin with f:, k:, v: or i:"));
    };
    Ok(Some(match tag {
        "f" => PathElement::Field(content.into()),
        "v" => PathElement::value(serde_json::from_str(content).map_err(|_| error("its value is no JSON"))?),
        "k" => {
            let fields: Map<String, Value> =
                serde_json::from_str(content).map_err(|_| error("its key is no JSON object"))?;
            let mut fields: Vec<(Box<str>, Value)> =
                fields.into_iter().map(|(name, value)| (name.into_boxed_str(), value)).collect();
            fields.sort_by(|left, right| left.0.cmp(&right.0));
            PathElement::Key(fields.into())
        }
        "i" => PathElement::Index(content.parse().map_err(|_| error("its position is no number"))?),
        _ => return Ok(None),
    }))
}

fn element_text(element: &PathElement) -> String {
    match element {
        PathElement::Field(name) => ["f:", &**name].concat(),
        PathElement::Index(index) => format!("i:{index}"),
        PathElement::Value(value) => {
            let mut text = "v:".to_owned();
            write_value(value, &mut text);
            text
        }
        PathElement::Key(fields) => {
            let mut text = "k:{".to_owned();
            for (position, (name, value)) in fields.iter().enumerate() {
                if position > 0 {
                    text.push(',');
                }
                write_string(name, false, &mut text);
                text.push(':');
                write_value(value, &mut text);
            }
            text.push('}');
            text
        }
    }
}

/// JSON as the real server writes it inside path elements: sorted keys, and markup escaped in text.
fn write_value(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => out.push_str(&number_text(number)),
        Value::String(text) => write_string(text, true, out),
        Value::Array(items) => {
            out.push('[');
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    out.push(',');
                }
                write_value(item, out);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| name.as_str());
            out.push('{');
            for (position, (name, value)) in fields.into_iter().enumerate() {
                if position > 0 {
                    out.push(',');
                }
                write_string(name, true, out);
                out.push(':');
                write_value(value, out);
            }
            out.push('}');
        }
    }
}

fn write_string(text: &str, escapes_markup: bool, out: &mut String) {
    const HEX: [u8; 16] = *b"0123456789abcdef";
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{2028}' if escapes_markup => out.push_str("\\u2028"),
            '\u{2029}' if escapes_markup => out.push_str("\\u2029"),
            low if low < ' ' || (escapes_markup && matches!(low, '<' | '>' | '&')) => {
                let code = low as usize;
                out.push_str("\\u00");
                out.push(char::from(HEX[code >> 4]));
                out.push(char::from(HEX[code & 15]));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::set::tests::any_set;

    proptest! {
        #[test]
        fn what_is_written_is_read_back(set in any_set()) {
            prop_assert_eq!(&Set::decode(&set.encode()).unwrap(), &set);
            let text: Value = serde_json::from_str(&set.to_text()).unwrap();
            prop_assert_eq!(text, set.encode());
        }

        #[test]
        fn strange_text_survives(name in ".*", value in ".*") {
            let mut set = Set::default();
            set.insert([PathElement::field(&name), PathElement::key([(name.as_str(), json!(value))])]);
            set.insert([PathElement::value(json!(value))]);
            prop_assert_eq!(&Set::decode(&set.encode()).unwrap(), &set);
            let text: Value = serde_json::from_str(&set.to_text()).unwrap();
            prop_assert_eq!(Set::decode(&text).unwrap(), set);
        }

        #[test]
        fn garbage_is_an_error_or_a_set(key in "[fkvi.é:{}\"0-9a,]{0,8}") {
            let _ = Set::decode(&json!({ key: {} }));
        }
    }

    #[test]
    fn form_is_that_of_the_real_server() {
        let mut set = Set::default();
        let port = PathElement::key([("protocol", json!("TCP")), ("port", json!(80))]);
        set.insert([PathElement::field("ports"), port.clone()]);
        set.insert([PathElement::field("ports"), port, PathElement::field("name")]);
        set.insert([PathElement::field("tags"), PathElement::value(json!("a<b"))]);
        set.insert([PathElement::Index(1)]);
        assert_eq!(
            set.to_text(),
            r#"{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:name":{}}},"f:tags":{"v:\"a\\u003cb\"":{}},"i:1":{}}"#
        );
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let error = |fields: Value| Set::decode(&fields).unwrap_err().to_string();
        assert_eq!(error(json!({"x": {}})), r#"fieldsV1: "x" is no path element: it must begin with f:, k:, v: or i:"#);
        assert_eq!(
            error(json!({"f:a": {"i:x": {}}})),
            r#"fieldsV1: "i:x" is no path element: its position is no number"#
        );
        assert_eq!(error(json!({"k:[]": {}})), r#"fieldsV1: "k:[]" is no path element: its key is no JSON object"#);
        assert_eq!(error(json!({"f:a": 1})), "fieldsV1: an object was expected, found a number");
    }

    #[test]
    fn elements_of_unknown_types_are_skipped() {
        assert_eq!(Set::decode(&json!({"z:1": {}, "f:a": {"!:": {}}})).unwrap().encode(), json!({"f:a": {}}));
    }

    #[test]
    fn too_many_levels_are_an_error() {
        let deep = (0..500).fold(json!({}), |below, _| json!({"f:a": below}));
        assert_eq!(Set::decode(&deep), Err(FieldsError::TooDeep));
    }
}
