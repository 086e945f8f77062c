//! CustomResourceDefinitions: defaulting and validation.
//!
//! - Schemas, subresources, columns and selectable fields that are the same in all versions are judged once, and
//!   causes then name the place where older forms of definitions had them: `spec.validation`, `spec.subresources`.
//! - On an update, a requirement that the old definition already broke is not made of the new one.

mod conversion;
mod default_values;
mod field_path;
mod keywords;
mod props;
mod rule_costs;
mod shared;
mod spec;
mod structural;

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::cause::Cause;
use crate::path::Path;
pub(crate) use field_path::follow;
pub(crate) use props::Props;
use shared::Shared;

/// What is required of a definition.
pub(crate) struct Requirements {
    /// Each version has a schema.
    schema: bool,
    /// Types are known ones.
    valid_types: bool,
    /// Schemas are structural.
    structural: bool,
    /// Defaults have no unknown fields.
    pruned_defaults: bool,
    /// Elements of sets are atomic.
    atomic_sets: bool,
    /// Keys of keyed lists are always there.
    map_keys: bool,
    /// A conversion webhook understands a version of the review that is known.
    known_review: bool,
    /// Expressions that the old definition has.
    stored_expressions: BTreeSet<String>,
    /// Versions whose schema did not change, so that its rules cost what they cost.
    unchanged_schemas: BTreeSet<String>,
    /// Versions that may have more selectable fields than allowed, because they have had them; empty is all versions.
    many_fields: BTreeSet<String>,
}

/// Fills in what a definition leaves out: names, the conversion, and the stored version of a new one.
pub fn default_definition(definition: &mut Value) {
    let stored = storage_version(definition).map(str::to_owned);
    let Some(definition) = definition.as_object_mut() else { return };
    if let Some(spec) = definition.get_mut("spec").and_then(Value::as_object_mut) {
        default_names(spec);
        if spec.get("conversion").is_none_or(Value::is_null) {
            spec.insert("conversion".to_owned(), json!({"strategy": "None"}));
        }
        let service = spec.get_mut("conversion").and_then(|value| value.pointer_mut("/webhook/clientConfig/service"));
        if let Some(service) = service.and_then(Value::as_object_mut)
            && service.get("port").is_none_or(Value::is_null)
        {
            service.insert("port".to_owned(), json!(443));
        }
    }
    if let Some(stored) = stored {
        let status = definition.entry("status").or_insert_with(|| json!({}));
        if let Some(status) = status.as_object_mut() {
            let list = status.entry("storedVersions").or_insert_with(|| json!([]));
            if list.as_array().is_none_or(Vec::is_empty) {
                *list = json!([stored]);
            }
        }
    }
}

/// Adds the version in which objects are stored to those in which some may be. Each write of a definition does so.
pub fn remember_stored_version(definition: &mut Value) {
    let Some(stored) = storage_version(definition).map(Value::from) else { return };
    let Some(definition) = definition.as_object_mut() else { return };
    let status = definition.entry("status").or_insert_with(|| json!({}));
    let Some(status) = status.as_object_mut() else { return };
    let list = status.entry("storedVersions").or_insert_with(|| json!([]));
    if let Some(list) = list.as_array_mut()
        && !list.contains(&stored)
    {
        list.push(stored);
    }
}

fn default_names(spec: &mut Map<String, Value>) {
    let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) else { return };
    let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_missing =
        |names: &Map<String, Value>, key: &str| names.get(key).and_then(Value::as_str).unwrap_or_default().is_empty();
    if is_missing(names, "singular") {
        names.insert("singular".to_owned(), kind.to_lowercase().into());
    }
    if is_missing(names, "listKind") && !kind.is_empty() {
        names.insert("listKind".to_owned(), format!("{kind}List").into());
    }
}

fn storage_version(definition: &Value) -> Option<&str> {
    let versions = definition.pointer("/spec/versions")?.as_array()?;
    let stored = versions.iter().find(|version| version.get("storage").and_then(Value::as_bool) == Some(true))?;
    stored.get("name")?.as_str()
}

/// Judges a change of a definition's status alone: who reports may forget versions that the spec does not know.
pub fn status_mistakes(definition: &Value) -> Vec<Cause> {
    let mut found = Vec::new();
    if let Some(names) = definition.pointer("/status/acceptedNames").and_then(Props::of) {
        spec::names(names, &Path::ROOT.name("status.acceptedNames"), &mut found);
    }
    found
}

/// Warnings about a definition, unless it had them before: formats that are not checked, and sets of what has no order
/// of its own.
pub fn definition_warnings(definition: &Value, old: Option<&Value>) -> Vec<String> {
    let known: BTreeSet<String> = old.map(warnings).unwrap_or_default().into_iter().collect();
    warnings(definition).into_iter().filter(|warning| !known.contains(warning)).collect()
}

fn warnings(definition: &Value) -> Vec<String> {
    let versions =
        definition.pointer("/spec/versions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let schemas = || versions.iter().filter_map(|version| version.pointer("/schema/openAPIV3Schema"));
    let (mut formats, mut sets) = (Vec::new(), BTreeSet::new());
    for schema in schemas() {
        walk(schema, &mut |schema| {
            let text = |key: &str| schema.get(key).and_then(Value::as_str).unwrap_or_default();
            if !text("format").is_empty() && !crate::format::is_recognised(text("type"), text("format")) {
                formats.push(format!("unrecognized format {:?}", text("format")));
            }
            let items = schema.pointer("/items/type").and_then(Value::as_str).unwrap_or_default();
            if text("x-kubernetes-list-type") == "set" && matches!(items, "object" | "array") {
                sets.insert(format!(
                    "x-kubernetes-list-type: set for items of type {items:?} is not supported by server-side apply or \
                     CEL validation rules"
                ));
            }
        });
    }
    formats.into_iter().chain(sets).collect()
}

/// Calls back for a schema and every one in it.
fn walk(schema: &Value, each: &mut impl FnMut(&Value)) {
    if !schema.is_object() {
        return;
    }
    each(schema);
    for key in ["items", "additionalProperties", "not"] {
        schema.get(key).into_iter().for_each(|below| walk(below, each));
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        schema.get(key).and_then(Value::as_array).into_iter().flatten().for_each(|below| walk(below, each));
    }
    schema.get("properties").and_then(Value::as_object).into_iter().flatten().for_each(|(_, below)| walk(below, each));
}

/// Judges a definition, new or as a change of an old one. Its metadata is judged like that of any object, elsewhere;
/// only the rule that ties its name to the names it defines is checked here.
pub fn definition_mistakes(definition: &Value, old: Option<&Value>) -> Vec<Cause> {
    let nothing = Map::new();
    let spec = Props(definition.get("spec").and_then(Value::as_object).unwrap_or(&nothing));
    let old_spec = old.map(|old| Props(old.get("spec").and_then(Value::as_object).unwrap_or(&nothing)));
    let requires = match old_spec {
        None => Requirements::of_new(),
        Some(old) => Requirements::of_update(spec, old),
    };
    let mut found = Vec::new();
    if old.is_none() {
        name_mistake(definition, spec, &mut found);
    }
    spec::mistakes(spec, &requires, &mut found);
    if let (Some(old), Some(old_spec)) = (old, old_spec) {
        immutable(spec, old_spec, is_established(old), &mut found);
    }
    let status = Props(definition.get("status").and_then(Value::as_object).unwrap_or(&nothing));
    if let Some(names) = status.get("acceptedNames").and_then(Props::of) {
        spec::names(names, &Path::ROOT.name("status.acceptedNames"), &mut found);
    }
    stored_versions(status, spec, &mut found);
    approval(definition, old, spec, &mut found);
    if spec.flag("preserveUnknownFields") && !old_spec.is_some_and(|old| old.flag("preserveUnknownFields")) {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema \
                      instead";
        found.push(Cause::invalid("spec.preserveUnknownFields", true, detail));
    }
    found
}

fn name_mistake(definition: &Value, spec: Props<'_>, found: &mut Vec<Cause>) {
    let name = definition.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let plural = spec.get("names").and_then(Props::of).and_then(|names| names.text("plural")).unwrap_or_default();
    let group = spec.text("group").unwrap_or_default();
    if !name.is_empty() && name != format!("{plural}.{group}") {
        found.push(Cause::invalid("metadata.name", name, "must be spec.names.plural+\".\"+spec.group"));
    }
}

fn is_established(definition: &Value) -> bool {
    let conditions = definition.pointer("/status/conditions").and_then(Value::as_array);
    conditions.is_some_and(|conditions| {
        conditions.iter().any(|condition| {
            condition.get("type").and_then(Value::as_str) == Some("Established")
                && condition.get("status").and_then(Value::as_str) == Some("True")
        })
    })
}

fn immutable(spec: Props<'_>, old: Props<'_>, is_established: bool, found: &mut Vec<Cause>) {
    let name = |spec: Props<'_>, key: &str| -> String {
        let names = spec.get("names").and_then(Props::of);
        names.and_then(|names| names.text(key)).unwrap_or_default().to_owned()
    };
    let text = |spec: Props<'_>, key: &str| spec.text(key).unwrap_or_default().to_owned();
    let mut check = |field: &str, new: String, old: String| {
        if new != old {
            found.push(Cause::invalid(field, &new, "field is immutable"));
        }
    };
    if is_established {
        check("spec.scope", text(spec, "scope"), text(old, "scope"));
        check("spec.names.kind", name(spec, "kind"), name(old, "kind"));
    }
    check("spec.group", text(spec, "group"), text(old, "group"));
    check("spec.names.plural", name(spec, "plural"), name(old, "plural"));
}

fn stored_versions(status: Props<'_>, spec: Props<'_>, found: &mut Vec<Cause>) {
    let field = "status.storedVersions";
    let stored = status.texts("storedVersions");
    if stored.is_empty() {
        let shown = status.get("storedVersions").unwrap_or(&Value::Null);
        found.push(Cause::invalid(field, shown, "must have at least one stored version"));
        return;
    }
    let versions = spec.alternatives("versions");
    for version in &versions {
        let name = version.text("name").unwrap_or_default();
        if version.flag("storage") && !stored.contains(&name) {
            found.push(Cause::invalid(field, &json!(stored), &format!("must have the storage version {name}")));
        }
    }
    for (index, name) in stored.iter().enumerate() {
        if !versions.iter().any(|version| version.text("name") == Some(name)) {
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions \
                 until a storage migration ensures no data remains persisted in {name} and removes {name} from \
                 status.storedVersions"
            );
            found.push(Cause::invalid(format!("{field}[{index}]"), *name, &detail));
        }
    }
}

/// Groups of the Kubernetes community need a note that the API was reviewed.
fn approval(definition: &Value, old: Option<&Value>, spec: Props<'_>, found: &mut Vec<Cause>) {
    const NOTE: &str = "api-approved.kubernetes.io";
    let group = spec.text("group").unwrap_or_default();
    let is_protected = ["k8s.io", "kubernetes.io"]
        .into_iter()
        .any(|domain| group == domain || group.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.')));
    if !is_protected {
        return;
    }
    let note = |definition: &Value| {
        let annotations = definition.pointer("/metadata/annotations");
        annotations.and_then(|all| all.get(NOTE)).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let state = |note: &str| match note {
        "" => "missing",
        note if note.starts_with("unapproved") => "unapproved",
        note if note.contains("://") && !note.ends_with("://") && crate::uri::is_request_uri(note) => "approved",
        _ => "invalid",
    };
    let new = note(definition);
    if old.is_some_and(|old| state(&note(old)) == state(&new)) {
        return;
    }
    let field = format!("metadata.annotations[{NOTE}]");
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    let start = format!("protected groups must have approval annotation \"{NOTE}\"");
    match state(&new) {
        "missing" => found.push(Cause::required(field, &format!("{start}, {see}"))),
        "invalid" => {
            let detail = format!("{start} with either a URL or a reason starting with \"unapproved\", {see}");
            found.push(Cause::invalid(field, &new, &detail));
        }
        _ => {}
    }
}

impl Requirements {
    fn of_new() -> Requirements {
        Requirements {
            schema: true,
            valid_types: true,
            structural: true,
            pruned_defaults: true,
            atomic_sets: true,
            map_keys: true,
            known_review: true,
            stored_expressions: BTreeSet::new(),
            unchanged_schemas: BTreeSet::new(),
            many_fields: BTreeSet::new(),
        }
    }

    fn of_update(spec: Props<'_>, old: Props<'_>) -> Requirements {
        let schemas: Vec<Option<Props<'_>>> = old.alternatives("versions").into_iter().map(Shared::schema_of).collect();
        let all = schemas.iter().flatten().copied();
        let none = |is_such: &dyn Fn(Props<'_>) -> bool| !all.clone().any(|schema| schema.any(is_such));
        let is_structural = |schema: Props<'_>| {
            structural::unreadable(schema).is_none() && structural::mistakes(schema, &Path::ROOT).is_empty()
        };
        let stored_expressions = RefCell::new(BTreeSet::new());
        none(&|schema| {
            for rule in schema.rules() {
                let texts = ["rule", "messageExpression"].into_iter().filter_map(|key| rule.text(key));
                stored_expressions.borrow_mut().extend(texts.map(str::to_owned));
            }
            false
        });
        let types = ["array", "boolean", "integer", "number", "object", "string"];
        let versions = |spec: Props<'_>| -> Vec<(String, Map<String, Value>)> {
            let versions = spec.alternatives("versions").into_iter();
            versions.map(|version| (version.text("name").unwrap_or_default().to_owned(), version.0.clone())).collect()
        };
        let (new_versions, old_versions) = (versions(spec), versions(old));
        // Versions of both, by what is the same in them.
        let unchanged = |key: &str, is_such: &dyn Fn(&Map<String, Value>) -> bool| -> BTreeSet<String> {
            new_versions
                .iter()
                .filter(|(name, new)| {
                    let old = old_versions.iter().find(|(old, _)| old == name);
                    old.is_some_and(|(_, old)| old.get(key) == new.get(key) && is_such(old))
                })
                .map(|(name, _)| name.clone())
                .collect()
        };
        Requirements {
            schema: schemas.iter().all(Option::is_some),
            valid_types: none(&|schema| !schema.kind().is_empty() && !types.contains(&schema.kind())),
            structural: all.clone().all(is_structural),
            pruned_defaults: all.clone().all(default_values::are_pruned),
            atomic_sets: none(&keywords::has_shared_elements),
            map_keys: none(&|schema| !keywords::list_elements(schema, &Path::ROOT).is_empty()),
            known_review: conversion::has_known_review(old),
            stored_expressions: stored_expressions.into_inner(),
            unchanged_schemas: unchanged("schema", &|_| true),
            many_fields: unchanged("selectableFields", &|old| {
                old.get("selectableFields")
                    .and_then(Value::as_array)
                    .is_some_and(|fields| fields.len() > spec::MAX_SELECTABLE_FIELDS)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(schema: Value) -> Value {
        let mut definition = json!({
            "metadata": {"name": "boats.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"plural": "boats", "kind": "Boat"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
            },
        });
        default_definition(&mut definition);
        definition
    }

    #[test]
    fn names_and_conversion_are_filled_in_and_the_stored_version_is_kept() {
        let mut filled = definition(json!({"type": "object"}));
        let names = json!({"plural": "boats", "kind": "Boat", "singular": "boat", "listKind": "BoatList"});
        assert_eq!(filled["spec"]["names"], names);
        assert_eq!(filled["spec"]["conversion"], json!({"strategy": "None"}));
        assert_eq!(filled["status"], json!({"storedVersions": ["v1"]}));
        assert_eq!(definition_mistakes(&filled, None), []);
        filled["spec"]["versions"][0]["name"] = json!("v2");
        remember_stored_version(&mut filled);
        remember_stored_version(&mut filled);
        assert_eq!(filled["status"], json!({"storedVersions": ["v1", "v2"]}));
    }

    #[test]
    fn rules_that_cost_too_much_together_are_named() {
        let text = json!({"type": "string", "x-kubernetes-validations": [{"rule": "self.contains(self)"}]});
        let lists = json!({"type": "array", "items": {"type": "array", "items": text}});
        let definition = definition(json!({"type": "object", "properties": {"spec": lists}}));
        let causes: Vec<String> = definition_mistakes(&definition, None).iter().map(Cause::to_string).collect();
        let rule = "spec.validation.openAPIV3Schema.properties[spec].items.items.x-kubernetes-validations[0].rule";
        assert!(causes[0].starts_with(&format!("{rule}: Forbidden: estimated rule cost exceeds budget by factor of")));
        assert!(causes[1].starts_with(&format!("{rule}: Forbidden: contributed to estimated rule cost total")));
        assert!(
            causes[2].starts_with("spec.validation.openAPIV3Schema: Forbidden: x-kubernetes-validations estimated")
        );
        assert_eq!(causes.len(), 3);
    }

    #[test]
    fn requirement_that_the_old_definition_broke_is_not_made_of_the_new_one() {
        let list = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"],
            "items": {"type": "object", "properties": {"a": {"type": "string"}}}});
        let old = definition(json!({"type": "object", "properties": {"spec": list}}));
        assert_eq!(definition_mistakes(&old, None).len(), 1);
        assert_eq!(definition_mistakes(&old, Some(&old)), []);
    }
}
