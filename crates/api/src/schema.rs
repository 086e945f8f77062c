//! Schema derivation: from Rust types to the structural schema of a CustomResourceDefinition.
//!
//! kube's own conversion marks every `Option` as nullable and leaves out the three root fields. The upstreams'
//! definitions distinguish an optional field from a nullable one (an API server drops a `null` of the former and keeps one of
//! the latter), so ours have to as well. Here an `Option` only means "not required"; a nullable field says so with
//! `#[schemars(extend("nullable" = true))]`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

/// The structural schema of kind `K`, root fields included.
pub fn structural<K: JsonSchema>() -> JSONSchemaProps {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        })
        .with_transform(Structural);
    let mut schema = settings.into_generator().into_root_schema_for::<K>();
    let root = schema.ensure_object();
    root.insert("type".into(), "object".into());
    let properties = root.entry("properties").or_insert_with(|| json!({}));
    if let Value::Object(properties) = properties {
        for (name, schema) in root_fields() {
            properties.insert(name, schema);
        }
    }
    #[allow(clippy::expect_used)]
    // A schema made of keywords of this module's own choosing; every kind is built in tests.
    serde_json::from_value(schema.to_value()).expect("a generated schema consists of known keywords")
}

/// For a field that holds any JSON object, kept as it is.
pub fn preserved_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// For a field that holds an object whose content an API server handles itself (embedded metadata), or that has none.
pub fn plain_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object" })
}

/// For a field that holds a complete object of any kind, which an API server checks for `apiVersion` and `kind`.
pub fn embedded_resource(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

/// For a whole number whose width the upstream's definition leaves open.
pub fn integer(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer" })
}

fn root_fields() -> Map<String, Value> {
    let fields = json!({
        "apiVersion": { "type": "string", "description": "Group and version of the schema that this object follows." },
        "kind": { "type": "string", "description": "Kind of this object." },
        "metadata": { "type": "object" },
    });
    match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// Turns what schemars derives into what an API server accepts, inner schemas first.
#[derive(Clone, Debug)]
struct Structural;

impl Transform for Structural {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        let Some(schema) = schema.as_object_mut() else {
            return;
        };
        schema.remove("title");
        drop_null(schema);
        if schema.get("default") == Some(&Value::Null) {
            schema.remove("default");
        }
        if schema.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
            schema.remove("type");
            schema.insert("anyOf".into(), json!([{ "type": "integer" }, { "type": "string" }]));
        }
    }
}

/// An `Option` is an absent key, never a `null` (unless the field says `nullable`).
fn drop_null(schema: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(branches)) = schema.get_mut("anyOf") {
        branches.retain(|branch| branch.get("type").is_none_or(|name| name != "null"));
        if let [Value::Object(only)] = branches.as_slice() {
            let only = only.clone();
            schema.remove("anyOf");
            for (key, value) in only {
                match (schema.get_mut(&key), value) {
                    // Rules of the field and rules of its type all hold.
                    (Some(Value::Array(rules)), Value::Array(more)) if key == "x-kubernetes-validations" => {
                        rules.extend(more);
                    }
                    // What the field says about itself (its description, its bounds) is more specific.
                    (Some(_), _) => {}
                    (None, value) => {
                        schema.insert(key, value);
                    }
                }
            }
        }
    }
}
