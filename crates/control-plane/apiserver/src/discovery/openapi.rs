//! `/openapi/v3`: schemas of all kinds, for `kubectl explain`, `apply` and `diff`.
//!
//! Documents are built on demand: clients cache them by the hash in the index.

use seaworthy_schema::openapi::{self, ApiResource, ApiSubresource, CustomNames};
use serde_json::{Map, Value, json};

use crate::builtin::schemas;
use crate::request::Verb;
use crate::resource::registry::Registry;
use crate::resource::{Origin, Resource};

/// Enum values of fields. The published documents lack them, kube-apiserver's have them.
const ENUMS: &[u8] = include_bytes!("../../data/enums.json");

/// `/openapi/v3`: the list of documents.
pub fn index(registry: &Registry) -> Value {
    let core = core();
    let mut paths = Map::new();
    for (group, versions) in registry.groups() {
        for version in versions {
            let path = match group {
                "" => format!("api/{version}"),
                group => format!("apis/{group}/{version}"),
            };
            let hash = fingerprint(registry, &core, group, version);
            let url = format!("/openapi/v3/{path}?hash={hash}");
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
    }
    json!({"paths": paths})
}

/// A hash of the document, by which clients cache it.
fn fingerprint(registry: &Registry, core: &Map<String, Value>, group: &str, version: &str) -> String {
    let text = built(registry, core, group, version).map(|document| document.to_string()).unwrap_or_default();
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
    digest.as_ref().iter().take(16).map(|byte| format!("{byte:02X}")).collect()
}

/// The document of one version of a group; none if there is none.
pub fn document(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    built(registry, &core(), group, version)
}

/// The definitions that documents of all groups share.
fn core() -> Map<String, Value> {
    read(schemas::text("", "v1"))
}

fn built(registry: &Registry, core: &Map<String, Value>, group: &str, version: &str) -> Option<Value> {
    let known = registry.versions(group)?.iter().any(|known| **known == *version);
    if !known {
        return None;
    }
    let resources = registry.resources(group, version);
    let mut schemas = Map::new();
    let mut described = Vec::new();
    for resource in &resources {
        let names = CustomNames {
            group: &resource.group,
            version: &resource.version,
            kind: &resource.kind,
            list_kind: &resource.list_kind,
            plural: &resource.plural,
        };
        if let Origin::Custom(custom) = &resource.origin {
            schemas.extend(openapi::custom_definitions(names, Some(&custom.published)));
        }
        described.push(described_resource(resource));
    }
    let own = read(schemas::text(group, version));
    let find = |name: &str| own.get(name).or_else(|| core.get(name));
    for resource in &described {
        if let Some(schema) = find(&resource.definition) {
            schemas.insert(resource.definition.clone(), schema.clone());
        }
    }
    Some(openapi::document("Kubernetes", openapi::paths(&described), schemas, find))
}

fn read(text: Option<Vec<u8>>) -> Map<String, Value> {
    // The data is part of the program, and a test parses all of it.
    let mut definitions: Map<String, Value> =
        text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
    let words: Map<String, Value> = serde_json::from_slice(ENUMS).unwrap_or_default();
    for (name, fields) in &words {
        let Some(definition) = definitions.get_mut(name) else { continue };
        for (path, word) in fields.as_object().into_iter().flatten() {
            if let Some(Value::Object(field)) = definition.pointer_mut(&format!("/{path}")) {
                add_words(field, word);
            }
        }
    }
    definitions
}

/// Adds the enum values of a field, and their description.
fn add_words(field: &mut Map<String, Value>, word: &Value) {
    if let Some(words) = word.get("enum") {
        field.insert("enum".to_owned(), words.clone());
    }
    if let Some(description) = word.get("description").and_then(Value::as_str) {
        let before = field.get("description").and_then(Value::as_str).unwrap_or_default();
        field.insert("description".to_owned(), format!("{before}{description}").into());
    }
}

fn described_resource(resource: &Resource) -> ApiResource<'_> {
    let definition = match &resource.origin {
        Origin::BuiltIn(kind) => kind.definition.to_owned(),
        Origin::Custom(_) => openapi::definition_name(&resource.group, &resource.version, &resource.kind),
    };
    let list_definition = match &resource.origin {
        Origin::BuiltIn(_) => format!("{definition}List"),
        Origin::Custom(_) => openapi::definition_name(&resource.group, &resource.version, &resource.list_kind),
    };
    let subresources = match &resource.origin {
        Origin::BuiltIn(kind) => kind
            .subresources
            .iter()
            .map(|subresource| ApiSubresource {
                name: subresource.name,
                verbs: words(subresource.verbs),
                kind: if subresource.kind.2.is_empty() {
                    (kind.group, kind.version, kind.kind)
                } else {
                    subresource.kind
                },
                definition: definition.clone(),
            })
            .collect(),
        Origin::Custom(custom) if custom.has_status() => vec![ApiSubresource {
            name: "status",
            verbs: vec!["get", "patch", "update"],
            kind: (&resource.group, &resource.version, &resource.kind),
            definition: definition.clone(),
        }],
        Origin::Custom(_) => Vec::new(),
    };
    ApiResource {
        group: &resource.group,
        version: &resource.version,
        plural: &resource.plural,
        kind: &resource.kind,
        is_namespaced: resource.is_namespaced,
        verbs: words(resource.verbs),
        definition,
        list_definition,
        is_custom: resource.is_custom(),
        subresources,
    }
}

fn words(verbs: &[Verb]) -> Vec<&'static str> {
    verbs.iter().map(|verb| verb.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_with_words_exists() {
        let words: Map<String, Value> = serde_json::from_slice(ENUMS).unwrap();
        let registry = Registry::with([]);
        let mut left: Vec<&String> = words.keys().collect();
        for (group, versions) in registry.groups() {
            for version in versions {
                let document = document(&registry, group, version).unwrap();
                let schemas = document["components"]["schemas"].as_object().unwrap();
                left.retain(|name| !schemas.contains_key(*name));
                for (name, fields) in words.iter().filter(|(name, _)| schemas.contains_key(*name)) {
                    for path in fields.as_object().unwrap().keys() {
                        assert!(schemas[name].pointer(&format!("/{path}/enum")).is_some(), "{name} {path}");
                    }
                }
            }
        }
        assert!(left.is_empty(), "{left:?}");
    }
}
