//! OpenAPI v2 document in protobuf, the only form that kubectl reads: it validates the items of a `List` with it.
//!
//! The messages are those of the format's definition (`openapi.v2`), as far as our documents use them. A value of any
//! type is YAML text there; JSON is YAML.

use serde_json::{Map, Value};

/// A message while it is written.
#[derive(Default)]
pub struct Message(Vec<u8>);

/// How a field's value is written.
enum Form {
    Text,
    Texts,
    Flag,
    Whole,
    Number,
    Anything,
    Anythings,
    /// Built from the value by a function.
    Made(fn(&Value) -> Message),
    /// The same for each item of a list.
    Each(fn(&Value) -> Message),
}

/// A field: its key in JSON, its number, its form.
type Field = (&'static str, u32, Form);

/// Where extensions (`x-…`) go in messages that may have them.
type Extensions = Option<u32>;

const SCHEMA: &[Field] = &[
    ("$ref", 1, Form::Text),
    ("format", 2, Form::Text),
    ("title", 3, Form::Text),
    ("description", 4, Form::Text),
    ("default", 5, Form::Anything),
    ("multipleOf", 6, Form::Number),
    ("maximum", 7, Form::Number),
    ("exclusiveMaximum", 8, Form::Flag),
    ("minimum", 9, Form::Number),
    ("exclusiveMinimum", 10, Form::Flag),
    ("maxLength", 11, Form::Whole),
    ("minLength", 12, Form::Whole),
    ("pattern", 13, Form::Text),
    ("maxItems", 14, Form::Whole),
    ("minItems", 15, Form::Whole),
    ("uniqueItems", 16, Form::Flag),
    ("maxProperties", 17, Form::Whole),
    ("minProperties", 18, Form::Whole),
    ("required", 19, Form::Texts),
    ("enum", 20, Form::Anythings),
    ("additionalProperties", 21, Form::Made(additional)),
    ("type", 22, Form::Made(type_item)),
    ("items", 23, Form::Made(items)),
    ("allOf", 24, Form::Each(schema)),
    ("properties", 25, Form::Made(properties)),
    ("readOnly", 27, Form::Flag),
    ("example", 30, Form::Anything),
];

const INFO: &[Field] = &[("title", 1, Form::Text), ("version", 2, Form::Text), ("description", 3, Form::Text)];

const PATH_ITEM: &[Field] = &[
    ("get", 2, Form::Made(operation)),
    ("put", 3, Form::Made(operation)),
    ("post", 4, Form::Made(operation)),
    ("delete", 5, Form::Made(operation)),
    ("options", 6, Form::Made(operation)),
    ("head", 7, Form::Made(operation)),
    ("patch", 8, Form::Made(operation)),
    ("parameters", 9, Form::Each(parameter)),
];

const OPERATION: &[Field] = &[
    ("tags", 1, Form::Texts),
    ("description", 3, Form::Text),
    ("operationId", 5, Form::Text),
    ("produces", 6, Form::Texts),
    ("consumes", 7, Form::Texts),
    ("parameters", 8, Form::Each(parameter)),
    ("responses", 9, Form::Made(responses)),
    ("schemes", 10, Form::Texts),
    ("deprecated", 11, Form::Flag),
];

const BODY_PARAMETER: &[Field] = &[
    ("description", 1, Form::Text),
    ("name", 2, Form::Text),
    ("in", 3, Form::Text),
    ("required", 4, Form::Flag),
    ("schema", 5, Form::Made(schema)),
];

const QUERY_PARAMETER: &[Field] = &[
    ("required", 1, Form::Flag),
    ("in", 2, Form::Text),
    ("description", 3, Form::Text),
    ("name", 4, Form::Text),
    ("type", 6, Form::Text),
    ("format", 7, Form::Text),
    ("uniqueItems", 20, Form::Flag),
];

const PATH_PARAMETER: &[Field] = &[
    ("required", 1, Form::Flag),
    ("in", 2, Form::Text),
    ("description", 3, Form::Text),
    ("name", 4, Form::Text),
    ("type", 5, Form::Text),
    ("format", 6, Form::Text),
    ("uniqueItems", 19, Form::Flag),
];

const RESPONSE: &[Field] = &[("description", 1, Form::Text), ("schema", 2, Form::Made(schema_item))];

const API_KEY: &[Field] =
    &[("type", 1, Form::Text), ("name", 2, Form::Text), ("in", 3, Form::Text), ("description", 4, Form::Text)];

impl Message {
    /// The bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub fn text(&mut self, number: u32, text: &str) {
        self.bytes(number, text.as_bytes());
    }

    /// A message in this one.
    pub fn message(&mut self, number: u32, message: &Message) {
        self.bytes(number, &message.0);
    }

    /// A message with a name, as one of many.
    pub fn named(&mut self, number: u32, name: &str, value: &Message) {
        let mut named = Message::default();
        named.text(1, name);
        named.message(2, value);
        self.message(number, &named);
    }

    fn bytes(&mut self, number: u32, bytes: &[u8]) {
        self.varint(u64::from(number) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn flag(&mut self, number: u32, is_set: bool) {
        self.whole(number, i64::from(is_set));
    }

    fn whole(&mut self, number: u32, value: i64) {
        self.varint(u64::from(number) << 3);
        self.varint(value.cast_unsigned());
    }

    fn number(&mut self, number: u32, value: f64) {
        self.varint(u64::from(number) << 3 | 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            // The lowest seven bits, and that more follow.
            self.0.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.0.push(value.to_le_bytes()[0]);
    }

    /// The fields of an object. Fields without a number are dropped, as readers would drop them.
    fn of(value: &Value, fields: &[Field], extensions: Extensions) -> Message {
        let mut message = Message::default();
        let Some(object) = value.as_object() else { return message };
        for (key, number, form) in fields {
            if let Some(value) = object.get(*key) {
                message.write(*number, form, value);
            }
        }
        if let Some(number) = extensions {
            for (key, value) in object.iter().filter(|(key, _)| key.starts_with("x-")) {
                message.named(number, key, &anything(value));
            }
        }
        message
    }

    fn write(&mut self, number: u32, form: &Form, value: &Value) {
        let each = || value.as_array().into_iter().flatten();
        match form {
            Form::Text => value.as_str().into_iter().for_each(|text| self.text(number, text)),
            Form::Texts => each().filter_map(Value::as_str).for_each(|text| self.text(number, text)),
            Form::Flag => value.as_bool().into_iter().for_each(|flag| self.flag(number, flag)),
            Form::Whole => value.as_i64().into_iter().for_each(|whole| self.whole(number, whole)),
            Form::Number => value.as_f64().into_iter().for_each(|value| self.number(number, value)),
            Form::Anything => self.message(number, &anything(value)),
            Form::Anythings => each().for_each(|value| self.message(number, &anything(value))),
            Form::Made(make) => self.message(number, &make(value)),
            Form::Each(make) => each().for_each(|value| self.message(number, &make(value))),
        }
    }
}

fn one(number: u32, message: &Message) -> Message {
    let mut outer = Message::default();
    outer.message(number, message);
    outer
}

/// The title and version of the document.
pub fn info(value: &Value) -> Message {
    Message::of(value, INFO, Some(7))
}

/// The operations of a path.
pub fn path_item(value: &Value) -> Message {
    Message::of(value, PATH_ITEM, Some(10))
}

/// The schema of a kind.
pub fn schema(value: &Value) -> Message {
    let mut message = Message::of(value, SCHEMA, Some(31));
    // A list whose items may be anything says so here: readers refuse one that says nothing.
    if value.get("type").is_some_and(|kind| kind == "array") && value.get("items").is_none() {
        message.message(23, &items(&Value::Object(Map::new())));
    }
    message
}

/// The security scheme.
pub fn security_definitions(value: &Value) -> Message {
    let mut message = Message::default();
    for (name, value) in value.as_object().into_iter().flatten() {
        message.named(1, name, &one(2, &Message::of(value, API_KEY, Some(5))));
    }
    message
}

/// The required security scheme.
pub fn security_requirement(value: &Value) -> Message {
    let mut message = Message::default();
    for name in value.as_object().into_iter().flat_map(Map::keys) {
        message.named(1, name, &Message::default());
    }
    message
}

fn operation(value: &Value) -> Message {
    Message::of(value, OPERATION, Some(13))
}

fn responses(value: &Value) -> Message {
    let mut message = Message::default();
    for (code, response) in value.as_object().into_iter().flatten() {
        message.named(1, code, &one(1, &Message::of(response, RESPONSE, Some(5))));
    }
    message
}

fn parameter(value: &Value) -> Message {
    let parameter = match value.get("in").and_then(Value::as_str) {
        Some("body") => one(1, &Message::of(value, BODY_PARAMETER, Some(6))),
        Some("path") => one(2, &one(4, &Message::of(value, PATH_PARAMETER, Some(22)))),
        _ => one(2, &one(3, &Message::of(value, QUERY_PARAMETER, Some(23)))),
    };
    one(1, &parameter)
}

fn schema_item(value: &Value) -> Message {
    one(1, &schema(value))
}

fn items(value: &Value) -> Message {
    one(1, &schema(value))
}

fn properties(value: &Value) -> Message {
    let mut message = Message::default();
    for (name, value) in value.as_object().into_iter().flatten() {
        message.named(1, name, &schema(value));
    }
    message
}

fn additional(value: &Value) -> Message {
    match value.as_bool() {
        Some(are_allowed) => {
            let mut message = Message::default();
            message.flag(2, are_allowed);
            message
        }
        None => one(1, &schema(value)),
    }
}

fn type_item(value: &Value) -> Message {
    let mut message = Message::default();
    match value {
        Value::String(text) => message.text(1, text),
        value => message.write(1, &Form::Texts, value),
    }
    message
}

fn anything(value: &Value) -> Message {
    let mut message = Message::default();
    message.text(2, &value.to_string());
    message
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_written_as_the_format_numbers_them() {
        let value =
            json!({"description": "d", "minimum": 1.5, "maxLength": 300, "uniqueItems": true, "type": "string"});
        // Each begins with its number and the way it is written, three bits; from 16 on that takes two bytes.
        let mut wanted = vec![0x22, 1, b'd', 0x49];
        wanted.extend(1.5f64.to_le_bytes());
        wanted.extend([0x58, 0xac, 0x02, 0x80, 0x01, 1, 0xb2, 0x01, 8, 0x0a, 6]);
        wanted.extend(b"string");
        assert_eq!(schema(&value).into_bytes(), wanted);
    }

    #[test]
    fn list_without_items_is_one_of_anything() {
        assert_eq!(schema(&json!({"type": "array"})).0, schema(&json!({"type": "array", "items": {}})).0);
    }

    #[test]
    fn extension_is_a_text_that_is_yaml() {
        let text = String::from_utf8_lossy(&schema(&json!({"x-kubernetes-list-type": ["a"]})).0).into_owned();
        assert!(text.contains("x-kubernetes-list-type") && text.contains("[\"a\"]"), "{text}");
    }
}
