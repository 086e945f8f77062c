//! Embedded resources: objects inside objects, `x-kubernetes-embedded-resource`.

use seaworthy_values::names;
use serde_json::{Map, Value};

use crate::cause::Cause;
use crate::document::Schema;
use crate::node::Type;
use crate::path::Path;

/// Checks the heads of all embedded resources in an object.
pub fn embedded_resources(schema: Schema<'_>, object: &Value) -> Vec<Cause> {
    embedded_at(schema, object, &Path::ROOT, false)
}

/// Checks the heads of all embedded resources in a value, which may be one itself whatever its schema says.
pub(crate) fn embedded_at(schema: Schema<'_>, value: &Value, path: &Path<'_>, is_resource: bool) -> Vec<Cause> {
    let mut found = Vec::new();
    if let Value::Object(map) = value
        && is_resource
        && !schema.is_embedded
    {
        head(map, path, &mut found);
    }
    walk(schema, value, path, &mut found);
    found
}

fn walk(schema: Schema<'_>, value: &Value, path: &Path<'_>, found: &mut Vec<Cause>) {
    if !schema.has_embedded {
        return;
    }
    match value {
        Value::Object(map) => {
            if schema.is_embedded {
                head(map, path, found);
            }
            for (key, value) in map {
                if let Some(property) = schema.property(key) {
                    walk(property, value, &path.name(key), found);
                } else if let Some(each) = schema.additional() {
                    walk(each, value, &path.key(key), found);
                }
            }
        }
        Value::Array(items) => {
            if let Some(each) = schema.items() {
                for (index, item) in items.iter().enumerate() {
                    walk(each, item, &path.index(index), found);
                }
            }
        }
        _ => {}
    }
}

fn head(object: &Map<String, Value>, path: &Path<'_>, found: &mut Vec<Cause>) {
    for name in ["apiVersion", "kind"] {
        let path = path.name(name);
        match object.get(name) {
            None => found.push(Cause::required(path, "")),
            Some(Value::String(text)) if text.is_empty() => found.push(Cause::invalid(path, "", "must not be empty")),
            Some(Value::String(text)) => {
                if let Some(detail) = if name == "kind" { kind_mistake(text) } else { version_mistake(text) } {
                    found.push(Cause::invalid(path, text, &detail));
                }
            }
            Some(other) => found.push(Cause::invalid(path, other, "must be a string")),
        }
    }
    if let Some(metadata) = object.get("metadata") {
        let path = path.name("metadata");
        match metadata {
            Value::Object(metadata) => head_metadata(metadata, &path, found),
            Value::Null => {}
            other => {
                let kind = json_kind(other);
                let detail = format!("json: cannot unmarshal {kind} into Go value of type v1.ObjectMeta");
                found.push(Cause::invalid(path, other, &detail));
            }
        }
    }
}

/// Finds an embedded resource whose head has the wrong types, so that the object cannot even be decoded. `metadata` is
/// the schema of metadata.
pub fn undecodable_resource(schema: Schema<'_>, metadata: Schema<'_>, object: &Value) -> Option<Cause> {
    undecodable_at(schema, metadata, object, &Path::ROOT)
}

fn undecodable_at(schema: Schema<'_>, metadata: Schema<'_>, value: &Value, path: &Path<'_>) -> Option<Cause> {
    if !schema.has_embedded {
        return None;
    }
    match value {
        Value::Object(map) => {
            if schema.is_embedded {
                for name in ["apiVersion", "kind"] {
                    if let Some(other) = map.get(name).filter(|value| !value.is_string()) {
                        return Some(Cause::invalid(path.name(name), other, "must be a string"));
                    }
                }
                if let Some(value) = map.get("metadata")
                    && let Some(detail) = undecodable_metadata(metadata, value)
                {
                    return Some(Cause::invalid(path.name("metadata"), value, &detail));
                }
            }
            map.iter().find_map(|(key, value)| match schema.property(key) {
                Some(property) => undecodable_at(property, metadata, value, &path.name(key)),
                None => undecodable_at(schema.additional()?, metadata, value, &path.key(key)),
            })
        }
        Value::Array(items) => {
            let each = schema.items()?;
            let mut items = items.iter().enumerate();
            items.find_map(|(index, item)| undecodable_at(each, metadata, item, &path.index(index)))
        }
        _ => None,
    }
}

/// Why metadata has the wrong shape, in the words of the original's decoder.
pub fn undecodable_metadata(schema: Schema<'_>, metadata: &Value) -> Option<String> {
    let found = |value: &Value| match value {
        Value::Object(_) => "object",
        other => json_kind(other),
    };
    let Value::Object(map) = metadata else {
        let is_fine = metadata.is_null();
        return (!is_fine)
            .then(|| format!("json: cannot unmarshal {} into Go value of type v1.ObjectMeta", found(metadata)));
    };
    map.iter().find_map(|(name, value)| {
        let (value, wanted) = wrong_type(schema.property(name)?, value)?;
        let found = found(value);
        Some(format!("json: cannot unmarshal {found} into Go struct field ObjectMeta.{name} of type {wanted}"))
    })
}

/// The first value that does not have its type, and that type as Go calls it.
fn wrong_type<'v>(schema: Schema<'_>, value: &'v Value) -> Option<(&'v Value, &'static str)> {
    match (schema.kind, value) {
        (_, Value::Null) | (None, _) => None,
        (Some(Type::Object), Value::Object(map)) => {
            map.iter().find_map(|(key, value)| wrong_type(schema.field(key)?, value))
        }
        (Some(Type::Array), Value::Array(items)) => items.iter().find_map(|item| wrong_type(schema.items()?, item)),
        (Some(Type::String), Value::String(_)) | (Some(Type::Boolean), Value::Bool(_)) => None,
        (Some(Type::Integer), Value::Number(number)) if number.is_i64() => None,
        (Some(Type::Number), Value::Number(_)) => None,
        (Some(Type::Object), _) => Some((value, "map[string]string")),
        (Some(Type::Array), _) => Some((value, "[]string")),
        (Some(Type::String), _) => Some((value, "string")),
        (Some(Type::Boolean), _) => Some((value, "bool")),
        (Some(Type::Integer | Type::Number), _) => Some((value, "int64")),
    }
}

fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Bool(_) => "bool",
        _ => "array",
    }
}

pub(crate) fn kind_mistake(kind: &str) -> Option<String> {
    let broken = names::dns_1035_label(&kind.to_lowercase());
    (!broken.is_empty()).then(|| format!("may have mixed case, but should otherwise match: {}", broken.join(",")))
}

fn version_mistake(version: &str) -> Option<String> {
    (version.matches('/').count() > 1).then(|| format!("unexpected GroupVersion string: {version}"))
}

/// Only what makes metadata unusable: names, labels and annotation keys. Its types were settled when it was decoded.
fn head_metadata(metadata: &Map<String, Value>, path: &Path<'_>, found: &mut Vec<Cause>) {
    let text = |name: &str| metadata.get(name).and_then(Value::as_str).unwrap_or_default();
    for name in ["generateName", "name"] {
        let value = text(name);
        let broken = names::path_segment(value);
        found.extend(
            broken.iter().filter(|_| !value.is_empty()).map(|rule| Cause::invalid(path.name(name), value, rule)),
        );
    }
    let namespace = text("namespace");
    if !namespace.is_empty() {
        let broken = names::dns_label(namespace);
        found.extend(broken.iter().map(|rule| Cause::invalid(path.name("namespace"), namespace, rule)));
    }
    if let Some(labels) = metadata.get("labels").and_then(Value::as_object) {
        let path = path.name("labels");
        for (key, value) in labels {
            found.extend(names::qualified_name(key).iter().map(|rule| Cause::invalid(path, key, rule)));
            let value = value.as_str().unwrap_or_default();
            found.extend(names::label_value(value).iter().map(|rule| Cause::invalid(path, value, rule)));
        }
    }
    if let Some(annotations) = metadata.get("annotations").and_then(Value::as_object) {
        let path = path.name("annotations");
        for key in annotations.keys() {
            let broken = names::qualified_name(&key.to_lowercase());
            found.extend(broken.iter().map(|rule| Cause::invalid(path, key, rule)));
        }
    }
    let list = |name: &str| metadata.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for (index, owner) in list("ownerReferences").iter().enumerate() {
        let references = path.name("ownerReferences");
        let path = references.index(index);
        for name in ["apiVersion", "kind", "name", "uid"] {
            if owner.get(name).and_then(Value::as_str).unwrap_or_default().is_empty() {
                found.push(Cause::required(path.name(name), "must not be empty"));
            }
        }
    }
    for finalizer in list("finalizers").iter().filter_map(Value::as_str) {
        let broken = names::qualified_name(finalizer);
        found.extend(broken.iter().map(|rule| Cause::invalid(path.name("finalizers"), finalizer, rule)));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::document::Document;

    fn found(value: Value) -> Vec<String> {
        let (document, root) = Document::of_custom_resource(&json!({"type": "object", "properties": {"t": {
            "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true
        }}}));
        embedded_resources(document.at(root), &json!({ "t": value })).iter().map(Cause::to_string).collect()
    }

    #[test]
    fn metadata_of_the_wrong_types_cannot_be_decoded() {
        let (document, root) = Document::of_custom_resource(&json!({"type": "object", "properties": {"t": {
            "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true
        }}}));
        let (metadata, metadata_root) = Document::of_custom_resource(&json!({"type": "object", "properties": {
            "name": {"type": "string"}, "labels": {"type": "object", "additionalProperties": {"type": "string"}}
        }}));
        let found = |value: Value| {
            undecodable_resource(document.at(root), metadata.at(metadata_root), &json!({ "t": value }))
                .map(|cause| cause.to_string())
        };
        assert_eq!(found(json!({"kind": "K", "metadata": {"name": "x", "labels": {"a": "b"}, "other": 1}})), None);
        assert_eq!(found(json!({"kind": 5})).unwrap(), "t.kind: Invalid value: 5: must be a string");
        assert_eq!(
            found(json!({"metadata": {"labels": {"a": 1}, "name": "x"}})).unwrap(),
            "t.metadata: Invalid value: {\"labels\":{\"a\":1},\"name\":\"x\"}: json: cannot unmarshal number into Go \
             struct field ObjectMeta.labels of type string"
        );
    }

    #[test]
    fn head_is_required_and_must_be_usable() {
        assert_eq!(found(json!({})), ["t.apiVersion: Required value", "t.kind: Required value"]);
        assert_eq!(
            found(json!({"apiVersion": "a/b/c", "kind": 5})),
            [
                "t.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c",
                "t.kind: Invalid value: 5: must be a string"
            ]
        );
        assert_eq!(found(json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "UPPER"}})), [""; 0]);
    }
}
