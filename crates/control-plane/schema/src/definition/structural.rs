//! Structural schemas: everything has a type, and what combines schemas only checks and never shapes.

use serde_json::Value;

use super::props::{AdditionalProps, Props};
use crate::cause::Cause;
use crate::path::Path;
use crate::pattern;

/// The position of a schema in its parent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Keywords that a structural schema cannot have; the definition is refused for them elsewhere, with a place.
const UNSUPPORTED: [(&str, &str); 6] = [
    ("id", "id"),
    ("$schema", "schema"),
    ("$ref", "$ref"),
    ("patternProperties", "patternProperties"),
    ("dependencies", "dependencies"),
    ("definitions", "definitions"),
];

/// Why a schema cannot even be read as a structural one.
pub(super) fn unreadable(schema: Props<'_>) -> Option<String> {
    let is_set = |key: &str| match schema.get(key) {
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Object(map)) => !map.is_empty(),
        _ => false,
    };
    if let Some((_, name)) = UNSUPPORTED.into_iter().find(|(key, _)| is_set(key)) {
        return Some(format!("OpenAPIV3Schema '{name}' is not supported"));
    }
    if schema.get("additionalItems").is_some() {
        return Some("OpenAPIV3Schema 'additionalItems' is not supported".to_owned());
    }
    let combined = ["allOf", "anyOf", "oneOf"].into_iter().flat_map(|key| schema.alternatives(key));
    if let Some(sentence) = schema.not().into_iter().chain(combined).find_map(unreadable) {
        return Some(sentence);
    }
    if schema.get("x-kubernetes-preserve-unknown-fields").is_some_and(|flag| flag.as_bool() == Some(false)) {
        let sentence = "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined";
        return Some(sentence.to_owned());
    }
    if schema.get("items").and_then(Value::as_array).is_some_and(|items| !items.is_empty()) {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
    }
    let properties = schema.properties().into_iter().map(|(_, schema)| schema);
    schema.items().into_iter().chain(properties).chain(schema.additional_schema()).find_map(unreadable)
}

/// What keeps a schema from being structural, sorted.
pub(super) fn mistakes(schema: Props<'_>, path: &Path<'_>) -> Vec<Cause> {
    let mut found = Vec::new();
    invariants(schema, Level::Root, path, &mut found);
    complete(schema, Some(schema), path, path, &mut found);
    found.sort_by_cached_key(Cause::to_string);
    found
}

fn invariants(schema: Props<'_>, level: Level, path: &Path<'_>, found: &mut Vec<Cause>) {
    let kind = schema.kind();
    let properties = schema.properties();
    let is_embedded = schema.flag("x-kubernetes-embedded-resource");
    let is_int_or_string = schema.flag("x-kubernetes-int-or-string");
    let is_open = schema.flag("x-kubernetes-preserve-unknown-fields");
    let at_properties = path.name("properties");
    let at_type = path.name("type");

    match schema.items() {
        None if kind == "array" => found.push(Cause::required(path.name("items"), "must be specified")),
        None => {}
        Some(items) => invariants(items, Level::Item, &path.name("items"), found),
    }
    for (name, property) in &properties {
        invariants(*property, Level::Field, &at_properties.key(name), found);
    }
    if let Some(additional) = schema.additional() {
        let path = path.name("additionalProperties");
        if level == Level::Root {
            found.push(Cause::forbidden(path, "must not be used at the root"));
        }
        if let AdditionalProps::Each(each) = additional {
            invariants(each, Level::Field, &path, found);
        }
        if is_embedded {
            found.push(Cause::forbidden(path, "must not be used if x-kubernetes-embedded-resource is set"));
        }
    }
    if is_int_or_string && is_open {
        let path = path.name("x-kubernetes-preserve-unknown-fields");
        found.push(Cause::invalid(path, true, "must be false if x-kubernetes-int-or-string is true"));
    }
    if is_int_or_string && is_embedded {
        let path = path.name("x-kubernetes-embedded-resource");
        found.push(Cause::invalid(path, true, "must be false if x-kubernetes-int-or-string is true"));
    }
    let skips = Skips { any_of: is_int_or_string_any_of(schema), first_all_of: is_int_or_string_all_of(schema) };
    values(schema, skips, path, found);

    let embedded_type = "must be object if x-kubernetes-embedded-resource is true";
    match kind {
        "object" => {}
        "" if is_embedded => found.push(Cause::required(at_type, embedded_type)),
        kind if is_embedded => found.push(Cause::invalid(at_type, kind, embedded_type)),
        "" if !is_int_or_string && !is_open => {
            let place = match level {
                Level::Root => "at the root",
                Level::Item => "for specified array items",
                Level::Field => "for specified object fields",
            };
            found.push(Cause::required(at_type, &format!("must not be empty {place}")));
        }
        _ => {}
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        found.push(Cause::invalid(at_type, kind, "must be object at the root"));
    }
    let has_head = level == Level::Root || is_embedded;
    for name in ["kind", "apiVersion"] {
        if let Some(property) = schema.property(name)
            && has_head
            && property.kind() != "string"
        {
            found.push(Cause::invalid(at_properties.key(name).name("type"), property.kind(), "must be string"));
        }
    }
    if let Some(metadata) = schema.property("metadata") {
        let path = at_properties.key("metadata");
        if has_head && metadata.kind() != "object" {
            found.push(Cause::invalid(path.name("type"), metadata.kind(), "must be object"));
        }
        if level == Level::Root && !says_only_names(metadata) {
            let detail =
                "must not specify anything other than name and generateName, but metadata is implicitly specified";
            found.push(Cause::forbidden(path, detail));
        }
    }
    if is_embedded && !is_open && properties.is_empty() {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                      x-kubernetes-preserve-unknown-fields";
        found.push(Cause::required(at_properties, detail));
    }
}

/// Whether the schema of an object's metadata says nothing but how names look.
fn says_only_names(metadata: Props<'_>) -> bool {
    let names_only = metadata.properties().iter().all(|(name, _)| matches!(*name, "name" | "generateName"));
    names_only
        && metadata.0.iter().all(|(key, value)| {
            matches!(key.as_str(), "type" | "default" | "properties") || (is_nothing(value) && !value.is_object())
        })
}

/// Whether a keyword with this value is as good as absent.
pub(super) fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

/// The alternatives by which int-or-string is traditionally written, and which are therefore let through.
#[derive(Clone, Copy, Default)]
struct Skips {
    any_of: bool,
    first_all_of: bool,
}

fn is_int_or_string_any_of(schema: Props<'_>) -> bool {
    let only = |schema: &Props<'_>, kind: &str| {
        schema.kind() == kind
            && schema.0.iter().all(|(key, value)| key == "type" || (key != "default" && is_nothing(value)))
    };
    matches!(schema.alternatives("anyOf").as_slice(), [one, other] if only(one, "integer") && only(other, "string"))
}

fn is_int_or_string_all_of(schema: Props<'_>) -> bool {
    schema.alternatives("allOf").first().is_some_and(|first| is_int_or_string_any_of(*first))
}

/// What checks values: alternatives and the pattern.
fn values(schema: Props<'_>, skips: Skips, path: &Path<'_>, found: &mut Vec<Cause>) {
    for key in ["anyOf", "allOf", "oneOf"] {
        if key == "anyOf" && skips.any_of {
            continue;
        }
        let at = path.name(key);
        for (index, alternative) in schema.alternatives(key).into_iter().enumerate() {
            let skips = Skips { any_of: key == "allOf" && index == 0 && skips.first_all_of, first_all_of: false };
            nested(alternative, skips, &at.index(index), found);
        }
    }
    if let Some(not) = schema.not() {
        nested(not, Skips::default(), &path.name("not"), found);
    }
    if let Some(source) = schema.text("pattern").filter(|source| !source.is_empty())
        && let Some(mistake) = pattern::mistake(source)
    {
        let detail = format!("must be a valid regular expression, but isn't: {mistake}");
        found.push(Cause::invalid(path.name("pattern"), source, &detail));
    }
}

/// A schema that may only check.
fn nested(schema: Props<'_>, skips: Skips, path: &Path<'_>, found: &mut Vec<Cause>) {
    values(schema, skips, path, found);
    if let Some(items) = schema.items() {
        nested(items, Skips::default(), &path.name("items"), found);
    }
    let at_properties = path.name("properties");
    for (name, property) in schema.properties() {
        nested(property, Skips::default(), &at_properties.key(name), found);
    }
    let mut forbid = |key: &str, is_set: bool, how: &str| {
        if is_set {
            found.push(Cause::forbidden(path.name(key), &format!("must be {how} to be structural")));
        }
    };
    let has_text = |key: &str| schema.text(key).is_some_and(|text| !text.is_empty());
    forbid("type", has_text("type"), "empty");
    let additional = !matches!(schema.additional(), None | Some(AdditionalProps::Allowed(false)));
    forbid("additionalProperties", additional, "undefined");
    forbid("default", schema.get("default").is_some(), "undefined");
    forbid("title", has_text("title"), "empty");
    forbid("description", has_text("description"), "empty");
    for key in [
        "nullable",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
    ] {
        forbid(key, schema.flag(key), "false");
    }
    forbid("x-kubernetes-list-map-keys", !schema.list("x-kubernetes-list-map-keys").is_empty(), "empty");
    forbid("x-kubernetes-list-type", schema.list_type().is_some(), "undefined");
    forbid("x-kubernetes-map-type", schema.map_type().is_some(), "undefined");
    forbid("x-kubernetes-validations", !schema.rules().is_empty(), "empty");
    if schema.property("metadata").is_some() {
        let detail = "must not be specified in a nested context";
        found.push(Cause::forbidden(at_properties.key("metadata"), detail));
    }
}

/// Every field that an alternative mentions must be specified outside of it as well.
fn complete(
    checks: Props<'_>,
    structure: Option<Props<'_>>,
    structure_path: &Path<'_>,
    checks_path: &Path<'_>,
    found: &mut Vec<Cause>,
) {
    let mut alternative =
        |schema: Props<'_>, path: &Path<'_>| complete_nested(schema, structure, structure_path, path, found);
    if let Some(not) = checks.not() {
        alternative(not, &checks_path.name("not"));
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        let at = checks_path.name(key);
        for (index, schema) in checks.alternatives(key).into_iter().enumerate() {
            alternative(schema, &at.index(index));
        }
    }
}

fn complete_nested(
    checks: Props<'_>,
    structure: Option<Props<'_>>,
    structure_path: &Path<'_>,
    checks_path: &Path<'_>,
    found: &mut Vec<Cause>,
) {
    let Some(structure) = structure else {
        found.push(Cause::required(structure_path, &format!("because it is defined in {checks_path}")));
        return;
    };
    complete(checks, Some(structure), structure_path, checks_path, found);
    if let Some(items) = checks.items() {
        complete_nested(items, structure.items(), &structure_path.name("items"), &checks_path.name("items"), found);
    }
    let (at, checks_at) = (structure_path.name("properties"), checks_path.name("properties"));
    for (name, property) in checks.properties() {
        let (at, checks_at) = (at.key(name), checks_at.key(name));
        match structure.property(name) {
            Some(structure) => complete_nested(property, Some(structure), &at, &checks_at, found),
            None => found.push(Cause::required(at, &format!("because it is defined in {checks_at}"))),
        }
    }
}
