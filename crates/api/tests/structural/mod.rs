//! The generated definitions obey the rules that an API server checks before it accepts one.

mod rules;

use seaworthy_api::crds;
use serde_json::{Value, json};

#[test]
fn every_definition_is_acceptable() {
    let problems: Vec<String> =
        crds::all().iter().flat_map(|crd| rules::problems(&serde_json::to_value(crd).unwrap())).collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// A definition with one field of the given schema.
fn with_field(field: Value) -> Value {
    json!({
        "metadata": { "name": "things.example.com" },
        "spec": {
            "group": "example.com",
            "names": { "kind": "Thing", "listKind": "ThingList", "plural": "things", "singular": "thing" },
            "scope": "Cluster",
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "apiVersion": { "type": "string" },
                        "kind": { "type": "string" },
                        "metadata": { "type": "object" },
                        "field": field,
                    },
                } },
            }],
        },
    })
}

#[test]
fn a_plain_field_is_no_problem() {
    assert_eq!(rules::problems(&with_field(json!({ "type": "string" }))), Vec::<String>::new());
}

/// The rules can fail: each of these schemas is refused, and for its own reason.
#[test]
fn bad_schemas_are_found() {
    let cases = [
        (json!({ "description": "anything" }), "has no type"),
        (json!({ "type": ["string", "null"] }), "type"),
        (json!({ "type": "string", "$ref": "#/x" }), "$ref"),
        (json!({ "type": "array" }), "items"),
        (
            json!({ "type": "object", "properties": { "a": { "type": "string" } }, "additionalProperties": { "type": "string" } }),
            "both properties and additionalProperties",
        ),
        (json!({ "type": "object", "additionalProperties": true }), "additionalProperties"),
        (json!({ "type": "object", "required": ["a"] }), "requires `a`"),
        (json!({ "type": "integer", "default": "x" }), "default"),
        (json!({ "type": "string", "enum": ["a"], "default": "b" }), "default"),
        (json!({ "type": "string", "enum": ["a", null] }), "enum"),
        (json!({ "type": "string", "anyOf": [{ "type": "string" }] }), "anyOf"),
        (
            json!({ "type": "array", "items": { "type": "object", "properties": { "a": { "type": "string" } } },
                    "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"] }),
            "key `a`",
        ),
        (
            json!({ "type": "array", "items": { "type": "object", "properties": {} }, "x-kubernetes-list-type": "set" }),
            "set",
        ),
        (json!({ "type": "string", "x-kubernetes-list-type": "atomic" }), "list-type"),
        (json!({ "type": "string", "x-kubernetes-map-type": "atomic" }), "map-type"),
        (json!({ "type": "string", "x-kubernetes-preserve-unknown-fields": true }), "preserve"),
        (json!({ "type": "object", "x-kubernetes-embedded-resource": true }), "embedded"),
        (json!({ "type": "integer", "format": "uint32" }), "format"),
        (json!({ "type": "string", "pattern": "(" }), "pattern"),
        (json!({ "type": "string", "x-kubernetes-validations": [{ "rule": "" }] }), "rule"),
        (json!({ "type": "string", "uniqueItems": true }), "uniqueItems"),
    ];
    for (field, expected) in cases {
        let problems = rules::problems(&with_field(field.clone()));
        assert!(
            problems.iter().any(|problem| problem.contains(expected)),
            "{field}: expected a problem about {expected}, found {problems:?}"
        );
    }
}
