//! Body decoder: JSON, YAML or protobuf in, an object out, with the duplicate keys found on the way.
//!
//! JSON parsers silently keep the last of two equal keys. Clients may ask for a report, so the decoder records them.

use std::fmt;

use seaworthy_schema::Cause;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use serde_saphyr::Spanned;

use crate::object::{Metadata, Object};
use crate::request::media::{BodyFormat, RESPONSE_MEDIA_TYPES};
use crate::request::protobuf::{self, Envelope};
use crate::resource::Resource;
use crate::response::status::{Failure, GroupResource};

/// The largest body, in bytes.
pub const MAX_BODY_SIZE: usize = 3 * 1024 * 1024;

/// The deepest nesting of a body. The JSON parser has the same limit.
const MAX_DEPTH: usize = 127;

/// A decoded body.
#[derive(Debug, PartialEq)]
pub struct Decoded {
    pub value: Value,
    /// Messages about duplicate keys.
    pub duplicates: Vec<String>,
}

pub fn read(bytes: &[u8], format: impl Into<BodyFormat>) -> Result<Decoded, String> {
    let mut duplicates = Vec::new();
    let seed = DuplicateKeyVisitor { path: &mut Vec::new(), duplicates: &mut duplicates, has_lines: false };
    let value = match format.into() {
        BodyFormat::Json => json(bytes, seed).map_err(|error| match error.is_eof() {
            true => "unexpected end of JSON input".to_owned(),
            false => error.to_string(),
        })?,
        // Protobuf has neither duplicate nor unknown keys.
        BodyFormat::Protobuf => protobuf::decode(bytes).map_err(|error| error.to_string())?,
        BodyFormat::Yaml => match json_in_yaml(bytes) {
            Some(value) => value,
            None => yaml(bytes, DuplicateKeyVisitor { has_lines: true, ..seed })?,
        },
    };
    if is_deeper(&value, MAX_DEPTH) {
        return Err(too_deep());
    }
    Ok(Decoded { value, duplicates })
}

fn json(bytes: &[u8], seed: DuplicateKeyVisitor<'_>) -> serde_json::Result<Value> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = seed.deserialize(&mut reader)?;
    reader.end().map(|()| value)
}

/// Parses a YAML body that is JSON, as most clients write it: that is much faster. None on any problem, so that the
/// YAML parser reports it.
fn json_in_yaml(bytes: &[u8]) -> Option<Value> {
    let mut duplicates = Vec::new();
    let seed = DuplicateKeyVisitor { path: &mut Vec::new(), duplicates: &mut duplicates, has_lines: false };
    let value = json(bytes, seed).ok().filter(Value::is_object)?;
    duplicates.is_empty().then_some(value)
}

fn yaml(bytes: &[u8], seed: DuplicateKeyVisitor<'_>) -> Result<Value, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "yaml: invalid UTF-8".to_owned())?;
    let first_line = |error: serde_saphyr::Error| {
        // The lines after the first quote the text, which may be a Secret.
        let message = error.to_string();
        format!("yaml: {}", message.lines().next().unwrap_or_default())
    };
    let options = serde_saphyr::options! { duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins };
    let read = |reader: serde_saphyr::Deserializer<'_, '_>| seed.deserialize(reader);
    serde_saphyr::with_deserializer_from_str_with_options(first_document(text), options, read).map_err(first_line)
}

/// Reads an object of this kind. `kind` and `apiVersion` may be missing for built-in kinds.
pub fn object(
    bytes: &[u8],
    format: impl Into<BodyFormat>,
    resource: &Resource,
) -> Result<(Object, Vec<String>), Failure> {
    let format = format.into();
    if format == BodyFormat::Protobuf {
        return protobuf_object(bytes, resource).map(|object| (object, Vec::new()));
    }
    let decoded = read(bytes, format).map_err(|why| unrecognised(bytes, format, resource, &why))?;
    let mut object = into_typed_object(decoded.value).map_err(|why| unrecognised(bytes, format, resource, &why))?;
    check_kind(&mut object, resource)?;
    Ok((object, decoded.duplicates))
}

/// The object of a decoded body, with `kind` and `apiVersion` checked for their type. Null is an empty object.
pub fn into_typed_object(value: Value) -> Result<Object, String> {
    let object = match value {
        Value::Object(object) => object,
        Value::Null => Object::new(),
        other => return Err(format!("json: cannot unmarshal {} into an object", json_type(&other))),
    };
    for key in ["apiVersion", "kind"] {
        if let Some(odd) = object.get(key).filter(|value| !value.is_string() && !value.is_null()) {
            return Err(format!(
                "json: cannot unmarshal {} into Go struct field .{key} of type string",
                json_type(odd)
            ));
        }
    }
    Ok(object)
}

/// The JSON type of a value, as the decoder of kube-apiserver names it.
pub fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Bool(_) => "bool",
        Value::Object(_) => "object",
        Value::Null => "null",
    }
}

/// Reads an object of a built-in kind from protobuf.
fn protobuf_object(bytes: &[u8], resource: &Resource) -> Result<Object, Failure> {
    if resource.is_custom() {
        // Differs: the real server closes the connection, because custom kinds have no protobuf form.
        return Err(Failure::unsupported_media_type(RESPONSE_MEDIA_TYPES));
    }
    let unknown = |why: &str| unrecognised(bytes, BodyFormat::Protobuf, resource, why);
    let mut envelope = Envelope::open(bytes).map_err(|error| unknown(&error.to_string()))?;
    if envelope.kind.is_empty() && envelope.api_version.is_empty() {
        envelope.kind = (*resource.kind).to_owned();
        envelope.api_version = (*resource.api_version).to_owned();
    }
    let object = envelope.object().map_err(|error| {
        let version = envelope.api_version.rsplit('/').next().unwrap_or_default();
        let (found, wanted) = (&envelope.kind, &resource.kind);
        Failure::bad_request(format!("{found} in version {version:?} cannot be handled as a {wanted}: {error}"))
    })?;
    if is_deeper(&object, MAX_DEPTH) {
        return Err(unknown(&too_deep()));
    }
    let Value::Object(mut object) = object else { return Err(unknown("the message is not an object")) };
    check_kind(&mut object, resource)?;
    Ok(object)
}

/// The text up to the end of its first document; the rest is ignored.
fn first_document(text: &str) -> &str {
    let mut at = 0;
    let mut has_begun = false;
    for line in text.split_inclusive('\n') {
        let bare = line.trim_end();
        let is_marker = bare == "---" || bare == "..." || bare.starts_with("--- ");
        if is_marker && has_begun {
            return &text[..at];
        }
        has_begun |= !bare.is_empty() && !bare.starts_with('#') && bare != "---";
        at += line.len();
    }
    text
}

fn too_deep() -> String {
    format!("the body nests deeper than {MAX_DEPTH} levels")
}

/// Checks kind and version of an object; for built-in kinds, missing ones are filled in.
pub fn check_kind(object: &mut Object, resource: &Resource) -> Result<(), Failure> {
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (kind, api_version) = (text("kind"), text("apiVersion"));
    if resource.is_custom() {
        for (word, value) in [("kind", &kind), ("apiVersion", &api_version)] {
            if value.is_empty() {
                return Err(Failure::bad_request(format!("Object '{word}' is missing in the body of the request")));
            }
        }
        if *api_version != *resource.api_version {
            return Err(Failure::bad_request(format!(
                "the API version in the data ({api_version}) does not match the expected API version ({})",
                resource.api_version
            )));
        }
        check_custom_kind(object, resource)?;
    }
    let is_kind = kind.is_empty() || *kind == *resource.kind;
    let is_version = api_version.is_empty() || *api_version == *resource.api_version;
    if !is_kind || !is_version {
        let found = if kind.is_empty() { &*resource.kind } else { &kind };
        let version = api_version.rsplit('/').next().unwrap_or_default();
        let version = if version.is_empty() { &*resource.version } else { version };
        return Err(Failure::bad_request(format!(
            "{found} in version {version:?} cannot be handled as a {}: expected {} of {}",
            resource.kind, resource.kind, resource.api_version
        )));
    }
    object.insert("kind".to_owned(), (*resource.kind).into());
    object.insert("apiVersion".to_owned(), (*resource.api_version).into());
    Ok(())
}

/// Checks kind and version of a custom resource.
pub fn check_custom_kind(object: &Object, resource: &Resource) -> Result<(), Failure> {
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let (kind, api_version) = (text("kind"), text("apiVersion"));
    let mut causes = Vec::new();
    for (key, found, wanted) in [("kind", kind, &resource.kind), ("apiVersion", api_version, &resource.api_version)] {
        if *found != **wanted {
            causes.push(Cause::invalid(key, found, &format!("must be {wanted}")));
        }
    }
    let named = GroupResource { group: api_version.rsplit_once('/').map_or("", |(group, _)| group), resource: kind };
    match causes.is_empty() {
        true => Ok(()),
        false => Err(Failure::invalid(named, object.name(), causes)),
    }
}

fn unrecognised(bytes: &[u8], format: BodyFormat, resource: &Resource, why: &str) -> Failure {
    // The body may hold a secret, so it is not quoted.
    // Differs: the real server appends the first bytes of the body, because nothing of a body belongs into a message.
    let emptiness = if bytes.is_empty() { " (<empty>)" } else { "" };
    let why = match format {
        BodyFormat::Json => format!("couldn't get version/kind; json parse error: {why}"),
        BodyFormat::Yaml | BodyFormat::Protobuf => why.to_owned(),
    };
    Failure::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): {why}{emptiness}",
        resource.kind
    ))
}

fn is_deeper(value: &Value, levels: usize) -> bool {
    match (value, levels) {
        (Value::Array(_) | Value::Object(_), 0) => true,
        (Value::Array(items), _) => items.iter().any(|item| is_deeper(item, levels - 1)),
        (Value::Object(map), _) => map.values().any(|item| is_deeper(item, levels - 1)),
        _ => false,
    }
}

/// The most bytes of messages about duplicate keys: a short body can have many of them behind a long path.
const MAX_DUPLICATES_SIZE: usize = 64 * 1024;

/// Deserialises a value and records duplicate keys.
struct DuplicateKeyVisitor<'d> {
    /// The path to the value. One for all values: a copy for each would cost the square of the body.
    path: &'d mut Vec<PathSegment>,
    duplicates: &'d mut Vec<String>,
    /// Whether keys have line numbers: then messages name these, otherwise paths.
    has_lines: bool,
}

enum PathSegment {
    Key(String),
    Index(usize),
}

impl DuplicateKeyVisitor<'_> {
    fn same(&mut self) -> DuplicateKeyVisitor<'_> {
        DuplicateKeyVisitor { path: self.path, duplicates: self.duplicates, has_lines: self.has_lines }
    }

    /// Records a duplicate key. Returns false beyond the limits.
    fn add_duplicate(&mut self, key: &str, line: Option<u64>) -> bool {
        let size: usize = self.duplicates.iter().map(String::len).sum();
        let path: usize =
            self.path.iter().map(|step| if let PathSegment::Key(key) = step { key.len() } else { 8 }).sum();
        if self.duplicates.len() > 1000 || size + path + key.len() > MAX_DUPLICATES_SIZE {
            return false;
        }
        let note = match line {
            Some(line) => format!("line {line}: key {key:?} already set in map"),
            None => format!("duplicate field {:?}", self.written(key)),
        };
        self.duplicates.push(note);
        true
    }

    fn written(&self, last: &str) -> String {
        let mut text = String::new();
        for step in self.path.iter() {
            match step {
                PathSegment::Key(key) if text.is_empty() => text.push_str(key),
                PathSegment::Key(key) => text.push_str(&format!(".{key}")),
                PathSegment::Index(index) => text.push_str(&format!("[{index}]")),
            }
        }
        if text.is_empty() { last.to_owned() } else { format!("{text}.{last}") }
    }
}

impl<'de> DeserializeSeed<'de> for DuplicateKeyVisitor<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DuplicateKeyVisitor<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        // A number that is too large for an integer is read as a fraction.
        Ok(i64::try_from(value).map_or_else(|_| Value::from(value as f64), Value::from))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        serde_json::Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number is not finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            self.path.push(PathSegment::Index(list.len()));
            let item = items.next_element_seed(self.same())?;
            self.path.pop();
            match item {
                Some(item) => list.push(item),
                None => return Ok(list.into()),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        loop {
            let (key, line) = if self.has_lines {
                let Some(key) = entries.next_key::<Spanned<String>>()? else { break };
                (key.value, Some(key.referenced.line()))
            } else {
                let Some(key) = entries.next_key::<String>()? else { break };
                (key, None)
            };
            self.path.push(PathSegment::Key(key));
            let value = entries.next_value_seed(self.same())?;
            // Nested values have removed their own segments.
            let Some(PathSegment::Key(key)) = self.path.pop() else { continue };
            if map.contains_key(&key) && !self.add_duplicate(&key, line) {
                return Err(A::Error::custom("too many duplicate keys to report"));
            }
            map.insert(key, value);
        }
        Ok(map.into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::request::media::Format;

    #[test]
    fn key_that_comes_twice_is_noted_and_the_last_one_counts() {
        let body = br#"{"spec": {"size": 1, "list": [{"a": 1, "a": 2}], "size": 3}}"#;
        let decoded = read(body, Format::Json).unwrap();
        assert_eq!(decoded.duplicates, ["duplicate field \"spec.list[0].a\"", "duplicate field \"spec.size\""]);
        assert_eq!(decoded.value, json!({"spec": {"size": 3, "list": [{"a": 2}]}}));
    }

    #[test]
    fn long_key_above_many_values_costs_no_more_than_its_length() {
        let (key, values) = ("k".repeat(1 << 20), vec!["0"; 1 << 20].join(","));
        let body = format!("{{\"{key}\": [{values}]}}");
        // With a copy of the path for each value it would copy a million times a million bytes.
        let decoded = read(body.as_bytes(), Format::Json).unwrap();
        assert_eq!(decoded.value[&key].as_array().unwrap().len(), 1 << 20);
    }

    #[test]
    fn messages_about_duplicate_keys_are_bounded_however_long_their_paths() {
        let doubled = vec!["\"a\":1"; 900].join(",");
        let few = read(format!("{{\"k\": {{{doubled}}}}}").as_bytes(), Format::Json).unwrap();
        assert_eq!(few.duplicates.len(), 899);
        let body = format!("{{\"{}\": {{{doubled}}}}}", "k".repeat(1 << 20));
        let message = read(body.as_bytes(), Format::Json).unwrap_err();
        assert!(message.starts_with("too many duplicate keys to report"), "{message}");
    }

    #[test]
    fn key_that_comes_twice_in_yaml_is_noted_by_its_line() {
        let decoded = read(b"spec:\n  a: 1\n  a: 2\n", Format::Yaml).unwrap();
        assert_eq!(decoded.duplicates, ["line 3: key \"a\" already set in map"]);
        assert_eq!(decoded.value, json!({"spec": {"a": 2}}));
    }

    #[test]
    fn json_in_a_yaml_body_is_read_and_its_problems_are_reported_as_yaml() {
        let decoded = read(b"{\"spec\": {\n\"a\": 1, \"a\": 2}}", Format::Yaml).unwrap();
        assert_eq!((decoded.value, decoded.duplicates.len()), (json!({"spec": {"a": 2}}), 1));
        assert_eq!(decoded.duplicates, ["line 2: key \"a\" already set in map"]);
        assert_eq!(read(b"{a: 1}", Format::Yaml).unwrap().value, json!({"a": 1}));
        let message = read(b"{\"a\": ", Format::Yaml).unwrap_err();
        assert!(message.starts_with("yaml: "), "{message}");
    }

    #[test]
    fn first_document_of_yaml_is_the_one_that_counts() {
        assert_eq!(read(b"---\na: 1\n---\nb: 2\n", Format::Yaml).unwrap().value, json!({"a": 1}));
        assert_eq!(read(b"# here\n---\na: 1\n", Format::Yaml).unwrap().value, json!({"a": 1}));
    }

    #[test]
    fn body_that_ends_too_early_is_reported() {
        assert_eq!(read(b"{\"a\": ", Format::Json).unwrap_err(), "unexpected end of JSON input");
        assert_eq!(read(b"", Format::Json).unwrap_err(), "unexpected end of JSON input");
    }

    #[test]
    fn something_behind_the_body_is_refused() {
        assert!(read(b"{} {}", Format::Json).is_err());
    }

    #[test]
    fn body_that_nests_too_deep_is_refused_in_both_formats() {
        let deep = "[".repeat(4000) + &"]".repeat(4000);
        assert!(read(deep.as_bytes(), Format::Json).is_err());
        assert!(read(deep.as_bytes(), Format::Yaml).is_err());
    }

    proptest! {
        #[test]
        fn without_duplicates_it_reads_what_everyone_reads(keys in proptest::collection::hash_set("[a-c]", 0..3), n: i64) {
            let object: Map<String, Value> = keys.into_iter().map(|key| (key, json!([n, null, {"x": "y"}]))).collect();
            let text = Value::Object(object).to_string();
            let decoded = read(text.as_bytes(), Format::Json).unwrap();
            prop_assert!(decoded.duplicates.is_empty());
            prop_assert_eq!(decoded.value, serde_json::from_str::<Value>(&text).unwrap());
        }

        #[test]
        fn json_is_what_yaml_reads_in_it(key in "[ -~]{0,8}", text in "\\PC{0,12}", n: i64, is: bool) {
            let body = json!({key: [text, n, is, null, {}, []], "n": {"x": text}}).to_string();
            let seed = DuplicateKeyVisitor { path: &mut Vec::new(), duplicates: &mut Vec::new(), has_lines: true };
            prop_assert_eq!(json_in_yaml(body.as_bytes()), Some(yaml(body.as_bytes(), seed).unwrap()));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = read(&bytes, Format::Json);
            let _ = read(&bytes, Format::Yaml);
        }
    }
}
