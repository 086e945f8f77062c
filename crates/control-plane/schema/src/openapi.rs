//! OpenAPI v3 documents: schemas of kinds and operations on resources, for clients.
//!
//! `kubectl apply`, `explain` and `diff` read schemas from here, and whether a server checks fields from the parameters
//! of the patch operation. Everything follows from the resources and their schemas; nothing is kept twice.

mod paths;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

pub use paths::{ApiResource, ApiSubresource, paths};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// The name of a kind's schema: the group backwards, the version and the kind.
pub fn definition_name(group: &str, version: &str, kind: &str) -> String {
    let mut parts: Vec<&str> = group.split('.').collect();
    parts.reverse();
    format!("{}.{version}.{kind}", parts.join("."))
}

/// A reference to a schema.
pub(crate) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// The names by which a custom resource is known.
#[derive(Debug, Clone, Copy)]
pub struct CustomNames<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub kind: &'a str,
    pub list_kind: &'a str,
    /// The name in paths.
    pub plural: &'a str,
}

/// The schemas of a custom resource and of its list, by name. `schema` is that of the definition's version.
pub fn custom_definitions(names: CustomNames<'_>, schema: Option<&Value>) -> Map<String, Value> {
    let CustomNames { group, version, kind, list_kind, plural } = names;
    let name = definition_name(group, version, kind);
    let kind_of = |kind: &str| json!([{"group": group, "kind": kind, "version": version}]);

    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut object = published(schema.unwrap_or(&open));
    add_head(&mut object, "ObjectMeta");
    object["x-kubernetes-group-version-kind"] = kind_of(kind);

    let mut list = json!({
        "description": format!("{list_kind} is a list of {kind}"),
        "type": "object",
        "required": ["items"],
        "properties": {
            "items": {"description": format!("The {plural}."), "type": "array", "items": reference(&name)},
        },
        "x-kubernetes-group-version-kind": kind_of(list_kind),
    });
    add_head(&mut list, "ListMeta");
    Map::from_iter([(name, object), (definition_name(group, version, list_kind), list)])
}

/// Adds what every object has.
fn add_head(schema: &mut Value, metadata: &str) {
    let Some(schema) = schema.as_object_mut() else { return };
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    let Some(properties) = properties.as_object_mut() else { return };
    let text = |description: &str| json!({"description": description, "type": "string"});
    properties
        .insert("apiVersion".to_owned(), text("The group and version of the API that this object is written in."));
    properties.insert("kind".to_owned(), text("The kind of the object."));
    let what =
        if metadata == "ListMeta" { "Metadata of the list." } else { "Metadata of the object: names, labels, owners." };
    let metadata = json!({"description": what, "allOf": [reference(&format!("{META}.{metadata}"))]});
    properties.insert("metadata".to_owned(), metadata);
}

/// A schema as clients see it: embedded resources have their head, and int-or-string says so in OpenAPI's own words.
fn published(schema: &Value) -> Value {
    let Some(keys) = schema.as_object() else { return schema.clone() };
    let mut out = Map::new();
    for (key, value) in keys {
        let value = match key.as_str() {
            "properties" => match value.as_object() {
                Some(properties) => {
                    Value::Object(properties.iter().map(|(name, schema)| (name.clone(), published(schema))).collect())
                }
                None => continue,
            },
            "items" | "additionalProperties" => published(value),
            _ if value.is_null() => continue,
            _ => value.clone(),
        };
        out.insert(key.clone(), value);
    }
    let mut out = Value::Object(out);
    let flag = |key: &str| keys.get(key).and_then(Value::as_bool) == Some(true);
    if flag("x-kubernetes-int-or-string") {
        say_int_or_string(&mut out);
    }
    if flag("x-kubernetes-embedded-resource") {
        add_head(&mut out, "ObjectMeta");
        let mut required: Vec<Value> = out["required"].as_array().cloned().unwrap_or_default();
        for name in ["kind", "apiVersion"] {
            if !required.contains(&json!(name)) {
                required.push(json!(name));
            }
        }
        out["required"] = Value::Array(required);
    }
    out
}

fn say_int_or_string(schema: &mut Value) {
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    let first = schema.get("allOf").and_then(|all| all.get(0)).and_then(|first| first.get("anyOf"));
    if schema.get("anyOf") == Some(&either) || first == Some(&either) {
        return;
    }
    match schema.get("anyOf").cloned() {
        None => schema["anyOf"] = either,
        Some(other) => {
            let mut all = vec![json!({"anyOf": either}), json!({"anyOf": other})];
            all.extend(schema["allOf"].as_array().cloned().unwrap_or_default());
            schema["allOf"] = Value::Array(all);
            if let Some(keys) = schema.as_object_mut() {
                keys.remove("anyOf");
            }
        }
    }
}

/// A whole document. `definitions` finds schemas by name; those that the paths and the given schemas refer to are
/// added.
pub fn document<'d>(
    title: &str,
    paths: Map<String, Value>,
    schemas: Map<String, Value>,
    definitions: impl Fn(&str) -> Option<&'d Value>,
) -> Value {
    let mut all: BTreeMap<String, Value> = schemas.into_iter().collect();
    let mut wanted = Vec::new();
    paths.values().for_each(|path| references(path, &mut wanted));
    all.values().for_each(|schema| references(schema, &mut wanted));
    while let Some(name) = wanted.pop() {
        if !all.contains_key(&name)
            && let Some(schema) = definitions(&name)
        {
            references(schema, &mut wanted);
            all.insert(name, schema.clone());
        }
    }
    let version = "v0.1.0";
    json!({
        "openapi": "3.0.0",
        "info": {"title": title, "version": version},
        "paths": paths,
        "components": {"schemas": Value::Object(all.into_iter().collect())},
    })
}

fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            let name = map.get("$ref").and_then(Value::as_str).and_then(|reference| reference.rsplit('/').next());
            found.extend(name.map(str::to_owned));
            map.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}
