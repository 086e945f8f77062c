//! Pruning: drops the fields that a schema does not describe.

use serde_json::Value;

use crate::document::Schema;
use crate::node::Additional;
use crate::path::Path;

/// Fields that every object has, whatever its schema says.
const OBJECT_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// How a value and its surroundings are pruned.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pruning<'a> {
    /// The schema of `metadata`, of the object itself and of embedded ones; without it metadata is left alone.
    pub metadata: Option<Schema<'a>>,
}

impl Pruning<'_> {
    /// Drops the unknown fields of a whole object and returns their paths, sorted.
    pub fn object(self, schema: Schema<'_>, object: &mut Value) -> Vec<String> {
        let mut walk = Walk { metadata: self.metadata, dropped: Vec::new(), reported: 0 };
        walk.known(schema, object, &Path::ROOT, true);
        walk.sorted()
    }

    /// Drops the unknown fields of a value inside an object and returns their paths from there, sorted.
    pub fn value(self, schema: Schema<'_>, value: &mut Value) -> Vec<String> {
        let mut walk = Walk { metadata: self.metadata, dropped: Vec::new(), reported: 0 };
        walk.known(schema, value, &Path::ROOT, false);
        walk.sorted()
    }
}

/// The sentence about an unknown field, in warnings and in errors of strict requests.
pub fn unknown_field(path: &str) -> String {
    format!("unknown field \"{path}\"")
}

struct Walk<'s> {
    metadata: Option<Schema<'s>>,
    dropped: Vec<String>,
    reported: usize,
}

/// The maximum size of reports about unknown fields, in bytes. Beyond that fields are dropped silently.
const MAX_REPORTED_BYTES: usize = 1 << 20;

impl Walk<'_> {
    fn name(&mut self, path: &Path<'_>) {
        if self.reported < MAX_REPORTED_BYTES {
            let text = path.dotted();
            self.reported += text.len();
            self.dropped.push(text);
        }
    }

    fn sorted(mut self) -> Vec<String> {
        self.dropped.sort_unstable();
        self.dropped
    }

    fn known(&mut self, schema: Schema<'_>, value: &mut Value, path: &Path<'_>, is_root: bool) {
        let is_object = is_root || schema.is_embedded;
        match value {
            Value::Object(map) => map.retain(|key, value| {
                if is_object && OBJECT_FIELDS.contains(&key.as_str()) {
                    self.head(key, value, path);
                    return true;
                }
                if let Some(property) = schema.property(key) {
                    self.known(property, value, &path.name(key), false);
                    return true;
                }
                match schema.additional {
                    Additional::Described(_) => {
                        if let Some(each) = schema.additional() {
                            self.known(each, value, &path.name(key), false);
                        }
                        true
                    }
                    // Allowed but not described: the key may stay, and what is in it is unknown all the same.
                    Additional::Anything | Additional::Nothing => {
                        self.unknown(value, &path.name(key));
                        true
                    }
                    Additional::Unspecified if schema.preserves_unknown => true,
                    Additional::Unspecified => {
                        self.name(&path.name(key));
                        false
                    }
                }
            }),
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    let path = path.index(index);
                    match schema.items() {
                        Some(each) if schema.preserves_unknown => self.preserved(each, item, &path),
                        Some(each) => self.known(each, item, &path, false),
                        None if schema.preserves_unknown => {}
                        None => self.unknown(item, &path),
                    }
                }
            }
            _ => {}
        }
    }

    /// A field that every object has.
    fn head(&mut self, key: &str, value: &mut Value, path: &Path<'_>) {
        if key == "metadata"
            && let Some(metadata) = self.metadata
        {
            self.known(metadata, value, &path.name(key), false);
        }
    }

    /// An element of a list that keeps what it does not know.
    fn preserved(&mut self, schema: Schema<'_>, value: &mut Value, path: &Path<'_>) {
        match value {
            Value::Object(map) => {
                for (key, value) in map.iter_mut() {
                    if schema.is_embedded && OBJECT_FIELDS.contains(&key.as_str()) {
                        self.head(key, value, path);
                        continue;
                    }
                    match schema.property(key) {
                        Some(property) => self.known(property, value, &path.name(key), false),
                        None => match schema.additional {
                            Additional::Unspecified => {}
                            _ => match schema.additional() {
                                Some(each) => self.known(each, value, &path.name(key), false),
                                None => self.unknown(value, &path.name(key)),
                            },
                        },
                    }
                }
            }
            Value::Array(items) => {
                if let Some(each) = schema.items() {
                    for (index, item) in items.iter_mut().enumerate() {
                        self.preserved(each, item, &path.index(index));
                    }
                }
            }
            _ => {}
        }
    }

    /// A value of which nothing is known: objects lose all their fields.
    fn unknown(&mut self, value: &mut Value, path: &Path<'_>) {
        match value {
            Value::Object(map) => map.retain(|key, _| {
                self.name(&path.name(key));
                false
            }),
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.unknown(item, &path.index(index));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::document::Document;

    fn pruned(schema: Value, mut object: Value) -> (Value, Vec<String>) {
        let (document, root) = Document::of_custom_resource(&schema);
        let dropped = Pruning::default().object(document.at(root), &mut object);
        (object, dropped)
    }

    #[test]
    fn unknown_fields_behind_a_long_key_go_and_are_named_within_bounds() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "additionalProperties": {
            "type": "object", "properties": {"known": {"type": "string"}}}}}});
        let fields: serde_json::Map<String, Value> = (0..20_000).map(|at| (format!("f{at}"), json!(1))).collect();
        let (object, dropped) = pruned(schema, json!({"spec": {"k".repeat(1 << 20): fields}}));
        assert_eq!(object["spec"]["k".repeat(1 << 20)], json!({}));
        assert!(dropped.iter().map(String::len).sum::<usize>() < 2 << 20);
        assert!(dropped[0].starts_with("spec.kkk") && dropped[0].ends_with('…'));
    }

    #[test]
    fn unknown_fields_go_and_are_named() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "known": {"type": "string"},
            "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {}}}
        }}}});
        let (object, dropped) = pruned(
            schema,
            json!({"apiVersion": "v1", "kind": "K", "metadata": {"x": 1}, "extra": {"top": true},
                "spec": {"known": "x", "unknown": 1, "list": [{"a": "1", "z": 2}], "map": {"k": {"v": 1}}}}),
        );
        assert_eq!(
            object,
            json!({"apiVersion": "v1", "kind": "K", "metadata": {"x": 1},
                "spec": {"known": "x", "list": [{"a": "1"}], "map": {"k": {}}}})
        );
        assert_eq!(dropped, ["extra", "spec.list[0].z", "spec.map.k.v", "spec.unknown"]);
        assert_eq!(unknown_field(&dropped[0]), "unknown field \"extra\"");
    }

    #[test]
    fn open_object_keeps_what_it_does_not_know_and_prunes_what_it_does() {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
            "typed": {"type": "object", "properties": {"a": {"type": "string"}}}
        }});
        let (object, dropped) = pruned(schema, json!({"free": {"x": [1]}, "typed": {"a": "1", "b": 2}}));
        assert_eq!(object, json!({"free": {"x": [1]}, "typed": {"a": "1"}}));
        assert_eq!(dropped, ["typed.b"]);
    }

    #[test]
    fn embedded_resource_keeps_its_head() {
        let schema = json!({"type": "object", "properties": {"t": {
            "type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}
        }}});
        let (object, _) = pruned(schema, json!({"t": {"kind": "K", "metadata": {"name": "n"}, "data": 1, "spec": {}}}));
        assert_eq!(object, json!({"t": {"kind": "K", "metadata": {"name": "n"}, "spec": {}}}));
    }
}
