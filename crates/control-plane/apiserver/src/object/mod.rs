//! API objects as JSON, and the metadata that every kind has.

pub mod field_access;
pub mod meta;
pub mod quantity;

use std::sync::LazyLock;

use seaworthy_store::Body;
use serde_json::{Map, Value};

/// An API object.
pub type Object = Map<String, Value>;

/// Access to `metadata`, for all kinds.
pub trait Metadata {
    /// `metadata`, empty if there is none.
    fn metadata(&self) -> &Object;
    /// `metadata`, created if it is missing.
    fn metadata_mut(&mut self) -> &mut Object;

    /// A text of `metadata`, empty if there is none.
    fn meta_text(&self, key: &str) -> &str {
        self.metadata().get(key).and_then(Value::as_str).unwrap_or_default()
    }

    fn name(&self) -> &str {
        self.meta_text("name")
    }

    /// The namespace, empty for none.
    fn namespace(&self) -> &str {
        self.meta_text("namespace")
    }

    fn uid(&self) -> &str {
        self.meta_text("uid")
    }

    /// `resourceVersion`, empty for none.
    fn revision_text(&self) -> &str {
        self.meta_text("resourceVersion")
    }

    /// Whether the object has a deletion timestamp.
    fn is_deleting(&self) -> bool {
        !self.meta_text("deletionTimestamp").is_empty()
    }

    fn finalizers(&self) -> impl Iterator<Item = &str> {
        let list = self.metadata().get("finalizers").and_then(Value::as_array);
        list.map(Vec::as_slice).unwrap_or_default().iter().filter_map(Value::as_str)
    }

    /// 0 for kinds without a generation.
    fn generation(&self) -> i64 {
        self.metadata().get("generation").and_then(Value::as_i64).unwrap_or(0)
    }

    fn owners(&self) -> &[Value] {
        let list = self.metadata().get("ownerReferences").and_then(Value::as_array);
        list.map(Vec::as_slice).unwrap_or_default()
    }

    /// Sets a value of `metadata`.
    fn set_meta(&mut self, key: &str, value: impl Into<Value>) {
        self.metadata_mut().insert(key.to_owned(), value.into());
    }
}

static NO_FIELDS: LazyLock<Object> = LazyLock::new(Map::new);

/// The fields of an object that is held as a value; none of a value that is no object.
pub fn fields(object: &Value) -> &Object {
    object.as_object().unwrap_or(&NO_FIELDS)
}

/// The same by value.
pub fn into_fields(object: Value) -> Object {
    match object {
        Value::Object(fields) => fields,
        _ => Object::new(),
    }
}

impl Metadata for Object {
    fn metadata(&self) -> &Object {
        self.get("metadata").and_then(Value::as_object).unwrap_or(&NO_FIELDS)
    }

    fn metadata_mut(&mut self) -> &mut Object {
        let metadata = self.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        if !metadata.is_object() {
            *metadata = Value::Object(Map::new());
        }
        // It was just made one.
        metadata.as_object_mut().expect("metadata is an object")
    }
}

/// Of an object that is held as a value, as field ownership and schemas need it.
impl Metadata for Value {
    fn metadata(&self) -> &Object {
        fields(self).metadata()
    }

    fn metadata_mut(&mut self) -> &mut Object {
        if !self.is_object() {
            *self = Value::Object(Map::new());
        }
        // It was just made one.
        self.as_object_mut().expect("the value is an object").metadata_mut()
    }
}

/// Encodes an object so that the stored bytes can be served as they are: the digits of the revision are left out, and
/// the store inserts them on commit.
///
/// `apiVersion` and `kind` come first, then `metadata`. So they can be removed or replaced without parsing: items of a
/// list do not have them, and other versions of a kind differ in them.
pub fn encode(object: &Object) -> Body {
    let mut bytes = Vec::with_capacity(1024);
    bytes.push(b'{');
    for key in ["apiVersion", "kind"] {
        if let Some(value) = object.get(key) {
            push_key(&mut bytes, key);
            push(&mut bytes, value);
            bytes.push(b',');
        }
    }
    bytes.extend_from_slice(b"\"metadata\":");
    let revision_offset = encode_metadata(&mut bytes, object.metadata());
    for (key, value) in object {
        if !matches!(key.as_str(), "apiVersion" | "kind" | "metadata") {
            bytes.push(b',');
            push_key(&mut bytes, key);
            push(&mut bytes, value);
        }
    }
    bytes.push(b'}');
    Body::new(bytes, revision_offset)
}

/// The revision in the bytes of a stored object, without parsing them.
pub fn revision_of(body: &[u8]) -> Option<u64> {
    const BEFORE: &[u8] = b"\"metadata\":{\"resourceVersion\":\"";
    // After `apiVersion` and `kind`, neither of which can contain a quote.
    let start = body.windows(BEFORE.len()).position(|window| window == BEFORE)? + BEFORE.len();
    let digits = body[start..].iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(None, |value, digit| Some(value.unwrap_or(0u64).wrapping_mul(10).wrapping_add(u64::from(digit - b'0'))))
}

/// The bytes before `metadata` in every encoded object of a kind.
pub fn prefix(api_version: &str, kind: &str) -> String {
    format!("{{{}:{},{}:{},", text("apiVersion"), text(api_version), text("kind"), text(kind))
}

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

fn push_key(bytes: &mut Vec<u8>, key: &str) {
    push(bytes, &text(key));
    bytes.push(b':');
}

fn encode_metadata(bytes: &mut Vec<u8>, metadata: &Object) -> usize {
    bytes.extend_from_slice(b"{\"resourceVersion\":\"");
    let revision_offset = bytes.len();
    bytes.push(b'"');
    for (key, value) in metadata.iter().filter(|(key, _)| *key != "resourceVersion") {
        bytes.push(b',');
        push_key(bytes, key);
        push(bytes, value);
    }
    bytes.push(b'}');
    revision_offset
}

fn push(bytes: &mut Vec<u8>, value: &Value) {
    // Writing JSON to memory cannot fail: keys are texts and numbers are finite.
    let _ = serde_json::to_writer(bytes, value);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn filled(object: Value) -> Value {
        let encoded = encode(object.as_object().unwrap());
        let mut bytes = encoded.bytes.to_vec();
        bytes.splice(encoded.revision_offset..encoded.revision_offset, *b"42");
        serde_json::from_slice(&bytes).unwrap()
    }

    #[test]
    fn revision_goes_into_the_objects_own_metadata_and_nowhere_else() {
        let embedded = json!({"metadata": {"resourceVersion": ""}, "text": "\"resourceVersion\":\"\""});
        let object = json!({"kind": "A", "metadata": {"name": "a", "resourceVersion": "7"}, "spec": embedded});
        let mut wanted = object.clone();
        wanted["metadata"]["resourceVersion"] = "42".into();
        assert_eq!(filled(object), wanted);
    }

    #[test]
    fn object_without_metadata_gets_some_for_its_revision() {
        assert_eq!(filled(json!({})), json!({"metadata": {"resourceVersion": "42"}}));
        assert_eq!(filled(json!({"kind": "A"})), json!({"kind": "A", "metadata": {"resourceVersion": "42"}}));
    }

    #[test]
    fn bytes_begin_with_the_prefix_of_their_kind() {
        let object = json!({"a": 1, "kind": "Widget", "apiVersion": "g/v1", "metadata": {"name": "a"}});
        let encoded = encode(object.as_object().unwrap());
        assert!(encoded.bytes.starts_with(prefix("g/v1", "Widget").as_bytes()));
        assert!(encoded.bytes[prefix("g/v1", "Widget").len()..].starts_with(b"\"metadata\":"));
    }

    #[test]
    fn metadata_of_another_type_is_replaced_when_it_is_written() {
        let mut object = json!({"metadata": []}).as_object().unwrap().clone();
        object.set_meta("name", "a");
        assert_eq!(object.name(), "a");
    }
}
